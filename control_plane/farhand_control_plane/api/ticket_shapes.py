"""The JSON of a Ticket: as a listing shows it, and with everything its page shows."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from farhand_control_plane.api.shapes import Asked, Command, Question
from farhand_control_plane.db import tickets as db_tickets
from farhand_control_plane.db.tickets import ReportView, TicketRow
from farhand_control_plane.domain.words import (
    Needs,
    ReportKind,
    Stage,
    Strength,
    TicketOutcome,
    Verdict,
)


class Ticket(BaseModel):
    id: str
    title: str
    stage: Stage
    needs: Needs | None = Field(description="why a person is needed, when stage is needs_person")
    outcome: TicketOutcome | None = Field(description="how it ended, when stage is closed")
    machines: list[str] = Field(description="names")
    waiting_for: list[str] = Field(description="machines that it waits for to come online")
    command_count: int = Field(description="of its commands, ended or not")
    failed_commands: int = Field(
        description="of these: ended without success, also in a ticket that is done"
    )
    requester_member_id: str
    requester: str
    inferred: bool
    created_at: datetime
    closed_at: datetime | None


def ticket_fields(row: TicketRow) -> dict[str, Any]:
    return {
        "id": row.ticket_id,
        "title": row.title,
        "stage": row.stage,
        "needs": row.needs,
        "outcome": row.outcome,
        "machines": [machine.name for machine in row.machines],
        "waiting_for": [machine.name for machine in row.machines if machine.waiting],
        "command_count": row.command_count,
        "failed_commands": row.failed_commands,
        "requester_member_id": row.requester_member_id,
        "requester": row.requester_name,
        "inferred": row.inferred,
        "created_at": row.created_at,
        "closed_at": row.closed_at,
    }


class Report(BaseModel):
    id: str
    kind: ReportKind
    text: str
    accept: str = Field(description="what a person is to accept; empty: nothing")
    command_ids: list[str]
    created_at: datetime
    delivered_at: datetime | None


def report(view: ReportView) -> Report:
    return Report(
        id=view.report_id,
        kind=view.kind,
        text=view.text,
        accept=view.accept,
        command_ids=list(view.command_ids),
        created_at=view.created_at,
        delivered_at=view.delivered_at,
    )


class WhyTrigger(BaseModel):
    id: str
    text: str
    sender: str
    received_at: datetime


class WhyMandate(BaseModel):
    id: str
    scope: dict[str, Any]
    mandate_hash: str
    granted_by: str
    valid_until: datetime
    withdrawn_at: datetime | None


class Why(BaseModel):
    """The chain that led to a Ticket."""

    triggers: list[WhyTrigger]
    eval_id: str
    strength: Strength
    gate_rule: str
    verdict: Verdict
    verdict_reason: str
    policy_version: int
    mandate: WhyMandate


def why(chain: db_tickets.Why) -> Why:
    mandate = chain.mandate
    return Why(
        triggers=[
            WhyTrigger(
                id=trigger.trigger_id,
                text=trigger.text,
                sender=trigger.sender_name,
                received_at=trigger.received_at,
            )
            for trigger in chain.triggers
        ],
        eval_id=chain.eval_id,
        strength=chain.strength,
        gate_rule=chain.gate_rule,
        verdict=chain.verdict,
        verdict_reason=chain.verdict_reason,
        policy_version=chain.policy_version,
        mandate=WhyMandate(
            id=mandate.mandate_id,
            scope=mandate.scope.to_json(),
            mandate_hash=mandate.mandate_hash.hex(),
            granted_by=mandate.granted_by_name,
            valid_until=mandate.valid_until,
            withdrawn_at=mandate.withdrawn_at,
        ),
    )


class TicketWithAll(Ticket):
    request: str
    thread_ids: list[str]
    questions: list[Question] = Field(description="that are open, oldest first")
    settled_questions: list[Question] = Field(
        description="answered ones, and those no longer asked; in the order in which they ended"
    )
    reports: list[Report]
    commands: list[Command]
    why: Why


class AnswerAsked(Asked):
    answer: str = Field(min_length=1, max_length=20_000)
    question_id: str | None = Field(
        default=None, description="needed only while several questions are open"
    )


class StopAsked(Asked):
    reason: str = Field(default="", max_length=2_000)
