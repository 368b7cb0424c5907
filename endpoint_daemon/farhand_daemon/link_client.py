"""Keeps this machine linked: dials, serves one stream after the other, waits in between.

It decides when to dial and why to stop; ``stream`` moves the bytes and ``warden`` does the work.
"""

import asyncio
import os
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

import grpc.aio

from farhand_daemon.boot_clock import SleepWatch, boot_seconds
from farhand_daemon.channels import channel_options, mutual_tls
from farhand_daemon.event_log import EventLog
from farhand_daemon.identity import MachineCredentials, store_identity
from farhand_daemon.network.ways import find_way
from farhand_daemon.paths import Home
from farhand_daemon.renew import has_ended, renew_in_process, renewal_is_due
from farhand_daemon.status import StatusFile
from farhand_daemon.stream import LinkStream, StreamEnded
from farhand_shared.backoff import Backoff
from farhand_shared.errors import FarhandError, NotAllowed
from farhand_shared.limits import BACKOFF_CAP_S
from farhand_shared.link_actions import DaemonAction
from farhand_shared.link_daemon import DaemonLink
from farhand_shared.link_events import Bye, Hello, Stream, Welcome

_LOOK_AROUND_S: Final = 5.0  # wake test; also notices an edited machine file
_SLEPT_S: Final = 10.0
_RECYCLE_S: Final = (20 * 60.0, 40 * 60.0)
_ASK_ADDRESS_AFTER: Final = 3  # failed dials in a row, then the addresses are looked up again
_RENEW_AGAIN_S: Final = 600.0  # between tries of a renewal that failed
_REFUSED_AGAIN_S: Final = 3600.0  # of one that was refused: a person has to see to it
_PENDING_AGAIN_S: Final = 5.0  # somebody compares six words now, and then waits for this machine


class Worker(Protocol):
    """What the client needs of the warden."""

    def read(self, attempt_id: str, stream: Stream, offset: int, max_bytes: int) -> bytes: ...

    def perform(self, action: DaemonAction) -> None: ...

    def hello(self) -> Hello: ...

    def hello_is_stale(self) -> bool:
        """Tell whether what the last Hello said is no longer true."""
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
        self._backoff = Backoff(random=random.SystemRandom().random)
        self._stream: LinkStream | None = None
        self._failures = 0
        self._dial_now = asyncio.Event()
        self._renewing = asyncio.Lock()
        self._renew_after = 0.0
        self._renewal_problem = ""
        self._refused = False  # the last renewal, by the server

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
                if has_ended(self._identity):
                    await self._wait_to_renew()
                    continue
                ended = await self._serve_one_stream()
                if ended.bye is not None and not ended.bye.retry:
                    return ended.bye
                if not ended.recycle:
                    await self._pause(ended.bye)
        finally:
            watch.cancel()

    async def _serve_one_stream(self) -> StreamEnded:
        """Open a channel of its own (a balancer may choose another replica) and serve it."""
        identity = self._identity
        self._tell("connecting")
        try:
            way = await find_way(identity.link_address, os.environ)
        except FarhandError as error:
            ended = StreamEnded(str(error))
            self._over(ended)
            return ended
        stream = self._stream = LinkStream(
            self._link,
            way=way,
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
                way.target, credentials, options=channel_options(way)
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
        last = self._status.current
        if bye != "pending" or last is None or last.bye != bye:  # once is enough to be told
            raw = {"raw": ended.raw} if ended.raw else {}
            self._log.write("stream_ended", reason=reason, bye=bye, recycle=ended.recycle, **raw)
        if not ended.recycle:
            wanted = ended.bye is None or ended.bye.retry
            self._tell("offline" if wanted else "ended", reason=reason, bye=bye)
            if wanted:
                goes_on = " (it goes on trying)" if ended.raw else ""
                self._on_offline(f"{reason}{goes_on}", bye)

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

    async def _pause(self, bye: Bye | None) -> None:
        """Wait before the next dial; a wake of the machine ends the wait."""
        self._failures = self._failures + 1 if bye is None else 0  # who says goodbye was reached
        if bye is None and self._failures % _ASK_ADDRESS_AFTER == 0:
            await self._ask_for_addresses()
        self._dial_now.clear()
        cap_s = _PENDING_AGAIN_S if bye is not None and bye.code == "pending" else BACKOFF_CAP_S
        wait_s = min(self._backoff.failed(boot_seconds()), cap_s)
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
                self._renew_after = 0.0  # the clock may have been what was refused
                # What was queued may be withdrawn meanwhile: ask the server before any start.
                self._end_stream("the machine slept or its clock was set")
                self._dial_now.set()
            elif self._stream is not None and await self._renew_if_due():
                self._end_stream("the certificate was renewed")
            elif self._link.may_start and self._worker.hello_is_stale():
                self._end_stream("the machine has something new to say of itself")

    def _end_stream(self, reason: str) -> None:
        if self._stream is not None:
            self._stream.end(StreamEnded(reason, recycle=True))

    def _renewal_wanted(self) -> bool:
        return renewal_is_due(self._identity) and boot_seconds() >= self._renew_after

    async def _renew_if_due(self) -> bool:
        """Renew when it is time, while the stream goes on; tell whether the certificate is new."""
        async with self._renewing:
            if not self._renewal_wanted():
                return False
            try:
                self._identity = await renew_in_process(self._home)
            except (FarhandError, OSError) as error:
                self._refused = isinstance(error, NotAllowed)
                again_s = _REFUSED_AGAIN_S if self._refused else _RENEW_AGAIN_S
                self._renew_after = boot_seconds() + again_s
                self._renewal_problem = str(error)
                self._log.write("renewal_failed", reason=str(error), refused=self._refused)
            else:
                self._refused, self._renewal_problem = False, ""
                self._log.write("renewed", until=self._identity.not_after.isoformat())
            self._status.note_renewal(self._renewal_problem)
            return not self._renewal_problem

    async def _wait_to_renew(self) -> None:
        """Wait with an ended certificate, which nobody would take: dialling cannot help."""
        reason = self._renewal_problem or "the certificate has ended"
        self._tell("offline", reason=reason)
        self._on_offline(reason, "")
        if self._refused:
            await self._ask_for_addresses()  # it may be another server that has its old one
            self._dial_now.clear()
            await self._sleep(max(0.0, self._renew_after - boot_seconds()))
        else:
            await self._pause(None)
            self._renew_after = 0.0
