"""What this computer could confine commands with: facts only, nothing is required yet."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from farhand_daemon import process_identity
from farhand_daemon.doctor.check import Check, good
from farhand_daemon.supervisor.cgroup import Group, group_name
from farhand_daemon.supervisor.cgroup_base import usable_hierarchies

_PROBE_S: Final = 5.0
_APPARMOR: Final = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
# In a process of its own: whoever makes a namespace is in it from then on.
_PROBE: Final = """\
import ctypes, errno, json
libc = ctypes.CDLL(None, use_errno=True)
abi = libc.syscall(444, None, 0, 1)  # landlock_create_ruleset, asked for its version
made = libc.unshare(0x10000000)  # CLONE_NEWUSER
why = errno.errorcode.get(ctypes.get_errno(), "") if made else ""
print(json.dumps({"landlock": max(abi, 0), "namespaces": made == 0, "why": why}))
"""


def sandbox() -> Check:
    """Try bubblewrap, user namespaces and Landlock."""
    if sys.platform != "linux":
        return good("sandbox", "not looked at on this system")
    return good("sandbox", ", ".join((_bubblewrap(), *_kernel())))


def limits(daemon: int | None) -> Check:
    """Try what a command's limits can rest on where the daemon lives; `daemon` is its pid."""
    if sys.platform != "linux" or daemon is None:
        return good("limits", "not looked at: no daemon runs on a Linux here")
    try:
        own, mounts = (
            Path(f"/proc/{daemon}/{name}").read_text() for name in ("cgroup", "mountinfo")
        )
    except OSError:
        return good("limits", "not looked at: the daemon is another account's")
    us = os.getpid()
    group = Group.make(
        group_name(us, process_identity.start_time(us) or 0), usable_hierarchies(own, mounts)
    )
    if group is None:
        return good(
            "limits",
            "open files, and memory of each process alone; a service can limit whole commands "
            "(farhandd service install)",
        )
    limited = group.limited()
    group.remove()
    names = ", ".join((*limited, "open files"))
    kept = "" if limited else "; memory of each process alone (systemd before 254)"
    return good("limits", f"{names}; commands have control groups{kept}")


def _bubblewrap() -> str:
    program = shutil.which("bwrap")
    if program is None:
        return "bubblewrap: not installed"
    shell = _run(program, "--unshare-all", "--ro-bind", "/", "/", "true")
    if shell is None or shell.returncode != 0:
        words = "" if shell is None else shell.stderr.strip().splitlines()[-1:]
        return f"bubblewrap: does not work here ({words[0] if words else 'no reason given'})"
    return "bubblewrap: works"


def _kernel() -> tuple[str, str]:
    done = _run(sys.executable, "-I", "-S", "-c", _PROBE)
    if done is None or done.returncode != 0:
        return "user namespaces: unknown", "Landlock: unknown"
    found = json.loads(done.stdout)
    namespaces = "user namespaces: yes"
    if not found["namespaces"]:
        by = ", by AppArmor" if _apparmor_restricts() else ""
        namespaces = f"user namespaces: no ({found['why']}{by})"
    abi = found["landlock"]
    return namespaces, f"Landlock: version {abi}" if abi else "Landlock: no"


def _apparmor_restricts() -> bool:
    try:
        return _APPARMOR.read_text().strip() == "1"
    except OSError:
        return False


def _run(*words: str) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PROBE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
