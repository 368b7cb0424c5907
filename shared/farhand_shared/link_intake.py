"""What one attempt has sent on this stream: repetitions dropped, gaps refused, results taken once.

It stands between the wire and the database, so that an event that comes again costs no statement.
"""

from collections.abc import Sequence

from farhand_shared.errors import ProtocolError
from farhand_shared.limits import WINDOW_BYTES
from farhand_shared.link_actions import (
    RecordDecision,
    RecordResult,
    RecordStart,
    ReplicaAction,
    ResultConflict,
    StoreOmission,
    StoreOutput,
)
from farhand_shared.link_events import (
    Decision,
    Omitted,
    Output,
    Result,
    Started,
    Stream,
    Verdict,
)

WorkEvent = Decision | Started | Output | Omitted | Result


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


class ReplicaAttempt:
    """One attempt of one stream; ``receive`` answers with what is new."""

    __slots__ = ("acknowledged", "asked", "denied", "result_hash", "started", "stderr", "stdout")

    def __init__(self, stdout_offset: int = 0, stderr_offset: int = 0) -> None:
        self.asked = False
        self.denied = False
        self.acknowledged = False
        self.started = False
        self.result_hash: bytes | None = None  # of the result handed out to be recorded
        self.stdout = ReceivedStream(stdout_offset)
        self.stderr = ReceivedStream(stderr_offset)

    def stream(self, stream: Stream) -> ReceivedStream:
        return self.stdout if stream is Stream.STDOUT else self.stderr

    def receive(self, event: WorkEvent) -> Sequence[ReplicaAction]:
        """Return what the event asks for; nothing when it is a repetition."""
        match event:
            case Decision():
                return self._on_decision(event)
            case Started():
                if self.started:
                    return ()
                self.started = self.acknowledged = True
                return (RecordStart(started=event),)
            case Output():
                return self._on_output(event)
            case Omitted():
                return self._on_omitted(event)
            case Result():
                return self._on_result(event)

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
