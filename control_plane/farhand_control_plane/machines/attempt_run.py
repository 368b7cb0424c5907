"""One attempt that runs on a machine whose link is here: relay first, store beside.

Bytes come in order, are shown to attached readers at once and wait in a window until they are safe:
in the head when they are stored, past it when every attached reader has read them (the tail file
keeps the last ones for the end). Acknowledgements follow exactly that, so the machine never sends
more than the link's window ahead, and a reader that stops reading blocks its own command only.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from farhand_control_plane.db.attempts import CommandRef, Ending, Progress
from farhand_control_plane.machines.limits import OutputLimits
from farhand_control_plane.machines.tail_file import TailFile
from farhand_shared.command import AttemptState
from farhand_shared.link_events import Decision, Quiet, Result, Started, Stream, Verdict

_log = logging.getLogger(__name__)

BOTH: Final = (Stream.STDOUT, Stream.STDERR)


@dataclass(frozen=True, slots=True)
class Piece:
    """What came next on a stream; without data it was dropped by the machine."""

    stream: Stream
    start: int
    end: int
    data: bytes | None


class StreamState:
    """How far one stream has come: ``stored`` is durable, ``acked`` may be told to the machine."""

    __slots__ = ("acked", "head_end", "received", "stored", "tail", "unstored")

    def __init__(self, offset: int, head_end: int) -> None:
        self.received = offset
        self.stored = offset  # as in the database; stands still at ``head_end``
        self.acked = offset
        self.head_end = head_end
        self.unstored: deque[Piece] = deque()  # of the head, in order
        self.tail: TailFile | None = None


class Reader:
    """An attached client: what it has been given, and where it is in the window."""

    __slots__ = ("cursor", "news", "taken")

    def __init__(self, news: asyncio.Event, taken: dict[Stream, int]) -> None:
        self.news = news
        self.taken = taken
        self.cursor = 0


class AttemptRun:
    """The state of one attempt on one link. Everything but storing is synchronous."""

    def __init__(
        self,
        ref: CommandRef,
        *,
        limits: OutputLimits,
        stdout_stored: int = 0,
        stderr_stored: int = 0,
        inherits: "AttemptRun | None" = None,
    ) -> None:
        """``inherits``: the run of an older link here, whose tail files go on."""
        self.ref = ref
        self._limits = limits
        self.streams = {
            Stream.STDOUT: StreamState(stdout_stored, limits.head_bytes),
            Stream.STDERR: StreamState(stderr_stored, limits.head_bytes),
        }
        if inherits is not None:
            self._inherit(inherits)
        self.window: deque[Piece] = deque()
        self.first = 0  # number of the window's first piece
        self._window_bytes = 0
        self.readers: set[Reader] = set()
        self.started: Started | None = None
        self.started_at: float | None = None  # monotonic
        self.result: Result | None = None
        self.ended: AttemptState | None = None  # the committed end
        self.hint: Quiet | None = None  # that it waits for input; never stored
        self.detached = False  # its link is gone; readers look elsewhere
        self.stop_sent = False
        self.quiet_until = 0.0  # monotonic; before it other replicas are told nothing
        # For the store: not yet written facts, and how many bytes wait.
        self._allowed = False
        self._asked = False
        self._plan_hash: bytes | None = None
        self._started_unwritten = False
        self.unstored_bytes = 0
        self.writing = False
        self.timer: asyncio.TimerHandle | None = None

    def _inherit(self, older: "AttemptRun") -> None:
        for stream in BOTH:
            mine, theirs = self.streams[stream], older.streams[stream]
            if theirs.tail is None or mine.stored < mine.head_end:
                continue
            mine.tail, theirs.tail = theirs.tail, None
            mine.received = mine.acked = mine.tail.end

    def resume_offset(self, stream: Stream) -> int:
        """Return where the machine should go on sending: everything below is safe here."""
        return self.streams[stream].received

    # What the machine says

    def on_decision(self, decision: Decision) -> None:
        self._plan_hash = decision.plan_hash or None
        self._allowed = self._allowed or decision.verdict is Verdict.ALLOW
        self._asked = self._asked or decision.verdict is Verdict.ASK

    def on_started(self, started: Started, now: float) -> None:
        self.started, self.started_at = started, now
        self._started_unwritten = True
        self.tell()

    def on_quiet(self, quiet: Quiet) -> None:
        """Show a hint to whoever is attached now, or comes before the command writes again."""
        self.hint = quiet
        self.tell()

    def on_output(self, stream: Stream, offset: int, data: bytes) -> None:
        """Take the next bytes; ``offset`` is where the last ones ended."""
        self.hint = None
        state = self.streams[stream]
        end = offset + len(data)
        if offset < state.head_end < end:
            cut = state.head_end - offset
            self._take(state, Piece(stream, offset, state.head_end, data[:cut]))
            self._take(state, Piece(stream, state.head_end, end, data[cut:]))
        else:
            self._take(state, Piece(stream, offset, end, data))
        self.tell()

    def on_omission(self, stream: Stream, offset: int, length: int) -> None:
        """Note that these bytes never come."""
        state = self.streams[stream]
        end = offset + length
        if offset < state.head_end < end:
            self._take(state, Piece(stream, offset, state.head_end, None))
            offset = state.head_end
        self._take(state, Piece(stream, offset, end, None))
        self.tell()

    def on_result(self, result: Result) -> None:
        self.result = result
        self.tell()

    def _take(self, state: StreamState, piece: Piece) -> None:
        state.received = piece.end
        self.window.append(piece)
        self._window_bytes += piece.end - piece.start if piece.data is not None else 0
        if piece.start < state.head_end:
            state.unstored.append(piece)
            self.unstored_bytes += len(piece.data) if piece.data is not None else 0
            return
        if state.tail is None:
            state.tail = TailFile(self._limits.tail_bytes, piece.start)
        if piece.data is None:
            state.tail.skip_to(piece.end)
            return
        try:
            state.tail.append(piece.data)
        except OSError as error:
            # The command goes on; what is lost is said as omitted.
            _log.error("cannot keep the tail of attempt %s: %s", self.ref.attempt_id, error)
            state.tail.skip_to(piece.end)

    # What may be acknowledged

    def acknowledge(self) -> Iterator[tuple[Stream, int]]:
        """Yield (stream, offset) where more may be acknowledged than before; trims the window."""
        for stream in BOTH:
            state = self.streams[stream]
            safe = state.stored
            if safe >= state.head_end:
                safe = max(
                    safe,
                    min((reader.taken[stream] for reader in self.readers), default=state.received),
                )
                safe = min(safe, state.received)
            if safe > state.acked:
                state.acked = safe
                yield stream, safe
        self._trim()

    def _trim(self) -> None:
        """Forget what is safe and read, or safe and too much for memory."""
        wanted = min(
            (reader.cursor for reader in self.readers), default=self.first + len(self.window)
        )
        while self.window:
            piece = self.window[0]
            if piece.end > self.streams[piece.stream].acked:
                return
            if self.first >= wanted and self._window_bytes <= self._limits.live_bytes:
                return
            self.window.popleft()
            self.first += 1
            self._window_bytes -= piece.end - piece.start if piece.data is not None else 0

    # Readers

    def attach(self, reader: Reader) -> None:
        """Let a reader follow; it is waited for past the head.

        It begins as one that lags: what the window does not hold any more comes from the store.
        """
        reader.cursor = self.first - 1
        self.readers.add(reader)

    def detach(self, reader: Reader) -> None:
        self.readers.discard(reader)

    def next_pieces(self, reader: Reader) -> Sequence[Piece]:
        """Return what the window holds for a reader that is not behind it; moves its cursor."""
        pieces = list(islice(self.window, reader.cursor - self.first, None))
        reader.cursor = self.first + len(self.window)
        return pieces

    def window_start(self, stream: Stream) -> int:
        """Return the offset from which the window holds a stream."""
        for piece in self.window:
            if piece.stream is stream:
                return piece.start
        return self.streams[stream].received

    def tell(self) -> None:
        """Wake the readers."""
        for reader in self.readers:
            reader.news.set()

    # The store

    @property
    def has_facts(self) -> bool:
        """Tell whether a verdict or the start waits to be written."""
        return self._allowed or self._asked or self._started_unwritten

    @property
    def is_dirty(self) -> bool:
        return self.has_facts or any(state.unstored for state in self.streams.values())

    def progress(self, now: float) -> tuple[Progress, "Written"]:
        """Return what to write next, and the token that ``written`` takes after the commit."""
        chunks: list[tuple[Stream, int, bytes]] = []
        omitted: list[tuple[Stream, int, int]] = []
        counts: dict[Stream, int] = {}
        ends: dict[Stream, int] = {}
        for stream in BOTH:
            state = self.streams[stream]
            counts[stream], ends[stream] = self._rows(state, stream, chunks, omitted)
        progress = Progress(
            attempt_id=self.ref.attempt_id,
            stdout_from=self.streams[Stream.STDOUT].stored,
            stderr_from=self.streams[Stream.STDERR].stored,
            stdout_to=ends[Stream.STDOUT],
            stderr_to=ends[Stream.STDERR],
            chunks=chunks,
            omitted=omitted,
            allowed=self._allowed,
            asked=self._asked,
            plan_hash=self._plan_hash,
            started_ago_s=(
                now - self.started_at
                if self._started_unwritten and self.started_at is not None
                else None
            ),
            pid=self.started.pid if self.started else None,
            boot_id=self.started.boot_id if self.started else None,
        )
        token = Written(
            counts=counts,
            ends=ends,
            started=self._started_unwritten,
            allowed=self._allowed,
            asked=self._asked,
        )
        return progress, token

    def _rows(
        self,
        state: StreamState,
        stream: Stream,
        chunks: list[tuple[Stream, int, bytes]],
        omitted: list[tuple[Stream, int, int]],
    ) -> tuple[int, int]:
        """Append a stream's next rows; return how many pieces they take and where they end."""
        taken, end, room = 0, state.stored, self._limits.write_bytes
        row: list[bytes] = []
        row_start = row_bytes = 0

        def close_row() -> None:
            nonlocal row, row_bytes
            if row:
                chunks.append((stream, row_start, b"".join(row) if len(row) > 1 else row[0]))
            row, row_bytes = [], 0

        for piece in state.unstored:
            if piece.data is None:
                close_row()
                omitted.append((stream, piece.start, piece.end - piece.start))
            else:
                if taken and len(piece.data) > room:
                    break
                room -= len(piece.data)
                if row and row_bytes + len(piece.data) > self._limits.row_bytes:
                    close_row()
                if not row:
                    row_start = piece.start
                row.append(piece.data)
                row_bytes += len(piece.data)
            taken += 1
            end = piece.end
        close_row()
        return taken, end

    def written(self, token: "Written") -> None:
        """Note that what ``progress`` gave is committed."""
        for stream in BOTH:
            state = self.streams[stream]
            for _ in range(token.counts[stream]):
                piece = state.unstored.popleft()
                self.unstored_bytes -= len(piece.data) if piece.data is not None else 0
            state.stored = token.ends[stream]
        self._started_unwritten = self._started_unwritten and not token.started
        self._allowed = self._allowed and not token.allowed
        self._asked = self._asked and not token.asked

    def ending(self, result: Result, now: float) -> Ending:
        """Return the result with all that is not yet written; the tails are stored before."""
        progress, _ = self.progress(now)
        extra: list[tuple[Stream, int, int]] = []
        for stream, state in self.streams.items():
            kept_from = state.received if state.tail is None else state.tail.start
            if kept_from > state.head_end:
                extra.append((stream, state.head_end, kept_from - state.head_end))
        return Ending(
            progress=replace(
                progress,
                stdout_to=self.streams[Stream.STDOUT].received,
                stderr_to=self.streams[Stream.STDERR].received,
            ),
            result=result.result,
            result_hash=result.result_hash,
            extra_omitted=extra,
        )

    def tail_rows(self) -> Iterator[tuple[Stream, int, bytes]]:
        """Yield the rows of both tails, in order."""
        for stream, state in self.streams.items():
            if state.tail is None:
                continue
            offset = state.tail.start
            while data := state.tail.read(offset, self._limits.row_bytes):
                yield stream, offset, data
                offset += len(data)

    def commit(self, state: AttemptState) -> None:
        """Note that the end is committed: everything that is kept is in the database."""
        self.ended = state
        for stream in self.streams.values():
            stream.unstored.clear()
            stream.stored = stream.acked = stream.received
        self.unstored_bytes = 0
        self.close()
        self._trim()
        self.tell()

    def close(self) -> None:
        """Give up timers and files."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        for state in self.streams.values():
            if state.tail is not None:
                state.tail.close()
                state.tail = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Which part of a run one write covers."""

    counts: dict[Stream, int]
    ends: dict[Stream, int]
    started: bool
    allowed: bool
    asked: bool
