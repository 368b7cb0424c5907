"""``farhandd logs``: the daemon's last events, and with ``--follow`` what comes."""

import contextlib
import json
import os
import sys
import time
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

from farhand_daemon.event_log import OLD_SUFFIX
from farhand_daemon.paths import Home
from farhand_shared.errors import NotFound

_LOOK_S: Final = 0.3


def show_logs(home: Home, *, count: int, follow: bool, as_json: bool) -> int:
    """Print the last ``count`` events; with ``follow`` go on until Ctrl-C. Returns 0."""
    path = home.log_file
    old = path.with_name(path.name + OLD_SUFFIX)
    if not follow and not path.exists() and not old.exists():
        raise NotFound(
            f"cannot show the logs: no daemon has run in {home.root}; start it with farhandd run, "
            "or give its --home"
        )
    shown = _as_it_is if as_json else readable
    reader = LogReader(path)
    try:
        for line in _last(old, reader, count):
            print(shown(line))
        while follow:
            for line in reader.lines():
                print(shown(line))
            sys.stdout.flush()
            time.sleep(_LOOK_S)  # nothing tells of a new line on every system
    except KeyboardInterrupt:
        pass  # how a person ends --follow
    except BrokenPipeError:  # … | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        reader.close()
    return 0


class LogReader:
    """Reads a log on as it grows, also from one file into the next when it is rotated."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._part = b""

    def lines(self) -> Iterator[bytes]:
        """Give the whole lines that came since the last call."""
        while True:
            if self._file is None:
                try:
                    self._file = self._path.open("rb")
                except FileNotFoundError:
                    return
            # Looked at before reading: what is written until the move is then read below.
            moved = not self._is_current()
            yield from self._read_on()
            if not moved:
                return
            yield from self._read_on()
            self.close()

    def close(self) -> None:
        """Free the file; reading again begins at its start."""
        if self._file is not None:
            self._file.close()
        self._file, self._part = None, b""

    def _read_on(self) -> Iterator[bytes]:
        assert self._file is not None  # noqa: S101 - for the type checker: lines() opened it
        if os.fstat(self._file.fileno()).st_size < self._file.tell():
            self._file.seek(0)  # it was emptied
            self._part = b""
        *whole, self._part = (self._part + self._file.read()).split(b"\n")
        yield from whole

    def _is_current(self) -> bool:
        assert self._file is not None  # noqa: S101 - for the type checker: lines() opened it
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), self._path.stat())
        except FileNotFoundError:
            return False


def _last(old: Path, reader: LogReader, count: int) -> Iterator[bytes]:
    """Give the last lines of both files; the reader stands behind them afterwards."""
    last: deque[bytes] = deque(maxlen=count)
    if old.exists():
        with contextlib.closing(LogReader(old)) as older:
            last.extend(older.lines())
    last.extend(reader.lines())
    yield from last


def readable(line: bytes) -> str:
    """Return one event for a person: local time, name, what belongs to it."""
    try:
        event: dict[str, Any] = json.loads(line)  # Any: JSON
        at = datetime.fromisoformat(event.pop("at")).astimezone()
        name = event.pop("event")
        rest = "  ".join(f"{key}={_value(value)}" for key, value in event.items())
    except (ValueError, KeyError, TypeError, AttributeError):
        return _as_it_is(line)
    return f"{at:%Y-%m-%d %H:%M:%S}  {name:<20} {rest}".rstrip()


def _value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    printable = "".join(c if c.isprintable() else " " for c in text)
    return f'"{printable}"' if " " in printable else printable


def _as_it_is(line: bytes) -> str:
    return line.decode("utf-8", "backslashreplace")
