"""Who may start, stop and grant, and whether a queued command may still start."""

from dataclasses import dataclass
from datetime import datetime

from farhand_control_plane.domain.mandate import MandateScope
from farhand_control_plane.domain.policy import AcceptMode, PolicyRules
from farhand_control_plane.domain.words import MachineStatus, MemberRole, TicketOutcome
from farhand_shared.ids import MachineId, MemberId


@dataclass(frozen=True, slots=True, kw_only=True)
class MandateFacts:
    """A Ticket's Mandate as it stands now."""

    mandate_hash: bytes
    scope: MandateScope
    valid_until: datetime
    withdrawn: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketFacts:
    """The Ticket that a command belongs to."""

    outcome: TicketOutcome | None  # None: open
    inferred: bool
    inferred_mode: AcceptMode | None  # of its rule, under the current policy; None: rule is gone
    mandate: MandateFacts | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFacts:
    """Everything that decides whether a queued command may start, read in one transaction."""

    now: datetime
    requester_member_id: MemberId
    requester_role: MemberRole | None  # None: no longer a member
    machine_id: MachineId
    machine_name: str
    machine_status: MachineStatus
    machine_owner_member_id: MemberId
    machine_allow_inferred: bool
    inferred: bool  # the command says that nobody asked for it in words
    tier: int
    mandate_hash: bytes | None  # as written on the command
    policy: PolicyRules  # the current version
    ticket: TicketFacts | None = None  # None: a direct command


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a command may not start. ``code`` is stable; ``message`` is for people."""

    code: str
    message: str


def refuse_start(facts: StartFacts) -> Refusal | None:
    """Return why the command may not start now, None when it may."""
    raise NotImplementedError
