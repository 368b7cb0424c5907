"""Render the launchd property list of a daemon, for an account or for the whole system. Pure.

Written after launchd.plist(5); not tried on a Mac.
"""

import plistlib
from typing import Any, Final

from farhand_daemon.service.spec import ServiceSpec

# launchd restarts what does not exit 0 and cannot except one status: so the daemon exits 0 there.
NOT_WANTED_IS_SUCCESS: Final = "--not-wanted-is-success"


def render_plist(spec: ServiceSpec) -> str:
    """Return the text of the property list."""
    environment = dict(spec.environment)
    if spec.for_system:  # the system's domain gives jobs no HOME
        environment["HOME"] = str(spec.account_home)
    job: dict[str, Any] = {  # Any: a property list
        "Label": spec.label,
        "ProgramArguments": [*spec.arguments, NOT_WANTED_IS_SUCCESS],
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        # launchd has no growing delay. The daemon's own back-off is for the link.
        "ThrottleInterval": 10,
        # Running commands outlive the daemon; the next one takes them over.
        "AbandonProcessGroup": True,
        "ExitTimeOut": 30,
        # Without it commands would be throttled as background work.
        "ProcessType": "Interactive",
        "WorkingDirectory": str(spec.account_home),
        "StandardOutPath": "/dev/null",
        "StandardErrorPath": str(spec.home / "service.log"),
    }
    if environment:
        job["EnvironmentVariables"] = environment
    return plistlib.dumps(job, sort_keys=False).decode()
