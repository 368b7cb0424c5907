"""Tell whether a process is still the one we started: pid, start time and boot id together.

Imported by the fork server, so it needs only small parts of the standard library.
"""

from __future__ import annotations

import os
import sys

LINUX = sys.platform == "linux"
_BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"
_PROC_PIDTBSDINFO = 3  # macOS, sys/proc_info.h
_BSDINFO_BYTES = 136
_BSDINFO_START = 120  # offset of pbi_start_tvsec; pbi_start_tvusec follows


def boot_id() -> str:
    """Give the name of this boot; another boot has another name, so no old pid can match."""
    if LINUX:
        with open(_BOOT_ID_FILE, encoding="ascii") as file:
            return file.read().strip()
    return _macos_boot_time()


def start_time(pid: int) -> int | None:
    """Give when a process started, in the unit of its system, or None when there is none.

    A zombie still has its start time: it keeps the pid taken.
    """
    if LINUX:
        fields = stat_fields(pid)
        return None if fields is None else int(fields[19])
    return _macos_start_time(pid)


def is_alive(pid: int, started: int, boot: str, *, this_boot: str | None = None) -> bool:
    """Say whether exactly that process exists and is not a zombie."""
    if boot != (this_boot or boot_id()):
        return False
    if LINUX:
        fields = stat_fields(pid)
        return fields is not None and int(fields[19]) == started and fields[0] not in (b"Z", b"X")
    return _macos_start_time(pid) == started


def stat_fields(pid: int) -> list[bytes] | None:
    """Give /proc/PID/stat from the third field on (state, ppid, pgrp, session, …), or None.

    The second field is the name and may hold spaces and brackets: cut after its last bracket.
    """
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(fd, 4096)
    except OSError:  # it ended between open and read
        return None
    finally:
        os.close(fd)
    return text[text.rfind(b")") + 2 :].split() or None


def _macos_boot_time() -> str:
    # Written from the headers, not tried on a Mac: sysctl kern.boottime is a struct timeval.
    import ctypes

    libc = ctypes.CDLL(None)
    seconds = (ctypes.c_int64 * 2)()
    size = ctypes.c_size_t(ctypes.sizeof(seconds))
    if libc.sysctlbyname(b"kern.boottime", seconds, ctypes.byref(size), None, 0) != 0:
        return "unknown"
    return f"boottime-{seconds[0]}"


def _macos_start_time(pid: int) -> int | None:
    # Written from the headers, not tried on a Mac: proc_pidinfo fills a struct proc_bsdinfo.
    import ctypes

    info = ctypes.create_string_buffer(_BSDINFO_BYTES)
    got = ctypes.CDLL(None).proc_pidinfo(pid, _PROC_PIDTBSDINFO, 0, info, _BSDINFO_BYTES)
    if got != _BSDINFO_BYTES:
        return None
    start = info.raw[_BSDINFO_START : _BSDINFO_START + 16]
    return int.from_bytes(start[:8], sys.byteorder) * 1_000_000 + int.from_bytes(
        start[8:], sys.byteorder
    )
