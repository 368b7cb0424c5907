"""From the gate's row and the policy to what becomes of an event: judged, recorded, or nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from farhand_control_plane.domain.gate import GateFacts, MayStart, judge
from farhand_control_plane.domain.policy import (
    NO_RULE,
    AcceptMode,
    InferredRule,
    PolicyRules,
    SourceRules,
    Treatment,
)
from farhand_control_plane.domain.words import Strength
from farhand_shared.ids import MemberId

_NOTHING = SourceRules(
    members_listed=False,
    people=frozenset(),
    bots=frozenset(),
    events={},
    others=Treatment.IGNORE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One event as the gate's facts are drawn from it."""

    source_kind: str
    event_kind: str
    sender_external_id: str
    sender_member_id: MemberId | None  # present members only
    sender_is_bot: bool
    addressed: bool
    on_ticket_thread: bool
    own_message: bool = False
    in_scope: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What the gate and the accept mode say of one event."""

    rule: str  # the row of the gate's table
    strength: Strength | None
    may_stop: bool
    mode: AcceptMode | None  # of inferred events
    inferred_rule: str  # "source.event"
    requester_member_id: MemberId | None  # whose work it would be

    @property
    def judged(self) -> bool:
        """Tell whether an Eval is due."""
        return self.strength is not None and self.mode is not AcceptMode.OFF

    def to_json(self) -> dict[str, Any]:
        """Return what an Eval keeps of it."""
        return {
            "rule": self.rule,
            "may_stop": self.may_stop,
            "mode": self.mode,
            "inferred_rule": self.inferred_rule,
        }


def admit(arrival: Arrival, rules: PolicyRules) -> Admission:
    """Say how strongly an event asks, and what its accept mode makes of that."""
    source = rules.sources.get(arrival.source_kind, _NOTHING)
    row = judge(
        GateFacts(
            own_message=arrival.own_message,
            in_scope=arrival.in_scope,
            treatment=source.events.get(arrival.event_kind, Treatment.IGNORE),
            others=source.others,
            sender_is_bot=arrival.sender_is_bot,
            sender_listed=_listed(arrival, source),
            addressed=arrival.addressed,
            on_ticket_thread=arrival.on_ticket_thread,
        )
    )
    key = f"{arrival.source_kind}.{arrival.event_kind}"
    inferred = rule_of(rules.inferred, key)
    by_mode = row.may_start is MayStart.BY_MODE
    return Admission(
        rule=row.rule,
        strength=row.strength,
        may_stop=row.may_stop,
        mode=inferred.mode if by_mode else None,
        inferred_rule=key if by_mode else "",
        requester_member_id=inferred.set_by_member_id if by_mode else arrival.sender_member_id,
    )


def rule_of(rules: Mapping[str, InferredRule], key: str) -> InferredRule:
    """Return the rule for inferred events of a kind; without one they come to nothing."""
    return rules.get(key, NO_RULE)


def _listed(arrival: Arrival, source: SourceRules) -> bool:
    if arrival.sender_is_bot:
        return arrival.sender_external_id in source.bots
    if source.members_listed and arrival.sender_member_id is not None:
        return True
    return arrival.sender_external_id in source.people
