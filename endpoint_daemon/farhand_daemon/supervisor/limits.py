"""What one command may use: set around its start, looked at when it is over.

Memory and processes are limited for all of the command together by a control group of its own.
Where there is none, memory is limited for each process alone, which is said in the result, and a
limit of processes is refused: the system's own counts everything of the account.

Imported by the fork server: small parts of the standard library only.
"""

from __future__ import annotations

from farhand_daemon.process_identity import LINUX
from farhand_daemon.supervisor.cgroup import Group, Hierarchy
from farhand_daemon.supervisor.spawning import SpawnFailure

_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


class CommandLimits:
    """The limits of one command. `enter` before the spawn, `leave` right after it."""

    def __init__(self, wanted: dict[str, int], name: str, hierarchies: list[Hierarchy]) -> None:
        """Prepare for `wanted` (memory_bytes, processes, open_files; absent or 0: none).

        SpawnFailure: one of them cannot be kept here.
        """
        self._memory_bytes = wanted.get("memory_bytes", 0)
        self._processes = wanted.get("processes", 0)
        self._open_files = wanted.get("open_files", 0)
        self._own: dict[int, tuple[int, int]] = {}  # resource limits of ours, to be set again
        self._per_process = False
        self.group: Group | None = None
        if self._memory_bytes or self._processes:
            self._make_group(name, hierarchies)

    def enter(self) -> None:
        """Have what is spawned next begin under the limits; SpawnFailure when it cannot."""
        if self.group is not None and not self.group.join():
            self.remove()
            raise _unavailable("its control group cannot be entered; ask without them")
        try:
            if self._per_process:
                self._set("RLIMIT_DATA", self._memory_bytes)
            if self._open_files:
                self._set("RLIMIT_NOFILE", self._open_files)
        except SpawnFailure:
            self.leave(0)
            raise

    def leave(self, pid: int, back_to: Group | None = None) -> None:
        """Come out again, into our own group if we have one; `pid` is what was spawned, or 0."""
        for number, (soft, hard) in self._own.items():
            import resource

            wanted, _ = resource.getrlimit(number)
            resource.setrlimit(number, (soft, hard))
            if pid and LINUX:  # it began under the soft limit; now it cannot lift it any more
                try:
                    resource.prlimit(pid, number, (wanted, wanted))
                except OSError:  # over already
                    continue
        self._own.clear()
        if self.group is not None:
            if self._processes and pid:
                self.group.limit_processes(self._processes)  # without us
            if back_to is None or not back_to.join():
                self.group.leave()
            if not pid:
                self.remove()

    def remove(self) -> None:
        """Remove the group, if nothing is left in it."""
        if self.group is not None and self.group.remove():
            self.group = None

    def notes(self, *, complained: bytes) -> list[dict[str, str]]:
        """Say which limits were reached. `complained`: the last of what a failed command wrote."""
        notes = []
        kills = self.group.oom_kills() if self.group is not None else None
        if kills and self._memory_bytes:
            notes.append(
                note(
                    "out_of_memory",
                    f"the limit of {size(self._memory_bytes)} of memory was reached: the kernel "
                    f"killed {kills} of its processes; ask with more, or do less at once",
                )
            )
        elif self._per_process:
            notes.append(
                note(
                    "memory_limit_per_process",
                    f"the limit of {size(self._memory_bytes)} of memory held for each process "
                    "alone: the daemon has no control group to divide on this machine",
                )
            )
        refused = self.group.refused_processes() if self.group is not None else 0
        if refused and self._processes:
            notes.append(
                note(
                    "process_limit",
                    f"the limit of {self._processes:,} processes was reached: {refused:,} more "
                    "were not made; ask with more, or do less at once",
                )
            )
        if self._open_files and b"Too many open files" in complained:
            notes.append(
                note(
                    "open_files_limit",
                    f"the limit of {self._open_files:,} open files was reached; ask with more",
                )
            )
        return notes

    def _make_group(self, name: str, hierarchies: list[Hierarchy]) -> None:
        self.group = Group.make(name, hierarchies)
        if self._processes and not (
            self.group is not None and self.group.limit_processes(self._processes + 1)
        ):  # one more while we are in it
            self.remove()
            raise _unavailable(
                "a limit of processes needs a control group, and the daemon has none to divide on "
                "this machine; run it as a service there (farhandd service install)"
            )
        if self._memory_bytes and not (
            self.group is not None and self.group.limit_memory(self._memory_bytes)
        ):
            self._per_process = True

    def _set(self, name: str, limit: int) -> None:
        """Set a resource limit of ours, which what we spawn inherits: the soft one only, because
        a hard one could not be lifted again.
        """
        import resource

        number = getattr(resource, name)
        soft, hard = resource.getrlimit(number)
        if hard != resource.RLIM_INFINITY and limit > hard:
            raise SpawnFailure(
                "limit_unavailable",
                f"cannot start with {limit:,} open files: this machine's own limit is {hard:,}; "
                "ask with less",
                item="open_files",
                limit_bytes=hard,
            )
        self._own[number] = (soft, hard)
        resource.setrlimit(number, (limit, hard))


def limits_of(wanted: object, name: str, hierarchies: list[Hierarchy]) -> CommandLimits | None:
    """Return the limits that a request asks for; None when it asks for none."""
    if not isinstance(wanted, dict) or not any(wanted.values()):
        return None
    return CommandLimits(wanted, name, hierarchies)


def oom_note(kills: int) -> dict[str, str]:
    """Say that the kernel killed processes of a command that had no limit of its own."""
    return note(
        "out_of_memory",
        f"the machine ran out of memory: the kernel killed {kills} of its processes; "
        "do less at once, or ask a machine with more",
    )


def note(code: str, text: str) -> dict[str, str]:
    return {"code": code, "text": text}


def size(count: int) -> str:
    """Give a number of bytes for people: exact, with the largest unit that keeps it so."""
    for unit, name in _UNITS:
        if count >= unit and count % unit == 0:
            return f"{count // unit:,} {name}"
    return f"{count:,} bytes"


def _unavailable(why: str) -> SpawnFailure:
    return SpawnFailure("limit_unavailable", f"cannot start with limits: {why}")
