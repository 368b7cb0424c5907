"""Find and end everything a command started, also what left its process group.

A supervisor is a *subreaper* on Linux: a descendant whose parent dies becomes the supervisor's own
child. So every descendant hangs somewhere below the supervisor, whatever sessions or groups it
made, and "no children" means "nothing is left". A snapshot of the tree misses what is born
meanwhile; therefore the caller repeats until empty.

On macOS there is no subreaper and no /proc: only the process group is reached there (not tried).

Imported by the fork server, so it needs only small parts of the standard library.
"""

from __future__ import annotations

import os
import signal

from farhand_daemon.process_identity import LINUX, stat_fields

_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Have orphaned descendants become our children. Once per process; forks do not inherit it."""
    if LINUX:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def load_subreaper() -> None:
    """Load what `become_subreaper` needs, once for all forks to come."""
    if LINUX:
        import ctypes

        ctypes.CDLL(None)


def reap_orphans(keep: int) -> bool:
    """Reap every dead child but `keep`; True when a living child or `keep` itself is left.

    `keep` (0 for none) is the command's own process: as long as its zombie stays, its pid, which
    is also the id of its group and session, cannot come to mean another process.
    """
    if not keep:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return False
        return True
    if LINUX:
        for pid in _zombies_below_us(keep):
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue
    return True


def living_descendants() -> list[tuple[int, int]]:
    """Give (pid, start time) of every process below us that is not a zombie."""
    if not LINUX:
        return []
    children: dict[int, list[int]] = {}
    living: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        fields = stat_fields(int(name))
        if fields is None:
            continue
        children.setdefault(int(fields[1]), []).append(int(name))
        if fields[0] not in (b"Z", b"X"):
            living[int(name)] = int(fields[19])
    found, below = [], children.get(os.getpid(), [])
    while below:
        found += below
        below = [child for pid in below for child in children.get(pid, ())]
    return [(pid, living[pid]) for pid in found if pid in living]


def count_living(group: int) -> int:
    """Give how many processes live below us; on macOS 1 while the group exists."""
    if LINUX:
        return len(living_descendants())
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return 0
    return 1


def signal_all(group: int, number: int) -> int:
    """Send a signal to the command's group and to every descendant outside it; give how many live.

    The group is signalled as one: the kernel lets no member fork past it. The others one by one.
    On macOS the answer is 1 while the group exists.
    """
    in_group = True
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        in_group = False
    except PermissionError:  # macOS: only zombies are left; Linux: all members changed their user
        in_group = LINUX
    living = living_descendants()
    for pid, started in living:
        fields = stat_fields(pid)
        if fields is not None and int(fields[2]) != group:
            signal_one(pid, started, number)
    return len(living) if LINUX else int(in_group)


def signal_one(pid: int, started: int, number: int) -> None:
    """Signal exactly that process: the descriptor pins it before its start time is compared."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        fields = stat_fields(pid)
        if fields is not None and int(fields[19]) == started:
            signal.pidfd_send_signal(fd, number)
    except OSError:
        return
    finally:
        os.close(fd)


def _zombies_below_us(keep: int) -> list[int]:
    us = os.getpid()
    try:
        fd = os.open(f"/proc/self/task/{us}/children", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # a kernel without that file
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    else:
        try:
            text = b""
            while part := os.read(fd, 1 << 16):
                text += part
        finally:
            os.close(fd)
        pids = [int(pid) for pid in text.split()]
    zombies = []
    for pid in pids:
        fields = stat_fields(pid)
        if pid != keep and fields and fields[0] == b"Z" and int(fields[1]) == us:
            zombies.append(pid)
    return zombies
