"""The process of a version that is on trial: started, listened to, told to leave."""

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from typing import Final

from farhand_daemon.process_identity import LINUX
from farhand_daemon.update.slots import Slot

_LEAVE_S: Final = 25.0  # for a version that is told to stop; service managers give 30 s
_NOTIFY: Final = "NOTIFY_SOCKET"  # the service manager listens to our parent, not to a child


class Child:
    """The version on trial: a daemon of its own process group, which ends with this process."""

    def __init__(self, slot: Slot, words: Sequence[str]) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            environ = {k: v for k, v in os.environ.items() if k != _NOTIFY}
            self._process = subprocess.Popen(
                [slot.program, *words, "--trial", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                env=environ,
                pass_fds=[theirs.fileno()],
                # Signals of a terminal come to us, and we pass them on once.
                process_group=0,
                preexec_fn=_die_with_parent if LINUX else None,  # there are no threads here
            )
        ours.setblocking(False)
        self._socket = ours
        self._speaks = True  # until its end of the socket is closed
        self.pid = self._process.pid

    @property
    def descriptors(self) -> list[int]:
        """What becomes readable when it has something to say."""
        return [self._socket.fileno()] if self._speaks else []

    def beats(self) -> bool:
        """Take what it sent; tell whether it says that it is connected."""
        try:
            self._speaks = bool(self._socket.recv(4096))
        except BlockingIOError:
            return False
        except OSError:
            self._speaks = False
        return self._speaks

    def status(self) -> int | None:
        """Return its exit status (negative: a signal), None while it runs."""
        return self._process.poll()

    def pass_on(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def leave(self, within_s: float = _LEAVE_S) -> None:
        """Let it leave, with its commands running; kill it when it does not."""
        self.pass_on(signal.SIGTERM)
        self.wait(within_s)

    def wait(self, within_s: float = _LEAVE_S) -> int:
        """Return its exit status; it was told to end, and is killed when it takes longer."""
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
        finally:
            self._socket.close()


def _die_with_parent() -> None:
    """Have the kernel kill this process when its parent is killed: a hanging one reads nothing."""
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
