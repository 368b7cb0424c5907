"""The daemon's end of the link, without I/O: what to send next and what each event asks for.

One ``DaemonLink`` lives as long as the daemon process and survives reconnects. It never awaits and
never reads a clock: ``now`` is the caller's monotonic time.

Story of an attempt, always in this order on the wire: decision, started, output, result. The
result follows the last byte of both streams. After a reconnect whatever has no acknowledgement is
sent again, once per connection.
"""

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum, auto

from farhand_shared.command import ExitReason
from farhand_shared.errors import ProtocolError
from farhand_shared.limits import FLUSH_S, FRAME_BYTES
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
from farhand_shared.link_attempt import DaemonAttempt, ReadSpool
from farhand_shared.link_events import (
    Approval,
    Bye,
    Cancel,
    Decision,
    DownEvent,
    Drain,
    Gone,
    Hello,
    Input,
    LiveAttempt,
    LiveState,
    Offer,
    Omitted,
    Output,
    OutputAck,
    Ping,
    Pong,
    Quiet,
    Resize,
    Result,
    ResultAck,
    Started,
    Stream,
    UpEvent,
    Verdict,
    Welcome,
    size_hint,
)

__all__ = ["DaemonLink", "ReadSpool"]

# With several attempts writing at once each gets a fair part of a frame, but no crumbs.
_SLICE_MIN_BYTES = 16 * 1024


class _Phase(Enum):
    DOWN = auto()
    GREETING = auto()  # Hello is to be sent
    WAITING = auto()  # for Welcome
    OPEN = auto()
    CLOSED = auto()  # Bye came; nothing more goes out


class DaemonLink:
    """Everything the daemon still owes the server, and in which order it goes out."""

    def __init__(self) -> None:
        self._phase = _Phase.DOWN
        self._hello: Hello | None = None  # of the current stream; None while down
        self._welcome: Welcome | None = None  # of the current stream; None before it came
        self._stored: dict[tuple[str, Stream], int] = {}  # what the Welcome said
        self._attempts: dict[str, DaemonAttempt] = {}
        # Those that may have something to send, in the order of their turns.
        self._due: dict[str, None] = {}
        self._answers: list[UpEvent] = []  # pongs and refusals of this stream, sent first
        self._facts_since: float | None = None  # since when allow and started wait for company
        self._output_sent_at: float | None = None

    @property
    def may_start(self) -> bool:
        """Tell whether a Welcome arrived on the current stream; before it nothing may start."""
        return self._phase is _Phase.OPEN

    @property
    def connected(self) -> bool:
        """Tell whether a stream is open, welcomed or not."""
        return self._phase not in (_Phase.DOWN, _Phase.CLOSED)

    def restore(
        self,
        attempt_id: str,
        *,
        input_digest: bytes,
        state: LiveState,
        decision: Decision | None = None,
        started: Started | None = None,
        stdout_produced: int = 0,
        stderr_produced: int = 0,
        stdout_acked: int = 0,
        stderr_acked: int = 0,
        input_received: int | None = 0,
        input_taken: int = 0,
        input_closed: bool = False,
        result: Result | None = None,
    ) -> None:
        """Take over an attempt from the journal and spool, after a start or for a repeated offer.

        ``result`` goes with ``LiveState.FINISHED``; ``input_received``: how much of the input the
        supervisor has, None while that is not known. Omitted ranges follow through ``omitted``.
        """
        attempt = DaemonAttempt(attempt_id, input_digest)
        attempt.state = state
        attempt.decision = decision
        attempt.started = started
        attempt.result = result
        attempt.stdout.produced = max(stdout_produced, stdout_acked)
        attempt.stderr.produced = max(stderr_produced, stderr_acked)
        attempt.stdout.acked = stdout_acked
        attempt.stderr.acked = stderr_acked
        attempt.input.received = input_received
        attempt.input.take(input_taken, closed=input_closed)
        self._take(attempt)

    def live(self) -> tuple[LiveAttempt, ...]:
        """Return every journalled attempt without receipt, as Hello lists them."""
        return tuple(
            LiveAttempt(
                attempt_id=attempt.attempt_id,
                input_digest=attempt.input_digest,
                state=attempt.state,
                stdout_produced=attempt.stdout.produced,
                stderr_produced=attempt.stderr.produced,
                input_received=attempt.input.received or 0,
                input_taken=attempt.input.taken,
                input_closed=attempt.input.closed,
            )
            for attempt in self._attempts.values()
            if attempt.state is not None
        )

    def on_connected(self, hello: Hello) -> None:
        """Begin a stream: ``hello`` (its ``live`` is filled in here) is the first frame.

        A stream that was open before is over: hand in no more of its events.
        """
        self.on_disconnected()
        self._phase = _Phase.GREETING
        self._hello = hello

    def on_disconnected(self) -> None:
        """End the stream; idempotent."""
        self._phase = _Phase.DOWN
        self._hello = None
        self._welcome = None
        self._stored.clear()
        self._answers.clear()
        self._due.clear()
        self._facts_since = None
        self._output_sent_at = None

    # What arrives

    def receive(self, events: Sequence[DownEvent], now: float) -> list[DaemonAction]:
        """Return what one received frame asks for.

        Raises ProtocolError: close the stream and dial again.
        """
        actions: list[DaemonAction] = []
        held_back: Welcomed | None = None
        for event in events:
            # The queue moves at Welcomed, so the cancels that come with it go first.
            if held_back is not None and not isinstance(event, Cancel | Gone):
                actions.append(held_back)
                held_back = None
            for action in self._receive_one(event, now):
                if isinstance(action, Welcomed):
                    held_back = action
                else:
                    actions.append(action)
        if held_back is not None:
            actions.append(held_back)
        return actions

    def _receive_one(self, event: DownEvent, now: float) -> Sequence[DaemonAction]:
        match event:
            case Ping(nonce=nonce):
                self._answers.append(Pong(nonce=nonce))
                return ()
            case Bye():
                self._phase = _Phase.CLOSED
                return (Closed(bye=event),)
            case Drain(within_ms=within_ms):
                return (DrainRequested(within_s=within_ms / 1000),)
            case Welcome():
                return self._on_welcome(event)
        if self._phase is not _Phase.OPEN:
            raise ProtocolError(
                f"cannot accept {type(event).__name__.lower()}: it came before the welcome"
            )
        match event:
            case Offer():
                return self._on_offer(event, now)
            case OutputAck():
                return self._on_output_ack(event)
            case ResultAck():
                return self._on_result_ack(event)
            case Cancel():
                return self._on_cancel(event)
            case Input():
                return self._on_input(event)
            case Resize():
                known = event.attempt_id in self._attempts
                return (ResizeTerminal(resize=event),) if known else ()
            case Approval():
                return (ApprovePlan(attempt_id=event.attempt_id, plan_hash=event.plan_hash),)
            case Gone():
                self.forget(event.attempt_id)
                return (ForgetAttempt(attempt_id=event.attempt_id),)

    def _on_welcome(self, welcome: Welcome) -> Sequence[DaemonAction]:
        if self._welcome is not None:
            if welcome.stream_epoch == self._welcome.stream_epoch:
                return ()  # the same one again
            raise ProtocolError("cannot accept a second welcome: open a new stream for it")
        if self._phase is not _Phase.WAITING:
            raise ProtocolError("cannot accept a welcome: no hello was sent")
        self._phase = _Phase.OPEN
        self._welcome = welcome
        self._stored = {(at.attempt_id, at.stream): at.offset for at in welcome.stored}
        actions: list[DaemonAction] = []
        for attempt in self._attempts.values():
            for stream, position in attempt.positions():
                if position.resume_at(self._stored.get((attempt.attempt_id, stream), 0)):
                    actions.append(
                        Acknowledged(
                            attempt_id=attempt.attempt_id, stream=stream, offset=position.acked
                        )
                    )
            attempt.send_again()
            self._due[attempt.attempt_id] = None
        actions.append(Welcomed(welcome=welcome))
        return actions

    def _on_offer(self, offer: Offer, now: float) -> Sequence[DaemonAction]:
        attempt = self._attempts.get(offer.attempt_id)
        if attempt is None:
            self._take(DaemonAttempt(offer.attempt_id, offer.input_digest))
            return (StartOffered(offer=offer, start_by=now + offer.start_within_ms / 1000),)
        if attempt.input_digest and attempt.input_digest != offer.input_digest:
            self._answers.append(
                Decision(
                    attempt_id=offer.attempt_id,
                    verdict=Verdict.DENY,
                    plan_hash=b"",
                    tier=offer.tier,
                    reason_code="digest_conflict",
                    message="this machine holds the attempt with another input",
                )
            )
            return (DigestConflict(attempt_id=offer.attempt_id),)
        attempt.repeat_facts()
        self._due[attempt.attempt_id] = None
        return ()

    def _on_output_ack(self, ack: OutputAck) -> Sequence[DaemonAction]:
        attempt = self._attempts.get(ack.attempt_id)
        if attempt is None:
            return ()
        position = attempt.position(ack.stream)
        if ack.offset > position.sent:
            raise ProtocolError(
                f"cannot accept an acknowledgement of {ack.offset:,} bytes of"
                f" {ack.stream.value}: only {position.sent:,} were sent"
            )
        if not position.acknowledge(ack.offset):
            return ()
        self._due[attempt.attempt_id] = None
        return (Acknowledged(attempt_id=ack.attempt_id, stream=ack.stream, offset=ack.offset),)

    def _on_input(self, event: Input) -> Sequence[DaemonAction]:
        attempt = self._attempts.get(event.attempt_id)
        if attempt is None or attempt.result is not None:
            return ()  # it crossed the end of the command
        news = attempt.input.accept(event)
        return () if news is None else (TakeInput(input=news),)

    def _on_result_ack(self, ack: ResultAck) -> Sequence[DaemonAction]:
        attempt = self._attempts.get(ack.attempt_id)
        if attempt is None or attempt.result is None:
            return ()
        self.forget(ack.attempt_id)
        return (
            ResultAcknowledged(
                attempt_id=ack.attempt_id,
                result_hash=ack.result_hash,
                same=ack.result_hash == attempt.result.result_hash,
            ),
        )

    def _on_cancel(self, cancel: Cancel) -> Sequence[DaemonAction]:
        attempt = self._attempts.get(cancel.attempt_id)
        result = None if attempt is None else attempt.result
        if result is not None and result.result.reason is not ExitReason.INDETERMINATE:
            return ()  # its result is the answer and is on its way
        return (
            CancelAttempt(
                attempt_id=cancel.attempt_id, reason=cancel.reason, known=attempt is not None
            ),
        )

    # What the warden and the supervisors report. An unknown attempt was forgotten: no matter.

    def decision(self, decision: Decision) -> None:
        """Report the machine's verdict; for allow: after the journal entry is on disk."""
        attempt = self._attempts.get(decision.attempt_id)
        if attempt is None:
            return
        attempt.decide(decision)
        self._due[attempt.attempt_id] = None

    def started(self, started: Started) -> None:
        """Report that the process runs."""
        attempt = self._attempts.get(started.attempt_id)
        if attempt is None:
            return
        attempt.start(started)
        self._due[attempt.attempt_id] = None

    def produced(self, attempt_id: str, stream: Stream, offset: int) -> None:
        """Report that the spool holds the stream up to ``offset``; a lower one is ignored."""
        attempt = self._attempts.get(attempt_id)
        if attempt is None:
            return
        position = attempt.position(stream)
        position.produced = max(position.produced, offset)
        attempt.hint = None
        self._due[attempt_id] = None

    def omitted(self, attempt_id: str, stream: Stream, offset: int, length: int) -> None:
        """Report that the spool dropped this range (link down, spool full); ranges may grow."""
        attempt = self._attempts.get(attempt_id)
        if attempt is None:
            return
        attempt.position(stream).omit(offset, length)
        self._due[attempt_id] = None

    def input_received(self, attempt_id: str, offset: int) -> None:
        """Report what a supervisor has of the input, once it was found again after a restart."""
        attempt = self._attempts.get(attempt_id)
        if attempt is not None:
            attempt.input.received = max(offset, attempt.input.received or 0)

    def input_taken(self, attempt_id: str, offset: int, *, closed: bool = False) -> None:
        """Report that the command's pipe took its input up to ``offset``; a lower one is ignored.

        ``closed``: it takes no more, because its end was delivered or nobody reads it any more.
        """
        attempt = self._attempts.get(attempt_id)
        if attempt is None:
            return
        attempt.input.take(offset, closed=closed)
        self._due[attempt_id] = None

    def quiet(self, quiet: Quiet) -> None:
        """Hint that a command waits for somebody to type; lost when no stream is open."""
        attempt = self._attempts.get(quiet.attempt_id)
        if self._phase is _Phase.OPEN and attempt is not None and attempt.result is None:
            attempt.hint = quiet
            self._due[attempt.attempt_id] = None

    def finished(self, result: Result) -> None:
        """Report the end; the result goes out after ``result.result.std*.produced`` bytes.

        The first result of an attempt stands. An attempt the link does not know becomes a
        tombstone: the answer to a cancel that came before the offer.
        """
        attempt = self._attempts.get(result.attempt_id)
        if attempt is None:
            attempt = DaemonAttempt(result.attempt_id, b"")
            self._take(attempt)
        attempt.finish(result)
        self._due[attempt.attempt_id] = None

    def forget(self, attempt_id: str) -> None:
        """Drop an attempt without a word to the server."""
        self._attempts.pop(attempt_id, None)
        self._due.pop(attempt_id, None)

    def _take(self, attempt: DaemonAttempt) -> None:
        for stream, position in attempt.positions():
            position.resume_at(self._stored.get((attempt.attempt_id, stream), 0))
        attempt.send_again()
        self._attempts[attempt.attempt_id] = attempt
        self._due[attempt.attempt_id] = None

    # Sending

    def next_due(self, now: float) -> float | None:
        """Return when to call ``next_frame``: ``<= now`` at once, None when nothing is to be sent.

        Answers, results and the first bytes after quiet are due at once; allow and started wait
        up to FLUSH_S for company, so that a short command is one message. Ask again after every
        report and every received frame.
        """
        if not self.connected:
            return None
        if self._phase is _Phase.GREETING or self._answers:
            return now
        if self._phase is not _Phase.OPEN:
            return None
        waiting_bytes = 0
        facts = False
        for attempt_id in list(self._due):
            attempt = self._attempts[attempt_id]
            if attempt.is_urgent():
                return now
            sendable = attempt.sendable_bytes()
            waiting_bytes += sendable
            facts = facts or attempt.has_facts()
            if not sendable and not attempt.has_facts():
                del self._due[attempt_id]
        if waiting_bytes >= FRAME_BYTES:
            return now
        if waiting_bytes:
            sent_at = self._output_sent_at
            return now if sent_at is None else max(now, sent_at + FLUSH_S)
        if facts:
            if self._facts_since is None:
                self._facts_since = now
            return max(now, self._facts_since + FLUSH_S)
        return None

    def next_frame(self, now: float, room_bytes: int, read: ReadSpool) -> list[UpEvent]:
        """Return the events of the next message, about ``room_bytes`` at most; [] when none."""
        if self._phase is _Phase.GREETING and self._hello is not None:
            self._phase = _Phase.WAITING
            return [replace(self._hello, live=self.live())]
        events: list[UpEvent] = []
        if self._phase in (_Phase.DOWN, _Phase.CLOSED):
            return events
        events += self._answers
        self._answers = []
        if self._phase is not _Phase.OPEN:
            return events
        room = room_bytes - sum(map(size_hint, events))
        share = max(_SLICE_MIN_BYTES, room // max(1, len(self._due)))
        # One fair turn each, then whoever has more takes what room is left.
        for part in (share, room_bytes):
            for attempt_id in list(self._due):
                if room <= 0:
                    return events
                attempt = self._attempts[attempt_id]
                before = len(events)
                room -= attempt.take_events(events, min(room, part), read)
                if any(isinstance(event, Output | Omitted) for event in events[before:]):
                    self._output_sent_at = now
                del self._due[attempt_id]
                if attempt.has_anything():
                    self._due[attempt_id] = None
        self._facts_since = None
        return events
