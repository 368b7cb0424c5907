"""Tell the service manager that the daemon is ready and that it stops (sd_notify(3)).

Imported only where a manager wants to know: an ordinary start does not pay for it.
"""

import contextlib
import os
import socket
from collections.abc import MutableMapping
from typing import Final, Self

VARIABLE: Final = "NOTIFY_SOCKET"
# What a manager tells its service and nobody else. Commands must not take it for theirs.
_MANAGERS: Final = (
    *(VARIABLE, "INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID", "MANAGERPID"),
    *("MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE", "WATCHDOG_PID", "WATCHDOG_USEC"),
    *("LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID", "FDSTORE"),
)


class Notifier:
    """Sends states to the manager's socket; a manager that is gone stops nobody."""

    def __init__(self, address: str) -> None:
        self.address = address  # as the manager gave it
        # "@" stands for the NUL of an abstract name.
        self._address = "\0" + address[1:] if address.startswith("@") else address

    @classmethod
    def take(cls, environ: MutableMapping[str, str]) -> Self:
        """Make one from the environment, and take out of it what was for us alone."""
        address = environ[VARIABLE]
        for name in _MANAGERS:
            environ.pop(name, None)
        return cls(address)

    def ready(self) -> None:
        self._send(f"READY=1\nMAINPID={os.getpid()}\nSTATUS=running")

    def stopping(self) -> None:
        self._send("STOPPING=1\nSTATUS=stopping; running commands go on")

    def _send(self, text: str) -> None:
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending,
        ):
            sending.setblocking(False)
            sending.sendto(text.encode(), self._address)
