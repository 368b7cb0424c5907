"""Tickets, Assignments and reports as rows: made, locked, closed.

Locks are taken in one order everywhere: thread, attempts, executor's session, ticket, trigger,
router's session, instance (the events, last).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.types.json import Jsonb

from farhand_control_plane.db import sessions
from farhand_control_plane.db.ticket_facts import OPEN_STATES
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import (
    AssignmentEnd,
    ReportKind,
    SessionKind,
    TicketOutcome,
)
from farhand_shared.ids import (
    CommandId,
    EvalId,
    InstanceId,
    MemberId,
    ReportId,
    SessionId,
    ThreadId,
    TicketId,
    is_id,
    new_id,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedTicket:
    """A Ticket whose row is locked until commit. ``session_id``: of its live Assignment."""

    ticket_id: TicketId
    title: str
    requester_member_id: MemberId
    outcome: TicketOutcome | None
    valid_until: datetime
    expired: bool  # its Mandate has
    session_id: SessionId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestReport:
    report_id: ReportId
    kind: ReportKind
    accept: str
    created_at: datetime
    delivered_at: datetime | None


async def add_ticket(
    tx: Tx,
    instance_id: InstanceId,
    eval_id: EvalId,
    *,
    title: str,
    request: str,
    requester_member_id: MemberId,
    inferred: bool,
) -> TicketId:
    """Make the one Ticket of an Eval."""
    ticket_id = TicketId(new_id())
    await tx.execute(
        """
        insert into tickets
          (instance_id, ticket_id, eval_id, title, request, requester_member_id, inferred,
           created_at)
        values (%s, %s, %s, %s, %s, %s, %s, farhand_now())
        """,
        (instance_id, ticket_id, eval_id, title, request, requester_member_id, inferred),
    )
    return ticket_id


async def assign(tx: Tx, instance_id: InstanceId, ticket_id: TicketId) -> SessionId:
    """Make a Worker session and bind the Ticket to it, its only live Assignment."""
    session_id = await sessions.create(tx, instance_id, SessionKind.WORKER, ticket_id=ticket_id)
    await tx.execute(
        """
        insert into assignments (instance_id, assignment_id, ticket_id, session_id, started_at)
        values (%s, %s, %s, %s, farhand_now())
        """,
        (instance_id, new_id(), ticket_id, session_id),
    )
    return session_id


async def lock(
    tx: Tx, instance_id: InstanceId, ticket_id: TicketId, *, to_close: bool = False
) -> LockedTicket | None:
    """Return a Ticket, locked after its executor's session; None when absent.

    ``to_close`` also waits for what the executor is committing, and keeps it from going on.
    """
    if not is_id(ticket_id):
        return None
    keys = {"instance": instance_id, "ticket": ticket_id, "open": list(OPEN_STATES)}
    if to_close:
        await tx.execute(
            """
            select from attempts a
              join commands c on c.instance_id = a.instance_id and c.command_id = a.command_id
             where a.instance_id = %(instance)s and c.ticket_id = %(ticket)s
               and a.state = any(%(open)s)
             order by a.attempt_id
               for update of a
            """,
            keys,
        )
    strength = "for update" if to_close else "for no key update"
    await tx.execute(
        f"""
        select from sessions
         where instance_id = %(instance)s
           and session_id = (select session_id from assignments
                              where instance_id = %(instance)s and ticket_id = %(ticket)s
                                and ended_at is null)
           {strength}
        """,  # noqa: S608 - one of two constants
        keys,
    )
    cursor = await tx.execute(
        """
        select t.ticket_id, t.title, t.requester_member_id, t.outcome, ma.valid_until,
               ma.valid_until <= farhand_now() as expired,
               (select a.session_id from assignments a
                 where a.instance_id = t.instance_id and a.ticket_id = t.ticket_id
                   and a.ended_at is null) as session_id
          from tickets t
          join mandates ma on ma.instance_id = t.instance_id and ma.ticket_id = t.ticket_id
         where t.instance_id = %s and t.ticket_id = %s
           for no key update of t
        """,
        (instance_id, ticket_id),
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    outcome = row["outcome"]
    return LockedTicket(
        **{**row, "outcome": None if outcome is None else TicketOutcome(outcome)},
    )


async def close(
    tx: Tx,
    instance_id: InstanceId,
    ticket_id: TicketId,
    outcome: TicketOutcome,
    member_id: MemberId | None,
) -> bool:
    """Close an open Ticket; False when it was closed before. ``member_id``: who closed it."""
    cursor = await tx.execute(
        """
        update tickets
           set closed_at = farhand_now(), outcome = %s, closed_by_member_id = %s
         where instance_id = %s and ticket_id = %s and closed_at is null
        """,
        (outcome.value, member_id, instance_id, ticket_id),
    )
    return cursor.rowcount == 1


async def end_assignment(
    tx: Tx, instance_id: InstanceId, ticket_id: TicketId, reason: AssignmentEnd
) -> SessionId | None:
    """End a Ticket's live Assignment; returns its session."""
    cursor = await tx.execute(
        """
        update assignments set ended_at = farhand_now(), end_reason = %s
         where instance_id = %s and ticket_id = %s and ended_at is null
        returning session_id
        """,
        (reason.value, instance_id, ticket_id),
    )
    row = await cursor.fetchone()
    return None if row is None else SessionId(row["session_id"])


async def foreign_commands(
    tx: Tx, instance_id: InstanceId, ticket_id: TicketId | None, command_ids: Sequence[CommandId]
) -> list[CommandId]:
    """Return those ids that are no commands of this Ticket (None: of this instance)."""
    known = [command_id for command_id in command_ids if is_id(command_id)]
    cursor = await tx.execute(
        """
        select command_id from commands
         where instance_id = %(instance)s and command_id = any(%(commands)s::uuid[])
           and (%(ticket)s::uuid is null or ticket_id = %(ticket)s::uuid)
        """,
        {"instance": instance_id, "ticket": ticket_id, "commands": known},
    )
    own = {row["command_id"] for row in await cursor.fetchall()}
    return [command_id for command_id in command_ids if command_id not in own]


async def add_report(
    tx: Tx,
    instance_id: InstanceId,
    report_id: ReportId,
    *,
    ticket_id: TicketId,
    session_id: SessionId,
    kind: ReportKind,
    text: str,
    accept: str,
    command_ids: Sequence[CommandId],
) -> bool:
    """Store a report under an id of the caller's; False when it is there already."""
    cursor = await tx.execute(
        """
        insert into reports
          (instance_id, report_id, ticket_id, session_id, kind, text, accept, command_ids,
           created_at)
        values (%s, %s, %s, %s, %s, %s, %s, %s, farhand_now())
        on conflict do nothing
        """,
        (
            instance_id,
            report_id,
            ticket_id,
            session_id,
            kind.value,
            text,
            accept,
            Jsonb(list(command_ids)),
        ),
    )
    return cursor.rowcount == 1


async def has_report(tx: Tx, instance_id: InstanceId, report_id: ReportId) -> bool:
    """Tell whether a report is there."""
    if not is_id(report_id):
        return False
    cursor = await tx.execute(
        "select 1 from reports where instance_id = %s and report_id = %s", (instance_id, report_id)
    )
    return await cursor.fetchone() is not None


async def has_ticket(tx: Tx, instance_id: InstanceId, ticket_id: TicketId) -> bool:
    """Tell whether this instance has a Ticket of that id."""
    if not is_id(ticket_id):
        return False
    cursor = await tx.execute(
        "select 1 from tickets where instance_id = %s and ticket_id = %s", (instance_id, ticket_id)
    )
    return await cursor.fetchone() is not None


async def has_thread(tx: Tx, instance_id: InstanceId, thread_id: ThreadId) -> bool:
    """Tell whether this instance has a Thread of that id."""
    if not is_id(thread_id):
        return False
    cursor = await tx.execute(
        "select 1 from threads where instance_id = %s and thread_id = %s", (instance_id, thread_id)
    )
    return await cursor.fetchone() is not None


async def mark_delivered(tx: Tx, instance_id: InstanceId, report_id: ReportId) -> None:
    """Record that people have a report; the first time counts."""
    await tx.execute(
        """
        update reports set delivered_at = farhand_now()
         where instance_id = %s and report_id = %s and delivered_at is null
        """,
        (instance_id, report_id),
    )


async def ticket_of_report(tx: Tx, instance_id: InstanceId, report_id: ReportId) -> TicketId | None:
    """Return the Ticket that a report is about."""
    cursor = await tx.execute(
        "select ticket_id from reports where instance_id = %s and report_id = %s",
        (instance_id, report_id),
    )
    row = await cursor.fetchone()
    return None if row is None else TicketId(row["ticket_id"])


async def latest_report(
    tx: Tx, instance_id: InstanceId, ticket_id: TicketId
) -> LatestReport | None:
    """Return a Ticket's newest report."""
    cursor = await tx.execute(
        """
        select report_id, kind, accept, created_at, delivered_at
          from reports
         where instance_id = %s and ticket_id = %s
         order by created_at desc, report_id desc
         limit 1
        """,
        (instance_id, ticket_id),
    )
    row = await cursor.fetchone()
    return None if row is None else LatestReport(**{**row, "kind": ReportKind(row["kind"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """An open Ticket whose people have a ready report with nothing to accept."""

    instance_id: InstanceId
    ticket_id: TicketId


async def reported_ready(tx: Tx, limit: int) -> list[Finished]:
    """Return such Tickets of all instances: their close waited for something."""
    cursor = await tx.execute(
        """
        select t.instance_id, t.ticket_id
          from tickets t
          join lateral (select kind, accept, delivered_at
                          from reports r
                         where r.instance_id = t.instance_id and r.ticket_id = t.ticket_id
                         order by created_at desc, report_id desc
                         limit 1) r on true
         where t.closed_at is null
           and r.kind = 'ready' and r.accept = '' and r.delivered_at is not null
         order by t.instance_id, t.ticket_id
         limit %s
        """,
        (limit,),
    )
    return [Finished(**row) for row in await cursor.fetchall()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unheard:
    """A report for people that the Router has not even read."""

    instance_id: InstanceId
    report_id: ReportId


async def unheard_reports(tx: Tx, after_s: float, limit: int) -> list[Unheard]:
    """Return reports older than ``after_s`` that nobody has and no message carries, oldest first.

    Only those that the Router has not read: what it has read is its own to tell.
    """
    cursor = await tx.execute(
        """
        select r.instance_id, r.report_id
          from reports r
          join tickets t on t.instance_id = r.instance_id and t.ticket_id = r.ticket_id
          join sessions s on s.instance_id = r.instance_id and s.kind = 'router'
          join inbox i on i.instance_id = s.instance_id and i.session_id = s.session_id
                      and i.dedupe_key = 'report:' || r.report_id
         where r.delivered_at is null and r.kind <> 'progress' and t.closed_at is null
           and r.created_at < farhand_now() - %s * interval '1 second'
           and i.consumed_by_seq is null
           and not exists (select from outbox o
                            where o.instance_id = r.instance_id and o.ticket_id = r.ticket_id
                              and o.body ->> 'report_id' = r.report_id::text)
         order by r.created_at, r.report_id
         limit %s
        """,
        (after_s, limit),
    )
    return [Unheard(**row) for row in await cursor.fetchall()]
