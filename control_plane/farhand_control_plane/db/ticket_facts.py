"""Tickets with their computed stage: the facts are read here, the rule is the domain's."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.stage import StageFacts, stage_of
from farhand_control_plane.domain.words import Needs, ReportKind, Stage, TicketOutcome
from farhand_shared.ids import InstanceId, MachineId, MemberId, TicketId

OPEN_STATES = ("queued", "offered", "awaiting_owner", "journalled", "started", "stopping")


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketMachine:
    """A machine that a Ticket's commands name."""

    machine_id: MachineId
    name: str
    online: bool
    waiting: bool  # a command of this Ticket waits for it to come online or to be resumed
    command_count: int  # of this Ticket
    failed_commands: int


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
    command_count: int
    failed_commands: int  # that ended without success; neither replaced nor called off by a person
    created_at: datetime
    closed_at: datetime | None


async def open_rows(tx: Tx, instance_id: InstanceId) -> list[TicketRow]:
    """Return all open Tickets, newest first.

    All of them, because the order is by a stage that only code computes; open ones are few.
    """
    return await _rows(tx, instance_id, "t.closed_at is null", {})


async def closed_rows(
    tx: Tx, instance_id: InstanceId, *, before: tuple[datetime, TicketId] | None, limit: int
) -> list[TicketRow]:
    """Return closed Tickets, the last closed first, after the one that ``before`` names."""
    condition = """
        t.ticket_id in (
          select ticket_id from tickets
           where instance_id = %(instance)s and closed_at is not null
             and (%(at)s::timestamptz is null or (closed_at, ticket_id) < (%(at)s, %(id)s::uuid))
           order by closed_at desc, ticket_id desc
           limit %(limit)s)
    """
    at, after_id = before or (None, None)
    rows = await _rows(tx, instance_id, condition, {"at": at, "id": after_id, "limit": limit})
    return sorted(rows, key=lambda row: (row.closed_at or row.created_at, row.ticket_id))[::-1]


async def row_of(tx: Tx, instance_id: InstanceId, ticket_id: TicketId) -> TicketRow | None:
    """Return one Ticket; None when absent."""
    rows = await _rows(tx, instance_id, "t.ticket_id = %(ticket)s::uuid", {"ticket": ticket_id})
    return rows[0] if rows else None


async def _rows(
    tx: Tx, instance_id: InstanceId, condition: str, values: dict[str, Any]
) -> list[TicketRow]:
    cursor = await tx.execute(
        _FACTS.replace("{condition}", condition),
        {**values, "instance": instance_id, "open": list(OPEN_STATES)},
    )
    rows = await cursor.fetchall()
    machines = await _machines(tx, instance_id, [row["ticket_id"] for row in rows])
    return [_row(row, machines.get(row["ticket_id"], ())) for row in rows]


# One statement, one snapshot: a stage never mixes two moments.
_FACTS = """
    select t.ticket_id, t.title, t.requester_member_id, m.name as requester_name, t.inferred,
           t.created_at, t.closed_at, t.outcome,
           a.session_id is not null as ever_assigned,
           coalesce(a.ended_at is null, false) as assigned,
           coalesce(a.end_reason = 'tombstoned' or s.tombstoned_at is not null, false)
             as tombstoned,
           coalesce(a.ended_at is null
                    and (s.ready_at is not null or s.wake_at is not null
                         or s.lease_until > farhand_now()), false) as session_busy,
           r.kind as latest_report, coalesce(r.accept <> '', false) as names_something_to_accept,
           coalesce(r.delivered_at is not null, false) as report_delivered,
           (exists (select from deliveries d
                     where d.instance_id = t.instance_id and d.ticket_id = t.ticket_id
                       and (d.state = 'failed' or (d.state = 'pending' and d.tries > 0)))
            or exists (select from outbox o
                        where o.instance_id = t.instance_id and o.ticket_id = t.ticket_id
                          and o.state = 'dead')
            or exists (select from inbox i
                        where i.instance_id = s.instance_id and i.session_id = s.session_id
                          and i.parked_at is not null and i.consumed_by_seq is null))
             as undelivered,
           exists (select from questions q
                    where q.instance_id = t.instance_id and q.ticket_id = t.ticket_id
                      and q.state = 'pending') as open_question,
           exists (select from outbox o
                    where o.instance_id = t.instance_id and o.ticket_id = t.ticket_id
                      and o.state = 'draft') as draft_waiting,
           (exists (select from deliveries d
                      join triggers tr
                        on tr.instance_id = d.instance_id and tr.trigger_id = d.trigger_id
                     where d.instance_id = t.instance_id and d.ticket_id = t.ticket_id
                       and d.state <> 'handed_back' and not tr.sender_is_bot
                       and d.created_at > r.created_at)
            or exists (select from questions q
                        where q.instance_id = t.instance_id and q.ticket_id = t.ticket_id
                          and q.state in ('answered', 'denied') and q.settled_at > r.created_at))
             as human_since_report,
           coalesce(c.open_commands, 0) as open_commands,
           coalesce(c.waiting_commands, 0) as waiting_commands
      from tickets t
      join members m
        on m.instance_id = t.instance_id and m.member_id = t.requester_member_id
      left join lateral (
           select session_id, ended_at, end_reason from assignments
            where instance_id = t.instance_id and ticket_id = t.ticket_id
            order by started_at desc, assignment_id desc
            limit 1) a on true
      left join sessions s on s.instance_id = t.instance_id and s.session_id = a.session_id
      left join lateral (
           select kind, accept, created_at, delivered_at from reports
            where instance_id = t.instance_id and ticket_id = t.ticket_id
            order by created_at desc, report_id desc
            limit 1) r on true
      left join lateral (
           select count(*) as open_commands,
                  count(*) filter (
                    where at.state = 'queued'
                      and (m.status = 'paused'
                           or not coalesce(l.replica_id is not null
                                           and l.lease_until > farhand_now(), false)))
                    as waiting_commands
             from commands co
             join attempts at
               on at.instance_id = co.instance_id and at.command_id = co.command_id
             join machines m
               on m.instance_id = at.instance_id and m.machine_id = at.machine_id
             left join machine_connections l
               on l.instance_id = at.instance_id and l.machine_id = at.machine_id
            where co.instance_id = t.instance_id and co.ticket_id = t.ticket_id
              and at.state = any(%(open)s)) c on t.closed_at is null
     where t.instance_id = %(instance)s and ({condition})
     order by t.created_at desc, t.ticket_id desc
"""


def _row(row: dict[str, Any], machines: Sequence[TicketMachine]) -> TicketRow:
    outcome = None if row["outcome"] is None else TicketOutcome(row["outcome"])
    report = row["latest_report"]
    view = stage_of(
        StageFacts(
            outcome=outcome,
            undelivered=row["undelivered"],
            open_question=row["open_question"],
            draft_waiting=row["draft_waiting"],
            latest_report=None if report is None else ReportKind(report),
            names_something_to_accept=row["names_something_to_accept"],
            report_delivered=row["report_delivered"],
            human_since_report=row["human_since_report"],
            ever_assigned=row["ever_assigned"],
            assigned=row["assigned"],
            tombstoned=row["tombstoned"],
            session_busy=row["session_busy"],
            open_commands=row["open_commands"],
            waiting_commands=row["waiting_commands"],
        )
    )
    return TicketRow(
        ticket_id=row["ticket_id"],
        title=row["title"],
        stage=view.stage,
        needs=view.needs,
        outcome=outcome,
        requester_member_id=row["requester_member_id"],
        requester_name=row["requester_name"],
        inferred=row["inferred"],
        machines=tuple(machines),
        command_count=sum(machine.command_count for machine in machines),
        failed_commands=sum(machine.failed_commands for machine in machines),
        created_at=row["created_at"],
        closed_at=row["closed_at"],
    )


async def _machines(
    tx: Tx, instance_id: InstanceId, ticket_ids: Sequence[TicketId]
) -> dict[str, list[TicketMachine]]:
    cursor = await tx.execute(
        """
        select co.ticket_id, m.machine_id, m.name,
               bool_or(coalesce(l.replica_id is not null and l.lease_until > farhand_now(), false))
                 as online,
               bool_or(at.state = 'queued') as queued, bool_or(m.status = 'paused') as paused,
               count(*) as command_count,
               count(*) filter (
                 where at.state in ('spawn_error', 'refused', 'expired', 'indeterminate', 'lost')
                    or (at.state = 'exited' and at.reason is distinct from 'cancel'
                        and (at.reason is distinct from 'exit' or at.exit_code is distinct from 0)))
                 as failed_commands
          from commands co
          join attempts at on at.instance_id = co.instance_id and at.command_id = co.command_id
          join machines m on m.instance_id = co.instance_id and m.machine_id = co.machine_id
          left join machine_connections l
            on l.instance_id = m.instance_id and l.machine_id = m.machine_id
         where co.instance_id = %s and co.ticket_id = any(%s::uuid[])
         group by co.ticket_id, m.machine_id, m.name
         order by m.name
        """,
        (instance_id, list(ticket_ids)),
    )
    found: dict[str, list[TicketMachine]] = {}
    for row in await cursor.fetchall():
        machine = TicketMachine(
            machine_id=row["machine_id"],
            name=row["name"],
            online=row["online"],
            waiting=row["queued"] and (row["paused"] or not row["online"]),
            command_count=row["command_count"],
            failed_commands=row["failed_commands"],
        )
        found.setdefault(row["ticket_id"], []).append(machine)
    return found
