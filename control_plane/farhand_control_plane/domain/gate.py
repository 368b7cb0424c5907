"""The gate: how clearly somebody asked, decided by code before any model sees the event.

``ROWS`` is the table, first match wins; ``judge`` only walks it.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from farhand_control_plane.domain.policy import Treatment
from farhand_control_plane.domain.words import Strength


class MayStart(StrEnum):
    AT_ONCE = "at_once"
    BY_MODE = "by_mode"  # by the accept mode of its rule
    NO = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFacts:
    """What the gate reads of one event."""

    own_message: bool  # sent by one of the agent's own identities
    in_scope: bool  # its repository, group or folder belongs to the source
    treatment: Treatment  # the source's table for this kind of event
    others: Treatment  # the same table for people who are not listed
    sender_is_bot: bool
    sender_listed: bool  # by the provider's stable id, on the list of people or of bots
    addressed: bool  # a mention or a direct message
    on_ticket_thread: bool  # a Ticket is or was subscribed to the Thread


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRow:
    """One row: what it asks of the facts (None: any), and what it gives."""

    rule: str
    strength: Strength | None = None
    may_start: MayStart = MayStart.NO
    may_stop: bool = False
    own_message: bool | None = None
    in_scope: bool | None = None
    treatment: Treatment | None = None
    others: Treatment | None = None
    sender_is_bot: bool | None = None
    sender_listed: bool | None = None
    addressed: bool | None = None
    on_ticket_thread: bool | None = None

    def matches(self, facts: GateFacts) -> bool:
        asked = (
            (self.own_message, facts.own_message),
            (self.in_scope, facts.in_scope),
            (self.treatment, facts.treatment),
            (self.others, facts.others),
            (self.sender_is_bot, facts.sender_is_bot),
            (self.sender_listed, facts.sender_listed),
            (self.addressed, facts.addressed),
            (self.on_ticket_thread, facts.on_ticket_thread),
        )
        return all(wanted is None or wanted == given for wanted, given in asked)


ROWS: Final = (
    GateRow(rule="own_message", own_message=True),
    GateRow(rule="out_of_scope", in_scope=False),
    GateRow(rule="ignored_by_table", treatment=Treatment.IGNORE),
    GateRow(
        rule="person_addressed",
        sender_is_bot=False,
        sender_listed=True,
        addressed=True,
        strength=Strength.EXPLICIT,
        may_start=MayStart.AT_ONCE,
        may_stop=True,
    ),
    GateRow(
        rule="person_candidate",
        sender_is_bot=False,
        sender_listed=True,
        treatment=Treatment.CANDIDATE,
        strength=Strength.INFERRED,
        may_start=MayStart.BY_MODE,
    ),
    # Of anybody: a listed person is never treated as weaker than one who is not listed.
    GateRow(
        rule="person_follow_up",
        sender_is_bot=False,
        on_ticket_thread=True,
        strength=Strength.INFERRED,
        may_start=MayStart.BY_MODE,
    ),
    GateRow(
        rule="outsider_candidate",
        sender_is_bot=False,
        sender_listed=False,
        others=Treatment.CANDIDATE,
        strength=Strength.INFERRED,
        may_start=MayStart.BY_MODE,
    ),
    GateRow(
        rule="outsider_addressed",
        sender_is_bot=False,
        sender_listed=False,
        others=Treatment.EXPLICIT_ONLY,
        addressed=True,
        strength=Strength.INFERRED,
        may_start=MayStart.BY_MODE,
    ),
    GateRow(
        rule="bot_candidate",
        sender_is_bot=True,
        sender_listed=True,
        treatment=Treatment.CANDIDATE,
        strength=Strength.INFERRED,
        may_start=MayStart.BY_MODE,
    ),
    GateRow(rule="not_admitted"),
)


def judge(facts: GateFacts) -> GateRow:
    """Return the row that decides; ``strength`` None means not admitted."""
    return next(row for row in ROWS if row.matches(facts))
