"""Tell a kill by the kernel's out-of-memory killer from any other SIGKILL, where that is possible.

Linux counts such kills per cgroup. The count is of the supervisor's own cgroup, so a command that
somebody kills by hand in the very moment another one of ours runs out of memory is mistaken for
the second; nothing but the word in the report depends on it.

Imported by the fork server: small parts of the standard library only.
"""

from __future__ import annotations

import os


class OomCounter:
    """Reads how many processes of a cgroup the kernel has killed for memory so far."""

    __slots__ = ("_fd",)

    def __init__(self, path: str | None) -> None:
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if path else -1
        except OSError:
            self._fd = -1

    def read(self) -> int:
        """Give the count; always 0 where the system does not tell."""
        if self._fd < 0:
            return 0
        try:
            text = os.pread(self._fd, 4096, 0)
        except OSError:
            return 0
        for line in text.splitlines():
            name, _, value = line.partition(b" ")
            if name == b"oom_kill":
                return int(value)
        return 0


def own_memory_events() -> str | None:
    """Give the path of the file with our cgroup's count (v2, else v1), or None without one."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return None
    for _, controllers, path in sorted(lines, key=lambda line: line[1] != ""):
        if controllers == "":
            file_name = f"/sys/fs/cgroup{path.rstrip('/')}/memory.events"
        elif "memory" in controllers.split(","):
            file_name = f"/sys/fs/cgroup/memory{path.rstrip('/')}/memory.oom_control"
        else:
            continue
        if os.path.exists(file_name):
            return file_name
    return None
