"""Which processes belong to a cluster, told by what they are and not by a number in a file.

A process id in `postmaster.pid` proves nothing: after a reboot or in a new container it is often
somebody else's, and a killed server may linger as a zombie. Every process of a server has the data
folder as its working directory, which nobody else has.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

POLL_S = 0.005  # how often a condition that no event announces is looked at


def cluster_processes(data: Path) -> set[int]:
    """Return the living processes of the server on `data`: its postmaster and its children."""
    if sys.platform == "linux":
        return _by_working_directory(data)
    return _by_command_line(data)


def belongs(pid: int, data: Path) -> bool:
    """Whether this process lives and is one of the server on `data`."""
    if sys.platform != "linux":
        return pid in _by_command_line(data)
    try:
        # A zombie has none, and another user's is not ours to read: neither is a match.
        return Path(f"/proc/{pid}/cwd").readlink() == data
    except OSError:
        return False


def wait_until_gone(pid: int, data: Path, patience_s: float) -> bool:
    """Whether this process, not our child, ended within that time; only looking tells."""
    deadline = time.monotonic() + patience_s
    while belongs(pid, data):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def _by_working_directory(data: Path) -> set[int]:
    numbers = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return {pid for pid in numbers if belongs(pid, data)}


def _by_command_line(data: Path) -> set[int]:
    """Elsewhere only the postmaster can be told: its command line names the data folder."""
    listed = subprocess.run(
        ["/bin/ps", "-axww", "-o", "pid=,stat=,command="],
        capture_output=True,
        text=True,
        check=False,
    )
    found = set()
    for line in listed.stdout.splitlines():
        pid, state, command = line.split(maxsplit=2)
        if f"postgres -D {data} " in f"{command} " and not state.startswith("Z"):
            found.add(int(pid))
    return found


def end_orphans(pids: set[int], data: Path) -> None:
    """End the children of a killed postmaster, which may run on for as long as their query does.

    They hold the old shared memory, and a new server refuses to start while they do. SIGQUIT is
    the server's own "leave at once"; a stopped or stuck process gets SIGKILL after a second.
    """
    for step in (signal.SIGQUIT, signal.SIGKILL):
        pids = {pid for pid in pids if belongs(pid, data)}
        for pid in pids:
            send(pid, step)
        deadline = time.monotonic() + 1
        for pid in pids:
            wait_until_gone(pid, data, deadline - time.monotonic())


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may be gone already."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
