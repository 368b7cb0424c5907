"""What this machine says of itself in its Hello."""

import os
import platform
import pwd
import sys
import time
from pathlib import Path

from farhand_shared.link_events import Facts


def gather_facts() -> Facts:
    """Return the facts; reads files and the kernel, starts no process."""
    account = pwd.getpwuid(os.geteuid())
    return Facts(
        hostname=platform.node() or "unnamed",
        os="macos" if sys.platform == "darwin" else sys.platform,
        os_version=_os_version(),
        arch=platform.machine(),
        user=account.pw_name,
        home=os.fsencode(account.pw_dir),
        cpus=os.cpu_count() or 1,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        time_zone=_time_zone(),
    )


def _os_version() -> str:
    if sys.platform == "darwin":
        return platform.mac_ver()[0]
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.release())
    except OSError:
        return platform.release()


def _time_zone() -> str:
    """Return the IANA name, or the offset from UTC where nothing tells the name."""
    if name := os.environ.get("TZ", "").removeprefix(":"):
        return name
    _, found, name = os.path.realpath("/etc/localtime").partition("/zoneinfo/")
    if found:
        return name
    try:
        return Path("/etc/timezone").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return time.strftime("%z")
