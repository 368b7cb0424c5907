"""Admission rules as data: one versioned document, read into values that the rules take."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from farhand_control_plane.domain.mandate import (
    ACTIONS,
    TIER_MAX,
    MandateTemplate,
    scope_from_json,
)
from farhand_control_plane.domain.words import MemberRole
from farhand_shared.errors import InvalidInput
from farhand_shared.ids import MemberId


class Treatment(StrEnum):
    """What a source's table says of one kind of event."""

    EXPLICIT_ONLY = "explicit_only"  # only when the agent is addressed
    CANDIDATE = "candidate"
    IGNORE = "ignore"


class AcceptMode(StrEnum):
    """What inferred work may become, per rule."""

    OFF = "off"
    OBSERVE = "observe"  # recorded; no grant is minted, so it cannot act
    AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRules:
    """The table of one kind of source."""

    members_listed: bool  # every present member is on the allowlist of people
    people: frozenset[str]  # further provider ids on it
    bots: frozenset[str]  # provider ids of bots whose events may be candidates
    events: Mapping[str, Treatment]  # by kind of event; absent: ignored
    others: Treatment  # people who are not on the list


@dataclass(frozen=True, slots=True, kw_only=True)
class InferredRule:
    """What becomes of inferred candidates of one kind. Only a person sets ``auto``."""

    mode: AcceptMode
    set_by_member_id: MemberId | None  # whose work it is when the mode is auto


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRules:
    """One policy version."""

    may_start: frozenset[MemberRole]
    may_stop: frozenset[MemberRole]
    may_answer: frozenset[MemberRole]
    sources: Mapping[str, SourceRules]  # by kind of source; absent: nothing is admitted
    inferred: Mapping[str, InferredRule]  # by "source.event"; absent: off
    mandate: MandateTemplate


NO_RULE: Final = InferredRule(mode=AcceptMode.OFF, set_by_member_id=None)

_WEEK_S: Final = 7 * 24 * 3600

# Version 1 of every instance. Chat is addressed to the agent by its nature, and only members reach
# it. Inferred work starts as a record of what would have been done.
SEEDED_RULES: Final[dict[str, Any]] = {
    "roles": {
        "start": ["owner", "member"],
        "stop": ["owner", "member"],
        "answer": ["owner", "member"],
    },
    "sources": {
        "chat": {
            "people": "members",
            "bots": [],
            "events": {"message": "explicit_only"},
            "others": "ignore",
        }
    },
    "inferred": {},
    "mandate": {
        "scope": {"actions": sorted(ACTIONS), "machines": "owned", "tier_max": TIER_MAX},
        "valid_for_s": _WEEK_S,
    },
}


def parse_rules(document: Mapping[str, Any]) -> PolicyRules:
    """Return the rules of a stored document; raise InvalidInput for one that breaks the form."""
    try:
        roles = document["roles"]
        mandate = document["mandate"]
        return PolicyRules(
            may_start=frozenset(MemberRole(role) for role in roles["start"]),
            may_stop=frozenset(MemberRole(role) for role in roles["stop"]),
            may_answer=frozenset(MemberRole(role) for role in roles["answer"]),
            sources={kind: _source(rules) for kind, rules in document["sources"].items()},
            inferred={key: _inferred(key, rule) for key, rule in document["inferred"].items()},
            mandate=MandateTemplate(
                scope=scope_from_json(mandate["scope"]), valid_for_s=int(mandate["valid_for_s"])
            ),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(f"cannot read the policy: {error!r}") from error


def _source(rules: Mapping[str, Any]) -> SourceRules:
    people = rules["people"]
    return SourceRules(
        members_listed=people == "members",
        people=frozenset() if people == "members" else frozenset(people),
        bots=frozenset(rules["bots"]),
        events={kind: Treatment(word) for kind, word in rules["events"].items()},
        others=Treatment(rules.get("others", Treatment.IGNORE)),
    )


def _inferred(key: str, rule: Mapping[str, Any]) -> InferredRule:
    mode = AcceptMode(rule["mode"])
    member = rule.get("set_by_member_id")
    if mode is AcceptMode.AUTO and member is None:
        raise InvalidInput(
            f"cannot read the policy: rule {key!r} is auto and names nobody; a person must set it"
        )
    return InferredRule(mode=mode, set_by_member_id=member)
