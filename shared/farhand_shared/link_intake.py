"""What one attempt has sent on this stream: repetitions dropped, gaps refused, results taken once.

It stands between the wire and the database, so that an event that comes again costs no statement.
"""

from collections.abc import Callable, Sequence

from farhand_shared.errors import ProtocolError
from farhand_shared.limits import INPUT_WINDOW_BYTES, WINDOW_BYTES
from farhand_shared.link_actions import (
    InputTaken,
    RecordDecision,
    RecordResult,
    RecordStart,
    ReplicaAction,
    ResultConflict,
    StoreOmission,
    StoreOutput,
    TellQuiet,
)
from farhand_shared.link_events import (
    Decision,
    Input,
    InputAck,
    LiveAttempt,
    LiveState,
    Omitted,
    Output,
    Quiet,
    Resize,
    Result,
    Started,
    Stream,
    Verdict,
)

WorkEvent = Decision | Started | Output | Omitted | InputAck | Quiet | Result

# read_input(attempt_id, offset, n): 1 to n bytes of the input that was said to be available.
ReadInput = Callable[[str, int, int], bytes]


class ReceivedStream:
    """How far one output stream has come in: ``acked <= received``."""

    __slots__ = ("acked", "data_from", "received")

    def __init__(self, offset: int) -> None:
        self.received = offset
        self.acked = offset
        self.data_from = offset  # end of the last omission: the window counts data, not holes

    def accept(self, event: Output | Omitted, end: int) -> int | None:
        """Move to ``end``; return where the news in the event begins, None when there is none."""
        start = self.received
        if event.offset > start:
            raise ProtocolError(
                f"cannot accept {event.stream.value} from byte {event.offset:,}:"
                f" bytes from {start:,} are missing"
            )
        if end <= start:
            return None
        if isinstance(event, Omitted):
            self.data_from = end
        elif end - max(self.acked, self.data_from) > WINDOW_BYTES:
            raise ProtocolError(
                f"cannot accept {event.stream.value} up to byte {end:,}: more than"
                f" {WINDOW_BYTES:,} bytes are not acknowledged"
            )
        self.received = end
        return start


class SentInput:
    """How far one command's input has gone out on this stream: ``taken <= sent <= available``."""

    __slots__ = (
        "_told",
        "available",
        "closed",
        "end_sent",
        "ended",
        "running",
        "sent",
        "size",
        "taken",
    )

    def __init__(self) -> None:
        self.running = False  # the machine said that it started
        self.sent = 0
        self.taken = 0
        self.closed = False  # the command takes no more
        self.available = 0
        self.ended = False  # nothing follows what is available
        self.end_sent = False
        self.size: tuple[int, int] | None = None  # of its terminal; to be told
        self._told = (0, False)  # what the shell knows: a Hello is told by the ack that follows it

    def resume(self, live: LiveAttempt) -> None:
        """Go on where the machine says."""
        self.running = live.state is LiveState.STARTED
        self.sent = max(live.input_received, live.input_taken)
        self.taken, self.closed = live.input_taken, live.input_closed

    def take(self, ack: InputAck) -> bool:
        """Note how far the command has come; False when that is no news."""
        self.taken = max(self.taken, ack.offset)
        self.sent = max(self.sent, self.taken)
        self.closed = self.closed or ack.closed
        before, self._told = self._told, (self.taken, self.closed)
        return self._told != before

    def sendable(self) -> int:
        """Return how many bytes may go out now."""
        if self.closed:
            return 0
        return max(0, min(self.available, self.taken + INPUT_WINDOW_BYTES) - self.sent)

    def is_due(self) -> bool:
        """Tell whether ``next_event`` has something to say."""
        return self.size is not None or self.sendable() > 0 or self._end_is_due()

    def _end_is_due(self) -> bool:
        at_end = self.ended and self.sent == self.available
        return at_end and not self.end_sent and not self.closed

    def next_event(self, attempt_id: str, room: int, read: ReadInput) -> Input | Resize | None:
        """Return what goes out next; None when ``read`` does not hold what it was said to hold."""
        if self.size is not None:
            (rows, columns), self.size = self.size, None
            return Resize(attempt_id=attempt_id, rows=rows, columns=columns)
        offset, size = self.sent, min(self.sendable(), room)
        data = read(attempt_id, offset, size) if size else b""
        if size and not data:
            self.available = self.sent
            return None
        self.sent += len(data)
        self.end_sent = self._end_is_due()
        return Input(attempt_id=attempt_id, offset=offset, data=data, end=self.end_sent)


class ReplicaAttempt:
    """One attempt of one stream; ``receive`` answers with what is new."""

    __slots__ = (
        "acknowledged",
        "asked",
        "denied",
        "input",
        "result_hash",
        "started",
        "stderr",
        "stdout",
    )

    def __init__(self, stdout_offset: int = 0, stderr_offset: int = 0) -> None:
        self.asked = False
        self.denied = False
        self.acknowledged = False
        self.started = False
        self.result_hash: bytes | None = None  # of the result handed out to be recorded
        self.stdout = ReceivedStream(stdout_offset)
        self.stderr = ReceivedStream(stderr_offset)
        self.input = SentInput()

    def stream(self, stream: Stream) -> ReceivedStream:
        return self.stdout if stream is Stream.STDOUT else self.stderr

    def receive(self, event: WorkEvent) -> Sequence[ReplicaAction]:
        """Return what the event asks for; nothing when it is a repetition."""
        match event:
            case Decision():
                return self._on_decision(event)
            case Started():
                self.input.running = True
                if self.started:
                    return ()
                self.started = self.acknowledged = True
                return (RecordStart(started=event),)
            case Output():
                return self._on_output(event)
            case Omitted():
                return self._on_omitted(event)
            case InputAck():
                if not self.input.take(event):
                    return ()
                input_ = self.input
                return (
                    InputTaken(
                        attempt_id=event.attempt_id, offset=input_.taken, closed=input_.closed
                    ),
                )
            case Quiet():
                return (TellQuiet(quiet=event),) if self.result_hash is None else ()
            case Result():
                return self._on_result(event)

    def may_send_input(self) -> bool:
        """Tell whether input is due, of a command that runs."""
        return self.input.running and self.result_hash is None and self.input.is_due()

    def _on_decision(self, decision: Decision) -> Sequence[ReplicaAction]:
        match decision.verdict:
            case Verdict.ALLOW if not self.acknowledged:
                self.acknowledged = True
            case Verdict.ASK if not self.asked and not self.acknowledged:
                self.asked = True
            case Verdict.DENY if not self.denied:
                self.denied = True
            case _:
                return ()
        return (RecordDecision(decision=decision),)

    def _on_output(self, output: Output) -> Sequence[ReplicaAction]:
        start = self.stream(output.stream).accept(output, output.offset + len(output.data))
        if start is None:
            return ()
        known = start - output.offset
        return (
            StoreOutput(
                attempt_id=output.attempt_id,
                stream=output.stream,
                offset=start,
                data=output.data[known:] if known else output.data,
            ),
        )

    def _on_omitted(self, omitted: Omitted) -> Sequence[ReplicaAction]:
        end = omitted.offset + omitted.length
        start = self.stream(omitted.stream).accept(omitted, end)
        if start is None:
            return ()
        return (
            StoreOmission(
                attempt_id=omitted.attempt_id,
                stream=omitted.stream,
                offset=start,
                length=end - start,
            ),
        )

    def _on_result(self, event: Result) -> Sequence[ReplicaAction]:
        if self.result_hash is not None:
            if self.result_hash == event.result_hash:
                return ()  # being recorded: one acknowledgement follows
            return (
                ResultConflict(
                    attempt_id=event.attempt_id,
                    recorded_hash=self.result_hash,
                    refused_hash=event.result_hash,
                ),
            )
        for stream, totals in (
            (Stream.STDOUT, event.result.stdout),
            (Stream.STDERR, event.result.stderr),
        ):
            received = self.stream(stream).received
            if received < totals.produced:
                raise ProtocolError(
                    f"cannot accept a result: {stream.value} has {totals.produced:,} bytes,"
                    f" only {received:,} arrived"
                )
        self.result_hash = event.result_hash
        return (RecordResult(result=event),)
