"""Tickets as they are read: one, the list with people first, a report, the why-chain."""

from dataclasses import dataclass
from datetime import datetime

from farhand_control_plane.db.intake import TriggerView
from farhand_control_plane.db.questions import QuestionView
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.mandate import MandateScope
from farhand_control_plane.domain.words import (
    Needs,
    ReportKind,
    Stage,
    Strength,
    TicketOutcome,
    Verdict,
)
from farhand_shared.ids import (
    CommandId,
    EvalId,
    InstanceId,
    MachineId,
    MandateId,
    MemberId,
    ReportId,
    SessionId,
    ThreadId,
    TicketId,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketMachine:
    """A machine that a Ticket's commands name."""

    machine_id: MachineId
    name: str
    online: bool
    waiting: bool  # a command of this Ticket waits for it to come online


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketRow:
    """A Ticket as the list shows it."""

    ticket_id: TicketId
    title: str
    stage: Stage
    needs: Needs | None  # set when stage is needs_person
    outcome: TicketOutcome | None  # set when stage is closed
    requester_member_id: MemberId
    requester_name: str
    inferred: bool
    machines: tuple[TicketMachine, ...]
    created_at: datetime
    closed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportView:
    """What a Worker said of its Ticket."""

    report_id: ReportId
    ticket_id: TicketId
    ticket_title: str
    session_id: SessionId
    kind: ReportKind
    text: str
    accept: str  # what a person is to accept; empty: nothing
    command_ids: tuple[CommandId, ...]
    question: QuestionView | None  # the question asked with it
    thread_ids: tuple[ThreadId, ...]  # where its Ticket is subscribed
    created_at: datetime
    delivered_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MandateView:
    mandate_id: MandateId
    mandate_hash: bytes
    scope: MandateScope
    policy_version: int
    granted_by_member_id: MemberId
    granted_by_name: str
    valid_until: datetime
    withdrawn_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """Why a Ticket exists: triggers → eval → policy version → mandate."""

    triggers: tuple[TriggerView, ...]
    eval_id: EvalId
    strength: Strength
    gate_rule: str  # the row of the gate's table that decided
    verdict: Verdict
    verdict_reason: str
    policy_version: int
    mandate: MandateView


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketView:
    """A Ticket with everything its page shows."""

    row: TicketRow
    request: str  # the text that asked for it
    eval_id: EvalId
    thread_ids: tuple[ThreadId, ...]  # live subscriptions
    origin_thread_id: ThreadId
    this_machine_id: MachineId | None  # of the Trigger that asked for it
    session_id: SessionId | None  # of the live Assignment
    last_session_id: SessionId  # of the newest Assignment, live or not
    mandate: MandateView
    questions: tuple[QuestionView, ...]  # open ones, oldest first
    reports: tuple[ReportView, ...]  # oldest first
    closed_by_member_id: MemberId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketPage:
    items: tuple[TicketRow, ...]
    next_cursor: str | None


async def get(tx: Tx, instance_id: InstanceId, ticket_id: TicketId) -> TicketView | None:
    """Return one Ticket; None when this instance has none of that id."""
    raise NotImplementedError


async def why(tx: Tx, instance_id: InstanceId, ticket_id: TicketId) -> Why | None:
    """Return the chain that led to a Ticket; None when this instance has none of that id."""
    raise NotImplementedError


async def list_(
    tx: Tx,
    instance_id: InstanceId,
    *,
    limit: int = 50,
    cursor: str | None = None,
    stage: Stage | None = None,
) -> TicketPage:
    """Return a page of Tickets: what needs a person first, then what runs, then closed ones.

    Raises InvalidInput for a cursor that this function did not make.
    """
    raise NotImplementedError


async def report_view(tx: Tx, instance_id: InstanceId, report_id: ReportId) -> ReportView | None:
    """Return one report; None when this instance has none of that id."""
    raise NotImplementedError
