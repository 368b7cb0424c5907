"""The daemon's end of the link, without I/O: what to send next and what each event asks for.

One ``DaemonLink`` lives as long as the daemon process and survives reconnects. It never awaits and
never reads a clock: ``now`` is the caller's monotonic time.

Story of an attempt, always in this order on the wire: decision, started, output, result. The
result follows the last byte of both streams. After a reconnect whatever has no acknowledgement is
sent again, once per connection.
"""

from collections.abc import Callable, Sequence

from farhand_shared.link_actions import DaemonAction
from farhand_shared.link_events import (
    Decision,
    DownEvent,
    Hello,
    LiveAttempt,
    LiveState,
    Result,
    Started,
    Stream,
    UpEvent,
)

# read(attempt_id, stream, offset, n): 1 to n bytes of the spool from offset; b"" when they are gone.
ReadSpool = Callable[[str, Stream, int, int], bytes]


class DaemonLink:
    """Everything the daemon still owes the server, and in which order it goes out."""

    @property
    def may_start(self) -> bool:
        """Tell whether a Welcome arrived on the current stream; before it nothing may start."""
        raise NotImplementedError

    @property
    def connected(self) -> bool:
        raise NotImplementedError

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
        result: Result | None = None,
    ) -> None:
        """Take over an attempt from the journal and spool, after a start or for a repeated offer.

        ``result`` goes with ``LiveState.FINISHED``. Omitted ranges follow through ``omitted``.
        """
        raise NotImplementedError

    def live(self) -> tuple[LiveAttempt, ...]:
        """Return every journalled attempt without receipt, as Hello lists them."""
        raise NotImplementedError

    def on_connected(self, hello: Hello) -> None:
        """Begin a stream: ``hello`` (its ``live`` is filled in here) is the first frame.

        A stream that was open before is over: hand in no more of its events.
        """
        raise NotImplementedError

    def on_disconnected(self) -> None:
        """End the stream; idempotent."""
        raise NotImplementedError

    def receive(self, events: Sequence[DownEvent], now: float) -> list[DaemonAction]:
        """Return what one received frame asks for; raise ProtocolError to have the stream closed."""
        raise NotImplementedError

    # What the warden and the supervisors report

    def decision(self, decision: Decision) -> None:
        """Report the machine's verdict; for allow: after the journal entry is on disk."""
        raise NotImplementedError

    def started(self, started: Started) -> None:
        raise NotImplementedError

    def produced(self, attempt_id: str, stream: Stream, offset: int) -> None:
        """Report that the spool holds the stream up to ``offset``; never lower than before."""
        raise NotImplementedError

    def omitted(self, attempt_id: str, stream: Stream, offset: int, length: int) -> None:
        """Report that the spool dropped this range (link down, spool full); ranges may grow."""
        raise NotImplementedError

    def finished(self, result: Result) -> None:
        """Report the end; the result goes out after ``result.result.std*.produced`` bytes."""
        raise NotImplementedError

    def forget(self, attempt_id: str) -> None:
        """Drop an attempt without a word to the server."""
        raise NotImplementedError

    # Sending

    def next_due(self, now: float) -> float | None:
        """Return when to call ``next_frame``: ``<= now`` at once, None when nothing is to be sent.

        Answers, results and the first bytes after quiet are due at once; allow and started wait
        up to FLUSH_S for company, so that a short command is one message.
        """
        raise NotImplementedError

    def next_frame(self, now: float, room_bytes: int, read: ReadSpool) -> list[UpEvent]:
        """Return the events of the next message, about ``room_bytes`` at most; [] when none."""
        raise NotImplementedError
