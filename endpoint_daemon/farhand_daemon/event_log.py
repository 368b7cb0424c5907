"""The daemon's log: one JSON line per event, no secrets, no command output, of limited size."""

import json
import os
import time
from pathlib import Path
from typing import Final

from farhand_shared.limits import MIB

LOG_MAX_BYTES: Final = 4 * MIB  # then it becomes daemon.log.1, and the one before is dropped
OLD_SUFFIX: Final = ".1"


class EventLog:
    """Appends events to a file; a full disk or lost folder never stops the daemon."""

    def __init__(self, path: Path, *, max_bytes: int = LOG_MAX_BYTES) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._descriptor = -1
        self._size = 0

    def write(self, event: str, **fields: str | int | float | bool | None) -> None:
        """Append one event; the time is wall time in UTC, for people."""
        now = time.time()
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03}Z"
        line = json.dumps({"at": at, "event": event, **fields}).encode() + b"\n"
        try:
            self._open_for(len(line))
            self._size += os.write(self._descriptor, line)
        except OSError:
            self.close()

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open_for(self, more: int) -> None:
        """Have a file that takes this many bytes more: the same, another's new one, or a new one.

        Whoever moved or removed the file meanwhile (a person, logrotate) gets no further line.
        """
        if self._descriptor >= 0 and not _is_file(self._descriptor, self._path):
            self.close()
        if self._descriptor < 0:
            self._open()
        if self._size == 0 or self._size + more <= self._max_bytes:
            return
        self.close()
        try:
            self._path.replace(self._path.with_name(self._path.name + OLD_SUFFIX))
        except OSError:
            self._path.write_bytes(b"")  # better a lost log than one that fills the disk
        self._open()

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, 0o600)
        self._size = os.fstat(self._descriptor).st_size


def _is_file(descriptor: int, path: Path) -> bool:
    """Tell whether an open file is still the one of this name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False
