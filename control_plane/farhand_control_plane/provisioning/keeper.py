"""The process that keeps one environment's daemon, and the end of everything that it started.

Started once per environment by `local_process`, as `python -m …keeper FOLDER SECONDS`. It leaves
the server's session at once and outlives it: a replica that is killed takes no environment along.
As a *subreaper* (Linux) it inherits whatever loses its parent, so that "no descendants" means that
nothing is left, whatever sessions and groups commands have made.

It starts the daemon again when that dies, ends everything on SIGTERM and after SECONDS, and holds
the lock on FOLDER/keeper.lock, with its pid inside, as long as it lives. Its exit status is the
starter's answer: 0 once the daemon runs. Standard library only: it stays for hours.
"""

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from farhand_control_plane.own_program import daemon_command
from farhand_control_plane.provisioning.processes import POLL_S, descendants, signal_all

LOCK_NAME: Final = "keeper.lock"
DAEMON_HOME: Final = "daemon"
NOT_WANTED: Final = 3  # the daemon's exit status: the server has revoked its machine
PATIENCE_S: Final = 5.0  # from TERM to KILL, of daemon and commands
RETRY_FIRST_S: Final = 0.2
RETRY_CAP_S: Final = 10.0
_PR_SET_CHILD_SUBREAPER: Final = 36


def main(argv: list[str]) -> int:
    """Become the keeper of a folder; return to the starter as soon as that is known."""
    folder, lifetime_s = Path(argv[0]), float(argv[1])
    told_read, told_write = os.pipe()
    if os.fork():  # the starter waits for this process, not for the keeper
        os.close(told_write)
        return 0 if os.read(told_read, 1) else 1
    os.close(told_read)
    os.setsid()
    os.chdir(folder)  # gone already when the environment was destroyed meanwhile: then we end here
    lock = take_lock(folder)
    if lock is None:  # it has a keeper
        os.write(told_write, b"y")
        return 0
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    keeper = _Keeper(folder, time.monotonic() + lifetime_s)
    keeper.start_daemon()
    os.write(told_write, b"y")
    os.close(told_write)
    keeper.keep()
    keeper.end()
    os.close(lock)  # and so it is told that nothing of it runs any more
    return 0


def take_lock(folder: Path) -> int | None:
    """Return the keeper's lock on a folder, held; None when somebody else holds it."""
    descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def keeper_of(folder: Path) -> int | None:
    """Return the pid of the folder's living keeper; None when it has none."""
    try:
        descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        with contextlib.suppress(ValueError):
            return int(os.pread(descriptor, 32, 0))
    finally:
        os.close(descriptor)
    return None


class _Keeper:
    def __init__(self, folder: Path, until: float) -> None:
        self._folder = folder
        self._until = until
        self._daemon: subprocess.Popen[bytes] | None = None
        self._lifeline = -1
        self._again_at: float | None = None  # when a daemon that died is started again
        self._wait_s = RETRY_FIRST_S
        self._ending = False
        self._wake, write = os.pipe()
        for descriptor in (self._wake, write):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)  # only to be woken
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._asked_to_end)

    def _asked_to_end(self, _number: int, _frame: object) -> None:
        self._ending = True

    def start_daemon(self) -> None:
        """Start the daemon; it leaves when this process dies, however it dies."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
        theirs, self._lifeline = os.pipe()
        home = self._folder / DAEMON_HOME
        command = daemon_command("run", "--home", str(home), "--lifeline", str(theirs))
        try:
            self._daemon = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, pass_fds=[theirs], start_new_session=True
            )
        finally:
            os.close(theirs)
        self._again_at = None

    def keep(self) -> None:
        """Return when this is to end: asked to, too old, or the server wants no such machine."""
        while not self._ending and time.monotonic() < self._until:
            status = self._reap()
            if status == NOT_WANTED:
                return
            now = time.monotonic()
            if status is not None:
                self._again_at = now + self._wait_s
                self._wait_s = min(2 * self._wait_s, RETRY_CAP_S)
            if self._again_at is not None and now >= self._again_at:
                self.start_daemon()
            self._sleep(min(self._until, self._again_at or self._until) - now)

    def end(self) -> None:
        """End the daemon, then everything below us: asked first, killed after a while.

        By TERM, which no moment of a Python program's start swallows. That the daemon then leaves
        its commands running is no matter: their results would be refused, the machine is revoked.
        """
        deadline = time.monotonic() + PATIENCE_S
        if self._daemon is not None and self._daemon.returncode is None:
            self._daemon.terminate()
            while self._daemon.returncode is None and time.monotonic() < deadline:
                self._sleep(deadline - time.monotonic())
                self._reap()
        signal_all(descendants(os.getpid()), signal.SIGTERM)
        while left := descendants(os.getpid()):
            if time.monotonic() >= deadline:
                signal_all(left, signal.SIGKILL)
            time.sleep(POLL_S)  # not all are our children; what they begin meanwhile is seen then
            self._reap()

    def _reap(self) -> int | None:
        """Bury the dead; return the daemon's exit status when it is among them."""
        status = None
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, wait_status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                if self._daemon is not None and pid == self._daemon.pid:
                    status = os.waitstatus_to_exitcode(wait_status)
                    self._daemon.returncode = status
        return status

    def _sleep(self, seconds: float) -> None:
        """Wait, but no longer than until a signal or a child's end."""
        select.select([self._wake], [], [], max(0.0, min(seconds, 3600.0)))
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wake, 512):
                pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
