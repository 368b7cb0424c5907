"""The link listener: one stream per machine, from Hello to goodbye.

The machine is who its certificate says, never what it writes. Three tasks serve a stream: this
handler reads, one writes whatever is due as one message, one keeps the time of the pings.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import grpc
import grpc.aio

from farhand_control_plane.machines.admission import Admission, Presented
from farhand_control_plane.machines.dispatcher import Dispatcher
from farhand_control_plane.machines.hub import Hub
from farhand_control_plane.machines.inputs import Inputs
from farhand_control_plane.machines.machine_link import Holding, MachineLink
from farhand_control_plane.machines.presence import Presence
from farhand_control_plane.machines.recorder import NO_RESULT, Recorder
from farhand_shared import codec, pki
from farhand_shared.errors import FarhandError, ProtocolError
from farhand_shared.ids import AttemptId
from farhand_shared.limits import PONG_DUE_S
from farhand_shared.link_actions import (
    HelloAccepted,
    InputTaken,
    PeerSilent,
    RecordDecision,
    RecordResult,
    RecordStart,
    Rejected,
    ReplicaAction,
    ResultConflict,
    StoreOmission,
    StoreOutput,
    TellQuiet,
)
from farhand_shared.link_events import Bye, Hello
from farhand_shared.link_replica import ReplicaLink

_log = logging.getLogger(__name__)

# Raw bytes both ways: the codec is ours.
Context = grpc.aio.ServicerContext[bytes, bytes]
BYE_WRITTEN_WITHIN_S: Final = 1.0  # a machine that does not read does not hold its stream open


class LinkService:
    """Serves the streams of this replica."""

    def __init__(
        self,
        *,
        hub: Hub,
        admission: Admission,
        dispatcher: Dispatcher,
        recorder: Recorder,
        presence: Presence,
        inputs: Inputs,
    ) -> None:
        self._hub = hub
        self._admission = admission
        self._dispatcher = dispatcher
        self._recorder = recorder
        self._presence = presence
        self._inputs = inputs

    def handlers(self) -> grpc.GenericRpcHandler:
        """Return what a server of the link listener serves."""
        service, method = codec.CONNECT_METHOD.strip("/").split("/")
        return grpc.method_handlers_generic_handler(
            service, {method: grpc.stream_stream_rpc_method_handler(self._connect)}
        )

    async def _connect(self, _requests: object, context: Context) -> None:
        try:
            presented = presented_by(context.auth_context())
        except FarhandError as error:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))
            return
        # By itself, or they would go with the first message: were the task that writes it cancelled
        # meanwhile, gRPC would send them again, fail, and leave the machine without a status.
        await context.send_initial_metadata(())
        session = ReplicaLink(now=time.monotonic())
        try:
            hello = await self._greet(session, context)
            if hello is None:
                return
            holding = await self._admitted(presented, hello)
            if isinstance(holding, Bye):
                session.bye(holding)
                await _write_due(session, context)
                return
        except ProtocolError as error:
            session.bye(_protocol(error))
            await _write_due(session, context)
            return
        except FarhandError as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
            return
        older = self._hub.link(holding.held.machine_id)
        if older is not None:
            older.close_superseded()
            older.leave()
        link = MachineLink(
            holding,
            session,
            hello,
            hub=self._hub,
            limits=self._recorder.limits,
            kick=self._dispatcher.kick,
        )
        try:
            await self._serve(link, context)
        except FarhandError as error:
            _log.warning("cannot serve the link of %s: %s", link.name, error)
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        finally:
            link.leave()
            await self._presence.release(link)

    async def _admitted(self, presented: Presented, hello: Hello) -> Holding | Bye:
        """Admit a stream; what was taken for one that ended meanwhile is given back."""
        admitting = asyncio.create_task(self._admission.admit(presented, hello), name="admit")
        try:
            return await asyncio.shield(admitting)
        except asyncio.CancelledError:
            # Cancelled in its commit it would hold the machine's lease, and nobody would know.
            self._presence.give_back(admitting)
            raise

    async def _greet(self, session: ReplicaLink, context: Context) -> Hello | None:
        """Read up to the Hello; None when the stream is to end (a goodbye was written)."""
        try:
            async with asyncio.timeout(PONG_DUE_S):
                message = await context.read()
        except TimeoutError:
            return None
        if not isinstance(message, bytes):
            return None
        wall_ms = time.time_ns() // 1_000_000
        actions = session.receive(codec.decode_up(message), now=time.monotonic(), wall_ms=wall_ms)
        match actions[:1]:
            case [HelloAccepted(hello=hello)]:
                return hello
            case [Rejected()]:
                await _write_due(session, context)
                return None
            case _:
                raise ProtocolError("cannot serve the stream: its first event is no hello")

    async def _serve(self, link: MachineLink, context: Context) -> None:
        """Serve an admitted stream until it ends."""
        await self._dispatcher.reconcile(link, time.time_ns() // 1_000_000)
        self._hub.add(link)
        self._inputs.resume(link)
        _log.info("machine %s is linked, epoch %d", link.name, link.held.epoch)
        writer = asyncio.create_task(self._write(link, context), name=f"link-write-{link.name}")
        reader = asyncio.create_task(self._read(link, context), name=f"link-read-{link.name}")
        clock = asyncio.create_task(self._tick(link), name=f"link-clock-{link.name}")
        self._dispatcher.kick(link)
        tasks = (writer, reader, clock)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if link.is_open:  # the machine left: it is offered nothing more
                link.leave()
            if not writer.done():  # a goodbye, or what was being written when the stream ended
                await asyncio.wait((writer,), timeout=BYE_WRITTEN_WITHIN_S)
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception) and not isinstance(end, grpc.RpcError):
                _log.warning("the link of %s ended: %r", link.name, end)
        _log.info("machine %s is not linked any more, epoch %d", link.name, link.held.epoch)

    # Reading

    async def _read(self, link: MachineLink, context: Context) -> None:
        while link.is_open:
            message = await context.read()
            if not isinstance(message, bytes):  # the end of the stream
                return
            now = time.monotonic()
            try:
                actions = link.session.receive(
                    codec.decode_up(message), now=now, wall_ms=time.time_ns() // 1_000_000
                )
                self._perform(link, actions, now)
            except ProtocolError as error:
                _log.error("machine %s broke the protocol: %s", link.name, error)
                link.close(_protocol(error))
                return
            if link.session.has_frame:
                link.output_due.set()
            if link.renew_when_heard:
                link.renew_when_heard = False
                self._presence.heard(link)

    def _perform(self, link: MachineLink, actions: Sequence[ReplicaAction], now: float) -> None:
        """Do what a message asks for; each run that has news is looked at once, at the end."""
        touched = set()
        for action in actions:
            match action:
                case TellQuiet(quiet=quiet):
                    if (watched := link.runs.get(AttemptId(quiet.attempt_id))) is not None:
                        watched.on_quiet(quiet)
                    continue
                case InputTaken(attempt_id=attempt_id, offset=offset, closed=closed):
                    self._inputs.taken(attempt_id, offset, closed=closed)
                    continue
                case RecordResult(result=event):
                    attempt_id = event.attempt_id
                    self._inputs.forget(attempt_id)
                case RecordDecision(decision=decision):
                    attempt_id = decision.attempt_id
                case RecordStart(started=started):
                    attempt_id = started.attempt_id
                case StoreOutput() | StoreOmission():
                    attempt_id = action.attempt_id
                case ResultConflict():
                    _log.error(
                        "machine %s sent another result for attempt %s, it is refused",
                        link.name,
                        action.attempt_id,
                    )
                    continue
                case PeerSilent() | HelloAccepted() | Rejected():
                    continue
            run = link.runs.get(AttemptId(attempt_id))
            if run is None:
                if isinstance(action, RecordResult):
                    # Answers a cancel of an attempt that is over here: nothing is kept of it.
                    link.session.recorded(attempt_id, NO_RESULT)
                continue
            match action:
                case RecordDecision(decision=decision):
                    run.on_decision(decision)
                case RecordStart(started=started):
                    run.on_started(started, now)
                case StoreOutput():
                    run.on_output(action.stream, action.offset, action.data)
                case StoreOmission():
                    run.on_omission(action.stream, action.offset, action.length)
                case RecordResult(result=event):
                    run.on_result(event)
            touched.add(run)
        for run in touched:
            self._recorder.due(link, run)
            link.acknowledge(run)  # past the head there is nothing to wait for but readers

    # Writing

    async def _write(self, link: MachineLink, context: Context) -> None:
        while True:
            await link.output_due.wait()
            link.output_due.clear()
            while link.session.has_frame:
                await context.write(codec.encode_down(link.session.next_frame(self._inputs.read)))
            if not link.is_open:
                return

    async def _tick(self, link: MachineLink) -> None:
        while link.is_open:
            now = time.monotonic()
            if any(isinstance(action, PeerSilent) for action in link.session.tick(now)):
                _log.warning("machine %s does not answer, its link is closed", link.name)
                link.is_open = False
                return
            if link.session.has_frame:
                link.output_due.set()
            await asyncio.sleep(max(0.0, link.session.next_tick() - now))  # until the next ping


def presented_by(auth_context: Mapping[str, Iterable[bytes]]) -> Presented:
    """Return who the peer's certificate says it is; raise NotAllowed unless a machine."""
    certificates = list(auth_context.get("x509_pem_cert", ()))
    if not certificates:
        raise ProtocolError("cannot serve the stream: the peer showed no certificate")
    certificate = bytes(certificates[0])
    identity = pki.identity_of(certificate)
    if not isinstance(identity, pki.MachineIdentity):
        raise ProtocolError("cannot serve the stream: the certificate is not a machine's")
    return Presented(identity=identity, serial=pki.serial_of(certificate))


async def _write_due(session: ReplicaLink, context: Context) -> None:
    """Write what is left to say before the stream ends."""
    while session.has_frame:
        await context.write(codec.encode_down(session.next_frame()))


def _protocol(error: ProtocolError) -> Bye:
    return Bye(code="protocol", message=str(error), retry=True)
