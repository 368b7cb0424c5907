"""From a policy document and an event to: judged, recorded, or nothing."""

import copy
from typing import Any

import pytest

from farhand_control_plane.domain.admission import Arrival, admit
from farhand_control_plane.domain.policy import SEEDED_RULES, AcceptMode, parse_rules
from farhand_control_plane.domain.words import Strength
from farhand_shared.errors import InvalidInput
from farhand_shared.ids import MemberId

ANNA = MemberId("00000000-0000-7000-8000-00000000000a")


def rules(**sources: Any) -> dict[str, Any]:
    document = copy.deepcopy(SEEDED_RULES)
    document["sources"].update(sources)
    return document


def an_arrival(**changes: Any) -> Arrival:
    facts: dict[str, Any] = {
        "source_kind": "chat",
        "event_kind": "message",
        "sender_external_id": ANNA,
        "sender_member_id": ANNA,
        "sender_is_bot": False,
        "addressed": True,
        "on_ticket_thread": False,
    }
    return Arrival(**{**facts, **changes})


GITHUB = {
    "people": ["U1"],
    "bots": ["ci"],
    "events": {"comment": "candidate", "star": "ignore"},
    "others": "ignore",
}


def test_a_members_chat_message_is_explicit_and_theirs() -> None:
    admission = admit(an_arrival(), parse_rules(SEEDED_RULES))

    assert admission.strength is Strength.EXPLICIT
    assert admission.judged
    assert admission.may_stop
    assert admission.requester_member_id == ANNA


def test_a_chat_message_of_nobody_known_is_not_admitted() -> None:
    admission = admit(
        an_arrival(sender_external_id="U9", sender_member_id=None), parse_rules(SEEDED_RULES)
    )

    assert admission.strength is None
    assert not admission.judged


@pytest.mark.parametrize(
    ("source", "event"), [("mail", "message"), ("chat", "typing"), ("github", "star")]
)
def test_what_the_policy_does_not_name_is_not_admitted(source: str, event: str) -> None:
    parsed = parse_rules(rules(github=GITHUB))

    assert not admit(an_arrival(source_kind=source, event_kind=event), parsed).judged


def test_people_are_listed_by_the_providers_id_and_never_by_name() -> None:
    parsed = parse_rules(rules(github=GITHUB))
    listed = an_arrival(
        source_kind="github", event_kind="comment", sender_external_id="U1", sender_member_id=None
    )
    lookalike = an_arrival(
        source_kind="github", event_kind="comment", sender_external_id="u1", sender_member_id=None
    )

    assert admit(listed, parsed).strength is Strength.EXPLICIT
    assert admit(lookalike, parsed).strength is None


def test_a_person_on_the_list_is_no_listed_bot_and_the_other_way_round() -> None:
    parsed = parse_rules(rules(github=GITHUB))
    posing = an_arrival(
        source_kind="github", event_kind="comment", sender_external_id="U1", sender_is_bot=True
    )
    ci = an_arrival(
        source_kind="github", event_kind="comment", sender_external_id="ci", sender_is_bot=True
    )

    assert admit(posing, parsed).strength is None
    assert admit(ci, parsed).strength is Strength.INFERRED


@pytest.mark.parametrize(
    ("rule", "mode", "judged"),
    [
        (None, AcceptMode.OFF, False),
        ({"mode": "off"}, AcceptMode.OFF, False),
        ({"mode": "observe"}, AcceptMode.OBSERVE, True),
        ({"mode": "auto", "set_by_member_id": ANNA}, AcceptMode.AUTO, True),
    ],
)
def test_inferred_events_come_to_what_their_rule_says(
    rule: dict[str, Any] | None, mode: AcceptMode, judged: bool
) -> None:
    document = rules(github=GITHUB)
    if rule is not None:
        document["inferred"]["github.comment"] = rule

    admission = admit(
        an_arrival(
            source_kind="github", event_kind="comment", addressed=False, on_ticket_thread=False
        ),
        parse_rules(document),
    )

    # Anna is a member, but this source lists people by id: she is an outsider there.
    assert admission.strength is None
    ci = admit(
        an_arrival(
            source_kind="github", event_kind="comment", sender_external_id="ci", sender_is_bot=True
        ),
        parse_rules(document),
    )
    assert (ci.mode, ci.judged) == (mode, judged)
    assert not ci.may_stop


def test_inferred_work_belongs_to_who_set_the_rule_to_auto() -> None:
    document = rules(github=GITHUB)
    document["inferred"]["github.comment"] = {"mode": "auto", "set_by_member_id": ANNA}

    admission = admit(
        an_arrival(
            source_kind="github",
            event_kind="comment",
            sender_external_id="ci",
            sender_member_id=None,
            sender_is_bot=True,
        ),
        parse_rules(document),
    )

    assert admission.requester_member_id == ANNA


def test_a_rule_cannot_be_auto_without_a_person() -> None:
    document = rules()
    document["inferred"]["chat.message"] = {"mode": "auto"}

    with pytest.raises(InvalidInput, match="auto and names nobody"):
        parse_rules(document)


@pytest.mark.parametrize("missing", ["roles", "sources", "inferred", "mandate"])
def test_a_policy_that_lacks_a_part_is_refused(missing: str) -> None:
    document = rules()
    del document[missing]

    with pytest.raises(InvalidInput, match="cannot read the policy"):
        parse_rules(document)
