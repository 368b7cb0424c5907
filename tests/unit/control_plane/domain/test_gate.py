"""The gate's table, row by row, and what must hold for every event there can be."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farhand_control_plane.domain.gate import ROWS, GateFacts, MayStart, judge
from farhand_control_plane.domain.policy import Treatment
from farhand_control_plane.domain.words import Strength

CANDIDATE, EXPLICIT_ONLY, IGNORE = Treatment.CANDIDATE, Treatment.EXPLICIT_ONLY, Treatment.IGNORE

# A listed person talks to the agent; each case changes what it names.
BASE = GateFacts(
    own_message=False,
    in_scope=True,
    treatment=EXPLICIT_ONLY,
    others=IGNORE,
    sender_is_bot=False,
    sender_listed=True,
    addressed=True,
    on_ticket_thread=False,
)

_Case = tuple[str, dict[str, Any], str, Strength | None, MayStart, bool]
CASES: list[_Case] = [
    (
        "a listed person who mentions the agent",
        {},
        "person_addressed",
        Strength.EXPLICIT,
        MayStart.AT_ONCE,
        True,
    ),
    (
        "a listed person who mentions the agent in a candidate scope",
        {"treatment": CANDIDATE},
        "person_addressed",
        Strength.EXPLICIT,
        MayStart.AT_ONCE,
        True,
    ),
    (
        "a listed person without a mention in a candidate scope",
        {"treatment": CANDIDATE, "addressed": False},
        "person_candidate",
        Strength.INFERRED,
        MayStart.BY_MODE,
        False,
    ),
    (
        "a listed person without a mention where only explicit requests count",
        {"addressed": False},
        "not_admitted",
        None,
        MayStart.NO,
        False,
    ),
    (
        "a listed person who follows up in a ticket's thread without a mention",
        {"addressed": False, "on_ticket_thread": True},
        "person_follow_up",
        Strength.INFERRED,
        MayStart.BY_MODE,
        False,
    ),
    (
        "an outsider who follows up in a ticket's thread",
        {"sender_listed": False, "addressed": False, "on_ticket_thread": True},
        "person_follow_up",
        Strength.INFERRED,
        MayStart.BY_MODE,
        False,
    ),
    (
        "an outsider who mentions the agent, by default",
        {"sender_listed": False},
        "not_admitted",
        None,
        MayStart.NO,
        False,
    ),
    (
        "an outsider who mentions the agent where the table lets outsiders ask",
        {"sender_listed": False, "others": EXPLICIT_ONLY},
        "outsider_addressed",
        Strength.INFERRED,
        MayStart.BY_MODE,
        False,
    ),
    (
        "an outsider without a mention where the table lets outsiders ask",
        {"sender_listed": False, "others": EXPLICIT_ONLY, "addressed": False},
        "not_admitted",
        None,
        MayStart.NO,
        False,
    ),
    (
        "an outsider without a mention where outsiders' events are candidates",
        {"sender_listed": False, "others": CANDIDATE, "addressed": False},
        "outsider_candidate",
        Strength.INFERRED,
        MayStart.BY_MODE,
        False,
    ),
    (
        "a listed bot whose event is a candidate",
        {"sender_is_bot": True, "treatment": CANDIDATE},
        "bot_candidate",
        Strength.INFERRED,
        MayStart.BY_MODE,
        False,
    ),
    (
        "a listed bot whose event is no candidate, though it mentions the agent",
        {"sender_is_bot": True},
        "not_admitted",
        None,
        MayStart.NO,
        False,
    ),
    (
        "another bot in a candidate scope",
        {"sender_is_bot": True, "sender_listed": False, "treatment": CANDIDATE},
        "not_admitted",
        None,
        MayStart.NO,
        False,
    ),
    (
        "another bot in a ticket's thread",
        {"sender_is_bot": True, "sender_listed": False, "on_ticket_thread": True},
        "not_admitted",
        None,
        MayStart.NO,
        False,
    ),
    (
        "a listed person's mention in what the table ignores",
        {"treatment": IGNORE},
        "ignored_by_table",
        None,
        MayStart.NO,
        False,
    ),
    (
        "a follow-up in what the table ignores",
        {"treatment": IGNORE, "on_ticket_thread": True},
        "ignored_by_table",
        None,
        MayStart.NO,
        False,
    ),
    ("an event out of scope", {"in_scope": False}, "out_of_scope", None, MayStart.NO, False),
    ("the agent's own message", {"own_message": True}, "own_message", None, MayStart.NO, False),
]


@pytest.mark.parametrize(
    ("changes", "rule", "strength", "may_start", "may_stop"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_each_row_of_the_table_decides_its_case(
    changes: dict[str, Any],
    rule: str,
    strength: Strength | None,
    may_start: MayStart,
    may_stop: bool,
) -> None:
    row = judge(replace(BASE, **changes))

    assert (row.rule, row.strength, row.may_start, row.may_stop) == (
        rule,
        strength,
        may_start,
        may_stop,
    )


def test_every_row_is_reached_by_a_case() -> None:
    assert {row.rule for row in ROWS} == {case[2] for case in CASES}


anything = st.builds(
    GateFacts,
    own_message=st.booleans(),
    in_scope=st.booleans(),
    treatment=st.sampled_from(Treatment),
    others=st.sampled_from(Treatment),
    sender_is_bot=st.booleans(),
    sender_listed=st.booleans(),
    addressed=st.booleans(),
    on_ticket_thread=st.booleans(),
)


@given(anything)
def test_only_a_listed_person_who_addresses_the_agent_may_stop_or_start_at_once(
    facts: GateFacts,
) -> None:
    row = judge(facts)

    if row.may_stop or row.may_start is MayStart.AT_ONCE or row.strength is Strength.EXPLICIT:
        assert not facts.sender_is_bot
        assert facts.sender_listed
        assert facts.addressed
        assert facts.in_scope
        assert not facts.own_message
        assert facts.treatment is not IGNORE


@given(anything)
def test_a_bot_is_at_most_inferred_and_an_unlisted_one_is_never_admitted(facts: GateFacts) -> None:
    row = judge(replace(facts, sender_is_bot=True))

    assert row.strength in (None, Strength.INFERRED)
    if not facts.sender_listed:
        assert row.strength is None


@given(anything)
def test_a_listed_person_is_never_weaker_than_one_who_is_not(facts: GateFacts) -> None:
    order = [None, Strength.INFERRED, Strength.EXPLICIT]
    person = replace(facts, sender_is_bot=False, others=IGNORE)

    listed = judge(replace(person, sender_listed=True)).strength
    unlisted = judge(replace(person, sender_listed=False)).strength

    assert order.index(listed) >= order.index(unlisted)


@given(anything)
def test_what_is_not_admitted_starts_nothing(facts: GateFacts) -> None:
    row = judge(facts)

    assert (row.strength is None) == (row.may_start is MayStart.NO)
