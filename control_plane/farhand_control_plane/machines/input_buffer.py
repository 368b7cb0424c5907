"""One command's input: what writers ask and are told, and what its replica holds of it.

Bytes stay until the command has taken them, because a link may break and a daemon may be killed
with them on the way. At most a window of the link: who sends more has to wait.
"""

from dataclasses import dataclass
from datetime import datetime

from farhand_shared.errors import Conflict
from farhand_shared.ids import AttemptId, InstanceId, MemberId
from farhand_shared.limits import INPUT_WINDOW_BYTES


class InputHeld(Conflict):
    """Somebody else holds the command's input."""

    code = "input_held"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRequest:
    """Some of a command's input, or a question how far it has come."""

    instance_id: InstanceId
    member_id: MemberId
    attempt_id: AttemptId
    writer_id: str
    where: str = ""  # the writer's computer, for others to read
    offset: int | None = None  # of the first byte; None: where the input stands now
    data: bytes = b""
    end: bool = False  # nothing follows
    take: bool = False  # take the input over from whoever holds it
    size: tuple[int, int] | None = None  # rows and columns of the window, when it has changed


@dataclass(frozen=True, slots=True, kw_only=True)
class InputState:
    """How far a command's input has come: ``taken <= accepted``."""

    accepted: int  # send on from here
    taken: int  # the command has these: they may be forgotten
    ended: bool  # the end was accepted too
    closed: bool  # nothing more is taken: delivered to the end, or nobody reads it


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

    def __init__(self, offset: int, *, taken: int, now: float) -> None:
        """``offset``: how much of it the machine has; ``taken``: how much of that the command."""
        self.start = self.received = offset
        self.taken = taken
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
