"""Who hears a Thread, and which Trigger was brought to whom."""

from dataclasses import dataclass
from datetime import datetime

from farhand_control_plane.db import sessions
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.routing import Delivered, redelivery_delay_s
from farhand_control_plane.domain.words import DeliveryState
from farhand_shared.ids import InstanceId, SessionId, ThreadId, TicketId, TriggerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """A delivery that is to be tried again."""

    instance_id: InstanceId
    trigger_id: TriggerId
    ticket_id: TicketId
    tries: int


async def subscribe(
    tx: Tx, instance_id: InstanceId, ticket_id: TicketId, thread_id: ThreadId, from_seq: int
) -> None:
    """Let a Ticket hear a Thread from a number on; one that heard it hears on."""
    await tx.execute(
        """
        insert into subscriptions (instance_id, thread_id, ticket_id, from_seq, created_at)
        values (%s, %s, %s, %s, farhand_now())
        on conflict (instance_id, thread_id, ticket_id)
        do update set from_seq = excluded.from_seq, ended_at = null
         where subscriptions.ended_at is not null
        """,
        (instance_id, thread_id, ticket_id, from_seq),
    )


async def end_all(tx: Tx, instance_id: InstanceId, ticket_id: TicketId) -> None:
    """End what a Ticket hears."""
    await tx.execute(
        """
        update subscriptions set ended_at = farhand_now()
         where instance_id = %s and ticket_id = %s and ended_at is null
        """,
        (instance_id, ticket_id),
    )


async def live_subscribers(
    tx: Tx, instance_id: InstanceId, thread_id: ThreadId, seq: int
) -> list[TicketId]:
    """Return the open Tickets that hear this number of a Thread, their rows share-locked.

    The lock orders us with a close: either we see it closed, or it sees what we bring. As
    everywhere, the executors' sessions are locked before their Tickets.
    """
    keys = {"instance": instance_id, "thread": thread_id, "seq": seq}
    await tx.execute(
        """
        select from sessions
         where instance_id = %(instance)s
           and session_id in (
                 select a.session_id
                   from subscriptions s
                   join assignments a
                     on a.instance_id = s.instance_id and a.ticket_id = s.ticket_id
                  where s.instance_id = %(instance)s and s.thread_id = %(thread)s
                    and s.ended_at is null and s.from_seq <= %(seq)s and a.ended_at is null)
         order by session_id
           for no key update
        """,
        keys,
    )
    cursor = await tx.execute(
        """
        select t.ticket_id
          from subscriptions s
          join tickets t on t.instance_id = s.instance_id and t.ticket_id = s.ticket_id
         where s.instance_id = %(instance)s and s.thread_id = %(thread)s and s.ended_at is null
           and s.from_seq <= %(seq)s and t.closed_at is null
         order by t.ticket_id
           for share of t
        """,
        keys,
    )
    return [row["ticket_id"] for row in await cursor.fetchall()]


async def worker_of(tx: Tx, instance_id: InstanceId, ticket_id: TicketId) -> SessionId | None:
    """Return the session of a Ticket's live Assignment."""
    cursor = await tx.execute(
        """
        select session_id from assignments
         where instance_id = %s and ticket_id = %s and ended_at is null
        """,
        (instance_id, ticket_id),
    )
    row = await cursor.fetchone()
    return None if row is None else SessionId(row["session_id"])


async def deliver(
    tx: Tx, instance_id: InstanceId, trigger_id: TriggerId, ticket_id: TicketId
) -> bool:
    """Bring a Trigger to a Ticket's executor; False when it was brought before.

    Without an executor the delivery stays pending and is tried again; a person sees that.
    """
    cursor = await tx.execute(
        """
        insert into deliveries (instance_id, trigger_id, ticket_id, state, created_at)
        values (%s, %s, %s, 'pending', farhand_now())
        on conflict do nothing
        """,
        (instance_id, trigger_id, ticket_id),
    )
    if cursor.rowcount == 0:
        return False
    await retry(
        tx, Late(instance_id=instance_id, trigger_id=trigger_id, ticket_id=ticket_id, tries=0)
    )
    return True


async def retry(tx: Tx, late: Late) -> bool:
    """Try a pending delivery once; True when the executor has it now."""
    worker = await worker_of(tx, late.instance_id, late.ticket_id)
    if worker is None:
        await tx.execute(
            """
            update deliveries
               set tries = tries + 1, error = 'the ticket has no executor',
                   next_try_at = farhand_now() + %s * interval '1 second'
             where instance_id = %s and trigger_id = %s and ticket_id = %s and state = 'pending'
            """,
            (
                redelivery_delay_s(late.tries + 1),
                late.instance_id,
                late.trigger_id,
                late.ticket_id,
            ),
        )
        return False
    await sessions.append(
        tx,
        late.instance_id,
        worker,
        kind="trigger",
        dedupe_key=f"trigger:{late.trigger_id}",
        payload={"trigger_id": late.trigger_id},
    )
    await tx.execute(
        """
        update deliveries set state = 'delivered', next_try_at = null, error = null
         where instance_id = %s and trigger_id = %s and ticket_id = %s and state = 'pending'
        """,
        (late.instance_id, late.trigger_id, late.ticket_id),
    )
    return True


async def late(tx: Tx, limit: int) -> list[Late]:
    """Return pending deliveries of all instances that are due."""
    cursor = await tx.execute(
        """
        select instance_id, trigger_id, ticket_id, tries
          from deliveries
         where state = 'pending' and next_try_at <= farhand_now()
         order by next_try_at
         limit %s
        """,
        (limit,),
    )
    return [Late(**row) for row in await cursor.fetchall()]


async def next_try_at(tx: Tx) -> datetime | None:
    """Return when the next pending delivery is due."""
    cursor = await tx.execute(
        "select min(next_try_at) as at from deliveries where state = 'pending'"
    )
    row = await cursor.fetchone()
    return row["at"] if row else None


async def lock_trigger(tx: Tx, instance_id: InstanceId, trigger_id: TriggerId) -> None:
    """Order hand-backs of one Trigger: two at once must not each take the other for a holder."""
    await tx.execute(
        "select from triggers where instance_id = %s and trigger_id = %s for no key update",
        (instance_id, trigger_id),
    )


async def state_of(
    tx: Tx, instance_id: InstanceId, trigger_id: TriggerId, ticket_id: TicketId
) -> DeliveryState | None:
    """Return the state of one delivery; None when the Trigger was never brought there."""
    cursor = await tx.execute(
        """
        select state from deliveries
         where instance_id = %s and trigger_id = %s and ticket_id = %s
        """,
        (instance_id, trigger_id, ticket_id),
    )
    row = await cursor.fetchone()
    return None if row is None else DeliveryState(row["state"])


async def delivered(tx: Tx, instance_id: InstanceId, trigger_id: TriggerId) -> list[Delivered]:
    """Return all deliveries of a Trigger; those before its first Eval came by subscription."""
    cursor = await tx.execute(
        """
        select d.state,
               not exists (select 1
                             from eval_triggers et
                             join evals e using (instance_id, eval_id)
                            where et.instance_id = d.instance_id
                              and et.trigger_id = d.trigger_id
                              and e.created_at < d.created_at) as by_subscription
          from deliveries d
         where d.instance_id = %s and d.trigger_id = %s
        """,
        (instance_id, trigger_id),
    )
    return [
        Delivered(state=DeliveryState(row["state"]), by_subscription=row["by_subscription"])
        for row in await cursor.fetchall()
    ]


async def mark_handed_back(
    tx: Tx, instance_id: InstanceId, trigger_id: TriggerId, ticket_id: TicketId, reason: str
) -> bool:
    """Record a hand-back; False when it was handed back before."""
    cursor = await tx.execute(
        """
        update deliveries
           set state = 'handed_back', handed_back_at = farhand_now(), next_try_at = null,
               error = %s
         where instance_id = %s and trigger_id = %s and ticket_id = %s and state <> 'handed_back'
        """,
        (reason, instance_id, trigger_id, ticket_id),
    )
    return cursor.rowcount == 1


async def unread(tx: Tx, instance_id: InstanceId, ticket_id: TicketId) -> list[TriggerId]:
    """Return what was brought to a Ticket and no executor of it has read, in order of ids."""
    cursor = await tx.execute(
        """
        select d.trigger_id
          from deliveries d
         where d.instance_id = %(instance)s and d.ticket_id = %(ticket)s
           and d.state in ('pending', 'delivered')
           and not exists (
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


async def read_after(
    tx: Tx, instance_id: InstanceId, ticket_id: TicketId, moment: datetime
) -> bool:
    """Tell whether a Ticket keeps a Trigger that its executor read after a moment."""
    cursor = await tx.execute(
        """
        select exists (
          select from deliveries d
            join assignments a on a.instance_id = d.instance_id and a.ticket_id = d.ticket_id
            join inbox i on i.instance_id = a.instance_id and i.session_id = a.session_id
                        and i.dedupe_key = 'trigger:' || d.trigger_id
            join items it on it.instance_id = i.instance_id and it.session_id = i.session_id
                         and it.item_seq = i.consumed_by_seq
           where d.instance_id = %s and d.ticket_id = %s and d.state = 'delivered'
             and it.created_at > %s) as kept
        """,
        (instance_id, ticket_id, moment),
    )
    row = await cursor.fetchone()
    return bool(row and row["kept"])
