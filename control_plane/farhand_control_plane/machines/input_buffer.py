"""One command's input as its replica holds it: from what the machine has to what came in.

Bytes stay until the command has taken them, because a link may break and a daemon may be killed
with them on the way. At most a window of the link: who sends more has to wait.
"""

from dataclasses import dataclass
from datetime import datetime

from farhand_shared.limits import INPUT_WINDOW_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Who holds the input: one at a time, so that two never write into each other's lines."""

    writer_id: str  # the client's own, random
    name: str  # for the others: the member, and from where
    since: datetime


class InputBuffer:
    """Offsets count the whole input, from 0: ``start <= received``."""

    __slots__ = (
        "_bytes",
        "closed",
        "ended",
        "received",
        "size",
        "start",
        "taken",
        "used_at",
        "writer",
    )

    def __init__(self, offset: int, *, now: float) -> None:
        """``offset``: how much of it the machine has already."""
        self.start = self.received = self.taken = offset
        self.ended = False  # nothing follows ``received``
        self.closed = False  # the command takes no more
        self.writer: Writer | None = None
        self.size: tuple[int, int] | None = None  # rows and columns of its terminal's window
        self.used_at = now  # monotonic
        self._bytes = bytearray()

    def room(self) -> int:
        """Return how many more bytes may come in."""
        return max(0, INPUT_WINDOW_BYTES - (self.received - self.taken))

    def append(self, data: bytes) -> None:
        self._bytes += data
        self.received += len(data)

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes from ``offset`` on; b"" when they are not here."""
        if offset < self.start:
            return b""
        at = offset - self.start
        return bytes(self._bytes[at : at + size])

    def take(self, offset: int, *, closed: bool) -> None:
        """Note how far the command has come, and forget what it has."""
        self.taken = max(self.taken, offset)
        self.closed = self.closed or closed
        if offset > self.start:
            del self._bytes[: offset - self.start]
            self.start = offset
            self.received = max(self.received, offset)

    def rewind(self, offset: int) -> None:
        """Begin anew where the machine stands: it lost what this replica never had.

        The client still has what comes after it: it forgets only what the command has taken.
        """
        self._bytes.clear()
        self.start = self.received = offset
        self.taken = min(self.taken, offset)
        self.ended = False
