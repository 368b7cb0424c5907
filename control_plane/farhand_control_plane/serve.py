"""One replica as a process: one event loop with HTTP, enrolment, links, sessions and replies.

Started by `farhand serve`, and by `farhand up` as its child; then the parent gives the database's
address over the lifeline as soon as it knows it, so that our imports and its start overlap, and the
lifeline's end is our end.
"""

import asyncio
import faulthandler
import gc
import json
import logging
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from farhand_control_plane.config import Settings, instance_key
from farhand_control_plane.logs import log
from farhand_control_plane.ports import (
    Ports,
    bracketed,
    choose,
    listening_socket,
    load_ports,
    reachable_host,
    store_ports,
)
from farhand_shared.errors import FarhandError, InvalidInput
from farhand_shared.version import __version__

if TYPE_CHECKING:  # imported in a thread while the database starts
    from farhand_control_plane.wiring import Replica

LOGGER = logging.getLogger(__name__)

HEARTBEAT_S: Final = 15.0
LAG_PROBE_S: Final = 0.5
LAG_LOGGED_S: Final = 0.25
UPKEEP_S: Final = 24 * 3600.0
OUTPUT_KEPT_S: Final = 30 * 24 * 3600.0
MESSAGES_KEPT_S: Final = 30 * 24 * 3600.0  # in inboxes, once they are read
SIGN_INS_KEPT_S: Final = 7 * 24 * 3600  # a link or session that ended: long enough to look into it
RETRY_FIRST_S: Final = 0.2
RETRY_CAP_S: Final = 10.0
DRAIN_S: Final = 5.0
ENVIRONMENTS_END_S: Final = 8.0  # of the 15 s that `up` waits; what is left ends by itself
LIFELINE: Final = "lifeline"  # why a child stops whose parent is gone: that was no one's wish
# Longer than clients and proxies keep an idle connection: who sends must be the one who closes.
KEEP_ALIVE_S: Final = 75
# The rest is for machines' links, the database and the log. An event stream or a command that runs
# holds one connection; a replica carries hundreds of them, never thousands.
HTTP_CONNECTIONS_MAX: Final = 8192
HTTP_CONNECTIONS_SHARE: Final = 0.5  # of the descriptors that we may have
HTTP_BACKLOG: Final = 128  # asyncio also tries so many accepts in a row
DESCRIPTORS_WANTED: Final = 1 << 20  # where there is no hard limit
HTTP_GRACE_S: Final = 3  # then streams that are still open are cut; their clients come back


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    lifeline: int | None = None  # descriptor whose end is our end
    report: int | None = None  # descriptor to write JSON lines to: ready, or failed
    local: bool = False  # child of `up`: keep ports and the local token in the home


def serve(settings: Settings, options: ServeOptions) -> int:
    """Run one replica until it is told to stop; return the exit code."""
    # kill -USR1 writes the stacks of all threads to the log: what a process that hangs is doing.
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    raise_descriptor_limit()
    process = _Process(settings, options)
    try:
        asyncio.run(process.run())
    except FarhandError as error:
        process.report({"event": "failed", "code": error.code, "message": str(error)})
        if options.report is None:
            raise
        return 1
    return 0


def raise_descriptor_limit() -> None:
    """Take as many descriptors as we may have: the soft limit is for programs that select()."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else hard
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (ValueError, OSError) as error:  # a kernel with a limit of its own, as macOS has
        log(LOGGER, "descriptor_limit_kept", level=logging.WARNING, soft=soft, error=str(error))


def connections_max() -> int:
    """Return how many HTTP connections are served; more are told 503."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return HTTP_CONNECTIONS_MAX
    return min(HTTP_CONNECTIONS_MAX, int(soft * HTTP_CONNECTIONS_SHARE))


class _Process:
    def __init__(self, settings: Settings, options: ServeOptions) -> None:
        self._settings = settings
        self._options = options
        self._stop = asyncio.Event()
        self._why_stopped = ""
        self._database_url: asyncio.Future[str] | None = None
        self._received = b""

    def report(self, line: dict[str, Any]) -> None:  # JSON
        if self._options.report is not None:
            os.write(self._options.report, json.dumps(line).encode() + b"\n")

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop_for, signal.Signals(number).name)
        self._database_url = loop.create_future()
        if self._options.lifeline is not None:
            os.set_blocking(self._options.lifeline, False)
            loop.add_reader(self._options.lifeline, self._hear_lifeline, self._options.lifeline)
        importing = asyncio.create_task(asyncio.to_thread(_import_everything), name="import")
        stopped = asyncio.create_task(self._stop.wait(), name="stop")
        starting = asyncio.create_task(self._start(importing), name="start")
        await asyncio.wait((starting, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():  # told to stop before we were up
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return
        replica, listening = starting.result()
        await self._serve(replica, listening, stopped)

    def _stop_for(self, why: str) -> None:
        self._why_stopped = self._why_stopped or why
        self._stop.set()

    def _hear_lifeline(self, descriptor: int) -> None:
        """Take the one line that may come, and the end that will."""
        data = os.read(descriptor, 4096)
        if not data:
            asyncio.get_running_loop().remove_reader(descriptor)
            self._stop_for(LIFELINE)
            return
        self._received += data
        line, newline, _ = self._received.partition(b"\n")
        if newline and self._database_url is not None and not self._database_url.done():
            self._database_url.set_result(str(json.loads(line)["database_url"]))

    async def _dsn(self) -> str:
        if self._settings.database_url is not None:
            return self._settings.database_url.reveal().decode()
        if self._options.local and self._database_url is not None:
            return await self._database_url
        raise InvalidInput(
            "cannot serve: FARHAND_DATABASE_URL is not set; set it to a PostgreSQL database, "
            "or use farhand up, which brings its own"
        )

    async def _start(self, importing: "asyncio.Task[None]") -> "tuple[Replica, socket.socket]":
        key = instance_key(self._settings)
        dsn = await self._dsn()
        await importing
        from farhand_control_plane import wiring

        prepared = await wiring.prepare(dsn)
        try:
            ports = await self._choose_ports(prepared)
            listening = listening_socket(self._settings.bind, ports.http)
            replica = wiring.join(self._settings, prepared, key, (ports.enrol, ports.link))
            await replica.listener.open()
            await replica.machines.open()
        except BaseException:
            await prepared.database.close()
            raise
        if self._options.local:
            from farhand_control_plane.local_token import ensure_local_token

            await ensure_local_token(self._settings, replica.database, replica.bootstrap)
            store_ports(self._settings.ports_file, ports)
            # Before HTTP is there: the parent starts this machine's daemon meanwhile.
            self.report({"event": "links_open", **self._where(replica, listening)})
        return replica, listening

    def _where(self, replica: "Replica", listening: socket.socket) -> dict[str, Any]:  # JSON
        port = listening.getsockname()[1]
        return {
            "url": self._settings.public_url or _url(self._settings.bind, port),
            "http_port": port,
            "enrol_port": replica.machines.enrol_port,
            "link_port": replica.machines.link_port,
        }

    def _environment_url(self, listening: socket.socket) -> str:
        """Return where environments of this computer find the API: not through a proxy."""
        host = reachable_host(self._settings.bind, self._settings.public_host)
        return f"http://{bracketed(host)}:{listening.getsockname()[1]}"

    async def _choose_ports(self, prepared: Any) -> Ports:  # wiring.Prepared, not imported here
        wanted = Ports(
            http=self._settings.http_port or 0,
            enrol=self._settings.enrol_port or 0,
            link=self._settings.link_port or 0,
        )
        if not self._options.local:
            return choose(self._settings.bind, wanted, Ports(), may_move=True)
        return choose(
            self._settings.bind,
            wanted,
            load_ports(self._settings.ports_file),
            may_move=not await prepared.other_machines(own=_own_machine(self._settings)),
        )

    async def _serve(
        self, replica: "Replica", listening: socket.socket, stopped: "asyncio.Task[bool]"
    ) -> None:
        http = http_server(replica)
        where = self._where(replica, listening)
        loops: dict[str, Callable[[], Awaitable[None]]] = {
            "engine": replica.engine.run,
            "relay": replica.relay.run,
            "heartbeat": lambda: _heartbeat(replica, where["url"]),
            "due": replica.due.run,
            "upkeep": lambda: _upkeep(replica),
            "loop-lag": _watch_lag,
        }
        if replica.provisioning is not None:
            provisioning, url = replica.provisioning, self._environment_url(listening)
            loops["provisioning"] = lambda: provisioning.run(url)
        async with asyncio.TaskGroup() as group:
            running = [
                group.create_task(_kept(name, loop), name=name) for name, loop in loops.items()
            ]
            serving = group.create_task(http.serve(sockets=[listening]), name="http")
            warming = threading.Thread(
                target=replica.models[0].warm_up, name="warm-up", daemon=True
            )
            warming.start()
            replica.serving = True
            self.report(
                {
                    "event": "ready",
                    "replica_id": replica.replica_id,
                    "model": replica.models[1].model,
                    **where,
                }
            )
            log(LOGGER, "replica_started", replica=replica.replica_id, **where)
            await asyncio.wait((stopped, serving), return_when=asyncio.FIRST_COMPLETED)
            log(LOGGER, "replica_stopping", replica=replica.replica_id, why=self._why_stopped)
            if self._options.local and self._why_stopped != LIFELINE:
                await _destroy_environments(replica)
            await _drain(replica, http)
            for task in running:
                task.cancel()
        await replica.close()
        log(LOGGER, "replica_stopped", replica=replica.replica_id)


def _import_everything() -> None:
    """Load the modules that take time, while the event loop waits for the database.

    What they make stays for good: the collector is kept from looking at it, now and later.
    """
    gc.disable()
    from farhand_control_plane import wiring  # noqa: F401  # for its cost
    from farhand_control_plane.api import connections  # noqa: F401  # for uvicorn's cost

    gc.freeze()
    gc.enable()


def _own_machine(settings: Settings) -> str | None:
    """Return the id of the machine whose daemon `up` runs in this home."""
    try:
        identity = json.loads((settings.daemon_home / "identity.json").read_bytes())
        return str(identity["machine_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _url(bind: str, port: int) -> str:
    """Return the address for whoever is on this computer."""
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(bind, bind)  # noqa: S104  # recognised
    return f"http://[{host}]:{port}" if ":" in host and host[0] != "[" else f"http://{host}:{port}"


def http_server(replica: "Replica") -> Any:  # a uvicorn.Server, imported late
    import contextlib

    import uvicorn

    from farhand_control_plane.api.connections import Connection

    class OurConnection(Connection):
        silent: ClassVar[dict[Connection, None]] = {}

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Any:  # the signals are ours: they stop the whole replica
            yield

    return Server(
        uvicorn.Config(
            replica.app,
            http=OurConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=connections_max(),
            backlog=HTTP_BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=HTTP_GRACE_S,
        )
    )


async def _destroy_environments(replica: "Replica") -> None:
    """End what would run on after this computer's instance was stopped on purpose."""
    if replica.provisioning is None:
        return
    try:
        if not await replica.provisioning.destroy_here(ENVIRONMENTS_END_S):
            log(LOGGER, "environments_left", level=logging.WARNING)
    except FarhandError as error:
        log(LOGGER, "environments_left", level=logging.WARNING, error=str(error))


async def _drain(replica: "Replica", http: Any) -> None:  # http: a uvicorn.Server
    """Stop taking work, hand back what is in hand, and leave nothing half-told."""
    replica.serving = False
    replica.event_streams.close()
    http.should_exit = True
    # No task group: it would leave this task marked as cancelled, and the rest has to be done.
    drained = await asyncio.gather(
        replica.machines.drain(await _time_to_leave(replica)),
        replica.engine.drain(),
        return_exceptions=True,
    )
    for failure in drained:
        if failure is not None:
            log(LOGGER, "drain_failed", level=logging.WARNING, error=repr(failure))
    await replica.machines.close()
    try:
        from farhand_control_plane.db import replicas

        async with asyncio.timeout(DRAIN_S), replica.database.transaction() as tx:
            await replicas.remove(tx, replica.replica_id)
    except (FarhandError, TimeoutError) as error:
        log(LOGGER, "replica_row_left", level=logging.WARNING, error=str(error))


async def _time_to_leave(replica: "Replica") -> float:
    """Return how long machines get to go to another replica: none where there is no other."""
    from farhand_control_plane.db import replicas

    try:
        async with asyncio.timeout(DRAIN_S), replica.database.transaction() as tx:
            alive = await replicas.alive(tx)
    except (FarhandError, TimeoutError):
        return DRAIN_S
    return DRAIN_S if any(one.replica_id != replica.replica_id for one in alive) else 0.0


async def _kept(name: str, loop: Callable[[], Awaitable[None]]) -> None:
    """Run a loop for ever: a failure is logged once and the loop begins again after a while."""
    wait_s = RETRY_FIRST_S
    while True:
        began = time.monotonic()
        try:
            # A task of its own each time: a task group that fails leaves the task that waits for it
            # marked as cancelled, and on Python before 3.11.3 no timeout works in such a task.
            await asyncio.create_task(_run(loop), name=name)
            return  # drained
        except FarhandError as error:
            log(LOGGER, "loop_failed", level=logging.WARNING, loop=name, error=str(error))
        except Exception:
            # Ours to mend; but one broken loop must not take the others down.
            LOGGER.exception("loop_failed", extra={"farhand_fields": {"loop": name}})
        if time.monotonic() - began > RETRY_CAP_S:
            wait_s = RETRY_FIRST_S
        await asyncio.sleep(wait_s)  # back-off: nothing tells when the cause is gone
        wait_s = min(wait_s * 2, RETRY_CAP_S)


async def _run(loop: Callable[[], Awaitable[None]]) -> None:
    await loop()


async def _heartbeat(replica: "Replica", url: str) -> None:
    from farhand_control_plane.db import replicas

    while True:
        async with replica.database.transaction() as tx:
            await replicas.register(tx, replica.replica_id, url, __version__)
            await replicas.forget_dead(tx)
        await asyncio.sleep(HEARTBEAT_S)  # a schedule


async def _upkeep(replica: "Replica") -> None:
    """Once a day: make the weeks of output that begin; forget old output, sign-ins, messages."""
    from datetime import UTC, datetime, timedelta

    from farhand_control_plane.db import partitions, sessions, sign_in_links, tokens

    while True:
        async with replica.database.transaction() as tx:
            await partitions.make_output_weeks(tx)
        async with replica.database.transaction() as tx:
            await partitions.drop_output_before(
                tx, datetime.now(UTC) - timedelta(seconds=OUTPUT_KEPT_S)
            )
        async with replica.database.transaction() as tx:
            await sign_in_links.forget_old(tx, SIGN_INS_KEPT_S)  # first: they name sessions
            await tokens.forget_ended_sessions(tx, SIGN_INS_KEPT_S)
        async with replica.database.transaction() as tx:
            await sessions.forget_old_messages(tx, MESSAGES_KEPT_S)
        await asyncio.sleep(UPKEEP_S)  # a schedule


async def _watch_lag() -> None:
    """Log when something held the loop: everything else in the process waited as long."""
    while True:
        before = time.monotonic()
        await asyncio.sleep(LAG_PROBE_S)
        lag_s = time.monotonic() - before - LAG_PROBE_S
        if lag_s > LAG_LOGGED_S:
            log(LOGGER, "loop_lag", level=logging.WARNING, milliseconds=round(lag_s * 1000))
