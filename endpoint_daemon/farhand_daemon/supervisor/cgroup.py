"""Control groups of ours: they hold a command together, limit it, and tell what hit it.

A group has a folder in every hierarchy that is ours to use (`cgroup_base.py` finds them): one with
version 2, one for each controller with version 1. Every supervisor lives in a group of its own, so
whatever its command starts is born in it, at no cost per command. A command with limits gets one
for itself: its supervisor goes in, starts it, and comes out again, so that there is no moment in
which the command is outside.

Imported by the fork server: small parts of the standard library only.
"""

from __future__ import annotations

import os
import signal

PREFIX = "farhand-"
_KILLS = 64  # passes of one `kill` where the system cannot do it at once; more are the caller's


class Hierarchy:
    """One mounted tree: groups are made below `base`, and we ourselves are in `home`."""

    __slots__ = ("base", "home")

    def __init__(self, base: str, home: str) -> None:
        self.base, self.home = base, home


class Group:
    """One group of ours, in all hierarchies. Files that a system does not have limit nothing."""

    __slots__ = ("_folders", "name")

    def __init__(self, name: str, hierarchies: list[Hierarchy]) -> None:
        """Name a group that may exist."""
        self.name = name
        self._folders = [(f"{h.base}/{name}", h.home) for h in hierarchies]

    @classmethod
    def make(cls, name: str, hierarchies: list[Hierarchy]) -> Group | None:
        """Make a group; None where that cannot be done, and then nothing is left of it."""
        if not hierarchies:
            return None
        group = cls(name, hierarchies)
        try:
            for folder, _ in group._folders:
                os.mkdir(folder)
        except OSError:
            group.remove()
            return None
        return group

    def join(self) -> bool:
        """Move the calling process in; False when it could not, and then it is where it was."""
        try:
            for folder, _ in self._folders:
                _write(f"{folder}/cgroup.procs", "0")
        except OSError:
            self.leave()
            return False
        return True

    def leave(self) -> None:
        """Move the calling process to where it came from."""
        for _, home in self._folders:
            _try(f"{home}/cgroup.procs", "0")

    def remove(self) -> bool:
        """Remove it; False while somebody is in it."""
        removed = True
        for folder, _ in self._folders:
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                continue
            except OSError:
                removed = False
        return removed

    # -- who is in it ------------------------------------------------------------------------------

    def members(self) -> list[int]:
        """Give the pids of its processes; zombies are not among them."""
        for folder, _ in self._folders:
            text = _read(f"{folder}/cgroup.procs")
            if text is not None:
                return [int(pid) for pid in text.split() if pid != b"0"]  # 0: of another namespace
        return []

    def kill(self) -> None:
        """Kill everything in it but us, and let nothing be born in it meanwhile.

        Who is in it spares itself: a supervisor that could not come out must not die of this.
        """
        self.limit_processes(0)
        us = os.getpid()
        if us not in self.members() and any(
            _try(f"{folder}/cgroup.kill", "1") for folder, _ in self._folders
        ):
            return
        for _ in range(_KILLS):
            members = [pid for pid in self.members() if pid != us]
            for pid in members:
                try:
                    os.kill(pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    continue
            if not members:
                return

    # -- limits ------------------------------------------------------------------------------------

    def limit_memory(self, limit_bytes: int) -> bool:
        """Limit the memory of all that is in it, swap included; False where that cannot be done."""
        for folder, _ in self._folders:
            if _try(f"{folder}/memory.max", str(limit_bytes)):
                _try(f"{folder}/memory.swap.max", "0")
                return True
            if _try(f"{folder}/memory.limit_in_bytes", str(limit_bytes)):
                _try(f"{folder}/memory.memsw.limit_in_bytes", str(limit_bytes))
                return True
        return False

    def limited(self) -> tuple[str, ...]:
        """Give what can be limited for all that is in it together."""
        names = (
            ("memory", ("memory.max", "memory.limit_in_bytes")),
            ("processes", ("pids.max",)),
        )
        return tuple(
            what
            for what, files in names
            if any(
                os.path.exists(f"{folder}/{name}") for folder, _ in self._folders for name in files
            )
        )

    def limit_processes(self, limit: int | None) -> bool:
        """Limit how many processes and threads can be in it; None: no limit again."""
        text = "max" if limit is None else str(limit)
        return any(_try(f"{folder}/pids.max", text) for folder, _ in self._folders)

    def oom_kills(self) -> int | None:
        """Give how many of its processes the kernel has killed for memory; None: not told here."""
        for folder, _ in self._folders:
            for name in ("memory.events", "memory.oom_control"):
                count = event_count(_read(f"{folder}/{name}"), b"oom_kill")
                if count is not None:
                    return count
        return None

    def refused_processes(self) -> int:
        """Give how often a process was not made because of the limit."""
        for folder, _ in self._folders:
            count = event_count(_read(f"{folder}/pids.events"), b"max")
            if count is not None:
                return count
        return 0


class OwnGroup:
    """The group that a supervisor lives in with what it starts."""

    __slots__ = ("_inside", "group")

    def __init__(self, group: Group) -> None:
        self.group = group
        self._inside = True

    @classmethod
    def make(cls, pid: int, start_time: int, hierarchies: list[Hierarchy]) -> OwnGroup | None:
        """Make it and go in; None where there is none to be had."""
        group = Group.make(group_name(pid, start_time), hierarchies)
        if group is None:
            return None
        if not group.join():
            group.remove()
            return None
        return cls(group)

    def members(self) -> list[int]:
        """Give the pids of what is in it, without us."""
        us = os.getpid()
        return [pid for pid in self.group.members() if pid != us]

    def kill(self) -> None:
        """Kill all that is in it but us."""
        if self._inside:
            self.group.leave()
            self._inside = False
        self.group.kill()

    def rejoin(self) -> bool:
        """Be in it, also after a `kill`; False when that is not possible any more."""
        if not self._inside:
            self.group.limit_processes(None)
            self._inside = self.group.join()
        return self._inside

    def give_up(self) -> None:
        """Go out and remove it; what still lives in it keeps it."""
        self.group.leave()
        self.group.remove()


def event_count(text: bytes | None, event: bytes) -> int | None:
    """Read one count of a file of lines `event count`; None when it has none of that name."""
    for line in (text or b"").splitlines():
        name, _, value = line.partition(b" ")
        if name == event and value.strip().isdigit():
            return int(value)
    return None


def group_name(pid: int, start_time: int, number: int = 0) -> str:
    """Name the group of a supervisor, or the n-th of its commands'; no boot has a name twice."""
    return f"{PREFIX}{pid}-{start_time}" + (f"-{number}" if number else "")


def owner_of(name: str) -> tuple[int, int] | None:
    """Give pid and start time of the supervisor that made a group; None: it is none of ours."""
    parts = name.removeprefix(PREFIX).split("-")
    if not name.startswith(PREFIX) or len(parts) < 2 or not all(part.isdigit() for part in parts):
        return None
    return int(parts[0]), int(parts[1])


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _try(path: str, text: str) -> bool:
    try:
        _write(path, text)
    except OSError:
        return False
    return True


def _read(path: str) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = b""
        while part := os.read(fd, 1 << 16):
            text += part
        return text
    except OSError:  # removed meanwhile
        return None
    finally:
        os.close(fd)
