"""What the daemon last said of itself, for ``farhandd status`` with or without a running daemon.

The lock on the home tells whether one runs; the file tells the rest. It is written when the state
changes, never per command.
"""

import fcntl
import json
import os
import time
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from farhand_daemon.paths import Home, write_private
from farhand_shared.errors import Conflict
from farhand_shared.version import __version__

_LOCK_TRIES: Final = 3
_LOCK_AGAIN_S: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonStatus:
    """One state of a daemon. ``since_ms``: Unix time in ms of the last change of ``state``."""

    state: str  # connecting, connected, offline, ended, stopped
    since_ms: int
    machine_name: str
    link_address: str
    reason: str = ""  # why offline or ended
    bye: str = ""  # the code of the replica's last goodbye: revoked, quarantined, …
    stream_epoch: int = 0
    renewal_problem: str = ""  # why the certificate, which is due, could not be renewed
    version: str = __version__


class StatusFile:
    """Writes the status; a full disk never stops the daemon."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self.current: DaemonStatus | None = None
        self._renewal_problem = ""

    def note_renewal(self, problem: str) -> None:
        """Say with every state why the certificate could not be renewed; "" when it was."""
        self._renewal_problem = problem
        if self.current is not None:
            self._write(replace(self.current, renewal_problem=problem))

    def set(
        self,
        state: str,
        *,
        machine_name: str,
        link_address: str,
        reason: str = "",
        bye: str = "",
        stream_epoch: int = 0,
    ) -> None:
        old = self.current
        same = old is not None and old.state == state
        status = DaemonStatus(
            state=state,
            since_ms=old.since_ms if old is not None and same else time.time_ns() // 1_000_000,
            machine_name=machine_name,
            link_address=link_address,
            reason=reason,
            bye=bye,
            stream_epoch=stream_epoch,
            renewal_problem=self._renewal_problem,
        )
        self._write(status)

    def _write(self, status: DaemonStatus) -> None:
        if status == self.current:
            return
        self.current = status
        try:
            write_private(self._home.status_file, json.dumps(asdict(status)).encode())
        except OSError:
            return  # the log and the link still tell


def read_status(home: Home) -> DaemonStatus | None:
    """Return what was last written; None when there is nothing readable."""
    try:
        document: Any = json.loads(home.status_file.read_bytes())  # Any: JSON
        return DaemonStatus(**{f.name: document[f.name] for f in fields(DaemonStatus)})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def way_back(bye: str) -> str:
    """Return what helps after a goodbye for good, by its code."""
    if bye == "too_old":
        return "update farhandd, then start it with farhandd run"
    if bye == "quarantined":
        return (
            "two computers used this machine's identity, as after copying a disk: on the one that "
            "shall stay this machine run farhandd enroll --rejoin with a new code, then the same "
            "on the other, which becomes a machine of its own"
        )
    return "enrol again with farhandd enroll URL --force and a new code"


class HomeLock:
    """At most one daemon per home: a lock that the kernel drops when its process ends."""

    def __init__(self, home: Home, descriptor: int) -> None:
        self._home = home
        self._descriptor = descriptor

    @classmethod
    def take(cls, home: Home) -> Self:
        """Take it, leaving our pid in the file; Conflict naming the holder when it is taken."""
        tries_left = _LOCK_TRIES
        while True:
            descriptor = os.open(home.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_file(descriptor, home.lock_file):
                    break
                os.close(descriptor)  # its holder removed it just now: the next one counts
            except BlockingIOError:
                pid = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
                os.close(descriptor)
                tries_left -= 1
                if not tries_left:
                    raise Conflict(
                        f"cannot run: a daemon (pid {pid}) already uses {home.root}; "
                        "stop it or give another --home"
                    ) from None
                time.sleep(_LOCK_AGAIN_S)  # it may be a status or doctor, which only looks
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        return cls(home, descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._home.lock_file.unlink(missing_ok=True)  # still held: nobody else's
        os.close(self._descriptor)


def _is_file(descriptor: int, path: Path) -> bool:
    """Tell whether an open file is still the one of this name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def running_pid(home: Home) -> int | None:
    """Return the pid of the daemon that uses this home; None when none does."""
    try:
        descriptor = os.open(home.lock_file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.read(descriptor, 32).strip()
        return int(text) if text.isdigit() else 0
    finally:
        os.close(descriptor)
    return None
