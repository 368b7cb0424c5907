"""Who may start, stop and grant, and whether a queued command may still start."""

from dataclasses import dataclass
from datetime import datetime

from farhand_control_plane.domain.mandate import RUN_COMMAND, MandateScope
from farhand_control_plane.domain.policy import AcceptMode, PolicyRules
from farhand_control_plane.domain.words import MachineStatus, MemberRole, TicketOutcome
from farhand_shared.errors import NotAllowed
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
    """Return why the command may not start now, None when it may.

    Asked in the transaction that offers it: what was granted when it was queued may be gone.
    """
    if facts.ticket is not None:
        refusal = _refuse_ticket(facts, facts.ticket)
        if refusal is not None:
            return refusal
    if facts.requester_role is None or facts.requester_role not in facts.policy.may_start:
        return Refusal(code="not_entitled", message="who asked for it may no longer start work")
    if facts.machine_owner_member_id != facts.requester_member_id:
        return Refusal(code="not_owner", message=f"{facts.machine_name} belongs to somebody else")
    if facts.machine_status is not MachineStatus.ACTIVE:
        return Refusal(
            code="machine_not_active",
            message=f"{facts.machine_name} is {facts.machine_status.value}",
        )
    inferred = facts.inferred or (facts.ticket is not None and facts.ticket.inferred)
    if inferred and not facts.machine_allow_inferred:
        return Refusal(
            code="inferred_not_allowed",
            message=f"the file of {facts.machine_name} does not allow work nobody asked for",
        )
    return None


def _refuse_ticket(facts: StartFacts, ticket: TicketFacts) -> Refusal | None:
    if ticket.outcome is not None:
        return Refusal(code="ticket_closed", message=f"its ticket is closed ({ticket.outcome})")
    mandate = ticket.mandate
    if mandate is None:
        return Refusal(code="mandate_missing", message="its ticket has no mandate")
    if mandate.withdrawn:
        return Refusal(code="mandate_withdrawn", message="a person withdrew the mandate")
    if mandate.valid_until <= facts.now:
        return Refusal(code="mandate_expired", message="the mandate has expired")
    if facts.mandate_hash != mandate.mandate_hash:
        return Refusal(code="mandate_changed", message="it names another mandate than its ticket's")
    scope = mandate.scope
    if RUN_COMMAND not in scope.actions or facts.tier > scope.tier_max:
        return Refusal(code="out_of_scope", message="the mandate does not allow this command")
    if scope.machines is not None and facts.machine_id not in scope.machines:
        return Refusal(
            code="out_of_scope", message=f"the mandate does not name {facts.machine_name}"
        )
    if not scope.within(facts.policy.mandate.scope):
        return Refusal(
            code="policy_changed", message="the current policy no longer grants this mandate"
        )
    if ticket.inferred and ticket.inferred_mode is not AcceptMode.AUTO:
        return Refusal(
            code="policy_changed", message="the rule that opened its ticket is no longer auto"
        )
    return None


def check_may_start(policy: PolicyRules, role: MemberRole | None) -> None:
    """Raise NotAllowed unless a member of this role (None: not a member) may start work."""
    if role is None or role not in policy.may_start:
        raise NotAllowed(f"cannot open a ticket: {_who(role)} may not start work; ask an owner")


def check_may_stop(policy: PolicyRules, role: MemberRole | None) -> None:
    """Raise NotAllowed unless a member of this role may stop and accept Tickets."""
    if role is None or role not in policy.may_stop:
        raise NotAllowed(f"cannot close the ticket: {_who(role)} may not; ask an owner")


def check_may_answer(policy: PolicyRules, role: MemberRole | None) -> None:
    """Raise NotAllowed unless a member of this role may answer questions and approve drafts."""
    if role is None or role not in policy.may_answer:
        raise NotAllowed(f"cannot answer: {_who(role)} may not; ask an owner")


def _who(role: MemberRole | None) -> str:
    if role is None:
        return "somebody who is no member"
    return f"an {role.value}" if role is MemberRole.OWNER else f"a {role.value}"
