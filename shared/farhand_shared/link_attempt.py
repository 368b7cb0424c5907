"""One attempt as the daemon's end of the link sees it: what is told, what is owed."""

from collections.abc import Callable, Iterator

from farhand_shared.errors import ProtocolError
from farhand_shared.limits import INPUT_WINDOW_BYTES, WINDOW_BYTES
from farhand_shared.link_events import (
    Decision,
    Input,
    InputAck,
    LiveState,
    Omitted,
    Output,
    Quiet,
    Result,
    Started,
    Stream,
    UpEvent,
    Verdict,
    size_hint,
)

# read(attempt_id, stream, offset, n): 1 to n bytes of the spool; b"" when these bytes are gone.
ReadSpool = Callable[[str, Stream, int, int], bytes]


class StreamPosition:
    """How far one output stream is: ``acked <= sent <= produced`` in ordinary times.

    ``sent < acked`` after a server came back knowing less than it once acknowledged: those bytes
    are freed here, so they go out as omitted. ``sent > produced`` after a power cut took unsynced
    bytes of the spool that the server already has: nothing is to be sent then.
    """

    __slots__ = ("acked", "gaps", "produced", "sent")

    def __init__(self) -> None:
        self.produced = 0
        self.sent = 0
        self.acked = 0
        self.gaps: list[tuple[int, int]] = []  # dropped ranges (start, end), ascending, apart

    def resume_at(self, offset: int) -> bool:
        """Go on where the server says; tell whether that acknowledges something new."""
        self.sent = offset
        return self.acknowledge(offset)

    def acknowledge(self, offset: int) -> bool:
        """Note that the server holds everything below; False when that is no news."""
        if offset <= self.acked:
            return False
        self.acked = offset
        self.gaps = [gap for gap in self.gaps if gap[1] > offset]
        return True

    def omit(self, offset: int, length: int) -> None:
        """Add a dropped range, joined with those it touches."""
        start, end = offset, offset + length
        apart = []
        for gap in self.gaps:
            if gap[1] < start or gap[0] > end:
                apart.append(gap)
            else:
                start, end = min(start, gap[0]), max(end, gap[1])
        self.gaps = sorted([*apart, (start, end)])
        self.produced = max(self.produced, end)

    def missing_until(self) -> int:
        """Return where the dropped range at ``sent`` ends, or ``sent`` when there is none."""
        end = max(self.sent, self.acked)
        for gap_start, gap_end in self.gaps:
            if gap_start <= end < gap_end:
                end = gap_end
        return end

    def readable(self) -> int:
        """Return how many bytes from ``sent`` may go out now, up to the next gap."""
        end = min(self.produced, self.acked + WINDOW_BYTES)
        for gap_start, _ in self.gaps:
            if gap_start > self.sent:
                end = min(end, gap_start)
                break
        return max(0, end - self.sent)


class InputPosition:
    """How far a command's input has come in: ``taken <= received``.

    ``received`` is None after a restart as long as the supervisor has not said how much it has:
    then the replica knows better, and its first offset counts.
    """

    __slots__ = ("_told", "closed", "ended", "received", "taken")

    def __init__(self) -> None:
        self.received: int | None = 0
        self.taken = 0
        self.ended = False
        self.closed = False  # nothing more is taken
        self._told = (0, False)

    def accept(self, event: Input) -> Input | None:
        """Return what is new in the event; None when nothing is, or nothing is taken any more."""
        if self.received is None:
            self.received = event.offset
            self.take(event.offset, closed=False)
        start = self.received
        if self.closed:
            return None
        if event.offset > start:
            raise ProtocolError(
                f"cannot accept input from byte {event.offset:,}: bytes from {start:,} are missing"
            )
        end = event.offset + len(event.data)
        if end > self.taken + INPUT_WINDOW_BYTES:
            raise ProtocolError(
                f"cannot accept input up to byte {end:,}: more than {INPUT_WINDOW_BYTES:,} bytes"
                " are not taken"
            )
        if end < start or (end == start and (self.ended or not event.end)):
            return None  # all of it came before
        if self.ended:
            raise ProtocolError("cannot accept input: it goes on after its end")
        self.received, self.ended = end, event.end
        return Input(
            attempt_id=event.attempt_id,
            offset=start,
            data=event.data[start - event.offset :],
            end=event.end,
        )

    def take(self, offset: int, *, closed: bool) -> None:
        """Note how far the command's pipe has come."""
        self.taken = max(self.taken, offset)
        self.closed = self.closed or closed
        if self.received is not None:
            self.received = max(self.received, offset)

    def send_again(self) -> None:
        self._told = (0, False)

    def is_due(self) -> bool:
        return self._told != (self.taken, self.closed)

    def is_urgent(self) -> bool:
        """Tell whether the replica may soon have to wait for room."""
        return self.taken - self._told[0] >= INPUT_WINDOW_BYTES // 4

    def tell(self, attempt_id: str) -> InputAck:
        self._told = (self.taken, self.closed)
        return InputAck(attempt_id=attempt_id, offset=self.taken, closed=self.closed)


class DaemonAttempt:
    """One attempt's facts, and which of them the current stream has not carried yet."""

    __slots__ = (
        "_decision_due",
        "_result_due",
        "_started_due",
        "attempt_id",
        "decision",
        "hint",
        "input",
        "input_digest",
        "result",
        "started",
        "state",
        "stderr",
        "stdout",
    )

    def __init__(self, attempt_id: str, input_digest: bytes) -> None:
        self.attempt_id = attempt_id
        self.input_digest = input_digest  # empty for a tombstone
        self.state: LiveState | None = None  # None: offered, the journal has not answered
        self.decision: Decision | None = None
        self.started: Started | None = None
        self.result: Result | None = None
        self.stdout = StreamPosition()
        self.stderr = StreamPosition()
        self.input = InputPosition()
        self.hint: Quiet | None = None  # sent after all it wrote; gone when it writes again
        self._decision_due = False
        self._started_due = False
        self._result_due = False

    def positions(self) -> tuple[tuple[Stream, StreamPosition], ...]:
        return (Stream.STDOUT, self.stdout), (Stream.STDERR, self.stderr)

    def position(self, stream: Stream) -> StreamPosition:
        return self.stdout if stream is Stream.STDOUT else self.stderr

    # What happened

    def decide(self, decision: Decision) -> None:
        self.decision = decision
        self._decision_due = True
        if self.state in (None, LiveState.AWAITING_OWNER):
            if decision.verdict is Verdict.ALLOW:
                self.state = LiveState.JOURNALLED
            elif decision.verdict is Verdict.ASK:
                self.state = LiveState.AWAITING_OWNER

    def start(self, started: Started) -> None:
        self.started = started
        self._started_due = True
        if self.state is not LiveState.FINISHED:
            self.state = LiveState.STARTED

    def finish(self, result: Result) -> None:
        if self.result is not None:
            return
        self.result = result
        self.hint = None
        self._result_due = True
        self.state = LiveState.FINISHED
        for position, totals in (
            (self.stdout, result.result.stdout),
            (self.stderr, result.result.stderr),
        ):
            position.produced = max(position.produced, totals.produced)

    def send_again(self) -> None:
        """Owe everything once more: a new stream has carried nothing yet."""
        self.hint = None
        self.repeat_facts()
        self.input.send_again()
        self._result_due = self.result is not None

    def repeat_facts(self) -> None:
        self._decision_due = self.decision is not None
        self._started_due = self.started is not None

    # What is owed

    def has_facts(self) -> bool:
        return (
            self._decision_due or self._started_due or self._is_input_due() or self._is_hint_due()
        )

    def _is_hint_due(self) -> bool:
        return self.hint is not None and self._is_drained()

    def _is_input_due(self) -> bool:
        return self.result is None and self.input.is_due()

    def sendable_bytes(self) -> int:
        """Return how many bytes of output may go out now; an omission counts as one."""
        return sum(
            position.readable() or position.missing_until() > position.sent
            for _, position in self.positions()
        )

    def is_urgent(self) -> bool:
        """Tell whether somebody waits for the next frame: an end, or a verdict other than allow."""
        if self._decision_due and self.decision and self.decision.verdict is not Verdict.ALLOW:
            return True
        if self.result is None and self.input.is_urgent():
            return True
        return self._result_due and (self._is_drained() or self.sendable_bytes() > 0)

    def has_anything(self) -> bool:
        return (
            self.has_facts()
            or self.sendable_bytes() > 0
            or (self._result_due and self._is_drained())
        )

    def _is_drained(self) -> bool:
        """Tell whether the last byte of both streams has been sent, or declared omitted."""
        return all(position.sent >= position.produced for _, position in self.positions())

    def take_events(self, events: list[UpEvent], room_bytes: int, read: ReadSpool) -> int:
        """Append what is owed, in the order of the story; return about how many bytes it takes.

        Output fills up to ``room_bytes``; facts go out even past it, they are small.
        """
        first = len(events)
        if self._decision_due and self.decision is not None:
            events.append(self.decision)
            self._decision_due = False
        if self._started_due and self.started is not None:
            events.append(self.started)
            self._started_due = False
        if self._is_input_due():
            events.append(self.input.tell(self.attempt_id))
        taken = sum(map(size_hint, events[first:]))
        for stream, position in self.positions():
            for event in self._output(stream, position, room_bytes - taken, read):
                events.append(event)
                taken += size_hint(event)
        if self.hint is not None and self._is_drained():
            events.append(self.hint)
            taken += size_hint(self.hint)
            self.hint = None
        if self._result_due and self.result is not None and self._is_drained():
            events.append(self.result)
            self._result_due = False
            taken += size_hint(self.result)
        return taken

    def _output(
        self, stream: Stream, position: StreamPosition, room: int, read: ReadSpool
    ) -> Iterator[Output | Omitted]:
        while True:
            start = position.sent
            end = position.missing_until()
            if end == start:
                n = min(position.readable(), room)
                if n <= 0:
                    return
                data = read(self.attempt_id, stream, start, n)
                if data:
                    position.sent = start + len(data)
                    room -= len(data)
                    yield Output(attempt_id=self.attempt_id, stream=stream, offset=start, data=data)
                    continue
                # The spool promised these bytes and lost them: say so rather than stall. ``read``
                # may have reported the exact range meanwhile; else all up to the next gap is gone.
                if position.missing_until() == start:
                    position.omit(start, position.readable())
                end = position.missing_until()
            position.sent = end
            yield Omitted(
                attempt_id=self.attempt_id, stream=stream, offset=start, length=end - start
            )
