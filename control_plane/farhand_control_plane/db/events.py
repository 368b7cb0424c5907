"""What pages and watchers are told, numbered in the order of commit."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from farhand_control_plane.db.listen import EVENTS
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import EventKind
from farhand_shared.ids import InstanceId, MachineId

_NOTHING: dict[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """``seq`` is the SSE id: within an instance, a later commit has a higher number."""

    seq: int
    kind: str
    subject_id: str | None
    thread_id: str | None
    ticket_id: str | None
    payload: dict[str, Any]  # its shape belongs to the kind
    at: datetime


async def emit(
    tx: Tx,
    instance_id: InstanceId,
    kind: str,
    *,
    subject_id: str | None = None,
    thread_id: str | None = None,
    ticket_id: str | None = None,
    payload: dict[str, Any] = _NOTHING,
) -> int:
    """Store one event and wake the watchers at commit; returns its number.

    ``kind`` is a word of EventKind (else ValueError): pages know no other. Takes the lock of the
    instance's row until commit (that is what makes numbers follow commits), so call it last in a
    transaction.
    """
    cursor = await tx.execute(
        """
        with numbered as (
          update instances set next_event_seq = next_event_seq + 1
          where instance_id = %(instance)s
          returning next_event_seq - 1 as seq
        ), stored as (
          insert into events
            (instance_id, seq, kind, subject_id, thread_id, ticket_id, payload, at)
          select %(instance)s, seq, %(kind)s, %(subject)s, %(thread)s, %(ticket)s, %(payload)s,
                 farhand_now()
          from numbered
          returning seq
        )
        select seq, pg_notify(%(channel)s, (%(instance)s)::text) from stored
        """,
        {
            "instance": instance_id,
            "kind": EventKind(kind).value,
            "subject": subject_id,
            "thread": thread_id,
            "ticket": ticket_id,
            "payload": Jsonb(payload),
            "channel": EVENTS,
        },
    )
    row = await cursor.fetchone()
    if row is None:
        raise LookupError(f"no instance {instance_id}")
    return int(row["seq"])


async def emit_of_machine(
    tx: Tx,
    instance_id: InstanceId,
    kind: EventKind,
    machine_id: MachineId,
    name: str,
    **payload: Any,  # JSON values, as the kind has them
) -> None:
    """Tell what happened to a machine. Call it last in a transaction, like ``emit``."""
    await emit(tx, instance_id, kind, subject_id=machine_id, payload={"machine": name, **payload})


async def read_after(
    tx: Tx,
    instance_id: InstanceId,
    seq: int,
    *,
    thread_id: str | None = None,
    ticket_id: str | None = None,
    limit: int = 500,
) -> list[StoredEvent]:
    """Return up to ``limit`` events with a higher number, oldest first.

    With a thread or a ticket, only theirs; with both, those of either.
    """
    cursor = await tx.execute(
        """
        select seq, kind, subject_id, thread_id, ticket_id, payload, at
        from events
        where instance_id = %(instance)s and seq > %(seq)s
          and ((%(thread)s::uuid is null and %(ticket)s::uuid is null)
               or thread_id = %(thread)s::uuid or ticket_id = %(ticket)s::uuid)
        order by seq
        limit %(limit)s
        """,
        {
            "instance": instance_id,
            "seq": seq,
            "thread": thread_id,
            "ticket": ticket_id,
            "limit": limit,
        },
    )
    return [StoredEvent(**row) for row in await cursor.fetchall()]


async def first_about(tx: Tx, instance_id: InstanceId, subject_id: str) -> int | None:
    """Return the number of the oldest event about something; None when none is kept."""
    cursor = await tx.execute(
        "select min(seq) as seq from events where instance_id = %s and subject_id = %s",
        (instance_id, subject_id),
    )
    row = await cursor.fetchone()
    return row["seq"] if row else None


async def last_seq(tx: Tx, instance_id: InstanceId) -> int:
    """Return the number of the newest committed event, 0 when there is none."""
    cursor = await tx.execute(
        "select coalesce(max(seq), 0) as seq from events where instance_id = %s", (instance_id,)
    )
    row = await cursor.fetchone()
    return int(row["seq"]) if row else 0
