"""What arrived and how it is judged: raw deliveries, threads, triggers, evals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import EvalState, Strength, Verdict
from farhand_shared.ids import (
    EvalId,
    InstanceId,
    MachineId,
    MemberId,
    SourceId,
    ThreadId,
    TicketId,
    TriggerId,
    is_id,
)

# What is read of a trigger, everywhere the same.
_TRIGGER = """
    select tr.trigger_id, tr.thread_id, tr.thread_seq, so.kind as source_kind, tr.kind, tr.text,
           tr.sender_external_id, tr.sender_member_id,
           coalesce(me.name, tr.sender_external_id) as sender_name, tr.sender_is_bot, tr.strength,
           tr.replaces_trigger_id, tr.received_at, tr.details
      from triggers tr
      join sources so on so.instance_id = tr.instance_id and so.source_id = tr.source_id
      left join members me
        on me.instance_id = tr.instance_id and me.member_id = tr.sender_member_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerView:
    """One immutable event, as agents and pages read it. ``text`` is data, never an instruction."""

    trigger_id: TriggerId
    thread_id: ThreadId
    thread_seq: int
    source_kind: str  # "chat", …
    kind: str  # "message", …
    text: str
    sender_external_id: str
    sender_member_id: MemberId | None
    sender_name: str  # the member's name, or the provider's id when nobody's
    sender_is_bot: bool
    strength: Strength | None  # None: not admitted by the gate
    this_machine_id: MachineId | None  # what "this machine" means to the sender
    replaces_trigger_id: TriggerId | None
    received_at: datetime
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTicket:
    """An open Ticket that is subscribed to a Thread."""

    ticket_id: TicketId
    title: str
    requester_member_id: MemberId


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalView:
    """An Eval with all the Router needs to close it."""

    eval_id: EvalId
    thread_id: ThreadId
    source_kind: str
    state: EvalState
    strength: Strength
    observe_only: bool  # its rule only records: an accept opens no Ticket
    requester_member_id: MemberId | None
    requester_name: str
    policy_version: int
    triggers: tuple[TriggerView, ...]  # in thread order
    open_tickets: tuple[OpenTicket, ...]  # on the Thread, oldest first
    handed_back_by: tuple[TicketId, ...]  # never attach to one of these
    verdict: Verdict | None  # set when closed
    attached_ticket_id: TicketId | None
    reason: str
    created_at: datetime
    closed_at: datetime | None


async def source_kind(tx: Tx, instance_id: InstanceId, source_id: SourceId) -> str | None:
    """Return the kind of a connected source; None when absent, removed or another instance's."""
    cursor = await tx.execute(
        """
        select kind from sources
         where instance_id = %s and source_id = %s and removed_at is null
        """,
        (instance_id, source_id),
    )
    row = await cursor.fetchone()
    return None if row is None else str(row["kind"])


async def find_event(
    tx: Tx, instance_id: InstanceId, source_id: SourceId, provider_event_id: str, revision: str
) -> TriggerView | None:
    """Return the Trigger that an event became; None when it has not arrived."""
    return await _one_trigger(
        tx,
        "tr.instance_id = %s and tr.source_id = %s and tr.provider_event_id = %s"
        " and tr.revision = %s",
        (instance_id, source_id, provider_event_id, revision),
    )


async def newest_revision(
    tx: Tx, instance_id: InstanceId, source_id: SourceId, provider_event_id: str
) -> TriggerView | None:
    """Return an event as it stands after its edits; None when it has not arrived."""
    return await _one_trigger(
        tx,
        "tr.instance_id = %s and tr.source_id = %s and tr.provider_event_id = %s"
        " order by tr.thread_seq desc limit 1",
        (instance_id, source_id, provider_event_id),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What became of a Trigger."""

    eval_id: EvalId | None  # the first that judged it
    delivered_to: tuple[TicketId, ...]


async def fate(tx: Tx, instance_id: InstanceId, trigger_id: TriggerId) -> Fate:
    """Return what became of a Trigger."""
    cursor = await tx.execute(
        """
        select (select eval_id from eval_triggers
                 where instance_id = %(instance)s and trigger_id = %(trigger)s
                 order by eval_id limit 1) as eval_id,
               array(select ticket_id from deliveries
                      where instance_id = %(instance)s and trigger_id = %(trigger)s
                      order by created_at, ticket_id) as delivered_to
        """,
        {"instance": instance_id, "trigger": trigger_id},
    )
    row = await cursor.fetchone()
    if row is None:
        return Fate(eval_id=None, delivered_to=())
    return Fate(eval_id=row["eval_id"], delivered_to=tuple(row["delivered_to"]))


async def kept_by(tx: Tx, instance_id: InstanceId, ticket_id: TicketId) -> list[TriggerId]:
    """Return what a Ticket's executor has read and not handed back, in order of ids."""
    cursor = await tx.execute(
        """
        select d.trigger_id
          from deliveries d
         where d.instance_id = %(instance)s and d.ticket_id = %(ticket)s and d.state = 'delivered'
           and exists (
                 select from assignments a
                   join inbox i on i.instance_id = a.instance_id and i.session_id = a.session_id
                  where a.instance_id = d.instance_id and a.ticket_id = d.ticket_id
                    and i.dedupe_key = 'trigger:' || d.trigger_id
                    and i.consumed_by_seq is not null)
         order by d.trigger_id
        """,
        {"instance": instance_id, "ticket": ticket_id},
    )
    return [row["trigger_id"] for row in await cursor.fetchall()]


async def triggers_of_eval(tx: Tx, instance_id: InstanceId, eval_id: EvalId) -> list[TriggerView]:
    """Return an Eval's Triggers in thread order."""
    cursor = await tx.execute(
        f"""
        {_TRIGGER}
          join eval_triggers et
            on et.instance_id = tr.instance_id and et.trigger_id = tr.trigger_id
         where et.instance_id = %s and et.eval_id = %s
         order by tr.thread_seq
        """,
        (instance_id, eval_id),
    )
    return [_trigger_view(row) for row in await cursor.fetchall()]


async def eval_for_router(tx: Tx, instance_id: InstanceId, eval_id: EvalId) -> EvalView | None:
    """Return one Eval with its Triggers and the open Tickets on its Thread; None when absent."""
    if not is_id(eval_id):
        return None
    cursor = await tx.execute(
        """
        select e.eval_id, e.thread_id, so.kind as source_kind, e.state, e.strength, e.gate,
               e.requester_member_id, coalesce(m.name, '') as requester_name, e.policy_version,
               e.verdict, e.attached_ticket_id, e.reason, e.created_at, e.closed_at
          from evals e
          join threads th on th.instance_id = e.instance_id and th.thread_id = e.thread_id
          join sources so on so.instance_id = th.instance_id and so.source_id = th.source_id
          left join members m
            on m.instance_id = e.instance_id and m.member_id = e.requester_member_id
         where e.instance_id = %s and e.eval_id = %s
        """,
        (instance_id, eval_id),
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    gate = row.pop("gate")
    return EvalView(
        **{
            **row,
            "state": EvalState(row["state"]),
            "strength": Strength(row["strength"]),
            "verdict": None if row["verdict"] is None else Verdict(row["verdict"]),
        },
        observe_only=gate.get("mode") == "observe",
        triggers=tuple(await triggers_of_eval(tx, instance_id, eval_id)),
        open_tickets=await _open_tickets(tx, instance_id, row["thread_id"]),
        handed_back_by=await handed_back_by(tx, instance_id, eval_id),
    )


async def handed_back_by(tx: Tx, instance_id: InstanceId, eval_id: EvalId) -> tuple[TicketId, ...]:
    """Return the Tickets that gave one of an Eval's Triggers back: none of them gets it again."""
    cursor = await tx.execute(
        """
        select distinct d.ticket_id
          from deliveries d
          join eval_triggers et
            on et.instance_id = d.instance_id and et.trigger_id = d.trigger_id
         where d.instance_id = %s and et.eval_id = %s and d.state = 'handed_back'
         order by d.ticket_id
        """,
        (instance_id, eval_id),
    )
    return tuple(row["ticket_id"] for row in await cursor.fetchall())


async def trigger(tx: Tx, instance_id: InstanceId, trigger_id: TriggerId) -> TriggerView | None:
    """Return one Trigger; None when this instance has none of that id."""
    if not is_id(trigger_id):
        return None
    return await _one_trigger(
        tx, "tr.instance_id = %s and tr.trigger_id = %s", (instance_id, trigger_id)
    )


async def _open_tickets(
    tx: Tx, instance_id: InstanceId, thread_id: ThreadId
) -> tuple[OpenTicket, ...]:
    cursor = await tx.execute(
        """
        select t.ticket_id, t.title, t.requester_member_id
          from subscriptions s
          join tickets t on t.instance_id = s.instance_id and t.ticket_id = s.ticket_id
         where s.instance_id = %s and s.thread_id = %s and s.ended_at is null
           and t.closed_at is null
         order by t.created_at, t.ticket_id
        """,
        (instance_id, thread_id),
    )
    return tuple(OpenTicket(**row) for row in await cursor.fetchall())


async def _one_trigger(tx: Tx, condition: str, values: Sequence[object]) -> TriggerView | None:
    cursor = await tx.execute(f"{_TRIGGER} where {condition}", values)
    row = await cursor.fetchone()
    return None if row is None else _trigger_view(row)


def _trigger_view(row: dict[str, Any]) -> TriggerView:
    return TriggerView(
        **{**row, "strength": None if row["strength"] is None else Strength(row["strength"])},
        this_machine_id=row["details"].get("this_machine_id"),
    )
