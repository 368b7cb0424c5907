"""Environments on demand: how many there may be, and when one has to go."""

from dataclasses import replace

import pytest

from farhand_control_plane.domain.environments import (
    CREATE_TRIES,
    CREATE_WITHIN_S,
    InUse,
    Limits,
    Standing,
    environment_name,
    gives_up,
    over_limit,
    retry_after_s,
    why_destroy,
    why_forget,
)
from farhand_control_plane.domain.words import EnvironmentState, MachineStatus
from farhand_shared.ids import MachineId, MemberId, new_id

ADA, BOB = MemberId("ada"), MemberId("bob")
LIMITS = Limits(per_instance=3, per_member=2, lifetime_s=3600, grace_s=60)
READY = Standing(
    state=EnvironmentState.READY,
    machine_status=MachineStatus.ACTIVE,
    age_s=100,
    left_s=3500,
    is_there=True,
    lives=True,
)
CREATING = replace(
    READY,
    state=EnvironmentState.CREATING,
    machine_status=MachineStatus.PENDING,
    is_there=None,
    lives=None,
)


def of(member: MemberId, name: str, state: EnvironmentState = EnvironmentState.READY) -> InUse:
    return InUse(machine_id=MachineId(name), name=name, requester_member_id=member, state=state)


def test_a_member_at_the_limit_is_told_which_ones_they_have_and_what_to_do() -> None:
    assert over_limit(LIMITS, [of(ADA, "env-1")], ADA) is None
    refused = over_limit(LIMITS, [of(ADA, "env-1"), of(ADA, "env-2")], ADA)
    assert refused == (
        "cannot make an environment: you have 2 (env-1, env-2), the limit is 2; close a ticket or "
        "destroy one with farhand machines destroy NAME (or raise FARHAND_ENVIRONMENTS_PER_MEMBER)"
    )
    assert over_limit(LIMITS, [of(ADA, "env-1"), of(ADA, "env-2")], BOB) is None


def test_the_limit_of_the_instance_counts_everybodys() -> None:
    three = [of(ADA, "env-1"), of(ADA, "env-2"), of(BOB, "env-3")]
    refused = over_limit(LIMITS, three, BOB)
    assert refused is not None
    assert "there are 3 already, the limit of the instance is 3" in refused
    assert "env-1" not in refused, "another member's environments are nobody's business"


def test_what_is_being_destroyed_counts_until_it_is_gone_but_not_for_ever() -> None:
    going = of(ADA, "env-1", EnvironmentState.DESTROYING)
    refused = over_limit(LIMITS, [going, of(ADA, "env-2")], ADA)
    assert refused is not None
    assert "env-1, being destroyed" in refused
    stuck = replace(going, destroying_s=7200)
    assert over_limit(LIMITS, [stuck, of(ADA, "env-2")], ADA) is None


def test_who_has_no_ticket_left_to_close_is_told_when_one_goes() -> None:
    over = [replace(of(ADA, name), ticket_closed_s=LIMITS.grace_s - 7.5) for name in ("a", "b")]
    refused = over_limit(LIMITS, over, ADA)
    assert refused is not None
    assert "you have 2 (a, which goes in 8 s, b, which goes in 8 s)" in refused
    assert "ask again when one has gone, or destroy one" in refused
    assert "close a ticket" not in refused
    late = replace(over[0], ticket_closed_s=LIMITS.grace_s + 9.0)
    assert "which goes in 1 s" in (over_limit(LIMITS, [late, over[1]], ADA) or "")


def test_one_that_is_wanted_and_lives_stays() -> None:
    assert why_destroy(READY, LIMITS) is None
    assert why_destroy(CREATING, LIMITS) is None
    assert why_destroy(replace(READY, is_there=None, lives=None), LIMITS) is None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"ticket_closed_s": 60.0}, "its ticket is closed"),
        ({"left_s": 0.0}, "its lifetime is over"),
        ({"is_there": False, "lives": False}, "it is not there any more"),
        ({"lives": False}, "its daemon has ended"),
        ({"machine_status": MachineStatus.REVOKED}, "its machine was revoked"),
        ({"machine_status": MachineStatus.QUARANTINED}, "its machine was quarantined"),
    ],
    ids=["closed", "old", "not there", "dead", "revoked", "quarantined"],
)
def test_one_that_is_over_goes_and_it_is_said_why(change: dict[str, object], why: str) -> None:
    over = replace(READY, **change)  # type: ignore[arg-type] # the fields that a case names
    assert why_destroy(over, LIMITS) == why


def test_a_ticket_that_has_just_closed_leaves_its_environment_for_the_grace() -> None:
    assert why_destroy(replace(READY, ticket_closed_s=59.9), LIMITS) is None


def test_one_that_does_not_come_is_given_up() -> None:
    late = replace(CREATING, age_s=CREATE_WITHIN_S + 1)
    assert why_destroy(late, LIMITS) == "it was not ready within 300 s"
    closed = replace(CREATING, ticket_closed_s=60.0)
    assert why_destroy(closed, LIMITS) == "its ticket is closed"


@pytest.mark.parametrize("state", [EnvironmentState.DESTROYING, EnvironmentState.DESTROYED])
def test_one_that_goes_already_is_not_judged_again(state: EnvironmentState) -> None:
    assert why_destroy(replace(READY, state=state, left_s=-1.0), LIMITS) is None


def test_making_is_given_up_and_destroying_never_is() -> None:
    assert not gives_up(EnvironmentState.CREATING, CREATE_TRIES - 1)
    assert gives_up(EnvironmentState.CREATING, CREATE_TRIES)
    assert gives_up(EnvironmentState.CREATING, 1, is_final=True)
    assert not gives_up(EnvironmentState.DESTROYING, 1000, is_final=True)


def test_what_lies_where_nobody_comes_back_to_is_forgotten_after_a_day() -> None:
    going = replace(READY, state=EnvironmentState.DESTROYING, destroying_s=24 * 3600.0)
    assert why_forget(going, is_here=True) is None, "whoever is there goes on trying"
    why = why_forget(going, is_here=False)
    assert why is not None
    assert "no replica of its place has come back" in why
    assert why_forget(replace(going, destroying_s=3600.0), is_here=False) is None
    assert why_forget(replace(READY, destroying_s=None), is_here=False) is None


def test_tries_come_ever_more_slowly_up_to_a_minute() -> None:
    waits = [retry_after_s(tries) for tries in range(1, 12)]
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (1.0, 60.0)


def test_names_are_short_and_fit_for_a_command_line() -> None:
    name = environment_name(MachineId(new_id()))
    assert name.startswith("env-")
    assert len(name) == 12
