"""Whether a signed release is to be installed on this machine. Pure."""

from dataclasses import dataclass

from farhand_daemon.machine_file import UPDATE_OFF
from farhand_daemon.update.slots import NAME_LENGTH
from farhand_daemon.update.state import UpdateState
from farhand_shared.errors import InvalidInput
from farhand_shared.release import Release, version_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Who wants it: a person (and which version they named), or nobody but the clock."""

    by_person: bool
    version: str | None = None


@dataclass(frozen=True, slots=True)
class Install:
    release: Release


@dataclass(frozen=True, slots=True)
class Leave:
    """Nothing is to be done. ``step``: what a person could do; "" when nothing is wrong."""

    reason: str
    step: str = ""


def decide(
    release: Release,
    *,
    installed: str,
    slot: str,
    channel: str,
    server_capability: int | None,
    state: UpdateState,
    asked: Asked,
) -> Install | Leave:
    """Return the verdict. ``installed``, ``slot``: the current version and its folder's name."""
    version = release.version
    if channel == UPDATE_OFF and asked.version is None:
        return Leave("updates are off on this machine", "farhandd update --channel stable")
    if asked.version is not None and version != asked.version:
        return Leave(f"the server gave {version} for {asked.version}", "tell whoever runs it")
    if asked.version is None and release.channel != channel:
        return Leave(
            f"the server gave a release of {release.channel} for {channel}", "tell whoever runs it"
        )
    if release.wheel.sha256[:NAME_LENGTH] == slot:
        return Leave(f"{version} is installed, and it is the newest of {release.channel}")
    if server_capability is not None and server_capability < release.min_capability:
        return Leave(
            f"{version} needs a newer control plane (it speaks {server_capability}, "
            f"{release.min_capability} is needed)",
            "wait until it is updated",
        )
    if asked.version is not None:
        return Install(release)
    newer, current = version_key(version), _key(installed)
    if newer < current:
        return Leave(
            f"{installed} is installed, and the newest of {release.channel} is {version}: an older "
            "version is installed only when a person asks for it",
            f"farhandd update --to {version}",
        )
    if newer == current:
        return Leave(
            f"{installed} is installed; {release.channel} has another build of the same version",
            f"farhandd update --to {version}",
        )
    bad = state.bad_version(release.wheel.sha256[:NAME_LENGTH])
    if bad is not None:
        return Leave(
            f"{version} failed on this machine ({bad.reason}) and is not tried again",
            f"farhandd update --to {version} tries it all the same",
        )
    return Install(release)


def _key(version: str) -> tuple[int, ...]:
    try:
        return version_key(version)
    except InvalidInput:
        return ()
