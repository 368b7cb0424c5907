"""One thing that was looked at, and how to make one."""

from collections.abc import Callable
from dataclasses import dataclass

from farhand_shared.errors import FarhandError


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at. ``next_step`` is empty when it is as it should be."""

    check: str
    ok: bool
    result: str
    next_step: str = ""


def good(check: str, result: str) -> Check:
    return Check(check=check, ok=True, result=result)


def bad(check: str, result: str, next_step: str) -> Check:
    return Check(check=check, ok=False, result=result, next_step=next_step)


def tried(name: str, look: Callable[[], Check]) -> Check:
    """Return what ``look`` finds; an error of ours is a finding too."""
    try:
        return look()
    except FarhandError as error:
        return bad(name, *split(error))


def split(error: FarhandError) -> tuple[str, str]:
    """Return (what is wrong, what to do) of a message "cannot …: reason; what to do"."""
    result, _, step = str(error).rpartition("; ")
    return (result, step) if result else (step, "see farhandd logs")
