"""Tickets as they are read: one, the list with people first, a report, the why-chain."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from farhand_control_plane.db import intake, mandates, questions
from farhand_control_plane.db.intake import TriggerView
from farhand_control_plane.db.mandates import MandateView
from farhand_control_plane.db.questions import QuestionView
from farhand_control_plane.db.ticket_facts import (
    TicketMachine,
    TicketRow,
    closed_rows,
    open_rows,
    row_of,
)
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import ReportKind, Stage, Strength, Verdict
from farhand_shared.errors import InvalidInput
from farhand_shared.ids import (
    CommandId,
    EvalId,
    InstanceId,
    MachineId,
    MemberId,
    ReportId,
    SessionId,
    ThreadId,
    TicketId,
    is_id,
)

__all__ = [
    "MandateView",
    "ReportView",
    "TicketMachine",
    "TicketPage",
    "TicketRow",
    "TicketView",
    "Why",
    "get",
    "list_",
    "report_view",
    "why",
]

# What needs a person comes first, then what is under way, then what is over.
_RANK: Final = {
    Stage.NEEDS_PERSON: 0,
    Stage.QUEUED: 1,
    Stage.IDLE: 1,
    Stage.WORKING: 1,
    Stage.CLOSED: 2,
}
_CLOSED_RANK: Final = _RANK[Stage.CLOSED]


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
    thread_ids: tuple[ThreadId, ...]  # where its Ticket is heard; the one it came from first
    created_at: datetime
    delivered_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """Why a Ticket exists: triggers → eval → policy version → mandate."""

    triggers: tuple[TriggerView, ...]
    eval_id: EvalId
    strength: Strength
    gate_rule: str  # the row of the gate's table that decided
    verdict: Verdict
    verdict_reason: str
    policy_version: int  # that the gate judged by; the mandate names the one that granted it
    mandate: MandateView


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketView:
    """A Ticket with everything its page shows."""

    row: TicketRow
    request: str  # the text that asked for it
    eval_id: EvalId
    thread_ids: tuple[ThreadId, ...]  # where it is heard; the one it came from first
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
    if not is_id(ticket_id):
        return None
    row = await row_of(tx, instance_id, ticket_id)
    mandate = await mandates.of_ticket(tx, instance_id, ticket_id)
    if row is None or mandate is None:
        return None
    cursor = await tx.execute(
        """
        select t.request, t.eval_id, t.closed_by_member_id, e.thread_id as origin_thread_id,
               (select tr.details ->> 'this_machine_id'
                  from eval_triggers et
                  join triggers tr
                    on tr.instance_id = et.instance_id and tr.trigger_id = et.trigger_id
                 where et.instance_id = t.instance_id and et.eval_id = t.eval_id
                 order by tr.thread_seq
                 limit 1) as this_machine_id,
               (select a.session_id from assignments a
                 where a.instance_id = t.instance_id and a.ticket_id = t.ticket_id
                   and a.ended_at is null) as session_id,
               (select a.session_id from assignments a
                 where a.instance_id = t.instance_id and a.ticket_id = t.ticket_id
                 order by a.started_at desc, a.assignment_id desc
                 limit 1) as last_session_id
          from tickets t
          join evals e on e.instance_id = t.instance_id and e.eval_id = t.eval_id
         where t.instance_id = %s and t.ticket_id = %s
        """,
        (instance_id, ticket_id),
    )
    more = await cursor.fetchone()
    if more is None:
        return None
    return TicketView(
        **more,
        row=row,
        thread_ids=await _thread_ids(tx, instance_id, ticket_id),
        mandate=mandate,
        questions=tuple(await questions.open_(tx, instance_id, ticket_id=ticket_id)),
        reports=await _reports(tx, instance_id, "r.ticket_id = %s", ticket_id),
    )


async def why(tx: Tx, instance_id: InstanceId, ticket_id: TicketId) -> Why | None:
    """Return the chain that led to a Ticket; None when this instance has none of that id."""
    if not is_id(ticket_id):
        return None
    cursor = await tx.execute(
        """
        select e.eval_id, e.strength, e.gate, e.verdict, e.reason, e.policy_version
          from tickets t
          join evals e on e.instance_id = t.instance_id and e.eval_id = t.eval_id
         where t.instance_id = %s and t.ticket_id = %s
        """,
        (instance_id, ticket_id),
    )
    row = await cursor.fetchone()
    mandate = await mandates.of_ticket(tx, instance_id, ticket_id)
    if row is None or mandate is None:
        return None
    return Why(
        triggers=tuple(await intake.triggers_of_eval(tx, instance_id, row["eval_id"])),
        eval_id=row["eval_id"],
        strength=Strength(row["strength"]),
        gate_rule=row["gate"].get("rule", ""),
        verdict=Verdict(row["verdict"]),
        verdict_reason=row["reason"],
        policy_version=row["policy_version"],
        mandate=mandate,
    )


async def list_(
    tx: Tx,
    instance_id: InstanceId,
    *,
    limit: int = 50,
    cursor: str | None = None,
    stage: Stage | None = None,
) -> TicketPage:
    """Return a page of Tickets: what needs a person first, then what runs, then closed ones.

    Newest first within each. Raises InvalidInput for a cursor that this function did not make.
    """
    after = None if cursor is None else _parse_cursor(cursor)
    items: list[TicketRow] = []
    if stage is not Stage.CLOSED and (after is None or after[0] < _CLOSED_RANK):
        rows = [
            row for row in await open_rows(tx, instance_id) if stage is None or row.stage is stage
        ]
        rows.sort(key=lambda row: _RANK[row.stage])  # stable: newest first within a rank
        items = [row for row in rows if after is None or _is_after(row, after)][: limit + 1]
    if stage in (None, Stage.CLOSED) and len(items) <= limit:
        before = None
        if after is not None and after[0] == _CLOSED_RANK:
            before = (after[1], after[2])
        items += await closed_rows(tx, instance_id, before=before, limit=limit + 1 - len(items))
    page = items[:limit]
    return TicketPage(
        items=tuple(page), next_cursor=_make_cursor(page[-1]) if len(items) > limit else None
    )


async def report_view(tx: Tx, instance_id: InstanceId, report_id: ReportId) -> ReportView | None:
    """Return one report; None when this instance has none of that id."""
    if not is_id(report_id):
        return None
    found = await _reports(tx, instance_id, "r.report_id = %s", report_id)
    return found[0] if found else None


async def _reports(
    tx: Tx, instance_id: InstanceId, condition: str, value: str
) -> tuple[ReportView, ...]:
    cursor = await tx.execute(_REPORTS.replace("{condition}", condition), (instance_id, value))
    rows = await cursor.fetchall()
    if not rows:
        return ()
    ticket_id = TicketId(rows[0]["ticket_id"])
    asked = await questions.of_reports(tx, instance_id, ticket_id)
    thread_ids = await _thread_ids(tx, instance_id, ticket_id)
    return tuple(
        ReportView(
            **{
                **row,
                "kind": ReportKind(row["kind"]),
                "command_ids": tuple(row["command_ids"]),
            },
            question=asked.get(row["report_id"]),
            thread_ids=thread_ids,
        )
        for row in rows
    )


_REPORTS = """
    select r.report_id, r.ticket_id, t.title as ticket_title, r.session_id, r.kind, r.text,
           r.accept, r.command_ids, r.created_at, r.delivered_at
      from reports r
      join tickets t on t.instance_id = r.instance_id and t.ticket_id = r.ticket_id
     where r.instance_id = %s and {condition}
     order by r.created_at, r.report_id
"""


async def _thread_ids(tx: Tx, instance_id: InstanceId, ticket_id: TicketId) -> tuple[ThreadId, ...]:
    """The Thread that a Ticket came from is always among them: people are answered there."""
    cursor = await tx.execute(
        """
        select e.thread_id, 0 as place, t.created_at
          from tickets t
          join evals e on e.instance_id = t.instance_id and e.eval_id = t.eval_id
         where t.instance_id = %(instance)s and t.ticket_id = %(ticket)s
        union all
        select s.thread_id, 1, s.created_at
          from subscriptions s
         where s.instance_id = %(instance)s and s.ticket_id = %(ticket)s and s.ended_at is null
         order by place, created_at, thread_id
        """,
        {"instance": instance_id, "ticket": ticket_id},
    )
    return tuple(dict.fromkeys(row["thread_id"] for row in await cursor.fetchall()))


# A cursor is the place of the last row shown: rank, time, id.
_Place = tuple[int, datetime, TicketId]


def _place(row: TicketRow) -> _Place:
    return _RANK[row.stage], row.closed_at or row.created_at, row.ticket_id


def _is_after(row: TicketRow, place: _Place) -> bool:
    rank, at, ticket_id = _place(row)
    return rank > place[0] or (rank == place[0] and (at, ticket_id) < (place[1], place[2]))


def _make_cursor(row: TicketRow) -> str:
    rank, at, ticket_id = _place(row)
    text = json.dumps([rank, at.isoformat(), ticket_id])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _parse_cursor(cursor: str) -> _Place:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        parts: Sequence[Any] = json.loads(text)
        rank, at, ticket_id = int(parts[0]), datetime.fromisoformat(parts[1]), str(parts[2])
        if rank not in _RANK.values() or at.tzinfo is None or not is_id(ticket_id):
            raise ValueError
    except (ValueError, TypeError, IndexError, KeyError, RecursionError) as error:
        raise InvalidInput(
            "cannot list tickets: the cursor is not one of ours; start without it"
        ) from error
    return rank, at, TicketId(ticket_id)
