"""All supervisors of this daemon: idle ones, those with a command, and those of earlier daemons."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Callable, Sized
from pathlib import Path

from farhand_daemon.spool import (
    DEFAULT_HEAD_BYTES,
    DEFAULT_TAIL_BYTES,
    DamagedSpool,
    SpoolReader,
    spool_path,
    spooled_attempts,
)
from farhand_daemon.supervisor import wire
from farhand_daemon.supervisor.cgroup_base import sweep
from farhand_daemon.supervisor.connection import SupervisorConnection, connect_in_folder
from farhand_daemon.supervisor.fork_client import SPOOL_FOLDER, ForkServer
from farhand_daemon.supervisor.handle import CommandHandle, HandleState
from farhand_daemon.supervisor.listener import CommandListener
from farhand_daemon.supervisor.orphans import ORPHANS_FOLDER, Orphans
from farhand_daemon.supervisor.process import SOCKETS_FOLDER
from farhand_daemon.supervisor.records import (
    ExitRecord,
    Reason,
    SpawnProblem,
    SpawnSpec,
    Stream,
    SupervisorLoss,
    limit_facts,
    quiet_from,
    started_from,
    unstarted_record,
)
from farhand_daemon.supervisor.recovery import (
    judge_spool,
    loss_of,
    remove_dead_sockets,
    supervisor_socket,
)
from farhand_daemon.supervisor.supply import SupervisorSupply

_ADOPTION_S = 5.0  # a stopped supervisor may answer later; the daemon does not wait for it
_SYNC_AFTER_S = 1.0  # most results are acknowledged before; then the disk is never touched
_MOST_TRIES = 5
_SWEEP_S = 60.0  # after the end of a supervisor: what its command left may be over by then
_LOOK_AGAIN_S = 0.2  # at an earlier supervisor that lives, or is just ending, without a connection
_REQUEST_SUFFIX = ".request"


class SupervisorPool:
    """Hands commands to supervisors. One per `state_dir`; everything on one event loop."""

    def __init__(
        self,
        fork_server: ForkServer,
        listener: CommandListener,
        *,
        head_bytes: int = DEFAULT_HEAD_BYTES,
        tail_bytes: int = DEFAULT_TAIL_BYTES,
        warm: int = 1,
        idle_s: float = 30.0,
    ) -> None:
        """`warm` supervisors wait for the next command; after `idle_s` of quiet none does."""
        self.loop = asyncio.get_running_loop()
        self.handles: dict[str, CommandHandle] = {}
        self._hierarchies = fork_server.hierarchies
        self.orphans = Orphans(
            fork_server.state_dir / ORPHANS_FOLDER, self.loop, hierarchies=self._hierarchies
        )
        self.spool_dir = fork_server.state_dir / SPOOL_FOLDER
        self._sockets_dir = fork_server.state_dir / SOCKETS_FOLDER
        self._listener = listener
        self._head, self._tail = head_bytes, tail_bytes
        self._supply = SupervisorSupply(
            self.loop, fork_server, self._connect, self._in_thread, warm=warm, idle_s=idle_s
        )
        self._link_up = False
        self._connections: set[SupervisorConnection] = set()
        self._leftovers: set[SupervisorConnection] = set()
        self._settling: dict[SupervisorConnection, str] = {}  # earlier ones, by socket name
        self._changed = asyncio.Event()
        self._threads: set[asyncio.Future[None]] = set()
        self._closed = False
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._digest_of: Callable[[str], bytes] = lambda attempt_id: b""

    async def open(self, digest_of: Callable[[str], bytes] | None = None) -> list[CommandHandle]:
        """Find every attempt an earlier daemon left, running or over, and give their handles.

        Call it once, before `prepare`. A command that ends meanwhile is told as usual; one that
        was over before has `record` or `loss` and is not told. `digest_of` knows the input digest
        of an attempt.
        """
        self._digest_of = digest_of or self._digest_of
        self.orphans.open()
        sweep(self._hierarchies)
        for name in os.listdir(self._sockets_dir):
            self._connect_to_earlier(name)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ADOPTION_S):
                await self._until_empty(self._settling)
        for attempt_id in spooled_attempts(os.fspath(self.spool_dir)):
            if attempt_id not in self.handles:
                self._recover(attempt_id)
        for request in self.spool_dir.glob(f"*{_REQUEST_SUFFIX}"):
            request.unlink(missing_ok=True)
        self._supply.open()
        return list(self.handles.values())

    def prepare(self, attempt_id: str, spec: SpawnSpec, input_digest: bytes = b"") -> CommandHandle:
        """Hand a command to a supervisor, which waits for `CommandHandle.go`. Does not block.

        Each attempt id once: the caller's journal knows which were used. OSError: no socket or no
        room for a large request; nothing was prepared.
        """
        if attempt_id in self.handles:
            raise ValueError(f"cannot prepare {attempt_id}: it has a supervisor already")
        path = spool_path(os.fspath(self.spool_dir), attempt_id)
        handle = CommandHandle(self, attempt_id, input_digest, Path(path))
        facts: dict[str, object] = {
            "attempt_id": attempt_id,
            "spool": path,
            "head": self._head,
            "tail": self._tail,
            "umask": spec.umask,
            "grace_ms": spec.grace_ms,
            "timeout_ms": spec.timeout_ms,
            "quiet_ms": spec.quiet_hint_ms,
        }
        if limits := limit_facts(spec.limits):
            facts["limits"] = limits
        if spec.file:
            facts["file"] = True
        if spec.terminal is not None:
            facts["terminal"] = spec.terminal
        elif spec.stdin:
            facts["stdin"] = True
        handle.request = wire.encode_request(facts, list(spec.argv), list(spec.env), spec.cwd)
        self._hand_over(handle, self._supply.take())
        self.handles[attempt_id] = handle
        return handle

    def add_lost(self, attempt_id: str, input_digest: bytes) -> CommandHandle:
        """Make a handle of an attempt of which nothing but its journal entry is left."""
        path = Path(spool_path(os.fspath(self.spool_dir), attempt_id))
        handle = self.handles[attempt_id] = CommandHandle(self, attempt_id, input_digest, path)
        handle.note_loss(loss_of(None))
        return handle

    def link_state(self, *, up: bool) -> None:
        """Say whether output can be delivered: with the link down full spools drop their middle."""
        if up is self._link_up:
            return
        self._link_up = up
        for connection in self._connections:
            if connection.handle is not None:
                connection.send(self._link_frame())

    def forget(self, handle: CommandHandle) -> None:
        """Drop a released handle; `CommandHandle.release` calls it."""
        self.handles.pop(handle.attempt_id, None)
        self.orphans.release(handle.attempt_id)

    async def close(self, *, quit_leftovers: bool = False) -> None:
        """End idle supervisors and the fork server; running commands go on, to be adopted.

        `quit_leftovers` also ends the supervisors that only keep the pipes of background processes
        which commands left behind; those processes stay.
        """
        self._closed = True
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        ending = self._supply.close()
        if quit_leftovers:
            for connection in self._leftovers:
                connection.send(wire.frame(wire.QUIT))
            ending |= self._leftovers
        for connection in self._connections - ending:
            connection.close()
        self._connections &= ending
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2.0):
                await self._until_empty(self._connections)
        for connection in self._connections:
            connection.close()
        for handle in self.handles.values():
            if handle.sync_timer is not None:
                handle.sync_timer.cancel()
            handle.close()
        await self.orphans.close()
        while self._threads:
            await asyncio.wait(self._threads)
        remove_dead_sockets(self._sockets_dir)
        sweep(self._hierarchies)

    # -- supervisors -------------------------------------------------------------------------------

    def _hand_over(self, handle: CommandHandle, connection: SupervisorConnection) -> None:
        """Send PREPARE. OSError: the disk takes no large request; the supervisor is unharmed."""
        prepare = wire.frame(wire.PREPARE, handle.request)
        if len(handle.request) > wire.INLINE_MAX_BYTES:
            file = handle.spool_path.with_suffix(_REQUEST_SUFFIX)
            try:
                with open(file, "wb", opener=_private) as stream:
                    stream.write(handle.request)
            except OSError:
                file.unlink(missing_ok=True)
                self._supply.give_back(connection)
                raise
            prepare = wire.frame(wire.PREPARE_FILE, os.fsencode(file))
        handle.connection, connection.handle = connection, handle
        connection.send(prepare + self._link_frame())
        if handle.stop_wanted is not None:
            connection.send(wire.frame(wire.CANCEL, handle.stop_wanted.value.encode()))
        elif handle.go_wanted and connection.ready:
            handle.send_go(connection)

    def _connect(self, ours: socket.socket) -> SupervisorConnection:
        connection = SupervisorConnection(self.loop, ours, self._on_frame, self._on_gone)
        self._connections.add(connection)
        return connection

    # -- events ------------------------------------------------------------------------------------

    def _on_frame(self, connection: SupervisorConnection, kind: int, payload: bytes) -> None:
        handle = connection.handle
        if kind == wire.HELLO:
            connection.ready = True
            if handle is not None and handle.go_wanted and not handle.go_sent:
                handle.send_go(connection)
        elif kind == wire.SNAPSHOT:
            self._adopt(connection, payload)
        elif handle is None:
            return
        elif kind == wire.OUTPUT:
            number, produced = wire.OFFSET.unpack(payload)
            stream = Stream(number)
            if handle.note_produced(stream, produced):
                self._listener.output_produced(handle, stream, produced)
        elif kind == wire.SHORT:
            stream = Stream(payload[0])
            if handle.note_short(stream, payload[1:]):
                self._listener.output_produced(handle, stream, len(payload) - 1)
        elif kind == wire.QUIET:
            self._listener.command_quiet(handle, quiet_from(json.loads(payload)))
        elif kind == wire.TAKEN:
            taken, closed = wire.TAKEN_FACTS.unpack(payload)
            handle.note_input(taken=taken, closed=bool(closed))
            self._listener.input_moved(handle)
        elif kind == wire.STARTED:
            handle.started = started_from(json.loads(payload))
            self._listener.command_started(handle, handle.started)
            self._supply.refill_soon()
        elif kind == wire.EXIT:
            connection.handle = None
            if payload[:1] == b"\x01":
                self._supply.give_back(connection)
            else:  # it ends, now or when what its command left behind has closed its output
                self._leftovers.add(connection)
            self._finish(handle, ExitRecord.from_json(payload[1:]))

    def _on_gone(self, connection: SupervisorConnection) -> None:
        """A supervisor ended or was killed: its socket is closed, at once and always."""
        self._connections.discard(connection)
        self._leftovers.discard(connection)
        self._settling.pop(connection, None)
        self._supply.lose(connection)
        self._sweep_later()
        self._changed.set()
        handle = connection.handle
        if handle is None:
            return
        if not handle.go_sent and not handle.adopted:
            self._try_again(handle)
        else:
            record = handle.exit_record_in_spool()
            if record is not None:
                self._finish(handle, record)
                return
            handle.refresh_from_spool()
            self._lose(handle, loss_of(handle.started))

    def _sweep_later(self) -> None:
        """See to the control groups of supervisors that are gone, some time after the last went."""
        if self._hierarchies and self._sweep_timer is None and not self._closed:
            self._sweep_timer = self.loop.call_later(_SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        self._sweep_timer = None
        sweep(self._hierarchies)

    def _lose(self, handle: CommandHandle, loss: SupervisorLoss) -> None:
        handle.note_loss(loss)
        self._listener.supervisor_lost(handle, loss)

    def _try_again(self, handle: CommandHandle) -> None:
        """Hand a command that certainly was not started to another supervisor."""
        handle.connection = None
        handle.spool_path.unlink(missing_ok=True)
        handle.spool_path.with_suffix(_REQUEST_SUFFIX).unlink(missing_ok=True)
        handle.tries += 1
        if handle.stop_wanted is not None:
            self._finish(
                handle, unstarted_record(handle.attempt_id, Reason(handle.stop_wanted.value), None)
            )
        elif handle.tries >= _MOST_TRIES:
            problem = SpawnProblem(
                kind="no_supervisor",
                message="cannot start: no process could be made to supervise the command; "
                "see supervisor.log in the daemon's home, then ask for it again",
            )
            self._finish(handle, unstarted_record(handle.attempt_id, Reason.SPAWN_ERROR, problem))
        else:
            self.loop.call_later(0.05 * 2**handle.tries, self._hand_over_again, handle)

    def _hand_over_again(self, handle: CommandHandle) -> None:
        if self._closed:
            return
        try:
            self._hand_over(handle, self._supply.fresh())
        except OSError as error:
            problem = SpawnProblem(
                kind="other",
                message=f"cannot start: {error.strerror}; run farhandd doctor on the machine",
                errno=error.errno,
            )
            self._finish(handle, unstarted_record(handle.attempt_id, Reason.SPAWN_ERROR, problem))

    def _finish(self, handle: CommandHandle, record: ExitRecord) -> None:
        handle.note_exit(record)
        self._sync_later(handle)
        self._supply.refill_soon()
        self._listener.command_exited(handle, record)

    def _sync_later(self, handle: CommandHandle) -> None:
        path = os.fspath(handle.spool_path)
        handle.sync_timer = self.loop.call_later(
            _SYNC_AFTER_S, lambda: self._in_thread(lambda: _sync_spool(path))
        )

    # -- adoption ----------------------------------------------------------------------------------

    def _connect_to_earlier(self, name: str) -> None:
        try:
            connected = connect_in_folder(self._sockets_dir, name)
        except ConnectionRefusedError:
            (self._sockets_dir / name).unlink(missing_ok=True)  # its supervisor was killed
        except OSError:
            return
        else:
            self._settling[self._connect(connected)] = name

    def _adopt(self, connection: SupervisorConnection, payload: bytes) -> None:
        """Take over a running command; the supervisor tells where it is before anything else."""
        snapshot = json.loads(payload)
        attempt_id = str(snapshot["attempt_id"])
        self._settling.pop(connection, None)
        self._changed.set()
        connection.ready = True
        if snapshot["state"] != "running":
            self._leftovers.add(connection)
            return
        handle = self.handles.get(attempt_id) or self._running_handle(attempt_id)
        handle.attach(connection)
        connection.send(self._link_frame())
        handle.started = started_from(snapshot["started"])
        if (moved := snapshot.get("input")) is not None:
            handle.note_input(**moved)
            self._listener.input_moved(handle)
        for stream, produced in zip(Stream, snapshot["produced"], strict=True):
            if handle.note_produced(stream, produced):
                self._listener.output_produced(handle, stream, produced)

    def _running_handle(self, attempt_id: str) -> CommandHandle:
        path = Path(spool_path(os.fspath(self.spool_dir), attempt_id))
        handle = CommandHandle(self, attempt_id, self._digest_of(attempt_id), path)
        handle.state, handle.adopted, handle.go_wanted = HandleState.RUNNING, True, True
        handle.input_received = None
        self.handles[attempt_id] = handle
        handle.refresh_from_spool()
        return handle

    def _recover(self, attempt_id: str) -> None:
        """Make a handle from a spool whose supervisor has not answered."""
        handle = self._running_handle(attempt_id)
        match judge_spool(handle.spool_path):
            case ExitRecord() as record:
                handle.note_exit(record)
                self._sync_later(handle)
            case SupervisorLoss() as loss:
                handle.note_loss(loss)
            case None:
                self._wait_for_earlier(handle)

    def _wait_for_earlier(self, handle: CommandHandle) -> None:
        """Keep after a supervisor that lives but has not answered.

        It may be stopped: then it answers later, or its socket closes. Or it was just ending: its
        socket is closed, its process not quite gone.
        """
        if self._closed or handle.state is not HandleState.RUNNING or handle.connection is not None:
            return
        name = supervisor_socket(handle.spool_path)
        if name is not None and name not in self._settling.values():
            self._connect_to_earlier(name)
        for connection, earlier in self._settling.items():
            if earlier == name:
                connection.handle = handle
        match judge_spool(handle.spool_path):
            case ExitRecord() as record:
                self._finish(handle, record)
            case SupervisorLoss() as loss:
                self._lose(handle, loss)
            case None:
                self.loop.call_later(_LOOK_AGAIN_S, self._wait_for_earlier, handle)

    def _link_frame(self) -> bytes:
        return wire.frame(wire.LINK, b"\x01" if self._link_up else b"\x00")

    # -- waiting -----------------------------------------------------------------------------------

    async def _until_empty(self, group: Sized) -> None:
        while group:
            self._changed.clear()
            await self._changed.wait()

    def _in_thread(self, work: Callable[[], None]) -> None:
        future = self.loop.run_in_executor(None, work)
        self._threads.add(future)
        future.add_done_callback(self._threads.discard)


def _sync_spool(path: str) -> None:
    """Flush a spool to the disk: its result has not been acknowledged for a while."""
    with contextlib.suppress(OSError, DamagedSpool):  # released meanwhile
        reader = SpoolReader(path)
        try:
            reader.sync()
        finally:
            reader.close()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
