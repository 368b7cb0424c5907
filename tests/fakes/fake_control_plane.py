"""A small control plane on real sockets, for the daemon's tests: HTTP, enrolment, mutual TLS.

It uses the product's own pki, codec, ReplicaLink and reconciliation. What it does not model: a
database (everything is in memory and survives ``cut``, not the object), several replicas, leases,
authorisation of people, policies, limits on rates, relaying output, superseding, clones.
"""

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import grpc
import grpc.aio

from farhand_proto.v1 import enroll_pb2
from farhand_shared import codec, pki
from farhand_shared.command import (
    TERMINAL,
    AttemptEvent,
    AttemptState,
    CommandResult,
    CommandSpec,
    Shell,
    event_of_result,
    step,
)
from farhand_shared.enrolment_code import format_code, new_code
from farhand_shared.errors import FarhandError, NotAllowed
from farhand_shared.ids import new_id
from farhand_shared.limits import ENROLMENT_CODE_S, REDEEM_AGAIN_S
from farhand_shared.link_actions import (
    HelloAccepted,
    PeerSilent,
    RecordDecision,
    RecordResult,
    RecordStart,
    Rejected,
    ReplicaAction,
    ResultConflict,
    StoreOmission,
    StoreOutput,
)
from farhand_shared.link_events import Bye, Decision, Hello, Offer, Started, Stream, Verdict
from farhand_shared.link_replica import ReplicaLink
from farhand_shared.reconcile import AttemptView, Indeterminate, Reoffer, reconcile
from farhand_shared.words import six_words


@dataclass(kw_only=True)
class FakeAttempt:
    """All that the server learned of one attempt."""

    machine_id: str
    offer: Offer
    state: AttemptState = AttemptState.QUEUED
    decision: Decision | None = None
    started: list[Started] = field(default_factory=list)
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    omitted: list[tuple[Stream, int, int]] = field(default_factory=list)
    result: CommandResult | None = None
    result_hash: bytes | None = None
    journal: tuple[str, int] = ("", 0)

    def buffer(self, stream: Stream) -> bytearray:
        return self.stdout if stream is Stream.STDOUT else self.stderr


@dataclass(kw_only=True)
class FakeMachine:
    machine_id: str
    name: str
    certificate: bytes
    status: str = "pending"
    epoch: int = 0
    hellos: list[Hello] = field(default_factory=list)
    session: "_Session | None" = None


@dataclass(kw_only=True)
class _Code:
    expires_at: float
    used_by: bytes = b""  # the key that redeemed it
    used_at: float = 0.0
    machine_id: str = ""


class _Session:
    """One stream: the sans-I/O link, and what makes its writer look."""

    def __init__(self, context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        self.link = ReplicaLink(now=time.monotonic())
        self.context = context
        self.due = asyncio.Event()
        self.cut = asyncio.Event()
        self.ended = False
        self.epoch = 0  # from its Welcome on


class FakeControlPlane:
    """Start with ``fake_control_plane()``; everything is public for tests to look at and change."""

    def __init__(self, *, clock_ahead_s: float = 0.0) -> None:
        """``clock_ahead_s``: of its clock before that of this computer."""
        self.clock_ahead = timedelta(seconds=clock_ahead_s)
        self.instance_id = new_id()
        self.root = pki.create_root(self.instance_id, now=datetime.now(UTC) - timedelta(days=1))
        self.machines: dict[str, FakeMachine] = {}
        self.attempts: dict[str, FakeAttempt] = {}
        self.codes: dict[bytes, _Code] = {}
        self.conflicts: list[ResultConflict] = []
        self.words_shown: tuple[str, ...] | None = None  # None: the true ones
        self.acknowledge_results = True
        self.acknowledge_output = True
        self.accept_links = True
        self.mute = False  # takes streams, answers other calls, says nothing on any stream
        self.told_address = ""  # of the link, where it is not the true one
        self.times_away = 0  # how often a machine was left without any stream
        self.renewals = 0
        self.renewal_refusal = ""  # said instead of renewing
        self.enrolment_answers = True  # else Status is not there
        self.redeem_then_fail = 0  # how many Redeem answers get lost on the way
        self.pages: dict[str, bytes] = {}  # what else the web address gives, by path
        self.http_port = self.enrol_port = self.link_port = 0
        self._changed = asyncio.Condition()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def link_address(self) -> str:
        return self.told_address or f"127.0.0.1:{self.link_port}"

    def now(self) -> datetime:
        """Return what its clock shows."""
        return datetime.now(UTC) + self.clock_ahead

    def now_ms(self) -> int:
        return int(self.now().timestamp() * 1000)

    # For tests

    def make_code(self, *, lifetime_s: float = ENROLMENT_CODE_S) -> str:
        code = new_code(pki.spki_sha256(pki.spki_of_certificate(self.root.certificate_pem)))
        key = hashlib.sha256(code.secret.reveal()).digest()
        self.codes[key] = _Code(expires_at=time.monotonic() + lifetime_s)
        return format_code(code)

    async def until(self, condition: Callable[[], bool], *, timeout_s: float = 20.0) -> None:
        """Wait until something that arrived makes the condition true."""
        async with asyncio.timeout(timeout_s), self._changed:
            await self._changed.wait_for(condition)

    async def connected(self, machine_id: str, *, after_epoch: int = 0) -> FakeMachine:
        machine = self.machines[machine_id]
        await self.until(
            lambda: (
                machine.session is not None
                and machine.session.link.welcomed
                and machine.epoch > after_epoch
            )
        )
        return machine

    def offer(
        self,
        machine_id: str,
        command: CommandSpec | bytes,
        *,
        inferred: bool = False,
        start_within_ms: int = 60_000,
        held_back: bool = False,
    ) -> FakeAttempt:
        """Offer a command (bytes: a shell script) now, or when the machine says Hello.

        ``held_back``: it counts as offered but is not sent.
        """
        spec = codec.encode_spec(
            CommandSpec(run=Shell(script=command)) if isinstance(command, bytes) else command
        )
        machine = self.machines[machine_id]
        attempt = FakeAttempt(
            machine_id=machine_id,
            offer=Offer(
                attempt_id=new_id(),
                command_id=new_id(),
                stream_epoch=machine.epoch,
                spec=spec,
                input_digest=codec.input_digest(spec),
                start_within_ms=start_within_ms,
                tier=1,
                inferred=inferred,
                requester=new_id(),
            ),
        )
        self.attempts[attempt.offer.attempt_id] = attempt
        if held_back:
            attempt.state = step(attempt.state, AttemptEvent.OFFER)
        elif machine.session is not None and machine.session.link.welcomed:
            self._send_offer(machine, attempt)
        return attempt

    def send_offer(self, attempt: FakeAttempt) -> None:
        """Offer an attempt again, whatever is known of it."""
        self._send_offer(self.machines[attempt.machine_id], attempt)

    async def run(self, machine_id: str, command: CommandSpec | bytes) -> FakeAttempt:
        attempt = self.offer(machine_id, command)
        return await self.result(attempt)

    async def result(self, attempt: FakeAttempt, *, timeout_s: float = 20.0) -> FakeAttempt:
        await self.until(lambda: attempt.result is not None, timeout_s=timeout_s)
        return attempt

    def cancel(self, attempt_id: str, machine_id: str) -> None:
        attempt = self.attempts.get(attempt_id)
        if attempt is not None and attempt.state not in TERMINAL:
            attempt.state = step(attempt.state, AttemptEvent.STOP)
        session = self.machines[machine_id].session
        if session is not None:
            session.link.cancel(attempt_id, "cancel")
            session.due.set()

    def bye(self, machine_id: str, code: str, *, retry: bool) -> None:
        session = self.machines[machine_id].session
        if session is not None:
            session.link.bye(Bye(code=code, message=f"told {code}", retry=retry))
            session.due.set()

    def drain(self, machine_id: str) -> None:
        session = self.machines[machine_id].session
        if session is not None:
            session.link.drain(1000)
            session.due.set()

    def cut(self, machine_id: str) -> None:
        """End the stream without a word."""
        session = self.machines[machine_id].session
        if session is not None:
            session.cut.set()

    # HTTP

    async def _serve_http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            path = request.split(b" ")[1].decode()
            found = path == "/.well-known/farhand" or path in self.pages
            body = (
                self.pages.get(path)
                or json.dumps(
                    {
                        "root_certificate_pem": self.root.certificate_pem.decode(),
                        "enrol_address": f"0.0.0.0:{self.enrol_port}",
                        "link_address": self.link_address,
                        "instance_name": "test instance",
                    }
                ).encode()
            )
            date = self.now().strftime("%a, %d %b %Y %H:%M:%S GMT")
            status = "200 OK" if found else "404 Not Found"
            kind = "text/html" if path.endswith("/") else "application/octet-stream"
            head = f"HTTP/1.1 {status}\r\nDate: {date}\r\nContent-Type: {kind}\r\n"
            head += f"Content-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            await writer.drain()
        finally:
            writer.close()

    # Enrolment

    async def redeem(
        self,
        request: enroll_pb2.RedeemRequest,
        context: "grpc.aio.ServicerContext[enroll_pb2.RedeemRequest, enroll_pb2.RedeemResponse]",
    ) -> enroll_pb2.RedeemResponse:
        code = self.codes.get(hashlib.sha256(request.code_secret).digest())
        now = time.monotonic()
        key = pki.spki_of_csr(request.csr)
        again = code is not None and code.used_by == key and now - code.used_at < REDEEM_AGAIN_S
        if code is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "cannot enrol: the code is wrong")
        if code.used_by and not again:
            await context.abort(
                grpc.StatusCode.FAILED_PRECONDITION, "cannot enrol: the code was used; make another"
            )
        if now > code.expires_at and not again:
            await context.abort(
                grpc.StatusCode.FAILED_PRECONDITION, "cannot enrol: the code expired; make another"
            )
        if not again:
            back = self._rejoining(request) if request.HasField("rejoin") else None
            code.used_by, code.used_at = key, now
            code.machine_id = new_id() if back is None else back.machine_id
            identity = pki.MachineIdentity(instance_id=self.instance_id, machine_id=code.machine_id)
            self.machines[code.machine_id] = FakeMachine(
                machine_id=code.machine_id,
                name=request.name_hint if back is None else back.name,
                epoch=0 if back is None else back.epoch,
                certificate=pki.issue_machine_certificate(
                    self.root, request.csr, identity, now=self.now()
                ),
            )
        if self.redeem_then_fail:
            self.redeem_then_fail -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the answer got lost")
        machine = self.machines[code.machine_id]
        root_hash = pki.spki_sha256(pki.spki_of_certificate(self.root.certificate_pem))
        await self._notify()
        return enroll_pb2.RedeemResponse(
            machine_id=machine.machine_id,
            machine_name=machine.name,
            certificate=machine.certificate,
            link_address=self.link_address,
            words=self.words_shown or six_words(key, root_hash, request.code_secret),
            active=machine.status == "active",
        )

    def _rejoining(self, request: enroll_pb2.RedeemRequest) -> FakeMachine | None:
        """Return the quarantined machine that proves itself; None when it is back already."""
        proof = request.rejoin
        pki.verify_rejoin(
            proof.certificate,
            request.csr,
            proof.signed_at_ms,
            proof.signature,
            now_ms=self.now_ms(),
        )
        identity = pki.identity_of(proof.certificate)
        assert isinstance(identity, pki.MachineIdentity)
        machine = self.machines[identity.machine_id]
        return machine if machine.status == "quarantined" else None

    async def status(
        self,
        request: enroll_pb2.StatusRequest,
        context: "grpc.aio.ServicerContext[enroll_pb2.StatusRequest, enroll_pb2.StatusResponse]",
    ) -> enroll_pb2.StatusResponse:
        if not self.enrolment_answers:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
        try:
            identity = pki.check_machine_certificate(
                request.certificate, self.root.certificate_pem, now=self.now()
            )
            pki.verify_status(
                request.certificate,
                identity.machine_id,
                request.signed_at_ms,
                request.signature,
                now_ms=self.now_ms(),
            )
        except FarhandError as error:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))
        machine = self.machines[identity.machine_id]
        return enroll_pb2.StatusResponse(status=machine.status, machine_name=machine.name)

    async def renew(
        self,
        request: enroll_pb2.RenewRequest,
        context: "grpc.aio.ServicerContext[enroll_pb2.RenewRequest, enroll_pb2.RenewResponse]",
    ) -> enroll_pb2.RenewResponse:
        if self.renewal_refusal:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, self.renewal_refusal)
        try:
            identity = pki.check_machine_certificate(
                request.certificate, self.root.certificate_pem, now=self.now(), grace_days=30
            )
            pki.verify_renew(
                request.certificate,
                request.csr,
                request.signed_at_ms,
                request.signature,
                now_ms=self.now_ms(),
            )
        except FarhandError as error:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))
        machine = self.machines[identity.machine_id]
        machine.certificate = pki.issue_machine_certificate(
            self.root, request.csr, identity, now=self.now()
        )
        self.renewals += 1
        await self._notify()
        return enroll_pb2.RenewResponse(certificate=machine.certificate)

    # The link

    async def connect(self, context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        """Serve one stream until it ends; the identity is the certificate's."""
        pem = context.auth_context()["x509_pem_cert"][0]
        identity = pki.identity_of(pem)
        if not isinstance(identity, pki.MachineIdentity):
            raise NotAllowed("not a machine")
        machine = self.machines[identity.machine_id]
        if not self.accept_links:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
        session = machine.session = _Session(context)
        writer = asyncio.create_task(self._write(session))
        tasks = [
            writer,
            asyncio.create_task(self._read(machine, session)),
            asyncio.create_task(self._tick(session)),
            asyncio.create_task(session.cut.wait()),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            # A write that is cancelled half-way would keep the stream's end from being sent.
            session.ended = True
            session.due.set()
            await asyncio.wait([writer], timeout=2)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if machine.session is session:
                machine.session = None
                self.times_away += 1
            await self._notify()

    async def _read(self, machine: FakeMachine, session: _Session) -> None:
        while True:
            message = await session.context.read()
            if not isinstance(message, bytes):
                return
            actions = session.link.receive(
                codec.decode_up(message), now=time.monotonic(), wall_ms=self.now_ms()
            )
            for action in actions:
                self._do(machine, session, action)
            session.due.set()
            await self._notify()

    async def _write(self, session: _Session) -> None:
        while True:
            await session.due.wait()
            session.due.clear()
            if session.ended:
                return
            while session.link.has_frame and not self.mute:
                frame = session.link.next_frame()
                await session.context.write(codec.encode_down(frame))
                if any(isinstance(event, Bye) for event in frame):
                    return

    async def _tick(self, session: _Session) -> None:
        while True:
            await asyncio.sleep(max(0.0, session.link.next_tick() - time.monotonic()))
            if any(isinstance(a, PeerSilent) for a in session.link.tick(time.monotonic())):
                return
            session.due.set()

    def _do(self, machine: FakeMachine, session: _Session, action: ReplicaAction) -> None:
        match action:
            case StoreOutput() | StoreOmission() if session.epoch != machine.epoch:
                return  # of a stream that another has taken over from: it sends what is missing
            case HelloAccepted(hello=hello) if machine.status == "pending":
                machine.hellos.append(hello)
                session.link.bye(Bye(code="pending", message="not confirmed yet", retry=True))
            case HelloAccepted(hello=hello):
                self._welcome(machine, session, hello)
            case RecordDecision(decision=decision):
                attempt = self.attempts[decision.attempt_id]
                attempt.decision = decision
                if decision.verdict is Verdict.ALLOW and attempt.state is AttemptState.OFFERED:
                    attempt.state = step(attempt.state, AttemptEvent.ACKNOWLEDGE)
            case RecordStart(started=started):
                attempt = self.attempts[started.attempt_id]
                attempt.started.append(started)
                if attempt.state in (AttemptState.OFFERED, AttemptState.JOURNALLED):
                    attempt.state = step(attempt.state, AttemptEvent.START)
            case StoreOutput(attempt_id=attempt_id, stream=stream, offset=offset, data=data):
                buffer = self.attempts[attempt_id].buffer(stream)
                assert offset == len(buffer), "a gap or a repetition reached the store"
                buffer += data
                if self.acknowledge_output:
                    session.link.stored(attempt_id, stream, len(buffer))
            case StoreOmission(attempt_id=attempt_id, stream=stream, offset=offset, length=length):
                attempt = self.attempts[attempt_id]
                attempt.omitted.append((stream, offset, length))
                attempt.buffer(stream).extend(bytes(length))
                session.link.stored(attempt_id, stream, offset + length)
            case RecordResult(result=result):
                known = self.attempts.get(result.attempt_id)
                if known is not None and known.result is None:
                    known.result, known.result_hash = result.result, result.result_hash
                    if known.state not in TERMINAL:
                        known.state = step(known.state, event_of_result(result.result))
                if self.acknowledge_results:
                    session.link.recorded(result.attempt_id, result.result_hash)
            case ResultConflict():
                self.conflicts.append(action)
            case Rejected() | PeerSilent():
                session.due.set()

    def _welcome(self, machine: FakeMachine, session: _Session, hello: Hello) -> None:
        machine.hellos.append(hello)
        machine.epoch += 1
        session.epoch = machine.epoch
        live = {attempt.attempt_id for attempt in hello.live}
        views = [
            AttemptView(
                attempt_id=attempt_id,
                state=attempt.state,
                input_digest=attempt.offer.input_digest,
                acknowledged=attempt.decision is not None or bool(attempt.started),
                started=bool(attempt.started),
                journal_id=attempt.journal[0],
                journal_counter=attempt.journal[1],
                stdout_stored=len(attempt.stdout),
                stderr_stored=len(attempt.stderr),
                result_hash=attempt.result_hash,
            )
            for attempt_id, attempt in self.attempts.items()
            if attempt.machine_id == machine.machine_id
            and attempt.state is not AttemptState.QUEUED
            and (attempt_id in live or attempt.state not in TERMINAL)
        ]
        outcomes = reconcile(views, hello)
        session.link.welcome(
            server_time_ms=self.now_ms(),
            stream_epoch=machine.epoch,
            machine_name=machine.name,
            views=views,
            outcomes=outcomes,
        )
        for outcome in outcomes:
            if isinstance(outcome, Reoffer):
                self._send_offer(machine, self.attempts[outcome.attempt_id])
            elif isinstance(outcome, Indeterminate):
                attempt = self.attempts[outcome.attempt_id]
                attempt.state = step(attempt.state, AttemptEvent.LOSE_TRACK)
        for attempt in self.attempts.values():
            if attempt.machine_id == machine.machine_id and attempt.state is AttemptState.QUEUED:
                self._send_offer(machine, attempt)

    def _send_offer(self, machine: FakeMachine, attempt: FakeAttempt) -> None:
        hello = machine.hellos[-1]
        attempt.journal = (hello.journal_id, hello.journal_counter)
        if attempt.state is AttemptState.QUEUED:
            attempt.state = step(attempt.state, AttemptEvent.OFFER)
        if machine.session is not None:
            machine.session.link.offer(attempt.offer)
            machine.session.due.set()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def _enrol_handlers(plane: FakeControlPlane) -> grpc.GenericRpcHandler:
    def unary(method, request, response):  # type: ignore[no-untyped-def] # grpc's own handlers are
        return grpc.unary_unary_rpc_method_handler(
            method, request_deserializer=request.FromString, response_serializer=response
        )

    return grpc.method_handlers_generic_handler(
        "farhand_proto.v1.Enroll",
        {
            "Redeem": unary(
                plane.redeem,
                enroll_pb2.RedeemRequest,
                enroll_pb2.RedeemResponse.SerializeToString,
            ),
            "Status": unary(
                plane.status,
                enroll_pb2.StatusRequest,
                enroll_pb2.StatusResponse.SerializeToString,
            ),
            "Renew": unary(
                plane.renew, enroll_pb2.RenewRequest, enroll_pb2.RenewResponse.SerializeToString
            ),
        },
    )


@asynccontextmanager
async def fake_control_plane(*, clock_ahead_s: float = 0.0) -> AsyncIterator[FakeControlPlane]:
    """Run one on ephemeral ports of this machine."""
    plane = FakeControlPlane(clock_ahead_s=clock_ahead_s)
    leaf = pki.issue_server_leaf(
        plane.root,
        pki.ReplicaIdentity(instance_id=plane.instance_id, replica_id=new_id()),
        now=plane.now(),
    )
    pair = [(leaf.key_pem, leaf.certificate_pem)]
    enrol = grpc.aio.server()
    enrol.add_generic_rpc_handlers((_enrol_handlers(plane),))
    plane.enrol_port = enrol.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials(pair))
    link = grpc.aio.server(options=[("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000)])

    async def serve(_: object, context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        await plane.connect(context)

    link.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(
                "farhand_proto.v1.Link",
                {"Connect": grpc.stream_stream_rpc_method_handler(serve)},
            ),
        )
    )
    plane.link_port = link.add_secure_port(
        "127.0.0.1:0",
        grpc.ssl_server_credentials(
            pair, root_certificates=plane.root.certificate_pem, require_client_auth=True
        ),
    )
    http = await asyncio.start_server(plane._serve_http, "127.0.0.1", 0)
    plane.http_port = http.sockets[0].getsockname()[1]
    await enrol.start()
    await link.start()
    try:
        yield plane
    finally:
        http.close()
        await link.stop(0)
        await enrol.stop(0)
