"""Start a file operation: a child that is forked and never executes another program.

Of what it needs nothing is loaded here: only the child imports it.
Imported by the fork server: small parts of the standard library only.
"""

from __future__ import annotations

import os
import signal

from farhand_daemon.supervisor.spawning import Launch, SpawnFailure

_FDS_MAX = 1 << 16  # as the fork server's own
_BROKEN = b'{"error": {"code": "failed", "message": "cannot start a file operation: %s"}}\n'

# SIGXFSZ stays ignored: a limit on the size of files is an error then, and no death.
_DEFAULT_SIGNALS = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGXFSZ})


class FileLaunch(Launch):
    """A file operation that is ready to be started. It has no program, and never a terminal."""

    def __init__(
        self, argv: list[bytes], env: list[tuple[bytes, bytes]], cwd: bytes, umask: int
    ) -> None:
        self._argv, self._env, self._cwd, self._umask = argv, env, cwd, umask

    def go(self, stdin_fd: int, stdout_fd: int, stderr_fd: int) -> int:
        """Start it in its own session and give its pid; SpawnFailure when nothing runs.

        A fork is safe here: a supervisor has one thread, no gRPC, and nothing in buffers.
        """
        try:
            pid = os.fork()
        except OSError as error:
            raise SpawnFailure(
                "other",
                f"cannot start a file operation: {error.strerror}; "
                "look at the limits of the daemon's account",
                errno=error.errno,
            ) from None
        if pid:
            return pid
        try:
            self._become(stdin_fd, stdout_fd, stderr_fd)
            from farhand_daemon.files.process import run

            os._exit(run(self._argv, self._env, self._cwd))
        except BaseException as error:  # never back into the supervisor's own code
            os.write(2, _BROKEN % type(error).__name__.encode())
            os._exit(1)

    def leave(self) -> None:
        """Nothing was entered: the operation's folder and umask are its process's own."""

    def _become(self, stdin_fd: int, stdout_fd: int, stderr_fd: int) -> None:
        """Take on what an executed command would have: session, signals, three descriptors."""
        signal.set_wakeup_fd(-1)
        os.setsid()
        for number in _DEFAULT_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        os.umask(self._umask)
        for fd, standard in ((stdin_fd, 0), (stdout_fd, 1), (stderr_fd, 2)):
            os.dup2(fd, standard)
        # Without an exec nothing closes itself: the supervisor's channel, and our own input's end.
        os.closerange(3, _FDS_MAX)
