"""Idle supervisors: forked ahead of need, used again, ended when idle for long."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable

from farhand_daemon.supervisor.connection import SupervisorConnection
from farhand_daemon.supervisor.fork_client import ForkServer

_REFILL_S = 0.02  # a fork must not compete with the start of a command
_YOUNG_S = 1.0  # a fork server that dies younger is replaced only after that time


class SupervisorSupply:
    """Gives supervisors to the pool, whatever happens to the fork server. Never blocks."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fork_server: ForkServer,
        connect: Callable[[socket.socket], SupervisorConnection],
        in_thread: Callable[[Callable[[], None]], None],
        *,
        warm: int,
        idle_s: float,
    ) -> None:
        """`connect` makes a connection of our end of a new supervisor's socket."""
        self._loop, self._connect, self._in_thread = loop, connect, in_thread
        self._warm, self._idle_s = warm, idle_s
        self._fork_server = fork_server
        self._fork_server_lives = True  # else requests wait for the next one
        self._fork_server_began = time.monotonic()
        self._waiting: list[socket.socket] = []  # their ends of sockets not yet sent
        self._idle: list[SupervisorConnection] = []  # last used last, and used first
        self._refill_timer: asyncio.TimerHandle | None = None
        self._retire_timer: asyncio.TimerHandle | None = None
        self._closed = False

    def open(self) -> None:
        """Fork the first supervisors ahead of need, and watch the fork server."""
        self._loop.add_reader(self._fork_server.fileno(), self._fork_server_readable)
        self._refill()

    def take(self) -> SupervisorConnection:
        """Give an idle supervisor, or a new one."""
        return self._idle.pop() if self._idle else self.fresh()

    def fresh(self) -> SupervisorConnection:
        """Ask for a new supervisor. Frames can be sent at once: they wait for it in the socket."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        connection = self._connect(ours)
        self._waiting.append(theirs)
        self._ask()
        return connection

    def give_back(self, connection: SupervisorConnection) -> None:
        """Take a supervisor whose command ended cleanly."""
        connection.handle, connection.idle_since = None, self._loop.time()
        self._idle.append(connection)
        if self._retire_timer is None and not self._closed:
            self._retire_timer = self._loop.call_later(self._idle_s, self._retire)

    def lose(self, connection: SupervisorConnection) -> None:
        """Forget a supervisor that is gone."""
        if connection in self._idle:
            self._idle.remove(connection)

    def refill_soon(self) -> None:
        """See to the warm ones in a moment, when the command that took one is on its way."""
        if self._refill_timer is None and len(self._idle) < self._warm and not self._closed:
            self._refill_timer = self._loop.call_later(_REFILL_S, self._refill)

    def close(self) -> set[SupervisorConnection]:
        """End the fork server and the idle supervisors; give those whose end can be awaited."""
        self._closed = True
        for timer in (self._refill_timer, self._retire_timer):
            if timer is not None:
                timer.cancel()
        for connection in self._idle:
            connection.end_writing()
        for theirs in self._waiting:
            theirs.close()
        if self._fork_server_lives:
            self._loop.remove_reader(self._fork_server.fileno())
            self._loop.remove_writer(self._fork_server.fileno())
            self._fork_server.end()
            self._in_thread(self._fork_server.reap)
        return set(self._idle)

    def _ask(self) -> None:
        while self._waiting and self._fork_server_lives:
            try:
                self._fork_server.request(self._waiting[0])
            except BlockingIOError:
                self._loop.add_writer(self._fork_server.fileno(), self._ask)
                return
            self._waiting.pop(0).close()
        if self._fork_server_lives:
            self._loop.remove_writer(self._fork_server.fileno())

    def _refill(self) -> None:
        self._refill_timer = None
        while len(self._idle) < self._warm and not self._closed:
            self.give_back(self.fresh())

    def _retire(self) -> None:
        """End supervisors that were idle too long; the longest idle are first in the list."""
        self._retire_timer = None
        before = self._loop.time() - self._idle_s
        while self._idle and self._idle[0].idle_since <= before:
            self._idle.pop(0).end_writing()
        if self._idle:
            left_s = self._idle[0].idle_since - before
            self._retire_timer = self._loop.call_later(left_s, self._retire)

    def _fork_server_readable(self) -> None:
        """Replace a fork server that was killed. Its supervisors are not affected."""
        if not self._fork_server.is_gone():
            return
        gone = self._fork_server
        self._fork_server_lives = False
        self._loop.remove_reader(gone.fileno())
        self._loop.remove_writer(gone.fileno())
        self._in_thread(gone.reap)
        young = time.monotonic() - self._fork_server_began < _YOUNG_S
        self._loop.call_later(_YOUNG_S if young else 0.0, self._replace, gone)

    def _replace(self, gone: ForkServer) -> None:
        if self._closed:
            return
        self._fork_server_began = time.monotonic()
        self._fork_server = ForkServer(gone.state_dir, gone.hierarchies)
        self._fork_server_lives = True
        self._loop.add_reader(self._fork_server.fileno(), self._fork_server_readable)
        self._ask()
        self.refill_soon()
