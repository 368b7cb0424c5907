"""The replica's end of the link, without I/O: one object per stream.

It never awaits and never reads a clock: ``now`` is the caller's monotonic time, ``wall_ms`` Unix
time in milliseconds. The shell writes ``next_frame`` whenever it is not empty.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence

from farhand_shared.command import RECEIPTED
from farhand_shared.errors import ProtocolError
from farhand_shared.limits import (
    CLOCK_SKEW_S,
    FRAME_BYTES,
    PING_INTERVAL_S,
    PONG_DUE_S,
)
from farhand_shared.link_actions import (
    HelloAccepted,
    PeerSilent,
    Rejected,
    ReplicaAction,
    ResultConflict,
)
from farhand_shared.link_events import (
    Approval,
    Bye,
    Cancel,
    DownEvent,
    Drain,
    Gone,
    Hello,
    Offer,
    OutputAck,
    Ping,
    Pong,
    Result,
    ResultAck,
    StoredOutput,
    Stream,
    UpEvent,
    Welcome,
    size_hint,
)
from farhand_shared.link_intake import ReadInput, ReplicaAttempt, SentInput, WorkEvent
from farhand_shared.reconcile import AttemptView, Outcome, Resume, SendCancel, SendGone
from farhand_shared.version import CAPABILITY, MIN_CAPABILITY

# Results recorded on this stream that are still recognised when they come again.
_RECORDED_KEPT = 1024
# Input is not cut into crumbs to fill a frame.
_INPUT_MIN_BYTES = 16 * 1024


class ReplicaLink:
    """What one stream has received, owes and waits for."""

    def __init__(self, *, now: float) -> None:
        self._hello: Hello | None = None
        self._welcomed = False
        self._closing = False  # Bye is queued: nothing comes in or goes out after it
        self._attempts: dict[str, ReplicaAttempt] = {}
        self._recorded: OrderedDict[str, bytes] = OrderedDict()
        self._queue: deque[DownEvent] = deque()
        self._acks: dict[tuple[str, Stream], int] = {}  # the newest per stream, not yet sent
        self._input_due: dict[str, None] = {}  # attempts in the order of their turns
        self._told_gone: set[str] = set()
        self._last_heard_at = now
        self._ping_at = now + PING_INTERVAL_S
        self._pinged_at: float | None = None  # when the unanswered ping went out
        self._ping_nonce = 0
        self._pong_nonce = 0
        self._opened_at = now

    @property
    def hello(self) -> Hello | None:
        """The accepted Hello; None before."""
        return self._hello

    @property
    def welcomed(self) -> bool:
        """Tell whether ``welcome`` was called."""
        return self._welcomed

    @property
    def last_heard_at(self) -> float:
        """The ``now`` of the last frame."""
        return self._last_heard_at

    @property
    def pong_nonce(self) -> int:
        """The newest ping that was answered; compare with what ``probe`` returned."""
        return self._pong_nonce

    # What arrives

    def receive(
        self, events: Sequence[UpEvent], *, now: float, wall_ms: int
    ) -> list[ReplicaAction]:
        """Return what one received frame asks for, in order.

        Raises ProtocolError: call ``bye`` with code ``protocol`` and close.
        """
        actions: list[ReplicaAction] = []
        self._last_heard_at = now
        for event in events:
            if self._closing:
                break
            if isinstance(event, Hello):
                actions += self._on_hello(event, wall_ms)
            elif isinstance(event, Pong):
                self._on_pong(event)
            elif not self._welcomed:
                name = type(event).__name__.lower()
                raise ProtocolError(f"cannot accept {name}: it came before the welcome")
            else:
                actions += self._on_work(event)
        return actions

    def _on_hello(self, hello: Hello, wall_ms: int) -> Sequence[ReplicaAction]:
        if self._hello is not None:
            if hello == self._hello:
                return ()
            raise ProtocolError("cannot accept a second hello: open a new stream for it")
        refusal = _why_not(hello, wall_ms)
        if refusal is not None:
            self.bye(refusal)
            return (Rejected(bye=refusal),)
        self._hello = hello
        return (HelloAccepted(hello=hello),)

    def _on_pong(self, pong: Pong) -> None:
        if pong.nonce > self._ping_nonce:
            raise ProtocolError("cannot accept a pong: it answers no ping")
        self._pong_nonce = max(self._pong_nonce, pong.nonce)
        if pong.nonce == self._ping_nonce:
            self._pinged_at = None

    def _on_work(self, event: WorkEvent) -> Sequence[ReplicaAction]:
        attempt = self._attempts.get(event.attempt_id)
        if attempt is None:
            return self._on_unknown(event)
        actions = attempt.receive(event)
        self._note_input(event.attempt_id, attempt)
        return actions

    def _on_unknown(self, event: WorkEvent) -> Sequence[ReplicaAction]:
        """Answer for an attempt this stream does not hold: it ended here, or was never ours."""
        attempt_id = event.attempt_id
        recorded = self._recorded.get(attempt_id)
        if recorded is None:
            if attempt_id not in self._told_gone:
                self._told_gone.add(attempt_id)
                self._push(Gone(attempt_id=attempt_id))
        elif isinstance(event, Result):
            self._push(ResultAck(attempt_id=attempt_id, result_hash=recorded))
            # A machine that keeps only the receipt says nothing new about how it ended.
            if event.result_hash != recorded and event.result.error_code != RECEIPTED:
                return (
                    ResultConflict(
                        attempt_id=attempt_id,
                        recorded_hash=recorded,
                        refused_hash=event.result_hash,
                    ),
                )
        return ()

    # What the service decides

    def welcome(
        self,
        *,
        server_time_ms: int,
        stream_epoch: int,
        machine_name: str,
        views: Iterable[AttemptView],
        outcomes: Iterable[Outcome],
    ) -> None:
        """Answer the Hello: queue Welcome, cancels and gones; reoffers are the caller's to make.

        ``views`` and ``outcomes`` are what went into and came out of ``reconcile``.
        """
        if self._hello is None or self._welcomed:
            raise ProtocolError("cannot welcome: there is no unanswered hello")
        by_id = {view.attempt_id: view for view in views}
        stored: list[StoredOutput] = []
        follow_ups: list[DownEvent] = []
        for outcome in outcomes:
            match outcome:
                case Resume():
                    self._resume(by_id[outcome.attempt_id], outcome)
                    stored += _stored(outcome)
                case SendCancel():
                    self._attempts.setdefault(outcome.attempt_id, ReplicaAttempt())
                    follow_ups.append(Cancel(attempt_id=outcome.attempt_id, reason=outcome.reason))
                case SendGone():
                    self._told_gone.add(outcome.attempt_id)
                    follow_ups.append(Gone(attempt_id=outcome.attempt_id))
        self._welcomed = True
        self._queue.append(
            Welcome(
                server_time_ms=server_time_ms,
                stream_epoch=stream_epoch,
                capability=CAPABILITY,
                min_capability=MIN_CAPABILITY,
                machine_name=machine_name,
                stored=tuple(stored),
            )
        )
        # Directly behind the Welcome: the daemon starts nothing before it has read these.
        self._queue.extend(follow_ups)

    def _resume(self, view: AttemptView, outcome: Resume) -> None:
        if view.result_hash is not None:
            # Only the acknowledgement was lost.
            self._remember(view.attempt_id, view.result_hash)
            return
        attempt = ReplicaAttempt(outcome.stdout_offset, outcome.stderr_offset)
        attempt.acknowledged = view.acknowledged
        attempt.started = view.started
        for live in self._hello.live if self._hello is not None else ():
            if live.attempt_id == view.attempt_id:
                attempt.input.resume(live)
        self._attempts[view.attempt_id] = attempt

    def offer(self, offer: Offer) -> None:
        """Queue an offer (first or repeated) whose row is committed."""
        self._attempts.setdefault(offer.attempt_id, ReplicaAttempt())
        self._push(offer)

    def cancel(self, attempt_id: str, reason: str) -> None:
        """Queue a cancel; its answer is a result, of an attempt never offered here as well."""
        if attempt_id in self._recorded:
            return
        self._attempts.setdefault(attempt_id, ReplicaAttempt())
        self._push(Cancel(attempt_id=attempt_id, reason=reason))

    def cancel_recorded(self, attempt_id: str, result_hash: bytes, reason: str) -> None:
        """Queue a cancel of an attempt whose recorded result leaves its end open.

        Its process may live on. Nothing has to answer; what does is acknowledged as recorded.
        """
        self._remember(attempt_id, result_hash)
        self._push(Cancel(attempt_id=attempt_id, reason=reason))

    def approve(self, attempt_id: str, plan_hash: bytes) -> None:
        """Queue an owner's approval."""
        self._push(Approval(attempt_id=attempt_id, plan_hash=plan_hash))

    def input_of(self, attempt_id: str) -> SentInput | None:
        """Return how far a command's input has gone; None when the attempt is not held here."""
        attempt = self._attempts.get(attempt_id)
        return None if attempt is None else attempt.input

    def input(self, attempt_id: str, available: int, *, ended: bool = False) -> None:
        """Report that the caller holds a command's input up to ``available``, in all if ``ended``.

        It goes out once the command runs, as far as its window reaches; ``next_frame`` reads it.
        """
        attempt = self._attempts.get(attempt_id)
        if attempt is None:
            return
        attempt.input.available = max(available, attempt.input.available)
        attempt.input.ended = attempt.input.ended or ended
        self._note_input(attempt_id, attempt)

    def resize(self, attempt_id: str, rows: int, columns: int) -> None:
        """Report the size of the window that shows a command's terminal."""
        attempt = self._attempts.get(attempt_id)
        if attempt is not None:
            attempt.input.size = (rows, columns)
            self._note_input(attempt_id, attempt)

    def _note_input(self, attempt_id: str, attempt: ReplicaAttempt) -> None:
        if attempt.may_send_input():
            self._input_due[attempt_id] = None
        else:
            self._input_due.pop(attempt_id, None)

    def stored(self, attempt_id: str, stream: Stream, offset: int) -> None:
        """Report that everything below ``offset`` may be acknowledged (stored, or read)."""
        attempt = self._attempts.get(attempt_id)
        if attempt is None or self._closing:
            return
        position = attempt.stream(stream)
        if offset > position.acked:
            position.acked = min(offset, position.received)
            self._acks[attempt_id, stream] = position.acked

    def recorded(self, attempt_id: str, result_hash: bytes) -> None:
        """Report the hash of the committed result: it is acknowledged and the attempt is over."""
        self._attempts.pop(attempt_id, None)
        self._input_due.pop(attempt_id, None)
        for stream in Stream:
            self._acks.pop((attempt_id, stream), None)  # the result's acknowledgement says it all
        self._remember(attempt_id, result_hash)
        self._push(ResultAck(attempt_id=attempt_id, result_hash=result_hash))

    def drain(self, within_ms: int) -> None:
        """Ask the daemon to open a new stream within the time."""
        self._push(Drain(within_ms=within_ms))

    def bye(self, bye: Bye) -> None:
        """Queue the last event of the stream; whatever comes later is dropped."""
        self._push(bye)
        self._closing = True

    def _remember(self, attempt_id: str, result_hash: bytes) -> None:
        self._recorded[attempt_id] = result_hash
        if len(self._recorded) > _RECORDED_KEPT:
            self._recorded.popitem(last=False)

    def _push(self, event: DownEvent) -> None:
        if not self._closing:
            self._queue.append(event)

    # Liveness

    def probe(self, now: float) -> int:
        """Queue a ping at once; once answered, ``pong_nonce`` reaches the returned nonce."""
        self._ping_nonce += 1
        self._ping_at = now + PING_INTERVAL_S
        if self._pinged_at is None:
            self._pinged_at = now
        self._push(Ping(nonce=self._ping_nonce))
        return self._ping_nonce

    def tick(self, now: float) -> list[ReplicaAction]:
        """Queue the ping that is due; return [PeerSilent] when an answer is overdue."""
        overdue_at = self._overdue_at()
        if overdue_at is not None and now >= overdue_at:
            return [PeerSilent()]
        if now >= self._ping_at:
            self.probe(now)
        return []

    def next_tick(self) -> float:
        """Return the ``now`` at which ``tick`` has something to do."""
        overdue_at = self._overdue_at()
        return self._ping_at if overdue_at is None else min(self._ping_at, overdue_at)

    def _overdue_at(self) -> float | None:
        if self._hello is None:
            return self._opened_at + PONG_DUE_S
        if self._pinged_at is None:
            return None
        # Any frame is a sign of life: on a slow uplink the pong queues behind 4 MiB of output.
        return max(self._pinged_at, self._last_heard_at) + PONG_DUE_S

    # Sending

    @property
    def has_frame(self) -> bool:
        """Tell whether ``next_frame`` has something to send."""
        return bool(self._queue or self._acks or self._input_due)

    def next_frame(
        self, read_input: ReadInput = lambda attempt_id, offset, n: b""
    ) -> list[DownEvent]:
        """Return the events of the next message, FRAME_BYTES or one larger event; [] when none.

        ``read_input`` gives what ``input`` reported.
        """
        events: list[DownEvent] = []
        room = FRAME_BYTES
        while self._queue and not isinstance(self._queue[0], Bye):
            size = size_hint(self._queue[0])
            if events and size > room:
                break
            room -= size
            events.append(self._queue.popleft())
        events += (
            OutputAck(attempt_id=attempt_id, stream=stream, offset=offset)
            for (attempt_id, stream), offset in self._acks.items()
        )
        self._acks.clear()
        for attempt_id in list(self._input_due):
            if room < _INPUT_MIN_BYTES:
                break
            attempt = self._attempts[attempt_id]
            event = attempt.input.next_event(attempt_id, room, read_input)
            if event is not None:
                room -= size_hint(event)
                events.append(event)
            del self._input_due[attempt_id]
            self._note_input(attempt_id, attempt)  # the others have their turn first
        if self._queue and isinstance(self._queue[0], Bye):
            events.append(self._queue.popleft())
        return events


def _why_not(hello: Hello, wall_ms: int) -> Bye | None:
    skew_s = (hello.local_time_ms - wall_ms) / 1000
    if abs(skew_s) > CLOCK_SKEW_S:
        side = "ahead of" if skew_s > 0 else "behind"
        return Bye(
            code="clock_skew",
            message=(
                f"this machine's clock is {abs(skew_s):,.0f} s {side} the control plane's,"
                f" the limit is {CLOCK_SKEW_S:,.0f} s; set the clock"
            ),
            retry=True,
        )
    if hello.capability < MIN_CAPABILITY:
        return Bye(
            code="too_old",
            message=(
                f"this daemon speaks capability {hello.capability}, the control plane needs"
                f" {MIN_CAPABILITY}; update the daemon"
            ),
            retry=False,
        )
    return None


def _stored(outcome: Resume) -> list[StoredOutput]:
    return [
        StoredOutput(attempt_id=outcome.attempt_id, stream=stream, offset=offset)
        for stream, offset in (
            (Stream.STDOUT, outcome.stdout_offset),
            (Stream.STDERR, outcome.stderr_offset),
        )
        if offset
    ]
