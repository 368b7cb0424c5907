"""Two calls that Python has no name for: open beneath a folder, rename to a free name.

Where a system does not have them there is another way, which is as safe but slower.
Imported by the processes of operations: small parts of the standard library only.
"""

from __future__ import annotations

import ctypes
import errno
import os

_OPENAT2 = 437  # the same number on every architecture of Linux but alpha
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_BENEATH = 0x08
_RENAME_NOREPLACE = 1  # Linux
_RENAME_EXCL = 4  # macOS
_ABSENT = (errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.ENOTSUP)  # EPERM: older seccomp filters

# O_PATH names a folder without opening it. macOS has no such thing.
FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


class Openat2:
    """Opens folders beneath a folder, by the kernel's own rule; `there` turns false without it."""

    def __init__(self) -> None:
        self.there = hasattr(os, "O_PATH")  # Linux
        self._libc = ctypes.CDLL(None, use_errno=True)

    def folder(self, root_fd: int, path: bytes) -> int | None:
        """Give a descriptor; None when the kernel cannot say, OSError when it says no.

        It cannot say where a link is absolute or leads out, which is not always out of all roots,
        nor when something on the way is moved meanwhile.
        """
        if not self.there:
            return None
        how = _OpenHow(FOLDER_FLAGS, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
        fd: int = self._libc.syscall(
            ctypes.c_long(_OPENAT2),
            ctypes.c_int(root_fd),
            ctypes.c_char_p(path),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        if number in _ABSENT:
            self.there = False
            return None
        if number in (errno.EXDEV, errno.ELOOP, errno.EAGAIN):
            return None
        raise OSError(number, os.strerror(number))


def rename_to_free_name(from_fd: int, name: bytes, to_fd: int, new_name: bytes) -> None:
    """Rename unless something has the new name: then FileExistsError.

    Where the system cannot do both in one step, it is looked first and renamed then.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for call, flag in (("renameat2", _RENAME_NOREPLACE), ("renameatx_np", _RENAME_EXCL)):
        function = getattr(libc, call, None)
        if function is None:
            continue
        if function(from_fd, ctypes.c_char_p(name), to_fd, ctypes.c_char_p(new_name), flag) == 0:
            return
        number = ctypes.get_errno()
        if number not in _ABSENT:
            raise OSError(number, os.strerror(number))
    try:
        os.lstat(new_name, dir_fd=to_fd)
    except FileNotFoundError:
        os.rename(name, new_name, src_dir_fd=from_fd, dst_dir_fd=to_fd)
        return
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
