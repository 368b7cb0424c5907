"""What a machine's daemon must know for a command: old daemons are the normal case.

Told before anything is sent: an old one would refuse it, but only when the machine is there.
"""

from typing import Final

from farhand_shared.command import NO_LIMITS, Argv, CommandSpec, Shell
from farhand_shared.errors import Conflict

_SINCE: Final = 3  # of everything below


class MachineTooOld(Conflict):
    """The machine's daemon does not know this kind of command."""

    code = "machine_too_old"


def is_known(spec: CommandSpec, capability: int) -> bool:
    """Tell whether a daemon of this capability can carry the command out."""
    return capability >= _SINCE or not _needs(spec)


def refuse_unknown(spec: CommandSpec, *, name: str, capability: int, daemon_version: str) -> None:
    """Raise MachineTooOld, saying what it cannot do, unless the machine can carry it out."""
    if not is_known(spec, capability):
        raise MachineTooOld(
            f"cannot {_needs(spec)}: {name} runs daemon {daemon_version or 'of unknown version'}, "
            "which cannot do that; update it"
        )


def _needs(spec: CommandSpec) -> str:
    """Return what a command is beyond the first daemons; empty when nothing."""
    if not isinstance(spec.run, Shell | Argv):
        return "work on files"
    if spec.pty is not None:
        return "give a command a terminal"
    if spec.stdin:
        return "give a command input"
    return "limit a command" if spec.limits != NO_LIMITS else ""
