"""Whether a queued command may still start when its machine comes for it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from farhand_control_plane.domain.authority import (
    MandateFacts,
    StartFacts,
    TicketFacts,
    check_may_answer,
    check_may_start,
    check_may_stop,
    refuse_start,
)
from farhand_control_plane.domain.mandate import MandateScope, MandateTemplate
from farhand_control_plane.domain.policy import SEEDED_RULES, AcceptMode, parse_rules
from farhand_control_plane.domain.words import MachineStatus, MemberRole, TicketOutcome
from farhand_shared.errors import NotAllowed
from farhand_shared.ids import MachineId, MemberId

NOW = datetime(2030, 1, 1, tzinfo=UTC)
POLICY = parse_rules(SEEDED_RULES)
SCOPE = MandateScope(actions=frozenset({"run_command", "reply"}), machines=None, tier_max=5)
MANDATE = MandateFacts(
    mandate_hash=b"h", scope=SCOPE, valid_until=NOW + timedelta(hours=1), withdrawn=False
)
TICKET = TicketFacts(outcome=None, inferred=False, inferred_mode=AcceptMode.OFF, mandate=MANDATE)
FACTS = StartFacts(
    now=NOW,
    requester_member_id=MemberId("anna"),
    requester_role=MemberRole.MEMBER,
    machine_id=MachineId("laptop-id"),
    machine_name="laptop",
    machine_status=MachineStatus.ACTIVE,
    machine_owner_member_id=MemberId("anna"),
    machine_allow_inferred=False,
    inferred=False,
    tier=5,
    mandate_hash=b"h",
    policy=POLICY,
    ticket=TICKET,
)


def narrowed(**scope: Any) -> Any:
    """The policy as if a person had narrowed what it grants."""
    return replace(POLICY, mandate=MandateTemplate(scope=replace(SCOPE, **scope), valid_for_s=60))


def ticket(**changes: Any) -> TicketFacts:
    return replace(TICKET, **changes)


def mandate(**changes: Any) -> TicketFacts:
    return replace(TICKET, mandate=replace(MANDATE, **changes))


def test_a_command_of_an_open_ticket_under_a_live_mandate_starts() -> None:
    assert refuse_start(FACTS) is None


def test_a_direct_command_of_the_machines_owner_starts_without_ticket_and_mandate() -> None:
    assert refuse_start(replace(FACTS, ticket=None, mandate_hash=None)) is None


_Case = tuple[str, dict[str, Any], str]
CLOSED: list[_Case] = [
    (f"ticket {outcome}", {"ticket": ticket(outcome=outcome)}, "ticket_closed")
    for outcome in TicketOutcome
]
UNUSABLE: list[_Case] = [
    (f"machine {status}", {"machine_status": status}, "machine_not_active")
    for status in MachineStatus
    if status is not MachineStatus.ACTIVE
]
REFUSED: list[_Case] = [
    *CLOSED,
    *UNUSABLE,
    ("no mandate", {"ticket": ticket(mandate=None)}, "mandate_missing"),
    ("withdrawn", {"ticket": mandate(withdrawn=True)}, "mandate_withdrawn"),
    ("expired", {"ticket": mandate(valid_until=NOW)}, "mandate_expired"),
    ("another mandate", {"mandate_hash": b"other"}, "mandate_changed"),
    ("no mandate named", {"mandate_hash": None}, "mandate_changed"),
    (
        "may not run commands",
        {"ticket": mandate(scope=replace(SCOPE, actions=frozenset({"reply"})))},
        "out_of_scope",
    ),
    (
        "tier above the mandate's",
        {"ticket": mandate(scope=replace(SCOPE, tier_max=4))},
        "out_of_scope",
    ),
    (
        "machine not named",
        {"ticket": mandate(scope=replace(SCOPE, machines=frozenset({MachineId("other")})))},
        "out_of_scope",
    ),
    (
        "policy lost an action",
        {"policy": narrowed(actions=frozenset({"reply"}))},
        "policy_changed",
    ),
    ("policy lowered the tier", {"policy": narrowed(tier_max=3)}, "policy_changed"),
    (
        "policy names machines now",
        {"policy": narrowed(machines=frozenset({MachineId("laptop-id")}))},
        "policy_changed",
    ),
    ("no member any more", {"requester_role": None}, "not_entitled"),
    ("a viewer now", {"requester_role": MemberRole.VIEWER}, "not_entitled"),
    (
        "nobody may start",
        {"policy": replace(POLICY, may_start=frozenset())},
        "not_entitled",
    ),
    ("somebody else's machine", {"machine_owner_member_id": MemberId("bob")}, "not_owner"),
    (
        "inferred command, the machine's file does not allow it",
        {"inferred": True},
        "inferred_not_allowed",
    ),
    (
        "command of an inferred ticket, though it says otherwise",
        {"ticket": ticket(inferred=True, inferred_mode=AcceptMode.AUTO)},
        "inferred_not_allowed",
    ),
    (
        "the inferred ticket's rule was set back to observe",
        {
            "ticket": ticket(inferred=True, inferred_mode=AcceptMode.OBSERVE),
            "machine_allow_inferred": True,
        },
        "policy_changed",
    ),
]


@pytest.mark.parametrize(
    ("changes", "code"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_a_command_is_refused_with_its_reason(changes: dict[str, Any], code: str) -> None:
    refusal = refuse_start(replace(FACTS, **changes))

    assert refusal is not None
    assert refusal.code == code
    assert refusal.message


@pytest.mark.parametrize(
    "changes",
    [
        {"requester_role": MemberRole.VIEWER},
        {"machine_owner_member_id": MemberId("bob")},
        {"machine_status": MachineStatus.PAUSED},
        {"inferred": True},
    ],
)
def test_a_direct_command_is_held_to_people_and_machine_all_the_same(
    changes: dict[str, Any],
) -> None:
    assert refuse_start(replace(FACTS, ticket=None, mandate_hash=None, **changes)) is not None


def test_inferred_work_runs_where_its_rule_and_the_machines_file_allow_it() -> None:
    facts = replace(
        FACTS,
        inferred=True,
        machine_allow_inferred=True,
        ticket=ticket(inferred=True, inferred_mode=AcceptMode.AUTO),
    )

    assert refuse_start(facts) is None


@pytest.mark.parametrize("check", [check_may_start, check_may_stop, check_may_answer])
def test_owners_and_members_may_and_viewers_and_strangers_may_not(check: Any) -> None:
    check(POLICY, MemberRole.OWNER)
    check(POLICY, MemberRole.MEMBER)
    with pytest.raises(NotAllowed, match="viewer"):
        check(POLICY, MemberRole.VIEWER)
    with pytest.raises(NotAllowed, match="no member"):
        check(POLICY, None)
