"""Takes what the link asks, lets the machine's rules decide, and reports what became of it.

An allowed offer is journalled, then started; one that finds all places taken waits in a short
local queue. The queue is not journalled: when the link is lost it is dropped, because the server
authorises queued work again before it offers it once more.
"""

import asyncio
import hashlib
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from farhand_daemon import results
from farhand_daemon.attempts import Attempts
from farhand_daemon.attempts import Decision as StartDecision
from farhand_daemon.boot_clock import boot_seconds
from farhand_daemon.command_env import CommandEnvironment
from farhand_daemon.event_log import EventLog
from farhand_daemon.greeting import Greeting, JournalMark
from farhand_daemon.machine_file import Ceiling
from farhand_daemon.plan import Deny, Plan, judge
from farhand_daemon.spool import BytesGone
from farhand_daemon.supervisor import records
from farhand_daemon.supervisor.handle import CommandHandle
from farhand_daemon.supervisor.records import ExitRecord, SpawnSpec, StopReason, SupervisorLoss
from farhand_shared import codec
from farhand_shared.command import CommandResult, StreamTotals
from farhand_shared.errors import FarhandError, InvalidInput
from farhand_shared.ids import is_id
from farhand_shared.limits import LOCAL_QUEUE
from farhand_shared.link_actions import (
    Acknowledged,
    ApprovePlan,
    CancelAttempt,
    Closed,
    DaemonAction,
    DigestConflict,
    DrainRequested,
    ForgetAttempt,
    ResultAcknowledged,
    StartOffered,
    Welcomed,
)
from farhand_shared.link_daemon import DaemonLink
from farhand_shared.link_events import (
    Decision,
    Hello,
    LiveState,
    Offer,
    Started,
    Stream,
    Verdict,
)

_STREAMS: Final[Mapping[Stream, records.Stream]] = {
    Stream.STDOUT: records.Stream.STDOUT,
    Stream.STDERR: records.Stream.STDERR,
}
_WIRE_STREAMS: Final = {theirs: ours for ours, theirs in _STREAMS.items()}


class Warden:
    """Between the link and the supervisors; also the supervisors' listener.

    ``wake`` is called whenever the link may have something new to send.
    """

    def __init__(
        self,
        *,
        link: DaemonLink,
        ceiling: Ceiling,
        environment: CommandEnvironment,
        greeting: Greeting,
        log: EventLog,
    ) -> None:
        self._link = link
        self._ceiling = ceiling
        self._environment = environment
        self._greeting = greeting
        self._log = log
        self._attempts: Attempts | None = None
        self._queue: deque[StartOffered] = deque()
        self._running: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._changed = asyncio.Event()
        self.wake: Callable[[], None] = lambda: None

    @property
    def _store(self) -> Attempts:
        if self._attempts is None:
            raise RuntimeError("the warden was used before it adopted the attempts")
        return self._attempts

    # Before the first stream

    def adopt(self, attempts: Attempts) -> None:
        """Take over what the journal and the spool hold: running commands, unsent results."""
        self._attempts = attempts
        for handle in attempts.live.values():
            self._restore(handle)
        if attempts.live:
            self._log.write("adopted", attempts=len(attempts.live), running=len(self._running))

    def _restore(self, handle: CommandHandle) -> None:
        result = self._result_of(handle)
        state = LiveState.STARTED if handle.started is not None else LiveState.JOURNALLED
        self._link.restore(
            handle.attempt_id,
            input_digest=handle.input_digest,
            state=state if result is None else LiveState.FINISHED,
            started=None if handle.started is None else self._started(handle, handle.started),
            stdout_produced=handle.produced(records.Stream.STDOUT),
            stderr_produced=handle.produced(records.Stream.STDERR),
            result=None if result is None else results.event_of(handle.attempt_id, result),
        )
        self._report_gaps(handle)
        if result is None:
            self._running.add(handle.attempt_id)

    # What the link asks

    def perform(self, action: DaemonAction) -> None:
        """Begin one action of the link; actions about the same attempt take effect in order.

        What has to wait for the disk goes on as a task: tasks take their first step in the order
        of their making, and that step already fixes the attempt's fate (see ``Attempts``). So
        several starts share one flush of the journal.
        """
        match action:
            case Acknowledged(attempt_id=attempt_id, stream=stream, offset=offset):
                if handle := self._store.live.get(attempt_id):
                    handle.ack(_STREAMS[stream], offset)
            case StartOffered():
                self._consider(action)
            case CancelAttempt():
                self._spawn(self._cancel(action))
            case ResultAcknowledged():
                self._take_receipt(action)
            case ForgetAttempt(attempt_id=attempt_id):
                self._spawn(self._forget(attempt_id))
            case Welcomed():
                self._start_queued()
            case DigestConflict(attempt_id=attempt_id):
                self._log.write("digest_conflict", attempt=attempt_id)
            case ApprovePlan(attempt_id=attempt_id):
                # No level of this version asks, so no attempt waits for an approval.
                self._log.write("approval_ignored", attempt=attempt_id)
            case Closed() | DrainRequested():
                return  # the stream's own business

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="warden")
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        """Let a fault of ours be seen; its attempt stays unanswered, so the server asks again."""
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._log.write("internal_error", kind=type(fault).__name__, message=str(fault))
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a task of the warden failed", "exception": fault, "task": task}
            )

    def _consider(self, offered: StartOffered) -> None:
        offer = offered.offer
        if self._stopping:
            self._link.forget(offer.attempt_id)  # unanswered: the next daemon is offered it again
            return
        verdict = self._judge(offered)
        if isinstance(verdict, Deny):
            self._refuse(offer, verdict)
        elif not self._queue and self._has_room():
            self._launch(offer, verdict)
        elif len(self._queue) < LOCAL_QUEUE:
            self._queue.append(offered)
        else:
            self._refuse(
                offer,
                Deny(
                    reason_code="busy",
                    message=f"{len(self._running)} commands run and {LOCAL_QUEUE} wait on this "
                    "machine already; try again later or raise concurrency in machine.toml",
                ),
            )

    def _start_queued(self) -> None:
        """Start what waits, as far as there is room; nothing before the server has welcomed us."""
        while self._queue and self._link.may_start and not self._stopping and self._has_room():
            offered = self._queue.popleft()
            verdict = self._judge(offered)  # the machine file may have changed meanwhile
            if isinstance(verdict, Deny):
                self._refuse(offered.offer, verdict)
            else:
                self._launch(offered.offer, verdict)

    def _has_room(self) -> bool:
        try:
            return len(self._running) < self._ceiling.current().concurrency
        except InvalidInput:
            return True  # the verdict refuses with the fault

    def _judge(self, offered: StartOffered) -> Plan | Deny:
        """Return the verdict on an offer by the machine file as it is at this moment."""
        offer = offered.offer
        if not is_id(offer.attempt_id):
            return Deny(reason_code="bad_attempt_id", message="the attempt's id is not a UUID")
        if boot_seconds() > offered.start_by:
            return Deny(
                reason_code="expired",
                message=f"it could not start within {offer.start_within_ms:,} ms of arriving",
            )
        if hashlib.sha256(offer.spec).digest() != offer.input_digest:
            return Deny(
                reason_code="digest_mismatch",
                message="the command is not the one its digest names; ask for it again",
            )
        try:
            spec = codec.decode_spec(offer.spec)
        except FarhandError as error:
            return Deny(reason_code="unknown_command", message=str(error))
        try:
            machine = self._ceiling.current()
        except InvalidInput as error:
            return Deny(reason_code="machine_file_invalid", message=str(error))
        verdict = judge(offer, spec, machine)
        if isinstance(verdict, Plan) and (problem := self._store.space_problem()) is not None:
            return Deny(reason_code="disk_full", message=problem)
        return verdict

    def _launch(self, offer: Offer, plan: Plan) -> None:
        self._running.add(offer.attempt_id)
        self._spawn(self._start(offer, plan))

    async def _start(self, offer: Offer, plan: Plan) -> None:
        attempt_id = offer.attempt_id
        spec = SpawnSpec(
            argv=plan.argv,
            env=self._environment.with_added(plan.env, self._ceiling.current().env_allow),
            cwd=plan.cwd,
            timeout_ms=plan.execution_timeout_ms or None,
            grace_ms=plan.grace_ms,
        )
        try:
            decision = await self._store.start(attempt_id, offer.input_digest, spec)
        except OSError as error:
            self._running.discard(attempt_id)
            reason = f"the journal cannot be written: {error.strerror or error}; make room for it"
            self._refuse(offer, Deny(reason_code="journal_failed", message=reason))
            return
        if decision is StartDecision.STARTED:
            self._link.decision(
                Decision(
                    attempt_id=attempt_id,
                    verdict=Verdict.ALLOW,
                    plan_hash=plan.digest(),
                    tier=offer.tier,
                )
            )
            self._log.write("started", attempt=attempt_id, command=offer.command_id)
            self.wake()
        else:
            self._running.discard(attempt_id)
            self._answer_known(offer, decision)

    def _answer_known(self, offer: Offer, decision: StartDecision) -> None:
        """Answer an offer whose id the journal knows: nothing is started a second time."""
        attempt_id = offer.attempt_id
        if decision is StartDecision.CONFLICT:
            self._refuse(
                offer,
                Deny(
                    reason_code="digest_conflict",
                    message="this machine knows the attempt with another input",
                ),
            )
        elif decision is StartDecision.TOMBSTONED:
            self._finish(attempt_id, results.cancelled_before_start())
        elif (handle := self._store.live.get(attempt_id)) is not None:
            self._restore(handle)
        else:
            self._finish(attempt_id, _RECEIPTED)

    async def _cancel(self, action: CancelAttempt) -> None:
        attempt_id = action.attempt_id
        self._log.write("cancelled", attempt=attempt_id, reason=action.reason)
        self._queue = deque(o for o in self._queue if o.offer.attempt_id != attempt_id)
        if attempt_id in self._store.live:
            await self._store.cancel(attempt_id, StopReason.CANCEL)  # its end is the answer
            return
        if self._store.is_receipted(attempt_id):
            self._finish(attempt_id, _RECEIPTED)
            return
        try:
            await self._store.cancel(attempt_id, StopReason.CANCEL)  # leaves a tombstone
        except OSError as error:
            # Unanswered: the server says it again after the next Hello.
            self._log.write("tombstone_failed", attempt=attempt_id, reason=str(error))
            return
        self._finish(attempt_id, results.cancelled_before_start())

    def _take_receipt(self, action: ResultAcknowledged) -> None:
        if not action.same:
            self._log.write("other_result_recorded", attempt=action.attempt_id)
        self._store.acknowledge_result(action.attempt_id, action.result_hash)
        self._changed.set()

    async def _forget(self, attempt_id: str) -> None:
        self._log.write("forgotten_by_server", attempt=attempt_id)
        self._queue = deque(o for o in self._queue if o.offer.attempt_id != attempt_id)
        await self._store.forget(attempt_id)
        self._running.discard(attempt_id)  # its end is told to nobody
        self._changed.set()

    def _refuse(self, offer: Offer, deny: Deny) -> None:
        self._link.decision(
            Decision(
                attempt_id=offer.attempt_id,
                verdict=Verdict.DENY,
                plan_hash=b"",
                tier=offer.tier,
                reason_code=deny.reason_code,
                message=deny.message,
            )
        )
        self._finish(offer.attempt_id, results.refused(deny.reason_code, deny.message))
        self._log.write("refused", attempt=offer.attempt_id, reason=deny.reason_code)

    def _finish(self, attempt_id: str, result: CommandResult) -> None:
        self._link.finished(results.event_of(attempt_id, result))
        self.wake()

    # What the supervisors report (CommandListener)

    def command_started(self, handle: CommandHandle, started: records.Started) -> None:
        # What is told while the store is being opened is found in its handles by ``adopt``.
        if self._attempts is None:
            return
        self._link.started(self._started(handle, started))
        self.wake()

    def output_produced(
        self, handle: CommandHandle, stream: records.Stream, produced_bytes: int
    ) -> None:
        if self._attempts is None:
            return
        self._link.produced(handle.attempt_id, _WIRE_STREAMS[stream], produced_bytes)
        self.wake()

    def command_exited(self, handle: CommandHandle, record: ExitRecord) -> None:
        self._ended(handle)

    def supervisor_lost(self, handle: CommandHandle, loss: SupervisorLoss) -> None:
        self._log.write("supervisor_lost", attempt=handle.attempt_id, reason=loss.message)
        self._ended(handle)

    def _ended(self, handle: CommandHandle) -> None:
        if self._attempts is None:
            return
        result = self._result_of(handle)
        if result is not None:
            self._report_gaps(handle)
            self._finish(handle.attempt_id, result)
            self._log.write("ended", attempt=handle.attempt_id, reason=result.reason.value)
        self._running.discard(handle.attempt_id)
        self._changed.set()
        self._start_queued()

    def _started(self, handle: CommandHandle, started: records.Started) -> Started:
        return Started(
            attempt_id=handle.attempt_id,
            pid=started.pid,
            started_at_ms=time.time_ns() // 1_000_000,
            boot_id=started.boot_id,
        )

    def _result_of(self, handle: CommandHandle) -> CommandResult | None:
        gaps = [handle.omitted(stream) for stream in records.Stream]
        first = (gaps[0][0][0] if gaps[0] else 0, gaps[1][0][0] if gaps[1] else 0)
        if handle.record is not None:
            return results.result_of(handle.record, first)
        if handle.loss is None:
            return None
        stdout, stderr = (
            StreamTotals(
                produced=handle.produced(stream),
                omitted_from=first[index],
                omitted=sum(high - low for low, high in gaps[index]),
            )
            for index, stream in enumerate(records.Stream)
        )
        return results.indeterminate(handle.loss.message, stdout, stderr)

    # What the stream needs

    def read(self, attempt_id: str, stream: Stream, offset: int, max_bytes: int) -> bytes:
        """Return output from the spool; a dropped range is reported to the link, then b""."""
        handle = self._store.live.get(attempt_id)
        if handle is None:
            return b""
        try:
            return handle.read(_STREAMS[stream], offset, max_bytes)
        except BytesGone as gone:
            self._link.omitted(attempt_id, stream, offset, gone.next_offset - offset)
            return b""

    def link_is(self, up: bool) -> None:
        """Note that the link came or went: it decides whether a full spool blocks the command."""
        if not up:
            while self._queue:
                self._link.forget(self._queue.pop().offer.attempt_id)
        self._store.link_state(up=up)

    def hello(self) -> Hello:
        """Return the Hello of a new stream, having told the link what was dropped meanwhile."""
        for handle in self._store.live.values():
            self._report_gaps(handle)
        return self._greeting.hello(
            JournalMark(journal_id=self._store.journal_id, counter=self._store.counter)
        )

    def hello_is_stale(self) -> bool:
        """Tell whether what the last Hello said of the machine file is no longer true."""
        return self._greeting.is_stale()

    def _report_gaps(self, handle: CommandHandle) -> None:
        for wire, stream in _STREAMS.items():
            for low, high in handle.omitted(stream):
                self._link.omitted(handle.attempt_id, wire, low, high - low)

    # The end of the daemon

    async def stop(self, reason: StopReason | None) -> None:
        """Start nothing more; with a reason also end what runs (TERM, grace, KILL)."""
        self._stopping = True
        if reason is not None:
            for attempt_id in list(self._running):
                await self._store.cancel(attempt_id, reason)

    async def ended(self) -> None:
        """Return when no command runs any more."""
        while self._running:
            self._changed.clear()
            await self._changed.wait()

    async def delivered(self) -> None:
        """Return when the server has acknowledged every result there is."""
        while self._unsent():
            self._changed.clear()
            await self._changed.wait()

    def _unsent(self) -> bool:
        return any(attempt.state is LiveState.FINISHED for attempt in self._link.live())


_RECEIPTED: Final = results.indeterminate(
    "it ended before and its result was acknowledged; this machine keeps only the receipt",
    StreamTotals(),
    StreamTotals(),
)
