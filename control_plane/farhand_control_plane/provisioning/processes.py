"""Which processes belong to an environment that is a folder, and ending all of them.

Known by what they are, not by numbers in a file: the folder's path is in their environment (HOME of
every command lies in it) or command line, they work in it, hold a file of it open, or descend from
one that does. What left all of that behind still descends from the keeper (see there). On Linux by
/proc; elsewhere only by `ps`, which tells command lines and descent alone.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

POLL_S: Final = 0.02  # no event announces the end of a process that is not our child


def processes_of(folder: Path) -> set[int]:
    """Return the living processes of the environment in this folder, never our own."""
    parents = _parents()
    own = os.getpid()
    found = _workers([pid for pid in parents if pid != own], folder)
    return _with_descendants(found, parents) - {own}


def descendants(pid: int) -> set[int]:
    """Return the living processes below this one."""
    return _with_descendants({pid}, _parents()) - {pid}


def signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to processes that may be gone already."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def end_all(folder: Path, within_s: float) -> set[int]:
    """Kill what works on the folder until nothing does; return what is left when the time is up."""
    deadline = time.monotonic() + within_s
    while pids := processes_of(folder):
        if time.monotonic() > deadline:
            return pids
        signal_all(pids, signal.SIGKILL)
        time.sleep(POLL_S)  # killed ones take a moment, and what they began meanwhile is seen then
    return set()


def _with_descendants(pids: set[int], parents: dict[int, int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found, below = set(pids), list(pids)
    while below:
        fresh = [child for child in children.get(below.pop(), ()) if child not in found]
        found.update(fresh)
        below += fresh
    return found


def _parents() -> dict[int, int]:
    """Return each living process's parent; zombies are over."""
    if sys.platform != "linux":
        rows = (line.split() for line in _ps("pid=,ppid=,stat="))
        return {int(row[0]): int(row[1]) for row in rows if len(row) == 3 and row[2][0] != "Z"}
    found: dict[int, int] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - a thousand Path objects for nothing
        if not entry.isdecimal():
            continue
        with contextlib.suppress(OSError, IndexError, ValueError):
            fields = Path(f"/proc/{entry}/stat").read_bytes().rpartition(b")")[2].split()
            if fields[0] not in (b"Z", b"X"):
                found[int(entry)] = int(fields[1])
    return found


def _workers(pids: Iterable[int], folder: Path) -> set[int]:
    """Return those of the processes that work on the folder."""
    mark = os.fsencode(folder)
    if sys.platform == "linux":
        return {pid for pid in pids if any(_names(text, mark) for text in _told_by_proc(pid))}
    named = (line.split(maxsplit=1) for line in _ps("pid=,command="))
    lines = {int(row[0]): os.fsencode(row[1]) for row in named if len(row) == 2}
    return {pid for pid in pids if _names(lines.get(pid, b""), mark)}


def _ps(columns: str) -> list[str]:
    command = ["/bin/ps", "-axwwo", columns]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()


def _told_by_proc(pid: int) -> Iterator[bytes]:
    """Yield what may name a folder; another account's processes tell nothing."""
    for part in ("cmdline", "environ"):
        with contextlib.suppress(OSError):
            yield Path(f"/proc/{pid}/{part}").read_bytes()
    links = [f"/proc/{pid}/cwd", f"/proc/{pid}/exe"]
    with contextlib.suppress(OSError):
        links += [f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd")]  # noqa: PTH208
    for link in links:
        with contextlib.suppress(OSError):
            yield os.fsencode(os.readlink(link))  # noqa: PTH115 - bytes as they are


def _names(text: bytes, folder: bytes) -> bool:
    """Tell whether the text holds this path or one beneath it, and not just one that begins so."""
    at = text.find(folder)
    while at >= 0:
        after = text[at + len(folder) : at + len(folder) + 1]
        if after in (b"", b"/", b"\0", b":", b" "):
            return True
        at = text.find(folder, at + 1)
    return False
