"""What is checked on this computer itself."""

import asyncio
import os
import platform
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import grpc

from farhand_daemon.command_env import capture_login_environment
from farhand_daemon.doctor.check import Check, bad, good
from farhand_daemon.identity import MachineCredentials
from farhand_daemon.machine_file import load_machine_file
from farhand_daemon.paths import Home, prepare_home
from farhand_daemon.service.manager import manager_for, spec_for, this_host
from farhand_daemon.status import DaemonStatus, way_back
from farhand_shared import limits
from farhand_shared.version import __version__

_UNWANTED: Final = ("revoked", "quarantined")


def home_folder(home: Home) -> Check:
    prepare_home(home)
    return good("home", f"{home.root} is private and writable")


def machine_file(home: Home) -> Check:
    machine = load_machine_file(home.machine_file)
    roots = ", ".join(map(str, machine.all_roots()))
    if machine.trust_level == "off":
        return bad(
            "machine file",
            "trust_level is off: nothing runs on this machine",
            f"set trust_level in {home.machine_file} when it shall work",
        )
    missing = [str(root) for root in machine.all_roots() if not root.is_dir()]
    if missing:
        return bad(
            "machine file",
            f"roots that do not exist: {', '.join(missing)}",
            f"make them or correct roots in {home.machine_file}",
        )
    return good("machine file", f"{machine.trust_level}, commands beneath {roots}")


def disk(home: Home) -> Check:
    free = shutil.disk_usage(home.root).free
    text = f"{free // limits.MIB:,} MiB free for output"
    if free >= limits.FREE_DISK_MIN_BYTES:
        return good("disk", text)
    needed = limits.FREE_DISK_MIN_BYTES // limits.MIB
    return bad("disk", text, f"free space until {needed} MiB are there: work is refused below")


def login_environment(daemons: Mapping[str, str] | None) -> Check:
    """Say which PATH commands get, and what this shell has beyond it.

    ``daemons``: what the running daemon was started with; the login shell starts from that.
    """
    base = os.environ if daemons is None else daemons
    env = asyncio.run(
        capture_login_environment({os.fsencode(k): os.fsencode(v) for k, v in base.items()})
    )
    if env is None:
        return bad(
            "environment",
            "the login shell gives no environment within 10 s: commands get a basic PATH",
            "run the shell with -l -c env and see what holds it up",
        )
    path = os.fsdecode(env[b"PATH"])
    if shutil.which("sh", path=path) is None:
        return bad("environment", f"no sh in PATH {path}", "correct PATH in the shell's profile")
    text = f"commands get the login shell's PATH {path}"
    more = only_in(os.environ.get("PATH", ""), path)
    if more:
        text += f"; only this shell has {', '.join(more)} (for commands: the shell's profile)"
    return good("environment", text)


def only_in(path: str, other: str) -> list[str]:
    """Return the folders of one PATH that another has not."""
    others = set(other.split(os.pathsep))
    return [one for one in dict.fromkeys(path.split(os.pathsep)) if one and one not in others]


def certificate(identity: MachineCredentials, renewal_problem: str) -> Check:
    now = datetime.now(UTC)
    end = identity.not_after
    if now < datetime.fromtimestamp(identity.not_before_ms / 1000, tz=UTC):
        return bad("certificate", "it is not valid yet", "set this machine's clock")
    if renewal_problem:
        result, _, step = renewal_problem.rpartition("; ")
        if not result or step.startswith("enrol"):
            step = way_back("")
        return bad("certificate", f"until {end:%Y-%m-%d}: {result or renewal_problem}", step)
    if now <= end:
        return good("certificate", f"until {end:%Y-%m-%d %H:%M} UTC")
    if now <= end + timedelta(days=limits.RENEW_GRACE_DAYS):
        return bad(
            "certificate",
            f"it ended on {end:%Y-%m-%d}",
            "run farhandd run where the control plane can be reached: it renews by itself",
        )
    return bad("certificate", f"it ended on {end:%Y-%m-%d}", way_back(""))


def daemon(pid: int | None, last: DaemonStatus | None, server_says: str) -> Check:
    if pid is None and server_says in _UNWANTED:
        return bad("daemon", "it is not running, and would not stay", way_back(server_says))
    if pid is None and last is not None and last.state == "ended":
        return bad("daemon", f"it has ended: {last.reason} ({last.bye})", way_back(last.bye))
    if pid is None:
        return bad(
            "daemon", "it is not running", "start it: farhandd service install or farhandd run"
        )
    if last is None or last.state != "connected":
        reason = "" if last is None or not last.reason else f": {last.reason}"
        state = "starting" if last is None else last.state
        return bad("daemon", f"pid {pid} is {state}{reason}", "see the checks above")
    return good("daemon", f"pid {pid} is connected")


def environment_of(pid: int | None) -> Mapping[str, str] | None:
    """Return what the running daemon was started with; None when that cannot be seen."""
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    pairs = (os.fsdecode(entry).partition("=") for entry in text.split(b"\0") if entry)
    return {name: value for name, _, value in pairs}


def service(home: Home) -> Check:
    host = this_host()
    state = manager_for(spec_for(home, host), host).state()
    what = f"{state.manager}, {state.name}"
    if not state.installed:
        return good(
            "service",
            f"none of {state.manager}: the daemon runs while somebody runs it "
            "(farhandd service install changes that)",
        )
    if not state.as_rendered:
        return bad(
            "service",
            f"{what}: its settings are not those of this version ({state.file})",
            "run farhandd service install",
        )
    if state.problem:
        result, _, step = state.problem.partition("; ")
        return bad("service", f"{what}: {result}", step)
    if not state.active:
        return bad("service", f"{what} does not run", "run farhandd service install")
    return good("service", f"{what} runs, with the settings of this version")


def versions(pid: int | None, last: DaemonStatus | None) -> Check:
    text = (
        f"farhandd {__version__}, Python {platform.python_version()}, gRPC {grpc.__version__}, "
        f"{platform.system()} {platform.release()} {platform.machine()}"
    )
    if pid is not None and last is not None and last.version != __version__:
        return bad(
            "versions",
            f"{text}; the daemon that runs is still {last.version}",
            "start it again (running commands go on): with a service, farhandd service install",
        )
    return good("versions", text)


def update(home: Home) -> Check:
    """Say how versions change here, and which one failed."""
    from farhand_daemon.update.told import tell

    text, step = tell(home)
    return bad("update", text, step) if step else good("update", text)
