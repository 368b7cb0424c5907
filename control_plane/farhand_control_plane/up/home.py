"""The home of the local instance: made private, and held by one `up` at a time."""

import contextlib
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from farhand_control_plane.own_program import farhand
from farhand_shared.errors import Conflict, Unavailable

_WAIT_FOR_THE_LAST_ONE_S: Final = 30.0
_POLL_S: Final = 0.05


def prepare(home: Path) -> None:
    """Make the home where it is missing, and see that it is ours, private and writable."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = home.stat()
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(0, "it is not a folder", str(home))
        if status.st_uid != os.geteuid():
            raise Unavailable(
                f"cannot use the home {home}: it belongs to another user; "
                "set FARHAND_HOME to a folder of your own"
            )
        if status.st_mode & 0o077:
            home.chmod(0o700)
        probe = home / f".writable.{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise Unavailable(
            f"cannot use the home {home}: {(error.strerror or str(error)).lower()}; "
            "make it writable or set FARHAND_HOME to a folder that is"
        ) from error


class HomeLock:
    """Held while an `up` runs on a home. What it says in the file is for the one that comes second.

    The file is removed when it is given up, so a holder checks that the one it locked is still the
    one in place.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1

    def take(self) -> None:
        """Take it; raise Conflict naming who holds it and where that one serves."""
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                said = _read(descriptor)
                os.close(descriptor)
                raise Conflict(_second(self._path.parent, said)) from None
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), self._path.stat()):
                    self._descriptor = descriptor
                    self.say({"pid": os.getpid()})
                    return
            os.close(descriptor)  # its holder removed it between our open and our lock

    def say(self, what: dict[str, Any]) -> None:  # JSON
        """Tell who comes second."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, json.dumps(what).encode() + b"\n", 0)

    def release(self) -> None:
        """Leave nothing behind."""
        if self._descriptor >= 0:
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = -1


def _read(descriptor: int) -> dict[str, Any]:  # JSON
    try:
        value = json.loads(os.pread(descriptor, 4096, 0))
    except ValueError:  # it has just begun
        return {}
    return value if isinstance(value, dict) else {}


def _second(home: Path, said: dict[str, Any]) -> str:  # said: JSON
    who = f" (process {said['pid']})" if "pid" in said else ""
    if "url" not in said:
        return f"cannot start: farhand is already starting in {home}{who}; wait for it"
    return (
        f"cannot start: farhand already runs in {home}{who} at {said['url']}; "
        f"talk to it with {farhand()} chat, or stop it with Ctrl-C where it runs"
    )


@contextlib.contextmanager
def inherited_lock(path: Path, what: str) -> Iterator[int]:
    """Give the descriptor of a lock that a child inherits: it is held as long as the child lives.

    An `up` that was killed leaves children behind that end by themselves, a moment later; until
    then they hold ports. Waits for that moment.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _wait_for(descriptor, what)
        yield descriptor
    finally:
        os.close(descriptor)


def wait_until_free(path: Path, what: str) -> None:
    """Return when nobody holds the lock on a file; at once when there is no such file."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        _wait_for(descriptor, what)
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, what: str) -> None:
    deadline = time.monotonic() + _WAIT_FOR_THE_LAST_ONE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"cannot start: {what} of an earlier run has not ended after "
                    f"{_WAIT_FOR_THE_LAST_ONE_S:.0f} s; end it by hand and start again"
                ) from None
        time.sleep(_POLL_S)  # a blocking lock could not be given up at the deadline
