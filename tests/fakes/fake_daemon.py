"""A daemon over real gRPC and mutual TLS whose commands are functions of the test.

It uses the product's own DaemonLink, codec and pki. ``FakeMachine`` is what survives a restart of
the daemon (key, certificate, journal, spool); ``FakeDaemon`` is one process of it. What it does not
model: processes, a full spool, the ceiling, back-off, renewal by itself, disks.
"""

import asyncio
import contextlib
import hashlib
import platform
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import grpc
import grpc.aio

from farhand_proto.v1 import enroll_pb2
from farhand_shared import codec, pki
from farhand_shared.command import (
    Argv,
    CommandResult,
    CommandSpec,
    ExitReason,
    Note,
    StreamTotals,
)
from farhand_shared.enrolment_code import parse_code
from farhand_shared.ids import new_id
from farhand_shared.limits import FRAME_BYTES, MESSAGE_MAX_BYTES
from farhand_shared.link_actions import (
    CancelAttempt,
    Closed,
    DaemonAction,
    DrainRequested,
    ForgetAttempt,
    ResizeTerminal,
    ResultAcknowledged,
    StartOffered,
    TakeInput,
    Welcomed,
)
from farhand_shared.link_daemon import DaemonLink
from farhand_shared.link_events import (
    Bye,
    Decision,
    Facts,
    Hello,
    LiveState,
    Offer,
    Quiet,
    Result,
    Started,
    Stream,
    Survey,
    UpEvent,
    Verdict,
)
from farhand_shared.version import CAPABILITY
from farhand_shared.words import six_words

_METHOD = "/farhand_proto.v1.Enroll/"
PLAN = hashlib.sha256(b"plan").digest()


@dataclass(eq=False)
class Job:
    """One attempt on the machine: what it wrote, and how it ended."""

    attempt_id: str
    offer: Offer
    spec: CommandSpec
    wrote: dict[Stream, bytearray] = field(
        default_factory=lambda: {stream: bytearray() for stream in Stream}
    )
    read: bytearray = field(default_factory=bytearray)  # of its input
    reads: bool = True  # False: what it is given waits
    taken: int = 0
    input_ended: bool = False
    input_closed: bool = False
    size: tuple[int, int] | None = None  # of its terminal, when it was told another
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    cancel_reason: str = ""
    deaf: bool = False  # it goes on when it is cancelled, until the test ends it
    result: Result | None = None
    receipted: bool = False
    daemon: "FakeDaemon | None" = None

    def write(self, data: bytes, stream: Stream = Stream.STDOUT) -> None:
        """Write as the command would."""
        self.wrote[stream] += data
        if self.daemon is not None:
            self.daemon.link.produced(self.attempt_id, stream, len(self.wrote[stream]))
            self.daemon.wake()

    def end(
        self,
        exit_code: int | None = 0,
        *,
        reason: ExitReason = ExitReason.EXIT,
        signal: int | None = None,
        error_code: str = "",
        error: str = "",
        notes: tuple[Note, ...] = (),
        left_open: bool = False,
    ) -> None:
        """End the command; only the first end counts."""
        if self.result is not None:
            return
        result = CommandResult(
            reason=reason,
            exit_code=exit_code,
            signal=signal,
            error_code=error_code,
            error=error,
            stdout=self._totals(Stream.STDOUT),
            stderr=self._totals(Stream.STDERR),
            wall_ms=1,
            notes=notes,
            stdout_left_open=left_open,
        )
        self.result = Result(
            attempt_id=self.attempt_id, result=result, result_hash=codec.result_hash(result)
        )
        if self.daemon is not None:
            self.daemon.link.finished(self.result)
            self.daemon.wake()

    def wait_for_input(self, *, reads_terminal: bool = True, takes_input: bool = False) -> None:
        """Hint that it seems to wait for somebody to type."""
        if self.daemon is not None:
            self.daemon.link.quiet(
                Quiet(
                    attempt_id=self.attempt_id,
                    quiet_ms=15_000,
                    reads_terminal=reads_terminal,
                    takes_input=takes_input,
                )
            )
            self.daemon.wake()

    def take_input(self, *, close: bool = False) -> None:
        """Take all the input it was given; with ``close`` it wants no more."""
        self.taken = len(self.read)
        self.input_closed = self.input_closed or close or self.input_ended
        if self.daemon is not None:
            self.daemon.link.input_taken(self.attempt_id, self.taken, closed=self.input_closed)
            self.daemon.wake()

    def _totals(self, stream: Stream) -> StreamTotals:
        data = self.wrote[stream]
        return StreamTotals(produced=len(data), sha256=hashlib.sha256(data).digest())

    @property
    def words(self) -> list[str]:
        run = self.spec.run
        if isinstance(run, Argv):
            return [word.decode("utf-8", "surrogateescape") for word in run.argv]
        return ["sh", "-c", run.script.decode("utf-8", "surrogateescape")]


# What a machine does when a command starts; returning leaves it running unless it was ended.
Behaviour = Callable[[Job], Awaitable[None]]


async def echo(job: Job) -> None:
    """Write the arguments like ``echo`` and end with 0."""
    job.write((" ".join(job.words[1:]) + "\n").encode("utf-8", "surrogateescape"))
    job.end()


async def hold(job: Job) -> None:
    """Run until the test ends it or it is cancelled; one that is deaf does not mind."""
    await job.cancelled.wait()
    if not job.deaf:
        job.end(None, reason=ExitReason.CANCEL, signal=15)


@dataclass(eq=False)
class FakeMachine:
    """What lies on a machine's disk."""

    root_pem: bytes
    key_pem: bytes = field(default_factory=pki.new_private_key)
    certificate_pem: bytes = b""
    machine_id: str = ""
    name: str = ""
    words: tuple[str, ...] = ()
    link_address: str = ""
    journal_id: str = field(default_factory=lambda: new_id())
    journal_counter: int = 0
    jobs: dict[str, Job] = field(default_factory=dict)
    starts: list[str] = field(default_factory=list)  # attempt ids, in the order of their starts
    tombstones: set[str] = field(default_factory=set)
    behaviour: Behaviour = echo
    refuses_as: str = ""  # a reason code: every offer is denied with it
    refusals: list[str] = field(default_factory=list)  # attempt ids, one for each denied offer
    capability: int = CAPABILITY
    concurrency: int = 4
    allow_inferred: bool = False
    labels: tuple[tuple[str, str], ...] = ()
    survey: Survey | None = None
    version: str = "fake"
    update_problem: str = ""


async def enrol(
    machine: FakeMachine, enrol_address: str, code_text: str, *, name_hint: str = "fake"
) -> enroll_pb2.RedeemResponse:
    """Redeem a code as ``farhandd enroll`` does; the machine is pending afterwards."""
    code = parse_code(code_text)
    assert pki.root_matches(machine.root_pem, code)
    request = enroll_pb2.RedeemRequest(
        code_secret=code.secret.reveal(),
        csr=pki.create_csr(machine.key_pem),
        name_hint=name_hint,
        capability=CAPABILITY,
        daemon_version="fake",
        trust_level="trusted",
        chosen_by="typed",
    )
    answer = await call_enrol(machine.root_pem, enrol_address, "Redeem", request)
    assert isinstance(answer, enroll_pb2.RedeemResponse)
    machine.certificate_pem = pki.certificate_pem(answer.certificate)
    machine.machine_id = answer.machine_id
    machine.name = answer.machine_name
    machine.link_address = answer.link_address
    machine.words = six_words(
        pki.spki_of_key(machine.key_pem),
        pki.spki_sha256(pki.spki_of_certificate(machine.root_pem)),
        code.secret.reveal(),
    )
    return answer


_ANSWERS = {
    "Redeem": enroll_pb2.RedeemResponse,
    "Status": enroll_pb2.StatusResponse,
    "Renew": enroll_pb2.RenewResponse,
}


async def call_enrol(
    root_pem: bytes,
    address: str,
    method: str,
    request: enroll_pb2.RedeemRequest | enroll_pb2.StatusRequest | enroll_pb2.RenewRequest,
) -> enroll_pb2.RedeemResponse | enroll_pb2.StatusResponse | enroll_pb2.RenewResponse:
    """Make one call on the enrolment listener."""
    credentials = grpc.ssl_channel_credentials(root_certificates=root_pem)
    async with grpc.aio.secure_channel(address, credentials, options=_options()) as channel:
        call = channel.unary_unary(
            _METHOD + method,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=_ANSWERS[method].FromString,
        )
        return await call(request, timeout=20)


def _options() -> list[tuple[str, str | int]]:
    return [
        ("grpc.ssl_target_name_override", pki.SERVER_NAME),
        ("grpc.max_receive_message_length", MESSAGE_MAX_BYTES),
        ("grpc.max_send_message_length", MESSAGE_MAX_BYTES),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_http_proxy", 0),
    ]


def link_channel(machine: "FakeMachine", address: str | None = None) -> grpc.aio.Channel:
    """Return a channel to the link listener, for streams made by hand."""
    credentials = grpc.ssl_channel_credentials(
        root_certificates=machine.root_pem,
        private_key=machine.key_pem,
        certificate_chain=machine.certificate_pem,
    )
    return grpc.aio.secure_channel(address or machine.link_address, credentials, options=_options())


class FakeDaemon:
    """One process of a machine's daemon. ``async with`` it, or ``connect`` and ``stop``."""

    def __init__(self, machine: FakeMachine, address: str | None = None) -> None:
        self.machine = machine
        self.address = address or machine.link_address
        self.link = DaemonLink()
        self.daemon_instance_id = new_id()
        self.epochs: list[int] = []
        self.byes: list[Bye] = []
        self.drains: list[float] = []
        self.conflicts: list[str] = []  # attempts whose result the server refused
        self.gone: list[str] = []
        self.welcomed = asyncio.Event()
        self.ended = asyncio.Event()  # the current stream is over
        self.deaf = False  # the connection stands, and nothing that comes is noticed
        self._due = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._jobs: set[asyncio.Task[None]] = set()
        self._channel: grpc.aio.Channel | None = None
        self._call: grpc.aio.StreamStreamCall[bytes, bytes] | None = None
        for job in machine.jobs.values():
            if not job.receipted:
                job.daemon = self
                self._restore(job)

    def _restore(self, job: Job) -> None:
        self.link.restore(
            job.attempt_id,
            input_digest=job.offer.input_digest,
            state=LiveState.STARTED if job.result is None else LiveState.FINISHED,
            decision=self._allow(job.offer),
            started=self._started(job.attempt_id),
            stdout_produced=len(job.wrote[Stream.STDOUT]),
            stderr_produced=len(job.wrote[Stream.STDERR]),
            input_received=len(job.read),
            input_taken=job.taken,
            input_closed=job.input_closed,
            result=job.result,
        )

    async def __aenter__(self) -> "FakeDaemon":
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def connect(self, *, welcome: bool = True) -> None:
        """Open a stream; returns when it is welcomed."""
        self.welcomed.clear()
        self.ended.clear()
        self._channel = link_channel(self.machine, self.address)
        self._call = self._channel.stream_stream(codec.CONNECT_METHOD)()
        self.link.on_connected(self.hello())
        self._tasks = [
            asyncio.create_task(self._write(self._call)),
            asyncio.create_task(self._read(self._call)),
        ]
        self.wake()
        if welcome:
            async with asyncio.timeout(20):
                done = [asyncio.create_task(e.wait()) for e in (self.welcomed, self.ended)]
                await asyncio.wait(done, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.cancel()
            assert self.welcomed.is_set(), f"not welcomed: {self.byes}"

    def hello(self) -> Hello:
        return Hello(
            daemon_instance_id=self.daemon_instance_id,
            boot_id="boot-1",
            journal_id=self.machine.journal_id,
            journal_counter=self.machine.journal_counter,
            local_time_ms=time.time_ns() // 1_000_000,
            capability=self.machine.capability,
            daemon_version=self.machine.version,
            trust_level="trusted",
            chosen_by="typed",
            allow_inferred=self.machine.allow_inferred,
            concurrency=self.machine.concurrency,
            facts=Facts(
                hostname="fake",
                os="linux",
                os_version="1",
                arch=platform.machine(),
                user="nobody",
                home=b"/home/\xff",
                cpus=2,
                memory_bytes=1 << 30,
                time_zone="UTC",
                labels=self.machine.labels,
                survey=self.machine.survey,
                update_problem=self.machine.update_problem,
            ),
        )

    async def cut(self) -> None:
        """Lose the connection without a word, as when a cable is pulled."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self._call is not None:
            self._call.cancel()
        if self._channel is not None:
            await self._channel.close()
        self._call = self._channel = None
        self.link.on_disconnected()

    async def stop(self) -> None:
        """End the daemon; its commands die with the test."""
        await self.cut()
        for task in self._jobs:
            task.cancel()
        await asyncio.gather(*self._jobs, return_exceptions=True)

    async def die(self) -> None:
        """Lose the process: commands go on in the machine, a new daemon takes them over."""
        await self.cut()
        for job in self.machine.jobs.values():
            job.daemon = None

    def wake(self) -> None:
        self._due.set()

    async def send(self, events: Sequence[UpEvent]) -> None:
        """Write events past the session, as a faulty or malicious daemon would."""
        assert self._call is not None
        await self._call.write(codec.encode_up(events))

    # The stream

    async def _write(self, call: "grpc.aio.StreamStreamCall[bytes, bytes]") -> None:
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            while True:
                due = self.link.next_due(time.monotonic())
                wait = None if due is None else due - time.monotonic()
                if wait is None or wait > 0:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(wait):
                            await self._due.wait()
                    self._due.clear()
                    continue
                events = self.link.next_frame(time.monotonic(), FRAME_BYTES, self._spool)
                if events:
                    await call.write(codec.encode_up(events))

    def _spool(self, attempt_id: str, stream: Stream, offset: int, n: int) -> bytes:
        return bytes(memoryview(self.machine.jobs[attempt_id].wrote[stream])[offset : offset + n])

    async def _read(self, call: "grpc.aio.StreamStreamCall[bytes, bytes]") -> None:
        try:
            with contextlib.suppress(grpc.aio.AioRpcError):
                while True:
                    message = await call.read()
                    if not isinstance(message, bytes):
                        return
                    if self.deaf:
                        continue
                    for action in self.link.receive(codec.decode_down(message), time.monotonic()):
                        self._perform(action)
                    self.wake()
        finally:
            self.ended.set()

    def _perform(self, action: DaemonAction) -> None:
        match action:
            case Welcomed(welcome=welcome):
                self.epochs.append(welcome.stream_epoch)
                self.welcomed.set()
            case StartOffered(offer=offer):
                self._start(offer)
            case CancelAttempt():
                self._cancel(action.attempt_id, action.reason)
            case TakeInput(input=news):
                job = self.machine.jobs[news.attempt_id]
                assert news.offset == len(job.read)
                job.read += news.data
                job.input_ended = news.end
                if job.reads:
                    job.take_input()
            case ResizeTerminal(resize=size):
                self.machine.jobs[size.attempt_id].size = (size.rows, size.columns)
            case ResultAcknowledged():
                if not action.same:
                    self.conflicts.append(action.attempt_id)
                if action.attempt_id in self.machine.jobs:
                    self.machine.jobs[action.attempt_id].receipted = True
            case ForgetAttempt():
                self.gone.append(action.attempt_id)
            case DrainRequested(within_s=within_s):
                self.drains.append(within_s)
            case Closed(bye=bye):
                self.byes.append(bye)
            case _:
                pass

    def _start(self, offer: Offer) -> None:
        machine = self.machine
        if offer.attempt_id in machine.tombstones:
            return
        known = machine.jobs.get(offer.attempt_id)
        if known is not None:
            self._restore(known)
            return
        if machine.refuses_as:
            self._refuse(offer)
            return
        job = Job(offer.attempt_id, offer, codec.decode_spec(offer.spec), daemon=self)
        machine.jobs[offer.attempt_id] = job
        machine.starts.append(offer.attempt_id)
        machine.journal_counter += 1
        self.link.decision(self._allow(offer))
        self.link.started(self._started(offer.attempt_id))
        task = asyncio.create_task(machine.behaviour(job))
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)

    def _refuse(self, offer: Offer) -> None:
        code = self.machine.refuses_as
        self.machine.refusals.append(offer.attempt_id)
        self.link.decision(
            Decision(
                attempt_id=offer.attempt_id,
                verdict=Verdict.DENY,
                plan_hash=b"",
                tier=offer.tier,
                reason_code=code,
                message=f"cannot start: {code}",
            )
        )
        result = CommandResult(
            reason=ExitReason.REFUSED, error_code=code, error=f"cannot start: {code}"
        )
        self.link.finished(
            Result(
                attempt_id=offer.attempt_id, result=result, result_hash=codec.result_hash(result)
            )
        )

    def _cancel(self, attempt_id: str, reason: str) -> None:
        job = self.machine.jobs.get(attempt_id)
        if job is not None:
            job.cancel_reason = reason
            job.cancelled.set()
            return
        self.machine.tombstones.add(attempt_id)
        result = CommandResult(reason=ExitReason.CANCEL)
        self.link.finished(
            Result(attempt_id=attempt_id, result=result, result_hash=codec.result_hash(result))
        )

    def _allow(self, offer: Offer) -> Decision:
        return Decision(
            attempt_id=offer.attempt_id, verdict=Verdict.ALLOW, plan_hash=PLAN, tier=offer.tier
        )

    def _started(self, attempt_id: str) -> Started:
        return Started(
            attempt_id=attempt_id,
            pid=4242,
            started_at_ms=time.time_ns() // 1_000_000,
            boot_id="boot-1",
        )
