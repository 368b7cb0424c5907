"""The file beside a target in which the bytes of a put gather: ``.NAME.farhand-part-ID``.

Imported by the processes of operations: small parts of the standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import time

from farhand_daemon.files.fault import Fault
from farhand_daemon.files.roots import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from farhand_daemon.files.roots import Place

_NAME_MAX_BYTES = 255
_KEPT_S = 24 * 3600
_PART = re.compile(rb"\..*\.farhand-part-[0-9a-f]{16}", re.DOTALL)


def beside(name: bytes, tail: bytes) -> bytes:
    """Give a hidden name that says which file it belongs to, of a length that a name may have."""
    return b"." + name[: _NAME_MAX_BYTES - 1 - len(tail)] + tail


def part_name(name: bytes, sha256: bytes) -> bytes:
    return beside(name, b".farhand-part-" + sha256[:8].hex().encode())


def received_of(place: Place, sha256: bytes) -> int:
    """Give how many bytes of a put of this content are kept."""
    try:
        state = os.stat(part_name(place.name, sha256), dir_fd=place.folder, follow_symlinks=False)
    except OSError:
        return 0
    return state.st_size if _is_ours(state) else 0


def open_part(place: Place, sha256: bytes) -> int:
    """Open the part for reading and writing, alone; make it where there is none.

    What has its name but could be something else as well (a link, a file with a second name, of
    another account) is removed first: we write into nothing that we have not made.
    """
    name = part_name(place.name, sha256)
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    for _ in range(100):
        try:
            state = os.stat(name, dir_fd=place.folder, follow_symlinks=False)
        except FileNotFoundError:
            state = None
        if state is not None and not _is_ours(state):
            os.unlink(name, dir_fd=place.folder)
            state = None
        try:
            made = 0 if state is not None else os.O_CREAT | os.O_EXCL
            fd = os.open(name, flags | made, 0o600, dir_fd=place.folder)
        except (FileNotFoundError, FileExistsError):
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Fault(
                "busy", "another put of the same content goes on there; wait for its end"
            ) from None
        try:
            named = os.stat(name, dir_fd=place.folder, follow_symlinks=False)
        except FileNotFoundError:
            named = None
        here = os.fstat(fd)
        if named is not None and identity(named) == identity(here) and _is_ours(here):
            return fd
        os.close(fd)  # it got its place, or was removed, while we waited for it
    raise Fault("busy", "what gathers its bytes is being exchanged; try again")


def remove_old_parts(place: Place) -> None:
    """Remove the parts in the folder that nobody has gone on with for a day."""
    before = time.time() - _KEPT_S
    with contextlib.suppress(OSError):  # a folder whose names may not be read
        folder = os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place.folder)
        with os.scandir(folder) as found:
            names = [name for entry in found if _PART.fullmatch(name := os.fsencode(entry.name))]
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                state = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if _is_ours(state) and state.st_mtime < before:
                    os.unlink(name, dir_fd=folder)
        os.close(folder)


def _is_ours(state: os.stat_result) -> bool:
    return stat.S_ISREG(state.st_mode) and state.st_nlink == 1 and state.st_uid == os.geteuid()
