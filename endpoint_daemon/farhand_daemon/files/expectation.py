"""What must be there before a file is replaced, looked at twice: before the work, and at the end of
it with the folder locked. Between two operations of ours there is no gap; another program has the
instant between the second look and the rename.

Imported by the processes of operations: small parts of the standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import time

from farhand_daemon.files.fault import Fault, refuse_kind
from farhand_daemon.files.opening import open_file, version_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from farhand_daemon.files.roots import Place

_CHUNK_BYTES = 1024 * 1024
_LOCK_S = 10.0
_LOOK_AGAIN_S = 0.005
# A file that was changed so shortly before it was hashed may change again and keep all its times:
# they count in steps of the clock. Then only its content tells.
_FRESH_NS = 2_000_000_000
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.EBADF, errno.EINVAL, errno.ENOSYS)


class Expectation:
    """``expect``: None for anything, b"" for nothing, else the SHA-256 of a file's content."""

    def __init__(self, place: Place, expect: bytes | None) -> None:
        """Look for the first time; fault exists or changed, with the hashes."""
        self._place, self._expect = place, expect
        self._version: str | None = None  # of what fits; None: its content must be hashed again
        if place.state is not None and not stat.S_ISREG(place.state.st_mode):
            refuse_kind(place.state.st_mode)
        self._check(first=True)

    @property
    def nothing(self) -> bool:
        """Whether the name must be free."""
        return self._expect == b""

    def check_again(self) -> None:
        """Look for the last time; the folder is locked."""
        self._check(first=False)

    def _check(self, *, first: bool) -> None:
        if self._expect is None:
            return
        place = self._place
        try:
            state = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
        except FileNotFoundError:
            if self._expect:
                raise self._changed("") from None
            return
        if not self._expect:
            raise Fault("exists", "it is there already", sha256=self._hash_if_file())
        if first or self._version is None or version_of(state) != self._version:
            now_ns = time.time_ns()
            sha256, state = hash_file(place)
            if sha256 != self._expect.hex():
                raise self._changed(sha256)
            calm = abs(now_ns - max(state.st_mtime_ns, state.st_ctime_ns)) > _FRESH_NS
            self._version = version_of(state) if calm else None

    def _hash_if_file(self) -> str:
        with contextlib.suppress(OSError, Fault):
            return hash_file(self._place)[0]
        return ""

    def _changed(self, sha256: str) -> Fault:
        return Fault(
            "changed",
            "its content is not the one expected; read it again" if sha256 else "it is gone",
            sha256=sha256,
            expected_sha256=(self._expect or b"").hex(),
        )


def hash_file(place: Place) -> tuple[str, os.stat_result]:
    """Give the SHA-256 of a regular file in hex, and its state when that was begun."""
    fd, state = open_file(place.folder, place.name)
    try:
        return hash_fd(fd).hexdigest(), state
    finally:
        os.close(fd)


def hash_fd(fd: int, length: int | None = None) -> hashlib._Hash:
    """Give the hash over what an open file has, up to a length."""
    digest = hashlib.sha256(usedforsecurity=False)
    at = 0
    while length is None or at < length:
        size = _CHUNK_BYTES if length is None else min(_CHUNK_BYTES, length - at)
        chunk = os.pread(fd, size, at)
        if not chunk:
            break
        digest.update(chunk)
        at += len(chunk)
    return digest


@contextlib.contextmanager
def locked(place: Place) -> Iterator[int | None]:
    """Hold the lock of a folder against other operations; give it open for reading.

    None where its names may not be read: then it cannot be locked either. Fault busy after 10 s:
    any program may hold the lock, and none may hold us for ever.
    """
    try:
        folder = os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place.folder)
    except PermissionError:
        yield None
        return
    try:
        give_up_at = time.monotonic() + _LOCK_S
        while not _lock(folder):
            if time.monotonic() >= give_up_at:
                raise Fault("busy", "another program has locked its folder; end that, or wait")
            time.sleep(_LOOK_AGAIN_S)  # a lock that is waited for cannot be given up in time
        yield folder
    finally:
        os.close(folder)


def _lock(folder: int) -> bool:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:  # some network file systems lock nothing
            raise
    return True
