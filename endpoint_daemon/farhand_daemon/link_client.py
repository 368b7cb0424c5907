"""Keeps this machine linked: dials, serves one stream after the other, waits in between.

It decides when to dial and why to stop; ``stream`` moves the bytes and ``warden`` does the work.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

import grpc.aio

from farhand_daemon.boot_clock import SleepWatch, boot_seconds
from farhand_daemon.channels import channel_options, mutual_tls
from farhand_daemon.event_log import EventLog
from farhand_daemon.identity import MachineCredentials, store_identity
from farhand_daemon.paths import Home
from farhand_daemon.renew import renew_in_process, renewal_is_due
from farhand_daemon.status import StatusFile
from farhand_daemon.stream import LinkStream, StreamEnded
from farhand_shared.backoff import Backoff
from farhand_shared.errors import FarhandError
from farhand_shared.limits import BACKOFF_CAP_S
from farhand_shared.link_actions import DaemonAction
from farhand_shared.link_daemon import DaemonLink
from farhand_shared.link_events import Bye, Hello, Stream, Welcome

_LOOK_AROUND_S: Final = 5.0  # wake test; also notices an edited machine file
_SLEPT_S: Final = 10.0
_RECYCLE_S: Final = (20 * 60.0, 40 * 60.0)
_ASK_ADDRESS_AFTER: Final = 3  # failed dials in a row, then the addresses are looked up again
_RENEW_AGAIN_S: Final = 600.0  # between tries of a renewal that failed


class Worker(Protocol):
    """What the client needs of the warden."""

    def read(self, attempt_id: str, stream: Stream, offset: int, max_bytes: int) -> bytes: ...

    def perform(self, action: DaemonAction) -> None: ...

    def hello(self) -> Hello: ...

    def hello_is_stale(self) -> bool:
        """Tell whether what the last Hello said of the machine file is no longer true."""
        ...

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
        on_offline: Callable[[str], None],
    ) -> None:
        self._home = home
        self._identity = identity
        self._link = link
        self._worker = worker
        self._status = status
        self._log = log
        self._on_connected = on_connected
        self._on_offline = on_offline
        self._backoff = Backoff(random=random.SystemRandom().random)
        self._stream: LinkStream | None = None
        self._failures = 0
        self._dial_now = asyncio.Event()
        self._renew_after = 0.0

    def wake(self) -> None:
        """Let the writer look for what has become due."""
        if self._stream is not None:
            self._stream.wake()

    async def run(self) -> Bye:
        """Dial for ever; return the goodbye after which dialling again cannot help."""
        watch = asyncio.create_task(self._look_around(), name="link-watch")
        try:
            while True:
                await self._renew_if_due()
                ended = await self._serve_one_stream()
                if ended.bye is not None and not ended.bye.retry:
                    return ended.bye
                if not ended.recycle:
                    await self._pause()
        finally:
            watch.cancel()

    async def _serve_one_stream(self) -> StreamEnded:
        """Open a channel of its own (a balancer may choose another replica) and serve it."""
        identity = self._identity
        address = identity.link_address
        self._tell("connecting")
        stream = self._stream = LinkStream(
            self._link,
            read=self._worker.read,
            perform=self._worker.perform,
            on_welcome=self._welcomed,
        )
        recycle = asyncio.get_running_loop().call_later(
            random.SystemRandom().uniform(*_RECYCLE_S),
            stream.end,
            StreamEnded("recycling the stream", recycle=True),
        )
        credentials = mutual_tls(
            identity.root_pem.encode(),
            identity.key_pem.encode(),
            identity.certificate_pem.encode(),
        )
        try:
            async with grpc.aio.secure_channel(
                address, credentials, options=channel_options(address)
            ) as channel:
                await stream.run(channel, self._worker.hello())
        except StreamEnded as ended:
            self._over(ended)
            return ended
        finally:
            recycle.cancel()
            self._stream = None
            self._worker.link_is(False)

    def _welcomed(self, welcome: Welcome) -> None:
        self._backoff.connected(boot_seconds())
        self._failures = 0
        if welcome.machine_name != self._identity.machine_name:
            self._keep(replace(self._identity, machine_name=welcome.machine_name))
        self._worker.link_is(True)
        self._tell("connected", stream_epoch=welcome.stream_epoch)
        self._log.write("connected", epoch=welcome.stream_epoch, name=welcome.machine_name)
        self._on_connected(welcome.machine_name)

    def _over(self, ended: StreamEnded) -> None:
        reason = str(ended)
        bye = ended.bye.code if ended.bye is not None else ""
        self._log.write("stream_ended", reason=reason, bye=bye, recycle=ended.recycle)
        if not ended.recycle:
            wanted = ended.bye is None or ended.bye.retry
            self._tell("offline" if wanted else "ended", reason=reason, bye=bye)
            if wanted:
                self._on_offline(reason)

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

    async def _pause(self) -> None:
        """Wait before the next dial; a wake of the machine ends the wait."""
        self._failures += 1
        if self._failures % _ASK_ADDRESS_AFTER == 0:
            await self._ask_for_addresses()
        self._dial_now.clear()
        wait_s = min(self._backoff.failed(boot_seconds()), BACKOFF_CAP_S)
        await self._sleep(wait_s)
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

    async def _look_around(self) -> None:
        """Every few seconds: did the machine sleep, is the certificate old, the file changed?"""
        slept = SleepWatch(tolerance_s=_SLEPT_S)
        while True:
            await asyncio.sleep(_LOOK_AROUND_S)
            if slept.jumped():
                self._log.write("woke")
                # What was queued may be withdrawn meanwhile: ask the server before any start.
                self._end_stream("the machine slept or its clock was set")
                self._dial_now.set()
            elif self._renewal_wanted():
                self._end_stream("the certificate is due for renewal")
            elif self._link.may_start and self._worker.hello_is_stale():
                self._end_stream("the machine file changed")

    def _end_stream(self, reason: str) -> None:
        if self._stream is not None:
            self._stream.end(StreamEnded(reason, recycle=True))

    def _renewal_wanted(self) -> bool:
        return renewal_is_due(self._identity) and boot_seconds() >= self._renew_after

    async def _renew_if_due(self) -> None:
        if not self._renewal_wanted():
            return
        try:
            self._identity = await renew_in_process(self._home)
        except (FarhandError, OSError, TimeoutError) as error:
            self._renew_after = boot_seconds() + _RENEW_AGAIN_S
            self._log.write("renewal_failed", reason=str(error))
        else:
            self._log.write("renewed", until=self._identity.not_after.isoformat())
