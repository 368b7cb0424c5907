"""Keeps this machine linked: dials, serves one stream after the other, waits in between.

It decides when to dial and why to stop; ``stream`` moves the bytes, ``line`` is what they go over,
and ``warden`` does the work.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Final, Protocol

from farhand_daemon.boot_clock import SleepWatch, boot_seconds
from farhand_daemon.event_log import EventLog
from farhand_daemon.identity import MachineCredentials, store_identity
from farhand_daemon.line import Line
from farhand_daemon.network.changes import NetworkWatch, Sources, sources
from farhand_daemon.network.names import Address
from farhand_daemon.paths import Home
from farhand_daemon.renew import has_ended
from farhand_daemon.renewal import Renewal
from farhand_daemon.status import StatusFile
from farhand_daemon.stream import SLEPT, LinkStream, StreamEnded
from farhand_shared.backoff import Backoff
from farhand_shared.errors import FarhandError
from farhand_shared.limits import BACKOFF_CAP_S
from farhand_shared.link_actions import DaemonAction
from farhand_shared.link_daemon import DaemonLink
from farhand_shared.link_events import Bye, Hello, Stream, Welcome

_LOOK_AROUND_S: Final = 5.0  # wake test; also notices an edited machine file
_SLEPT_S: Final = 10.0
_LATE_S: Final = 9.0  # of a look around; less than the 10 s after which a replica gives us up
_RECYCLE_S: Final = (20 * 60.0, 40 * 60.0)
_GO_OVER_WITHIN_S: Final = 10.0  # for the next line to be ready; the stream goes on meanwhile
_GO_OVER_AGAIN_S: Final = 60.0
_NETWORK_SETTLES_S: Final = 3.0  # addresses and routes come one by one; and the jitter of an office
_ASK_ADDRESS_AFTER: Final = 3  # failed dials in a row, then the addresses are looked up again
_PENDING_AGAIN_S: Final = 5.0  # somebody compares six words now, and then waits for this machine
_MOVED: Final = "this machine has come to another network"


class Worker(Protocol):
    """What the client needs of the warden."""

    def read(self, attempt_id: str, stream: Stream, offset: int, max_bytes: int) -> bytes: ...

    def perform(self, action: DaemonAction) -> None: ...

    def hello(self) -> Hello: ...

    def hello_is_stale(self) -> bool:
        """Tell whether what the last Hello said is no longer true."""
        ...

    def stream_is_over(self) -> None: ...

    def link_is(self, up: bool) -> None: ...


class LinkClient:
    """Runs until the replica says for good that this machine is not wanted."""

    def __init__(
        self,
        *,
        home: Home,
        identity: MachineCredentials,
        link: DaemonLink,
        worker: Worker,
        status: StatusFile,
        log: EventLog,
        on_connected: Callable[[str], None],
        on_offline: Callable[[str, str], None],  # reason, code of the replica's goodbye or ""
    ) -> None:
        self._home = home
        self._identity = identity
        self._link = link
        self._worker = worker
        self._status = status
        self._log = log
        self._on_connected = on_connected
        self._on_offline = on_offline
        self._random = random.SystemRandom()
        self._backoff = Backoff(random=self._random.random)
        self._renewal = Renewal(home, status, log)
        self._sleep_watch = SleepWatch(late_s=_LATE_S, tolerance_s=_SLEPT_S)
        self._failures = 0
        self._dial_now = asyncio.Event()
        self._stream: LinkStream | None = None
        self._shown = ""  # the certificate of the stream
        self._recycle_at = 0.0
        self._next: Line | None = None  # ready, for the stream that follows at once
        self._left: tuple[Line, LinkStream] | None = None  # until the next stream is welcomed
        self._going_over: asyncio.Task[None] | None = None
        self._go_over_after = 0.0
        self._hops: tuple[Address, ...] = ()  # of the last dial, and our own addresses towards them
        self._sources: Sources = ()
        self._moved = False  # since the last dial
        self._settling: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def wake(self) -> None:
        """Let the writer look for what has become due."""
        if self._stream is not None:
            self._stream.wake()

    async def run(self) -> Bye:
        """Dial for ever; return the goodbye after which dialling again cannot help."""
        watch = asyncio.create_task(self._look_around(), name="link-watch")
        try:
            with NetworkWatch(self._network_news):
                while True:
                    if self._next is None:  # else a stream is to go on at once
                        await self._renew_if_due()
                        if has_ended(self._identity):
                            await self._wait_to_renew()
                            continue
                    ended = await self._serve_one_stream()
                    if ended.bye is not None and not ended.bye.retry:
                        return ended.bye
                    if not ended.recycle:
                        await self._pause(ended.bye)
        finally:
            if self._settling is not None:
                self._settling.cancel()
            await self._close_all(watch)

    async def _close_all(self, watch: "asyncio.Task[None]") -> None:
        for task in (watch, *([self._going_over] if self._going_over else [])):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._close_left()
        if self._next is not None:
            await self._next.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # One stream

    async def _serve_one_stream(self) -> StreamEnded:
        line, self._next = self._next, None
        if line is None:
            self._tell("connecting")
            try:
                line = await self._dial()
            except FarhandError as error:
                return self._over(StreamEnded(str(error)))
        stream = self._stream = LinkStream(
            self._link,
            way=line.way,
            read=self._worker.read,
            perform=self._worker.perform,
            on_welcome=self._welcomed,
            on_drain=self._draining,
            slept=self._sleep_watch.slept,
        )
        self._shown = line.certificate_pem
        self._recycle_at = boot_seconds() + self._random.uniform(*_RECYCLE_S)
        try:
            await stream.run(line.channel, self._worker.hello())
        except StreamEnded as ended:
            return self._over(ended)
        finally:
            self._stream = None
            self._worker.stream_is_over()
            self._close_left()
            if stream.handed_over:
                self._left = line, stream
            else:
                self._worker.link_is(False)
                self._in_background(_closed(line, stream), "link-close")

    async def _dial(self) -> Line:
        self._moved = False
        self._dial_now.clear()
        line = await Line.open(self._identity)
        self._hops = line.way.hops
        self._sources = sources(self._hops)
        return line

    def _welcomed(self, welcome: Welcome) -> None:
        self._close_left()
        self._backoff.connected(boot_seconds())
        self._failures = 0
        if welcome.machine_name != self._identity.machine_name:
            self._keep(replace(self._identity, machine_name=welcome.machine_name))
        self._worker.link_is(True)
        self._tell("connected", stream_epoch=welcome.stream_epoch)
        self._log.write("connected", epoch=welcome.stream_epoch, name=welcome.machine_name)
        self._on_connected(welcome.machine_name)

    def _over(self, ended: StreamEnded) -> StreamEnded:
        reason = str(ended)
        bye = ended.bye.code if ended.bye is not None else ""
        last = self._status.current
        if bye != "pending" or last is None or last.bye != bye:  # once is enough to be told
            raw = {"raw": ended.raw} if ended.raw else {}
            self._log.write("stream_ended", reason=reason, bye=bye, recycle=ended.recycle, **raw)
        if ended.slept:
            self._woke()
        if ended.bye is not None and ended.bye.code == "going_away":
            self._backoff.back_soon(boot_seconds())
        if not ended.recycle:
            wanted = ended.bye is None or ended.bye.retry
            self._tell("offline" if wanted else "ended", reason=reason, bye=bye)
            if wanted:
                goes_on = " (it goes on trying)" if reason.startswith("cannot reach ") else ""
                self._on_offline(f"{reason}{goes_on}", bye)
        return ended

    def _tell(self, state: str, *, reason: str = "", bye: str = "", stream_epoch: int = 0) -> None:
        last = self._status.current
        if state == "connecting" and last is not None and last.state == "offline":
            return  # still offline, trying: the reason stays readable
        self._status.set(
            state,
            machine_name=self._identity.machine_name,
            link_address=self._identity.link_address,
            reason=reason,
            bye=bye,
            stream_epoch=stream_epoch,
        )

    # Between two streams

    async def _pause(self, bye: Bye | None) -> None:
        """Wait before the next dial; a wake, also one that was just noticed, ends the wait."""
        self._failures = self._failures + 1 if bye is None else 0  # who says goodbye was reached
        if bye is None and self._failures % _ASK_ADDRESS_AFTER == 0:
            await self._ask_for_addresses()
        cap_s = _PENDING_AGAIN_S if bye is not None and bye.code == "pending" else BACKOFF_CAP_S
        await self._sleep(min(self._backoff.failed(boot_seconds()), cap_s))
        if self._dial_now.is_set():
            self._dial_now.clear()
            await self._sleep(self._backoff.at_once())

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._dial_now.wait()
        except TimeoutError:
            return

    async def _ask_for_addresses(self) -> None:
        """Look the listeners up again: they may have moved. The pinned root still decides."""
        from farhand_daemon.discovery import discover  # HTTP and TLS of its own; seldom needed

        try:
            found = await asyncio.to_thread(discover, self._identity.server_url)
        except FarhandError as error:
            self._log.write("addresses_unknown", reason=str(error))
            return
        self._keep(
            replace(
                self._identity,
                enrol_address=found.enrol_address,
                link_address=found.link_address,
            )
        )

    def _keep(self, identity: MachineCredentials) -> None:
        if identity == self._identity:
            return
        self._identity = identity
        try:
            store_identity(self._home, identity)
        except OSError as error:
            self._log.write("identity_not_stored", reason=str(error))

    # Going over to a new line: it is opened first, so that no command and no output waits for it

    def _go_over(self, reason: str, *, within_s: float = _GO_OVER_WITHIN_S) -> None:
        """Let a new stream take over from this one, unless that is under way."""
        if self._stream is None or (self._going_over and not self._going_over.done()):
            return
        self._going_over = asyncio.create_task(
            self._open_next(self._stream, reason, within_s), name="link-next"
        )

    async def _open_next(self, stream: LinkStream, reason: str, within_s: float) -> None:
        line = None
        try:
            line = await self._dial()
            await line.ready(within_s)
            if self._stream is stream and stream.hand_over(StreamEnded(reason, recycle=True)):
                self._next, line = line, None
        except FarhandError as error:
            self._log.write("stream_kept", reason=reason, because=str(error))
            self._go_over_after = boot_seconds() + _GO_OVER_AGAIN_S
            self._moved = self._moved or reason == _MOVED
        finally:
            if line is not None:
                await line.close()

    def _draining(self, within_s: float) -> None:
        self._backoff.back_soon(boot_seconds())
        self._go_over("the replica is going away", within_s=within_s)

    def _close_left(self) -> None:
        """End what a newer stream has taken over from."""
        if self._left is not None:
            self._in_background(_closed(*self._left), "link-left")
            self._left = None

    def _in_background(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # What is noticed meanwhile

    async def _look_around(self) -> None:
        """Every few seconds: did the machine sleep, is the certificate old, the file changed?"""
        while True:
            await asyncio.sleep(_LOOK_AROUND_S)
            if self._sleep_watch.slept():
                self._woke()
                # What was queued may be withdrawn meanwhile: ask the server before any start.
                self._end_stream(StreamEnded(SLEPT, recycle=True))
            elif self._stream is not None:
                await self._renew_if_due()
                reason = self._reason_to_go_over()
                if reason and boot_seconds() >= self._go_over_after:
                    self._go_over(reason)

    def _reason_to_go_over(self) -> str:
        if not self._link.may_start:  # not welcomed yet
            return ""
        if self._moved:
            return _MOVED
        if self._shown != self._identity.certificate_pem:
            return "the certificate was renewed"
        if self._worker.hello_is_stale():
            return "the machine has something new to say of itself"
        if boot_seconds() >= self._recycle_at:
            return "recycling the stream"
        return ""

    def _woke(self) -> None:
        self._log.write("woke")
        self._renewal.try_again()  # the clock may have been what was refused
        self._backoff.at_once()
        self._dial_now.set()

    def _network_news(self) -> None:
        """The kernel tells of addresses and routes, one by one; look when they have settled."""
        if self._settling is None:
            wait_s = self._random.random() * _NETWORK_SETTLES_S
            loop = asyncio.get_running_loop()
            self._settling = loop.call_later(wait_s, self._network_settled)

    def _network_settled(self) -> None:
        self._settling = None
        now = sources(self._hops)
        if now == self._sources or not any(now):
            return  # nothing that concerns us, or no network at all: there is nowhere to dial
        self._log.write("network_changed")
        self._sources, self._moved = now, True
        self._backoff.at_once()
        self._dial_now.set()
        if self._link.may_start:
            self._go_over(_MOVED)  # should the old way still lead there, nothing is lost
        else:
            self._end_stream(StreamEnded(_MOVED, recycle=True))

    def _end_stream(self, reason: StreamEnded) -> None:
        if self._stream is not None:
            self._stream.end(reason)

    # The certificate

    async def _renew_if_due(self) -> None:
        new = await self._renewal.renewed(self._identity)
        if new is not None:
            self._identity = new

    async def _wait_to_renew(self) -> None:
        """Wait with an ended certificate, which nobody would take: dialling cannot help."""
        reason = self._renewal.problem or "the certificate has ended"
        self._tell("offline", reason=reason)
        self._on_offline(reason, "")
        if self._renewal.refused:
            await self._ask_for_addresses()  # it may be another server that has its old one
            self._dial_now.clear()
            await self._sleep(self._renewal.wait_s)
        else:
            await self._pause(None)
            self._renewal.try_again()


async def _closed(line: Line, stream: LinkStream) -> None:
    await stream.close()
    await line.close()
