"""Environments on demand: what may be made, for whom, for how long, and when one has to go.

An environment is a machine that a provisioner makes for one ticket (or for one person who asked
for it directly) and destroys afterwards. Everything here decides; `provisioning` does.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from farhand_control_plane.domain.selector import Kind, Needs, Selector, System, Term, render_term
from farhand_control_plane.domain.words import EnvironmentState, MachineStatus
from farhand_shared.ids import MachineId, MemberId

CREATE_TRIES: Final = 3
CREATE_WITHIN_S: Final = 300.0  # from the wish to a daemon that runs
RETRY_FIRST_S: Final = 1.0
RETRY_CAP_S: Final = 60.0
_STUCK_COUNTS_S: Final = 3600.0  # a place that is gone for good must not block everybody for ever
_UNREACHED_S: Final = 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many environments there may be at once, and how long one lives."""

    per_instance: int = 4
    per_member: int = 2
    lifetime_s: int = 4 * 3600  # from the wish, whatever it is doing
    grace_s: int = 60  # from its ticket's end


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What this deployment's provisioner makes."""

    provisioner: str
    os: str = ""  # as machines tell it; empty: not known before one is there
    arch: str = ""
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class InUse:
    """An environment that is not known to be gone."""

    machine_id: MachineId
    name: str
    requester_member_id: MemberId
    state: EnvironmentState
    destroying_s: float = 0.0  # for how long it is being destroyed
    ticket_closed_s: float | None = None  # ago; None: it has no ticket, or an open one


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How an environment stands, as far as its life depends on it."""

    state: EnvironmentState
    machine_status: MachineStatus
    age_s: float
    left_s: float  # of its lifetime
    ticket_closed_s: float | None = None  # ago; None: it has no ticket, or an open one
    is_there: bool | None = None  # by its provisioner's list; None: not known
    lives: bool | None = None
    destroying_s: float | None = None  # for how long it is being destroyed


def against_fresh(selector: Selector, offer: Offer | None) -> list[str]:
    """Return in words what keeps a fresh environment from being made for this; [] when nothing."""
    if offer is None:
        return ["no environment can be made: no provisioner is configured; set FARHAND_PROVISIONER"]
    if not isinstance(selector, Needs):
        return ["a machine that is named is not made"]
    found = (_against(term, offer) for term in selector.terms)
    return [words for words in found if words]


def _against(term: Term, offer: Offer) -> str:
    match term:
        case Kind():
            return ""
        case System(fact=fact, value=value):
            has = offer.os if fact == "os" else offer.arch
            if not has:
                return f"{fact} of a fresh environment is not known before it is there"
            return "" if has.lower() == value.lower() else f"its {fact} would be {has}"
        case _:
            return f"{render_term(term)} is not known of an environment before it is there"


def over_limit(limits: Limits, in_use: Sequence[InUse], member_id: MemberId) -> str | None:
    """Return why this member gets no further environment now, with the way out; None: they may."""
    counted = [
        one
        for one in in_use
        if one.state is not EnvironmentState.DESTROYING or one.destroying_s < _STUCK_COUNTS_S
    ]
    own = [one for one in counted if one.requester_member_id == member_id]
    if len(own) >= limits.per_member:
        return (
            f"cannot make an environment: you have {len(own)} ({_names(own, limits)}), the limit "
            f"is {limits.per_member}; {_way_out(own)} destroy one with "
            "farhand machines destroy NAME (or raise FARHAND_ENVIRONMENTS_PER_MEMBER)"
        )
    if len(counted) >= limits.per_instance:
        return (
            f"cannot make an environment: there are {len(counted)} already, the limit of the "
            f"instance is {limits.per_instance}; wait until one is gone "
            "(or raise FARHAND_ENVIRONMENTS_MAX)"
        )
    return None


def _names(environments: Sequence[InUse], limits: Limits) -> str:
    return ", ".join(one.name + _leaving(one, limits) for one in environments)


def _leaving(one: InUse, limits: Limits) -> str:
    if one.state is EnvironmentState.DESTROYING:
        return ", being destroyed"
    if one.ticket_closed_s is None:
        return ""
    return f", which goes in {max(1, math.ceil(limits.grace_s - one.ticket_closed_s))} s"


def _way_out(environments: Sequence[InUse]) -> str:
    """Return what to do besides destroying one: there may be no ticket left to close."""
    leaves = any(
        one.state is EnvironmentState.DESTROYING or one.ticket_closed_s is not None
        for one in environments
    )
    return "ask again when one has gone, or" if leaves else "close a ticket or"


def why_destroy(standing: Standing, limits: Limits) -> str | None:
    """Return why an environment has to go, for people; None while it may stay."""
    if standing.state not in (EnvironmentState.CREATING, EnvironmentState.READY):
        return None
    if standing.machine_status in (MachineStatus.REVOKED, MachineStatus.QUARANTINED):
        return f"its machine was {standing.machine_status.value}"
    if standing.ticket_closed_s is not None and standing.ticket_closed_s >= limits.grace_s:
        return "its ticket is closed"
    if standing.left_s <= 0:
        return "its lifetime is over"
    if standing.state is EnvironmentState.CREATING:
        if standing.age_s > CREATE_WITHIN_S:
            return f"it was not ready within {CREATE_WITHIN_S:.0f} s"
        return None
    if standing.is_there is False:
        return "it is not there any more"
    if standing.lives is False:
        return "its daemon has ended"
    return None


def why_forget(standing: Standing, *, is_here: bool) -> str | None:
    """Return why nobody waits any longer for the proof that it is gone; None: it is waited for.

    ``is_here``: it lies where the asking replica works, which therefore goes on trying.
    """
    if standing.state is not EnvironmentState.DESTROYING or is_here:
        return None
    if (standing.destroying_s or 0.0) < _UNREACHED_S:
        return None
    return "no replica of its place has come back within a day; what is left there is its own"


def retry_after_s(tries: int) -> float:
    """Return how long to wait after the n-th failure (1 is the first)."""
    return float(min(RETRY_FIRST_S * 4 ** max(0, min(tries, 8) - 1), RETRY_CAP_S))


def gives_up(state: EnvironmentState, tries: int, *, is_final: bool = False) -> bool:
    """Tell whether so many failures are enough, or the last one, which no further try can mend.

    What exists is destroyed however often it takes.
    """
    return state is EnvironmentState.CREATING and (is_final or tries >= CREATE_TRIES)


def environment_name(machine_id: MachineId) -> str:
    """Return what an environment is called: by the random end of its id."""
    return f"env-{machine_id.replace('-', '')[-8:]}"
