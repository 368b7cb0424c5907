"""Start the fork server and ask it for supervisors (the daemon's end)."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from pathlib import Path

from farhand_daemon.supervisor import forkserver, wire
from farhand_daemon.supervisor.cgroup import Hierarchy
from farhand_daemon.supervisor.cgroup_base import usable_hierarchies
from farhand_daemon.supervisor.process import SOCKETS_FOLDER

SPOOL_FOLDER = "spool"
_LOG = "supervisor.log"
# What an interpreter may need to find its own libraries. Commands get none of it.
_INTERPRETER_ENV = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")


class ForkServer:
    """The running fork server, as its parent sees it."""

    def __init__(self, state_dir: Path, hierarchies: list[Hierarchy]) -> None:
        self.state_dir, self.hierarchies = state_dir, hierarchies
        self.pid, self._socket = _spawn(state_dir, hierarchies)

    def fileno(self) -> int:
        return self._socket.fileno()

    def request(self, supervisor_end: socket.socket) -> None:
        """Ask for a supervisor that serves this socket. BlockingIOError: ask again when writable.

        A fork server that is gone is no error here: the supervisor's socket is closed, and that is
        what its user sees anyway.
        """
        with contextlib.suppress(BrokenPipeError, ConnectionError):
            socket.send_fds(self._socket, [wire.frame(wire.FORK)], [supervisor_end.fileno()])

    def is_gone(self) -> bool:
        """Say whether the fork server has ended; call when its socket is readable."""
        try:
            return not self._socket.recv(16)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def end(self) -> None:
        """Tell it to end, by the end of its socket; `reap` afterwards."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def reap(self) -> None:
        """Wait for its end (it follows `end` at once) and free everything; for a thread."""
        self._socket.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def launch_fork_server(
    state_dir: Path, *, hierarchies: list[Hierarchy] | None = None
) -> ForkServer:
    """Start the fork server. Call it before gRPC is imported; needs no event loop.

    Makes `state_dir` and what belongs into it, for the owner alone. `hierarchies`: where control
    groups are made, instead of where this system lets us.
    """
    for folder in (state_dir, state_dir / SPOOL_FOLDER, state_dir / SOCKETS_FOLDER):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (state_dir / SOCKETS_FOLDER).chmod(0o700)  # who can connect there can stop commands
    if hierarchies is None:
        hierarchies = usable_hierarchies()
    return ForkServer(state_dir.resolve(), hierarchies)


def _spawn(state_dir: Path, hierarchies: list[Hierarchy]) -> tuple[int, socket.socket]:
    """Spawn, never fork: this works beside live gRPC too, when a killed fork server is replaced."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    ours.setblocking(False)
    null = os.open(os.devnull, os.O_RDWR)
    log = os.open(state_dir / _LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC, 0o600)
    # A copy, if needed: an end that already has the number it is moved to stays closed on exec.
    spare = os.dup(theirs.fileno()) if theirs.fileno() == forkserver.SOCKET_FD else None
    source = theirs.fileno() if spare is None else spare
    trees = json.dumps([[tree.base, tree.home] for tree in hierarchies])
    try:
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-E", forkserver.__file__, os.fspath(state_dir), trees],
            {name: os.environ[name] for name in _INTERPRETER_ENV if name in os.environ},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, source, forkserver.SOCKET_FD),
                (os.POSIX_SPAWN_DUP2, null, 0),
                (os.POSIX_SPAWN_DUP2, null, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ],
            setsid=True,  # Ctrl-C in the terminal is for the daemon
            setsigmask=(),
        )
    finally:
        theirs.close()
        for fd in (null, log, spare):
            if fd is not None:
                os.close(fd)
    return pid, ours
