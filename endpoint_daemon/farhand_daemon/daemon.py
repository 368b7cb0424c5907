"""The daemon as a whole: puts the parts together, runs until told to stop, stops in order.

``launch_fork_server`` comes before the import of this module: gRPC must not be there when a
process forks.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from farhand_daemon.attempts import Attempts
from farhand_daemon.command_env import CommandEnvironment
from farhand_daemon.event_log import EventLog
from farhand_daemon.greeting import Greeting
from farhand_daemon.identity import MachineCredentials
from farhand_daemon.link_client import LinkClient
from farhand_daemon.machine_file import Ceiling
from farhand_daemon.paths import Home
from farhand_daemon.process_identity import boot_id
from farhand_daemon.program import is_installed
from farhand_daemon.status import StatusFile, way_back
from farhand_daemon.supervisor.fork_client import ForkServer
from farhand_daemon.supervisor.records import StopReason
from farhand_daemon.surveyor import Surveyor
from farhand_daemon.warden import Warden
from farhand_shared.limits import GRACE_MS
from farhand_shared.link_daemon import DaemonLink
from farhand_shared.link_events import Bye

if TYPE_CHECKING:
    from farhand_daemon.service.notify import Notifier
    from farhand_daemon.update.schedule import Updates

EXIT_NOT_WANTED: Final = 3  # the server said for good that this machine is not wanted
RESTART: Final = -1  # of `run`: leave as asked, and be started again at once, as another version
_DELIVER_S: Final = 2.0  # how long a stop waits for acknowledgements
_END_S: Final = GRACE_MS / 1000 + 3.0  # how long a stop waits for commands that it ends


@dataclass(frozen=True, slots=True)
class Leave:
    """Exit and leave running commands to be adopted by the next daemon."""


@dataclass(frozen=True, slots=True)
class Restart:
    """Leave running commands to be adopted by what this process becomes now."""


@dataclass(frozen=True, slots=True)
class EndAll:
    """End running commands, deliver their results, exit."""

    reason: StopReason


Order = Leave | Restart | EndAll


class Daemon:
    """One run of the daemon over one home, whose lock the caller holds."""

    def __init__(
        self,
        home: Home,
        identity: MachineCredentials,
        fork_server: ForkServer,
        notifier: "Notifier | None" = None,
    ) -> None:
        """``notifier``: tells the service manager, where one wants to know."""
        self._home = home
        self._fork_server = fork_server
        self._notifier = notifier
        self._log = EventLog(home.log_file)
        self._status = StatusFile(home)
        self._identity = identity
        self._ceiling = Ceiling(home.machine_file)
        self._environment = CommandEnvironment(os.environb)
        self._link = DaemonLink()
        self._surveyor = Surveyor(
            ceiling=self._ceiling, environment=self._environment, log=self._log
        )
        self._captured: asyncio.Task[None] | None = None
        self._updates: Updates | None = None
        self._updating: asyncio.Task[None] | None = None
        self._told = ""  # what was said last

    async def run(
        self, *, lifeline: int | None = None, trial: int | None = None, trial_failed: bool = False
    ) -> int:
        """Return the exit status, or RESTART. ``lifeline``: a descriptor whose end means Leave.

        Of updates: ``trial`` is such a descriptor too, on which to say that we are connected;
        ``trial_failed``: another version could not even be tried just now.
        """
        orders = self._listen_for_orders(lifeline if trial is None else trial)
        # Whoever holds a lifeline has started this program, and changes its version.
        if lifeline is None:
            self._updating = self._start_updating(orders, trial, trial_failed)
        boot = boot_id()
        warden = Warden(
            link=self._link,
            ceiling=self._ceiling,
            greeting=Greeting(
                self._ceiling,
                boot_id=boot,
                survey=lambda: self._surveyor.current,
                update_problem=lambda: "" if self._updates is None else self._updates.problem,
            ),
            environment=self._environment,
            log=self._log,
        )
        attempts = await Attempts.open(self._home.root, self._fork_server, warden)
        warden.adopt(attempts)
        client = LinkClient(
            home=self._home,
            identity=self._identity,
            link=self._link,
            worker=warden,
            status=self._status,
            log=self._log,
            on_connected=self._connected,
            on_offline=self._offline,
        )
        warden.wake = client.wake
        self._log.write("daemon_started", pid=os.getpid(), live=len(attempts.live))
        if self._notifier is not None:
            self._notifier.ready()  # offline is ready too: waiting for a network is its work
        dialling = asyncio.create_task(client.run(), name="link-client")
        order = asyncio.create_task(orders.get(), name="orders")
        ended_all = False
        try:
            await asyncio.wait({dialling, order}, return_when=asyncio.FIRST_COMPLETED)
            ordered = None if dialling.done() else order.result()
            if self._notifier is not None and not isinstance(ordered, Restart):
                self._notifier.stopping()
            if ordered is None:
                return await self._not_wanted(dialling.result(), warden)
            ended_all = isinstance(ordered, EndAll)
            await self._carry_out(ordered, orders, warden)
            return RESTART if isinstance(ordered, Restart) else 0
        finally:
            others = [task for task in (self._captured, self._updating) if task is not None]
            for task in (dialling, order, *others):
                task.cancel()
            await asyncio.gather(dialling, order, *others, return_exceptions=True)
            await attempts.close(quit_leftovers=ended_all)
            self._stopped()

    def _start_updating(
        self, orders: "asyncio.Queue[Order]", trial: int | None, trial_failed: bool
    ) -> "asyncio.Task[None] | None":
        """Look after the version of this program, where the installer put it there."""
        if trial is not None:
            from farhand_daemon.update.schedule import beat

            return asyncio.create_task(beat(trial, self._is_connected), name="on-trial")
        if not is_installed(Path(sys.prefix)):
            return None
        from farhand_daemon.update.schedule import updates_of

        self._updates = updates_of(
            Path(sys.prefix),
            home=self._home,
            ceiling=self._ceiling,
            log=self._log,
            connected=self._is_connected,
            restart=lambda: orders.put_nowait(Restart()),
            trial_failed=trial_failed,
        )
        if self._updates is None:
            return None
        return asyncio.create_task(self._updates.run(), name="updates")

    def _listen_for_orders(self, lifeline: int | None) -> "asyncio.Queue[Order]":
        loop = asyncio.get_running_loop()
        orders: asyncio.Queue[Order] = asyncio.Queue()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, orders.put_nowait, Leave())
        loop.add_signal_handler(signal.SIGINT, orders.put_nowait, EndAll(StopReason.SHUTDOWN))
        if lifeline is not None:
            os.set_inheritable(lifeline, False)

            def read() -> None:
                if not os.read(lifeline, 4096):
                    loop.remove_reader(lifeline)
                    orders.put_nowait(Leave())

            loop.add_reader(lifeline, read)
        return orders

    def _is_connected(self) -> bool:
        return self._link.may_start

    async def _carry_out(
        self, order: "Order", orders: "asyncio.Queue[Order]", warden: Warden
    ) -> None:
        """Stop as ordered; another order meanwhile means: leave now."""
        self._log.write("stopping", order=type(order).__name__)
        stopping = asyncio.create_task(self._stop(order, warden), name="stop")
        again = asyncio.create_task(orders.get(), name="orders-again")
        await asyncio.wait({stopping, again}, return_when=asyncio.FIRST_COMPLETED)
        for task in (stopping, again):
            task.cancel()
        await asyncio.gather(stopping, again, return_exceptions=True)

    async def _stop(self, order: "Order", warden: Warden) -> None:
        warden.stop(order.reason if isinstance(order, EndAll) else None)
        if isinstance(order, EndAll):
            await _within(_END_S, warden.ended())
        if self._link.may_start:  # without a link nothing can be delivered now
            await _within(_DELIVER_S, warden.delivered())

    async def _not_wanted(self, bye: Bye, warden: Warden) -> int:
        """The server is done with this machine: nothing may go on running for a revoked one."""
        reason = bye.message.partition("; ")[0] or "the server gives no reason"
        _say(f"cannot stay connected: {reason} ({bye.code}); {way_back(bye.code)}")
        self._log.write("not_wanted", code=bye.code, message=bye.message)
        if bye.code == "revoked":
            warden.stop(StopReason.CANCEL)
            await _within(_END_S, warden.ended())
        return EXIT_NOT_WANTED

    def _connected(self, name: str) -> None:
        self._tell_once(f"connected as {name}")
        if self._updates is not None:
            self._updates.connected_now()
        if self._captured is None:
            self._captured = asyncio.create_task(self._capture(), name="login-environment")

    def _offline(self, reason: str, bye: str) -> None:
        """Say once per outage what is wrong; the log has every try."""
        if bye == "pending":
            self._tell_once("waiting to be confirmed: the code's maker compares the six words")
        elif reason.startswith("cannot "):
            self._tell_once(reason, kind="offline")
        else:
            self._tell_once(
                f"cannot connect: {reason}; trying again until it works", kind="offline"
            )

    def _tell_once(self, text: str, *, kind: str = "") -> None:
        """Say something unless the last thing said was of this kind (or the same)."""
        if self._told != (kind or text):
            self._told = kind or text
            _say(text)

    async def _capture(self) -> None:
        """Learn the login environment, after connecting because a profile may take seconds; then
        look around with it now and then."""
        if not await self._environment.capture():
            self._log.write("login_environment_unknown")
        await self._surveyor.run()

    def _stopped(self) -> None:
        last = self._status.current
        if last is not None and last.state != "ended":
            self._status.set(
                "stopped", machine_name=last.machine_name, link_address=last.link_address
            )
        self._log.write("daemon_stopped")
        self._log.close()


async def _within(seconds: float, done: Coroutine[Any, Any, None]) -> None:
    """Wait for ``done``, but not longer."""
    try:
        async with asyncio.timeout(seconds):
            await done
    except TimeoutError:
        return


def _say(text: str) -> None:
    print(f"farhandd: {text}", file=sys.stderr, flush=True)
