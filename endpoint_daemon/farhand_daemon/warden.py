"""Takes what the link asks, lets the machine's rules decide, and reports what became of it.

An allowed offer is journalled, then started; one that finds all places taken waits in a short
local queue. The queue is not journalled: when the link is lost it is dropped, because the server
authorises queued work again before it offers it once more.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from farhand_daemon import reports, results
from farhand_daemon.attempts import Attempts
from farhand_daemon.attempts import Decision as StartDecision
from farhand_daemon.boot_clock import boot_seconds
from farhand_daemon.command_env import CommandEnvironment
from farhand_daemon.event_log import EventLog
from farhand_daemon.greeting import Greeting, JournalMark
from farhand_daemon.machine_file import Ceiling
from farhand_daemon.plan import Deny, Plan, judge_offer
from farhand_daemon.supervisor import records
from farhand_daemon.supervisor.handle import CommandHandle
from farhand_daemon.supervisor.records import ExitRecord, SpawnSpec, StopReason, SupervisorLoss
from farhand_shared.command import CommandResult
from farhand_shared.errors import InvalidInput
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
    ResizeTerminal,
    ResultAcknowledged,
    StartOffered,
    TakeInput,
    Welcomed,
)
from farhand_shared.link_daemon import DaemonLink
from farhand_shared.link_events import (
    Decision,
    Hello,
    LiveState,
    Offer,
    Stream,
    Verdict,
)

_SPACE_EVERY_S: Final = 0.5


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
        self._stopping = False
        self._space_problem: str | None = None
        self._space_again_at = 0.0
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
        attempts.on_orphan_end(self._orphan_ended)
        for handle in attempts.live.values():
            self._restore(handle)
        if attempts.live or attempts.orphans:
            self._log.write(
                "adopted",
                attempts=len(attempts.live),
                running=len(self._running),
                orphans=len(attempts.orphans),
            )

    def _restore(self, handle: CommandHandle) -> None:
        if reports.restore(self._link, handle) is None:
            self._running.add(handle.attempt_id)

    # What the link asks

    def perform(self, action: DaemonAction) -> None:
        """Begin one action of the link; actions about the same attempt take effect in order.

        Each fixes the attempt's fate at once. What has to wait for the disk is told later, and
        several starts share one flush of the journal (see ``Attempts``).
        """
        try:
            self._perform(action)
        except Exception as fault:
            # A fault of ours is seen; its attempt stays unanswered, so the server asks again.
            self._log.write("internal_error", kind=type(fault).__name__, message=str(fault))
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"the warden failed at {type(action).__name__}", "exception": fault}
            )

    def _perform(self, action: DaemonAction) -> None:
        match action:
            case Acknowledged(attempt_id=attempt_id, stream=stream, offset=offset):
                if handle := self._store.live.get(attempt_id):
                    handle.ack(reports.SPOOL_STREAMS[stream], offset)
            case TakeInput(input=news):
                if handle := self._store.live.get(news.attempt_id):
                    handle.give_input(news.offset, news.data, end=news.end)
            case ResizeTerminal(resize=size):
                if handle := self._store.live.get(size.attempt_id):
                    handle.resize(size.rows, size.columns)
            case StartOffered():
                self._consider(action)
            case CancelAttempt():
                self._cancel(action)
            case ResultAcknowledged():
                self._take_receipt(action)
            case ForgetAttempt(attempt_id=attempt_id):
                self._forget(attempt_id)
            case Welcomed():
                self._start_queued()
            case DigestConflict(attempt_id=attempt_id):
                self._log.write("digest_conflict", attempt=attempt_id)
            case ApprovePlan(attempt_id=attempt_id):
                # No level of this version asks, so no attempt waits for an approval.
                self._log.write("approval_ignored", attempt=attempt_id)
            case Closed() | DrainRequested():
                return  # the stream's own business

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
                    message=f"cannot start: {self._places_taken()} commands run and {LOCAL_QUEUE} "
                    "wait on this machine already; try again later or raise concurrency in "
                    "machine.toml",
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
            return self._places_taken() < self._ceiling.current().concurrency
        except InvalidInput:
            return True  # the verdict refuses with the fault

    def _places_taken(self) -> int:
        """Count what runs, also what no supervisor watches any more."""
        return len(self._running) + len(self._store.orphans)

    def _judge(self, offered: StartOffered) -> Plan | Deny:
        """Return the verdict by the machine file and the disk as they are at this moment."""
        if boot_seconds() > offered.start_by:
            within_ms = offered.offer.start_within_ms
            return Deny(
                reason_code="expired",
                message=f"cannot start: no place was free in {within_ms:,} ms; ask for it again",
            )
        verdict = judge_offer(offered.offer, self._ceiling)
        if isinstance(verdict, Plan) and (problem := self._problem_of_space()) is not None:
            return Deny(reason_code="disk_full", message=problem)
        return verdict

    def _problem_of_space(self) -> str | None:
        """Look at the disk, but not for each of many commands a second."""
        now = boot_seconds()
        if now >= self._space_again_at:
            self._space_problem = self._store.space_problem()
            self._space_again_at = now + _SPACE_EVERY_S
        return self._space_problem

    def _launch(self, offer: Offer, plan: Plan) -> None:
        attempt_id = offer.attempt_id
        spec = SpawnSpec(
            argv=plan.argv,
            env=self._environment.with_added(
                plan.env,
                self._ceiling.current().env_allow,
                attended=plan.terminal is not None,
            ),
            cwd=plan.cwd,
            timeout_ms=plan.execution_timeout_ms or None,
            grace_ms=plan.grace_ms,
            file=plan.file,
            stdin=plan.stdin,
            terminal=plan.terminal,
            limits=plan.limits,
        )

        def told(error: OSError | None) -> None:
            if error is None:
                self._allow(offer, plan)
            else:
                self._running.discard(attempt_id)
                self._refuse_unwritten(offer, error)

        self._running.add(attempt_id)
        try:
            decision = self._store.start(attempt_id, offer.input_digest, spec, told)
        except OSError as error:
            self._running.discard(attempt_id)
            self._refuse_unwritten(offer, error)
            return
        if decision is not StartDecision.STARTED:
            self._running.discard(attempt_id)
            self._answer_known(offer, decision)

    def _allow(self, offer: Offer, plan: Plan) -> None:
        """Report the verdict: the journal is on disk and the command is starting."""
        self._link.decision(
            Decision(
                attempt_id=offer.attempt_id,
                verdict=Verdict.ALLOW,
                plan_hash=plan.digest(),
                tier=offer.tier,
            )
        )
        self.wake()
        self._log.write("started", attempt=offer.attempt_id, command=offer.command_id)

    def _refuse_unwritten(self, offer: Offer, error: OSError) -> None:
        reason = (
            f"cannot start: the journal cannot be written: {error.strerror or error}; "
            "make room on the machine's disk, then ask for it again"
        )
        self._refuse(offer, Deny(reason_code="journal_failed", message=reason))

    def _answer_known(self, offer: Offer, decision: StartDecision) -> None:
        """Answer an offer whose id the journal knows: nothing is started a second time."""
        attempt_id = offer.attempt_id
        if decision is StartDecision.CONFLICT:
            self._refuse(
                offer,
                Deny(
                    reason_code="digest_conflict",
                    message="cannot start: this machine knows the attempt with another input; "
                    "ask for the command anew",
                ),
            )
        elif decision is StartDecision.TOMBSTONED:
            self._finish(attempt_id, results.cancelled_before_start())
        elif (handle := self._store.live.get(attempt_id)) is not None:
            self._restore(handle)
        else:
            self._finish(attempt_id, _RECEIPTED)

    def _cancel(self, action: CancelAttempt) -> None:
        attempt_id = action.attempt_id
        self._log.write("cancelled", attempt=attempt_id, reason=action.reason)
        self._queue = deque(o for o in self._queue if o.offer.attempt_id != attempt_id)
        if attempt_id in self._store.live or attempt_id in self._store.orphans:
            # Its end is the answer; of an orphan the server has the result already.
            self._store.cancel(attempt_id, StopReason.CANCEL)
            return
        if self._store.is_receipted(attempt_id):
            self._finish(attempt_id, _RECEIPTED)
            return

        def tombstoned(error: OSError | None) -> None:
            if error is None:
                self._finish(attempt_id, results.cancelled_before_start())
            else:
                # Unanswered: the server says it again after the next Hello.
                self._log.write("tombstone_failed", attempt=attempt_id, reason=str(error))

        self._store.cancel(attempt_id, StopReason.CANCEL, tombstoned)

    def _take_receipt(self, action: ResultAcknowledged) -> None:
        if not action.same:
            self._log.write("other_result_recorded", attempt=action.attempt_id)
        self._store.acknowledge_result(action.attempt_id, action.result_hash)
        self._changed.set()

    def _forget(self, attempt_id: str) -> None:
        self._log.write("forgotten_by_server", attempt=attempt_id)
        self._queue = deque(o for o in self._queue if o.offer.attempt_id != attempt_id)
        self._store.forget(attempt_id)
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
        self._link.started(reports.started_event(handle, started))
        self.wake()

    def output_produced(
        self, handle: CommandHandle, stream: records.Stream, produced_bytes: int
    ) -> None:
        if self._attempts is None:
            return
        wire = reports.WIRE_STREAMS[stream]
        self._link.produced(handle.attempt_id, wire, produced_bytes)
        self.wake()

    def input_moved(self, handle: CommandHandle) -> None:
        if self._attempts is None:
            return
        if handle.input_received is not None:
            self._link.input_received(handle.attempt_id, handle.input_received)
        self._link.input_taken(handle.attempt_id, handle.input_taken, closed=handle.input_closed)
        self.wake()

    def command_quiet(self, handle: CommandHandle, quiet: records.Quiet) -> None:
        if self._attempts is None:
            return
        self._link.quiet(reports.quiet_event(handle, quiet))
        self.wake()

    def command_exited(self, handle: CommandHandle, record: ExitRecord) -> None:
        self._ended(handle)

    def supervisor_lost(self, handle: CommandHandle, loss: SupervisorLoss) -> None:
        self._log.write("supervisor_lost", attempt=handle.attempt_id, reason=loss.message)
        self._ended(handle)

    def _ended(self, handle: CommandHandle) -> None:
        if self._attempts is None:
            return
        result = reports.result_of(handle)
        if result is not None:
            reports.report_gaps(self._link, handle)
            self._finish(handle.attempt_id, result)
            asyncio.get_running_loop().call_soon(self._log_end, handle.attempt_id, result)
        self._running.discard(handle.attempt_id)
        self._changed.set()
        self._start_queued()

    def _orphan_ended(self) -> None:
        self._changed.set()
        self._start_queued()

    def _log_end(self, attempt_id: str, result: CommandResult) -> None:
        """Write it after the result has been sent: somebody waits for that."""
        self._log.write("ended", attempt=attempt_id, reason=result.reason.value)

    # What the stream needs

    def read(self, attempt_id: str, stream: Stream, offset: int, max_bytes: int) -> bytes:
        """Return output for the next frame; b"" when these bytes are gone."""
        handle = self._store.live.get(attempt_id)
        if handle is None:
            return b""
        return reports.read_output(self._link, handle, stream, offset, max_bytes)

    def stream_is_over(self) -> None:
        """Drop what waits here: the server authorises it again before it offers it once more."""
        while self._queue:
            self._link.forget(self._queue.pop().offer.attempt_id)

    def link_is(self, up: bool) -> None:
        """Note that the link came or went: it decides whether a full spool blocks the command."""
        self._store.link_state(up=up)

    def hello(self) -> Hello:
        """Return the Hello of a new stream, having told the link what was dropped meanwhile."""
        for handle in self._store.live.values():
            reports.report_gaps(self._link, handle)
        return self._greeting.hello(
            JournalMark(journal_id=self._store.journal_id, counter=self._store.counter)
        )

    def hello_is_stale(self) -> bool:
        """Tell whether another Hello is due: at once for the machine file, which may narrow what
        may run; for a new survey not before nothing runs, so that it cuts nobody's stream."""
        idle = not self._running and not self._queue
        return self._greeting.is_stale() or (idle and self._greeting.has_news())

    # The end of the daemon

    def stop(self, reason: StopReason | None) -> None:
        """Start nothing more; with a reason also end what runs (TERM, grace, KILL)."""
        self._stopping = True
        if reason is not None:
            for attempt_id in [*self._running, *self._store.orphans]:
                self._store.cancel(attempt_id, reason)

    async def ended(self) -> None:
        """Return when no command runs any more, nor what is being ended of one that was lost."""
        while self._running or self._store.ending_orphans:
            self._changed.clear()
            await self._changed.wait()

    async def delivered(self) -> None:
        """Return when the server has acknowledged every result there is."""
        while self._unsent():
            self._changed.clear()
            await self._changed.wait()

    def _unsent(self) -> bool:
        return any(attempt.state is LiveState.FINISHED for attempt in self._link.live())


# An attempt whose receipt is all that is left, asked for again by a server that forgot.
_RECEIPTED: Final = results.already_receipted()
