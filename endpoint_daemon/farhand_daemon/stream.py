"""One stream of the link from the first frame to the last: reader, writer and ping watchdog.

The sans-I/O session decides what is said; this moves the bytes. Everything is driven by events:
an idle stream wakes only when a ping arrives.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, NoReturn, cast

import grpc
import grpc.aio

from farhand_daemon.boot_clock import boot_seconds
from farhand_daemon.channels import printable
from farhand_daemon.link_faults import fault_words, raw_words
from farhand_daemon.network.ways import Way
from farhand_shared import codec
from farhand_shared.errors import ProtocolError
from farhand_shared.limits import FRAME_BYTES, PING_INTERVAL_S, PONG_DUE_S
from farhand_shared.link_actions import Closed, DaemonAction, DrainRequested, Welcomed
from farhand_shared.link_daemon import DaemonLink, ReadSpool
from farhand_shared.link_events import Bye, Hello, Welcome

# A generic method without serialisers: bytes in, bytes out.
RawCall = grpc.aio.StreamStreamCall[bytes, bytes]

WELCOME_DUE_S: Final = 30.0  # a replica may ask an older link of ours for 10 s before it answers
SILENT_AFTER_S: Final = PING_INTERVAL_S + PONG_DUE_S  # a ping was due, and as late as an answer may
SLEPT: Final = "this machine slept, or its clock was set"
_LAST_WRITE_S: Final = 5.0  # a frame on its way is let go out before another stream takes over


class StreamEnded(Exception):
    """Why a stream is over, in words for people.

    ``bye``: the replica ended it; ``recycle``: dial again at once; ``slept``: the machine did;
    ``raw``: gRPC's own text, if it failed, for the log.
    """

    def __init__(
        self,
        reason: str,
        *,
        bye: Bye | None = None,
        recycle: bool = False,
        slept: bool = False,
        raw: str = "",
    ) -> None:
        super().__init__(reason)
        self.bye = bye
        self.recycle = recycle
        self.slept = slept
        self.raw = raw


class LinkStream:
    """Serves the session over one call; made anew for each."""

    def __init__(
        self,
        link: DaemonLink,
        *,
        way: Way,
        read: ReadSpool,
        perform: Callable[[DaemonAction], None],
        on_welcome: Callable[[Welcome], None],
        on_drain: Callable[[float], None],  # the seconds in which to go to another replica
        slept: Callable[[], bool],  # told once: everything that comes now may be of before
    ) -> None:
        self._link = link
        self._way = way  # of the channel it will run over
        self._read = read
        self._perform = perform
        self._on_welcome = on_welcome
        self._on_drain = on_drain
        self._slept = slept
        self._due = asyncio.Event()
        self._ending: asyncio.Future[StreamEnded] = asyncio.get_running_loop().create_future()
        self._heard_at = boot_seconds()
        self._welcomed = False
        self._call: RawCall | None = None
        self._reading: asyncio.Task[None] | None = None
        self._handing_over = False
        self.handed_over = False  # over for us, and its call stands until ``close``

    def wake(self) -> None:
        """Let the writer look again: something may have become due."""
        self._due.set()

    def end(self, reason: StreamEnded) -> None:
        """Have ``run`` raise ``reason``; the first one given wins."""
        if not self._ending.done():
            self._ending.set_result(reason)

    def hand_over(self, reason: StreamEnded) -> bool:
        """End it like ``end``, but leave the call standing: who serves the machine's next stream
        closes it then, so that the replica never sees the machine without one."""
        if self._ending.done():
            return False
        self._handing_over = True
        self._ending.set_result(reason)
        return True

    async def close(self) -> None:
        """End the call, also of a stream that was handed over; idempotent."""
        if self._call is not None:
            self._call.cancel()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def run(self, channel: grpc.aio.Channel, hello: Hello) -> NoReturn:
        """Open the stream and serve it until it ends: always raises StreamEnded."""
        call = self._call = cast(RawCall, channel.stream_stream(codec.CONNECT_METHOD)())
        self._heard_at = boot_seconds()
        self._link.on_connected(hello)
        # No task group: when a child of one fails, the task that waits stays marked as cancelled,
        # and on Python before 3.11.3 no timeout works in it any more (the next wait would die).
        writing = asyncio.create_task(self._write(call), name="link-writer")
        reading = self._reading = asyncio.create_task(self._receive(call), name="link-reader")
        watching = asyncio.create_task(self._watch_silence(), name="link-watchdog")
        tasks = [writing, reading, watching]
        try:
            waited: list[asyncio.Future[Any]] = [*tasks, self._ending]  # Any: of two kinds
            done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            self.handed_over = self._handing_over
            broken = None if self.handed_over else next((t for t in tasks if t in done), None)
        finally:
            if self.handed_over:
                self._due.set()
                await asyncio.wait((writing,), timeout=_LAST_WRITE_S)
                tasks.remove(reading)  # cancelled, it would take the call with it
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._link.on_disconnected()
            if not self.handed_over:
                call.cancel()
        if broken is not None:
            broken.result()  # raises: no task of a stream that is served returns
        raise self._ending.result()

    async def _watch_silence(self) -> NoReturn:
        """End the stream when no message came for too long: liveness travels with the work."""
        while True:
            limit_s = SILENT_AFTER_S if self._welcomed else WELCOME_DUE_S
            left_s = self._heard_at + limit_s - boot_seconds()
            if left_s <= 0:
                raise StreamEnded(
                    f"cannot reach the control plane at {self._way.address}: nothing was heard "
                    f"for {limit_s:.0f} s; check this machine's network"
                )
            await asyncio.sleep(left_s)

    async def _write(self, call: RawCall) -> None:
        loop = asyncio.get_running_loop()
        while not self._handing_over:
            self._due.clear()
            now = boot_seconds()
            due = self._link.next_due(now)
            if due is None:
                await self._due.wait()
            elif due > now:
                timer = loop.call_later(due - now, self._due.set)
                await self._due.wait()
                timer.cancel()
            else:
                events = self._link.next_frame(now, FRAME_BYTES, self._read)
                try:
                    await call.write(codec.encode_up(events))
                except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    # The call is over; the reader learns why.
                    await self._due.wait()

    async def _receive(self, call: RawCall) -> None:
        while True:
            try:
                message = await call.read()
            except grpc.aio.AioRpcError as error:
                raise self._failed(error.code(), error.details()) from error
            if self._ending.done():
                return  # whatever it is, the next stream is told it again, if it still holds
            if isinstance(message, bytes):
                if self._slept():
                    # Said before the sleep, it may be withdrawn since: nothing of it is begun.
                    raise StreamEnded(SLEPT, recycle=True, slept=True)
                self._heard_at = boot_seconds()
                self._take(message)
            else:
                raise self._failed(await call.code(), await call.details())

    def _take(self, message: bytes) -> None:
        try:
            actions = self._link.receive(codec.decode_down(message), boot_seconds())
        except ProtocolError as error:
            raise StreamEnded(f"the replica broke the protocol: {error}") from error
        for action in actions:
            if isinstance(action, Closed):
                raise StreamEnded(printable(action.bye.message or action.bye.code), bye=action.bye)
            if isinstance(action, DrainRequested):
                self._on_drain(action.within_s)
            elif isinstance(action, Welcomed):
                self._welcomed = True
                self._on_welcome(action.welcome)
            self._perform(action)
        self._due.set()  # answers are due at once

    def _failed(self, code: grpc.StatusCode | None, details: str | None) -> StreamEnded:
        if code is grpc.StatusCode.OK:
            return StreamEnded("the control plane closed the stream")
        reason = fault_words(code, details, self._way.address, self._way.proxy)
        return StreamEnded(reason, raw=raw_words(code, details))
