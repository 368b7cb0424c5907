"""What sources bring, as rows: raw deliveries, threads and their numbers, triggers."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import Strength
from farhand_shared.errors import NotFound
from farhand_shared.ids import (
    InstanceId,
    MemberId,
    SourceId,
    ThreadId,
    TriggerId,
    new_id,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedThread:
    """A Thread whose row is locked until commit: its numbers are ours to give."""

    thread_id: ThreadId
    next_seq: int
    had_ticket: bool  # a Ticket is or was subscribed to it


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTrigger:
    """An event as a source hands it over. (source, provider_event_id, revision) names it."""

    source_id: SourceId
    provider_event_id: str
    revision: str = ""
    kind: str
    text: str
    sender_external_id: str
    sender_member_id: MemberId | None
    sender_is_bot: bool
    strength: Strength | None
    details: Mapping[str, Any]
    replaces_trigger_id: TriggerId | None = None
    occurred_at: datetime | None = None


async def store_raw(
    tx: Tx,
    instance_id: InstanceId,
    source_id: SourceId,
    delivery_key: str,
    body: bytes,
    headers: Mapping[str, Any],
) -> bool:
    """Keep what a provider sent, byte for byte; False when this delivery is there already."""
    cursor = await tx.execute(
        """
        insert into raw_deliveries
          (instance_id, source_id, delivery_key, headers, body, received_at, processed_at)
        values (%s, %s, %s, %s, %s, farhand_now(), farhand_now())
        on conflict do nothing
        """,
        (instance_id, source_id, delivery_key, Jsonb(dict(headers)), body),
    )
    return cursor.rowcount == 1


async def lock_thread(
    tx: Tx, instance_id: InstanceId, source_id: SourceId, external_key: str
) -> LockedThread:
    """Return the Thread of that key, made if absent, locked until commit."""
    await tx.execute(
        """
        insert into threads (instance_id, thread_id, source_id, external_key)
        values (%s, %s, %s, %s)
        on conflict (instance_id, source_id, external_key) do nothing
        """,
        (instance_id, new_id(), source_id, external_key),
    )
    cursor = await tx.execute(
        """
        select t.thread_id, t.next_seq,
               exists (select from subscriptions s
                        where s.instance_id = t.instance_id and s.thread_id = t.thread_id)
                 as had_ticket
          from threads t
         where t.instance_id = %s and t.source_id = %s and t.external_key = %s
           for no key update of t
        """,
        (instance_id, source_id, external_key),
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound(f"cannot find thread {external_key!r}: it was removed")
    return LockedThread(**row)


async def add_trigger(
    tx: Tx, instance_id: InstanceId, thread: LockedThread, new: NewTrigger
) -> TriggerId | None:
    """Store an event at the end of its locked Thread; None when the same event is there already."""
    trigger_id = TriggerId(new_id())
    cursor = await tx.execute(
        """
        with added as (
          insert into triggers
            (instance_id, trigger_id, source_id, provider_event_id, revision, thread_id,
             thread_seq, kind, sender_external_id, sender_member_id, sender_is_bot, strength,
             text, details, replaces_trigger_id, occurred_at, received_at)
          values
            (%(instance)s, %(trigger)s, %(source)s, %(event)s, %(revision)s, %(thread)s,
             %(seq)s, %(kind)s, %(sender)s, %(member)s, %(bot)s, %(strength)s,
             %(text)s, %(details)s, %(replaces)s, %(occurred)s, farhand_now())
          on conflict (instance_id, source_id, provider_event_id, revision) do nothing
          returning thread_id
        )
        update threads t set next_seq = t.next_seq + 1
          from added
         where t.instance_id = %(instance)s and t.thread_id = added.thread_id
        """,
        {
            "instance": instance_id,
            "trigger": trigger_id,
            "source": new.source_id,
            "event": new.provider_event_id,
            "revision": new.revision,
            "thread": thread.thread_id,
            "seq": thread.next_seq,
            "kind": new.kind,
            "sender": new.sender_external_id,
            "member": new.sender_member_id,
            "bot": new.sender_is_bot,
            "strength": new.strength,
            "text": new.text,
            "details": Jsonb(dict(new.details)),
            "replaces": new.replaces_trigger_id,
            "occurred": new.occurred_at,
        },
    )
    return trigger_id if cursor.rowcount == 1 else None
