"""An attempt as a stream of frames, from wherever its bytes are: here in memory, or in the store.

While the machine's link is on this replica the bytes come from the run's window as they arrive; a
client too slow for the window reads what it missed from the store. Otherwise the database is
followed, woken by notifications. Either way frames come in order and none twice.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from farhand_control_plane.db import command_views, output
from farhand_control_plane.db.command_views import CommandView
from farhand_control_plane.db.pool import Database
from farhand_control_plane.machines.attempt_run import BOTH, AttemptRun, Piece, Reader
from farhand_control_plane.machines.hub import Hub
from farhand_control_plane.machines.machine_link import MachineLink
from farhand_shared.command import TERMINAL, AttemptState, CommandResult, ExitReason
from farhand_shared.errors import Unavailable
from farhand_shared.exec_frames import FrameKind, encode_frame, encode_json_frame, result_to_json
from farhand_shared.ids import AttemptId, InstanceId
from farhand_shared.limits import KIB
from farhand_shared.link_events import Quiet, Stream

_log = logging.getLogger(__name__)

LOOK_S: Final = 1.0  # the net under lost notifications
FIRST_ALONE_S: Final = 0.01  # a short command's first frame waits this long for the others
# A machine that comes back sooner was not worth a word. The silence itself is noticed within 45 s,
# and a client hears of it within a minute.
AWAY_TOLD_AFTER_S: Final = 10.0
READ_BYTES: Final = 512 * KIB
# Every command has this one.
_STARTED: Final = (AttemptState.STARTED,)
_STARTED_FRAME: Final = encode_json_frame(FrameKind.STATE, {"state": AttemptState.STARTED.value})
_KIND: Final = {Stream.STDOUT: FrameKind.STDOUT, Stream.STDERR: FrameKind.STDERR}


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """What a client has already, in bytes of each stream."""

    stdout: int = 0
    stderr: int = 0


class Chunk(NamedTuple):
    """Whole frames, and whether they are the last."""

    frames: bytes
    is_last: bool


class Follower:
    """Follows one attempt for one client."""

    def __init__(
        self,
        database: Database,
        hub: Hub,
        *,
        instance_id: InstanceId,
        attempt_id: AttemptId,
        position: Position,
        first: bytes,
    ) -> None:
        """``first``: a frame that goes out before all others, in company if some is at hand."""
        self._first = first
        self._database = database
        self._hub = hub
        self._instance_id = instance_id
        self._attempt_id = attempt_id
        self._taken = {Stream.STDOUT: position.stdout, Stream.STDERR: position.stderr}
        self._told: tuple[object, ...] = ()  # the state that the client knows
        self._started_told = False
        self._hint: Quiet | None = None  # the last that the client was told of
        self._away_since: float | None = None  # None while the machine's link is somewhere
        self._exit_told = False
        self._done = False

    async def frames(self) -> AsyncGenerator[Chunk, None]:
        """Yield one or more whole frames at a time; ends after ``COMMITTED``.

        What was yielded counts as delivered when the next item is asked for.
        """
        with self._hub.watch(self._attempt_id) as news:
            while not self._done:
                news.clear()
                held = self._hub.run(self._attempt_id)
                source = self._live(*held, news) if held else self._stored(news)
                try:
                    async with aclosing(source):
                        async for frames in source:
                            yield Chunk(self._first + frames, self._done)
                            self._first = b""
                except Unavailable as error:
                    # What the client has is known, so it goes on when the database is back.
                    _log.warning("following attempt %s waits: %s", self._attempt_id, error)
                    await _within(LOOK_S, news)

    # From memory

    async def _live(
        self, link: MachineLink, run: AttemptRun, news: asyncio.Event
    ) -> AsyncGenerator[bytes, None]:
        """Follow a run until its end is committed, or its link is gone."""
        self._away_since = None
        reader = Reader(news, dict(self._taken))
        run.attach(reader)
        waited = False

        def wait_no_longer() -> None:
            nonlocal waited
            waited = True
            news.set()

        timer = asyncio.get_running_loop().call_later(FIRST_ALONE_S, wait_no_longer)
        try:
            while True:
                if reader.cursor < run.first:
                    async for frames in self._catch_up(run):
                        yield frames
                        reader.taken.update(self._taken)
                        link.acknowledge(run)
                    reader.cursor = max(reader.cursor, run.first)
                    continue
                news.clear()
                out = self._state_frames(run)
                for piece in run.next_pieces(reader):
                    out += self._piece_frames(piece)
                drained = reader.cursor == run.first + len(run.window)
                if drained and run.hint is not self._hint:
                    self._hint = run.hint
                    out += _hint_frames(run.hint)
                if run.result is not None and drained:
                    out += self._end_frames(run)
                if out:
                    yield b"".join(out)
                    reader.taken.update(self._taken)
                    link.acknowledge(run)
                if self._done or run.detached:
                    return
                if not out:
                    if self._first and waited:
                        yield b""
                    await news.wait()
        finally:
            timer.cancel()
            run.detach(reader)
            link.acknowledge(run)

    def _state_frames(self, run: AttemptRun) -> list[bytes]:
        if run.started is None:
            return []
        return self._tell_state(_STARTED, _STARTED_FRAME)

    def _piece_frames(self, piece: Piece) -> list[bytes]:
        """Return the frames of a piece's part that the client does not have yet."""
        taken = self._taken[piece.stream]
        if piece.end <= taken:
            return []
        start = max(piece.start, taken)
        out = []
        if start > taken:
            out.append(_omitted(piece.stream, taken, start))
        if piece.data is None:
            out.append(_omitted(piece.stream, start, piece.end))
        else:
            data = piece.data if start == piece.start else piece.data[start - piece.start :]
            out.append(encode_frame(_KIND[piece.stream], data))
        self._taken[piece.stream] = piece.end
        return out

    def _end_frames(self, run: AttemptRun) -> list[bytes]:
        out: list[bytes] = []
        if not self._exit_told and run.result is not None:
            self._exit_told = True
            out.append(_exit(run.result.result, committed=run.ended is not None))
        if run.ended is not None:
            out.append(encode_frame(FrameKind.COMMITTED))
            self._done = True
        return out

    async def _catch_up(self, run: AttemptRun) -> AsyncIterator[bytes]:
        """Read what the window has let go, stream by stream, up to where the window begins."""
        for stream in BOTH:
            while (taken := self._taken[stream]) < (until := run.window_start(stream)):
                data = await self._read(stream, taken, min(READ_BYTES, until - taken))
                tail = run.streams[stream].tail
                if not data and tail is not None:
                    data = tail.read(taken, min(READ_BYTES, until - taken))
                if data:
                    self._taken[stream] = taken + len(data)
                    yield encode_frame(_KIND[stream], data)
                    continue
                resumes = min(await self._next_stored(stream, taken), until)
                tail = run.streams[stream].tail
                if tail is not None and taken < tail.start:
                    resumes = min(resumes, tail.start)
                self._taken[stream] = resumes
                yield _omitted(stream, taken, resumes)

    # From the store

    async def _stored(self, news: asyncio.Event) -> AsyncGenerator[bytes, None]:
        """Follow the database until the end, or until a link of this replica has the attempt."""
        while True:
            news.clear()
            async with self._database.autocommit() as connection:
                view = await command_views.of_attempt(
                    connection, self._instance_id, self._attempt_id
                )
            if view is None:
                self._done = True
                yield encode_json_frame(
                    FrameKind.ERROR,
                    {"code": "not_found", "message": "the attempt is not kept any more"},
                )
                return
            for frame in self._view_frames(view):
                yield frame
            over = view.state in TERMINAL
            for stream in BOTH:
                async for frames in self._stored_stream(view, stream, over=over):
                    yield frames
            if over:
                end = b""
                if not self._exit_told:
                    self._exit_told = True
                    end = _exit(view.result or end_without_result(view), committed=True)
                self._done = True
                yield end + encode_frame(FrameKind.COMMITTED)
                return
            if self._hub.run(self._attempt_id) is not None:
                return
            if self._first:
                yield b""
            await _within(LOOK_S, news)

    async def _stored_stream(
        self, view: CommandView, stream: Stream, *, over: bool
    ) -> AsyncIterator[bytes]:
        """Yield what is stored of a stream from the client's position on."""
        total = _produced(view, stream)
        while True:
            taken = self._taken[stream]
            if taken >= (total if over else _stored(view, stream)):
                return
            data = await self._read(stream, taken, READ_BYTES)
            if data:
                self._taken[stream] = taken + len(data)
                yield encode_frame(_KIND[stream], data)
                continue
            resumes = await self._next_stored(stream, taken)
            if over:
                resumes = min(resumes, total)
            elif resumes > _stored(view, stream):
                return
            self._taken[stream] = resumes
            yield _omitted(stream, taken, resumes)

    def _view_frames(self, view: CommandView) -> list[bytes]:
        if self._is_away(view):
            # The client may know of the start from memory, sooner than the store.
            state = AttemptState.STARTED if self._started_told else view.state
            return self._tell_state((state, "away"), _away_frame(view, state))
        match view.state:
            case AttemptState.QUEUED:
                seen: datetime | None = view.machine_seen_at
                value = {
                    "state": view.state.value,
                    "waiting_for": view.machine_name,
                    "online": view.machine_online,
                    "paused": view.machine_paused,
                    "since": None if seen is None else seen.isoformat(),
                    "until": view.start_expires_at.isoformat(),
                }
                frame = encode_json_frame(FrameKind.STATE, value)
                return self._tell_state((view.state, view.waits_because), frame)
            case AttemptState.STARTED | AttemptState.STOPPING:
                return self._tell_state(_STARTED, _STARTED_FRAME)
            case _:
                return []

    def _is_away(self, view: CommandView) -> bool:
        """Tell whether the machine went silent, for good as far as anybody knows, with this."""
        if view.machine_online or view.state is AttemptState.QUEUED or view.state in TERMINAL:
            self._away_since = None
            return False
        now = time.monotonic()
        if self._away_since is None:
            self._away_since = now
        return now - self._away_since >= AWAY_TOLD_AFTER_S

    def _tell_state(self, state: tuple[object, ...], frame: bytes) -> list[bytes]:
        """Return a state's frame unless the client knows the state."""
        if self._told == state:
            return []
        self._told = state
        self._started_told = self._started_told or state == _STARTED
        return [frame]

    async def _read(self, stream: Stream, offset: int, limit: int) -> bytes:
        async with self._database.autocommit() as connection:
            return await output.read(
                connection, self._instance_id, self._attempt_id, stream, offset, limit
            )

    async def _next_stored(self, stream: Stream, offset: int) -> int:
        """Return where stored bytes go on after a gap; far beyond any stream when nowhere."""
        async with self._database.autocommit() as connection:
            extents: Sequence[output.Extent] = await output.extents(
                connection, self._instance_id, self._attempt_id, stream
            )
        return next((extent.start for extent in extents if extent.start > offset), 1 << 62)


async def _within(seconds: float, news: asyncio.Event) -> bool:
    """Wait for news, and tell whether it came in time."""
    try:
        async with asyncio.timeout(seconds):
            await news.wait()
    except TimeoutError:
        return False
    return True


def end_without_result(view: CommandView) -> CommandResult:
    """Return how a command ended that its machine never told about, in a result's words."""
    match view.state:
        case AttemptState.CANCELLED_BEFORE_START | AttemptState.SUPERSEDED:
            reason = ExitReason.CANCEL
        case AttemptState.REFUSED | AttemptState.EXPIRED:
            reason = ExitReason.REFUSED
        case _:
            reason = ExitReason.INDETERMINATE
    return CommandResult(
        reason=reason,
        error_code=view.reason or view.state.value,
        error=view.error or f"the command is {view.state.value}",
    )


def _produced(view: CommandView, stream: Stream) -> int:
    if view.result is None:
        return _stored(view, stream)
    totals = view.result.stdout if stream is Stream.STDOUT else view.result.stderr
    return totals.produced


def _stored(view: CommandView, stream: Stream) -> int:
    return view.stdout_stored if stream is Stream.STDOUT else view.stderr_stored


def _away_frame(view: CommandView, state: AttemptState) -> bytes:
    seen: datetime | None = view.machine_seen_at
    value = {
        "state": state.value,
        "machine": view.machine_name,
        "online": False,
        "since": None if seen is None else seen.isoformat(),
    }
    return encode_json_frame(FrameKind.STATE, value)


def _hint_frames(quiet: Quiet | None) -> list[bytes]:
    if quiet is None:
        return []
    value = {
        "hint": "waits_for_input",
        "quiet_ms": quiet.quiet_ms,
        "reads_terminal": quiet.reads_terminal,
        "takes_input": quiet.takes_input,
    }
    return [encode_json_frame(FrameKind.HINT, value)]


def _omitted(stream: Stream, start: int, end: int) -> bytes:
    return encode_json_frame(
        FrameKind.OMITTED, {"stream": stream.value, "offset": start, "length": end - start}
    )


def _exit(result: CommandResult, *, committed: bool) -> bytes:
    return encode_json_frame(
        FrameKind.EXIT, {"result": result_to_json(result), "committed": committed}
    )
