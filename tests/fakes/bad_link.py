"""Stand between two programs as a bad network does: cut, frozen, slow or far away, on demand.

Does not model loss of single packets: TCP would repair it, and only a delay is left of it.
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self, TypeVar

T = TypeVar("T")

PIECE_BYTES: Final = 64 * 1024
AHEAD: Final = 64  # pieces of one direction that may be on the way; then the sender is held
CLOSE_WITHIN_S: Final = 10.0
_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends a reset


@dataclass(eq=False)
class _Pair:
    """Both ends of one connection, and what carries bytes between them."""

    near: asyncio.StreamWriter
    far: asyncio.StreamWriter
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def reset(self) -> None:
        for task in self.tasks:
            task.cancel()
        for writer in (self.near, self.far):
            raw = writer.get_extra_info("socket")
            if raw is not None:
                with contextlib.suppress(OSError):  # it may be closed already
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()


class BadLink:
    """A loopback TCP proxy to one address; every method may be called from any thread.

    What is set holds for the connections that are open and for those to come.
    """

    def __init__(self, port: int, host: str = "127.0.0.1", *, listen: str = "127.0.0.1") -> None:
        """``port``, ``host``: where it leads. The port to listen on is the system's choice, unless
        ``listen`` differs from ``host``: then it is the same one, as of another computer."""
        self._to = (host, port)
        self._listen = (listen, 0 if listen == host else port)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="bad-link", daemon=True)
        self._pairs: set[_Pair] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._refusing = False
        self._taken = 0
        self._delay_s = 0.0
        self._bytes_per_s = 0.0  # 0: as fast as it goes
        self._server: asyncio.Server | None = None  # None outside of the with block

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._open())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_WITHIN_S)
        self._loop.close()

    @property
    def address(self) -> str:
        """HOST:PORT for whoever is to meet the bad network."""
        assert self._server is not None, "only inside of its with block"
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    @property
    def taken(self) -> int:
        """How many connections were ever made to it, also while it was frozen."""
        return self._taken

    @property
    def connections(self) -> int:
        """How many connections are open now."""
        return len(self._pairs)

    # ── what may go wrong ───────────────────────────────────────────────────────────────────────

    def cut(self) -> int:
        """Reset every open connection; new ones are served. Returns how many there were."""
        return self._do(self._cut())

    def freeze(self) -> None:
        """Carry nothing any more, either way, also no end; new connections are taken in silence."""
        self._do(self._set_flowing(False))

    def thaw(self) -> None:
        """Go on with what was frozen; nothing of it was lost."""
        self._do(self._set_flowing(True))

    def refuse(self, refusing: bool = True) -> None:
        """Reset new connections at once, as a host without the program does; or serve them again.

        Open ones stay.
        """
        self._refusing = refusing

    def delay(self, seconds: float) -> None:
        """Let every byte arrive this much later, each way; the order and the rate stay."""
        self._delay_s = seconds

    def throttle(self, bytes_per_s: float) -> None:
        """Carry at most this much in each direction of a connection; 0: no limit."""
        self._bytes_per_s = bytes_per_s

    def heal(self) -> None:
        """Be a good network again."""
        self.refuse(False)
        self.delay(0)
        self.throttle(0)
        self.thaw()

    # ── how it is done, in the thread ───────────────────────────────────────────────────────────

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CLOSE_WITHIN_S)

    async def _open(self) -> None:
        host, port = self._listen
        self._server = await asyncio.start_server(self._serve, host, port, limit=PIECE_BYTES)

    async def _close(self) -> None:
        assert self._server is not None, "it was opened"
        self._server.close()
        await self._cut()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _cut(self) -> int:
        pairs = list(self._pairs)
        for pair in pairs:
            pair.reset()
        await asyncio.gather(*(t for pair in pairs for t in pair.tasks), return_exceptions=True)
        return len(pairs)

    async def _set_flowing(self, flowing: bool) -> None:
        if flowing:
            self._flowing.set()
        else:
            self._flowing.clear()

    async def _serve(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a coroutine of a task"
        self._serving.add(task)
        self._taken += 1
        try:
            await self._flowing.wait()
            await self._carry(near, back)
        except asyncio.CancelledError:
            return  # the end of the whole proxy; asyncio's server would report it
        finally:
            self._serving.discard(task)
            back.transport.abort()

    async def _carry(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        if self._refusing:
            return
        try:
            far, onward = await asyncio.open_connection(*self._to, limit=PIECE_BYTES)
        except OSError:
            return  # nobody is there: whoever came is told the same
        pair = _Pair(near=back, far=onward)
        pair.tasks = [
            asyncio.create_task(self._direction(near, onward)),
            asyncio.create_task(self._direction(far, back)),
        ]
        self._pairs.add(pair)
        try:
            await asyncio.wait(pair.tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            self._pairs.discard(pair)
            pair.reset()
            await asyncio.gather(*pair.tasks, return_exceptions=True)

    async def _direction(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one way; an end is carried too, in its turn."""
        on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(AHEAD)
        taking = asyncio.create_task(self._take(reader, on_the_way))
        try:
            while True:
                due, piece = await on_the_way.get()
                await asyncio.sleep(max(0.0, due - self._loop.time()))  # the distance
                await self._flowing.wait()
                if not piece:
                    with contextlib.suppress(OSError):
                        writer.write_eof()
                    return
                writer.write(piece)
                await writer.drain()
                if self._bytes_per_s:
                    await asyncio.sleep(len(piece) / self._bytes_per_s)  # the rate
        finally:
            taking.cancel()

    async def _take(
        self, reader: asyncio.StreamReader, on_the_way: "asyncio.Queue[tuple[float, bytes]]"
    ) -> None:
        piece = b"-"
        while piece:
            try:
                piece = await reader.read(PIECE_BYTES)
            except OSError:  # a reset arrives as an end
                piece = b""
            await on_the_way.put((self._loop.time() + self._delay_s, piece))
