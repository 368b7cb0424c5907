"""Open what a place holds: regular files and folders only, nothing that blocks or has effects.

Imported by the processes of operations: small parts of the standard library only.
"""

from __future__ import annotations

import os
import stat

from farhand_daemon.files.fault import Fault, refuse_kind

_CALM = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
# Linux names a file without opening it (O_PATH), and opens it then by that name, which cannot come
# to mean another one. So a fifo or device is not even opened for an instant.
PINS = hasattr(os, "O_PATH") and os.path.isdir("/proc/self/fd")


def open_file(folder: int, name: bytes, *, pins: bool = PINS) -> tuple[int, os.stat_result]:
    """Open a regular file for reading; Fault for anything else, OSError for what is not there.

    Never follows a link, never waits: also not where the name was just exchanged for a fifo.
    """
    if pins:
        flags = getattr(os, "O_PATH", 0) | os.O_NOFOLLOW | os.O_CLOEXEC
        pin = os.open(name, flags, dir_fd=folder)
        try:
            state = os.fstat(pin)
            if not stat.S_ISREG(state.st_mode):
                refuse_kind(state.st_mode)
            return os.open(f"/proc/self/fd/{pin}", os.O_RDONLY | _CALM), state
        finally:
            os.close(pin)
    before = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISREG(before.st_mode):
        refuse_kind(before.st_mode)
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | _CALM, dir_fd=folder)
    state = os.fstat(fd)
    if not stat.S_ISREG(state.st_mode):
        os.close(fd)
        refuse_kind(state.st_mode)
    return fd, state


def open_folder(folder: int, name: bytes) -> int:
    """Open a folder for reading its names; fault not_a_folder. Never follows a link."""
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | _CALM, dir_fd=folder)
    except NotADirectoryError:
        raise Fault("not_a_folder", "it is not a folder") from None


def version_of(state: os.stat_result) -> str:
    """Give a word that is another one after every change of the file, also of its mode."""
    return f"{state.st_ino:x}-{state.st_size:x}-{state.st_mtime_ns:x}-{state.st_ctime_ns:x}"
