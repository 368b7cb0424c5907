"""Sessions and their inboxes, as everybody but the engine uses them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from farhand_control_plane.db.listen import SESSIONS
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import SessionKind
from farhand_shared.errors import NotFound
from farhand_shared.ids import InstanceId, SessionId, TicketId, new_id


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """A session for display. ``pending`` counts what waits in its inbox, parked apart."""

    session_id: SessionId
    kind: SessionKind
    ticket_id: TicketId | None
    ready_at: datetime | None
    running: bool  # some replica holds a live lease
    tombstoned_at: datetime | None
    ended_at: datetime | None
    error: str | None
    pending: int
    parked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemView:
    """One entry of a session's log for display."""

    item_seq: int
    kind: str
    payload: dict[str, Any]  # its shape belongs to the agent
    created_at: datetime


async def create(
    tx: Tx, instance_id: InstanceId, kind: SessionKind, *, ticket_id: TicketId | None = None
) -> SessionId:
    """Make a session that sleeps until its first message; returns its id."""
    session_id = SessionId(new_id())
    await tx.execute(
        """
        insert into sessions (instance_id, session_id, kind, ticket_id)
        values (%s, %s, %s, %s)
        """,
        (instance_id, session_id, kind.value, ticket_id),
    )
    return session_id


async def append(
    tx: Tx,
    instance_id: InstanceId,
    session_id: SessionId,
    *,
    kind: str,
    dedupe_key: str,
    payload: dict[str, Any],
    wakes: bool = True,
) -> bool:
    """Put one message into a session's inbox; False when its ``dedupe_key`` is there already.

    Locks the session's row until commit, always and before the insert: messages are then numbered
    in the order of their commits, and a release that runs at the same moment either sees the
    message or is seen by it. Wakes an idle session at commit. A session that has ended keeps the
    message and does not wake. Raises NotFound for a session the instance does not have.
    """
    cursor = await tx.execute(
        """
        select ready_at is null and ended_at is null and tombstoned_at is null as idle
        from sessions
        where instance_id = %s and session_id = %s
        for no key update
        """,
        (instance_id, session_id),
    )
    session = await cursor.fetchone()
    if session is None:
        raise NotFound(f"cannot write to session {session_id}: there is no such session")
    cursor = await tx.execute(
        """
        with stored as (
          insert into inbox
            (instance_id, session_id, kind, dedupe_key, wakes, payload, created_at)
          values (%(instance)s, %(session)s, %(kind)s, %(dedupe)s, %(wakes)s, %(payload)s,
                  farhand_now())
          on conflict (instance_id, session_id, dedupe_key) do nothing
          returning seq
        ), woken as (
          update sessions s set ready_at = farhand_now()
          from stored
          where s.instance_id = %(instance)s and s.session_id = %(session)s
            and %(wakes)s and %(idle)s
          returning s.session_id
        )
        select (select count(*) from stored) as stored,
               (select count(pg_notify(%(channel)s, '')) from woken) as woken
        """,
        {
            "instance": instance_id,
            "session": session_id,
            "kind": kind,
            "dedupe": dedupe_key,
            "wakes": wakes,
            "payload": Jsonb(payload),
            "idle": session["idle"],
            "channel": SESSIONS,
        },
    )
    row = await cursor.fetchone()
    return row is not None and row["stored"] == 1


async def forget_old_messages(tx: Tx, kept_s: float) -> int:
    """Delete messages older than ``kept_s`` that nobody asks for again; return how many.

    Those of sessions that ended that long ago, and what the resident Router has taken. A worker's
    stay while it lives: what its ticket has read is known by them.
    """
    cursor = await tx.execute(
        """
        with cutoff as (select farhand_now() - make_interval(secs => %s) as at)
        delete from inbox i
         using sessions s, cutoff
         where s.instance_id = i.instance_id and s.session_id = i.session_id
           and i.created_at < cutoff.at
           and (s.ended_at < cutoff.at
                or (s.kind = 'router' and i.consumed_by_seq is not null))
        """,
        (kept_s,),
    )
    return cursor.rowcount


async def end(tx: Tx, instance_id: InstanceId, session_id: SessionId) -> bool:
    """End a session for good; False when it had ended already.

    Waits for the transaction a step has open at this moment; every later write of that step fails
    and changes nothing. So call this first, and then look for what the session has started.
    """
    # FOR UPDATE, because a step's transactions hold FOR KEY SHARE.
    await tx.execute(
        "select 1 from sessions where instance_id = %s and session_id = %s for update",
        (instance_id, session_id),
    )
    cursor = await tx.execute(
        """
        update sessions
        set ended_at = farhand_now(), ready_at = null, wake_at = null,
            lease_owner = null, lease_until = null, generation = generation + 1
        where instance_id = %s and session_id = %s and ended_at is null
        """,
        (instance_id, session_id),
    )
    return cursor.rowcount == 1


async def revive(tx: Tx, instance_id: InstanceId, session_id: SessionId) -> bool:
    """Let a tombstoned session try again; False when it is not a tombstone."""
    cursor = await tx.execute(
        """
        with revived as (
          update sessions
          set tombstoned_at = null, error = null, resumes_charged = 0, ready_at = farhand_now()
          where instance_id = %s and session_id = %s
            and tombstoned_at is not null and ended_at is null
          returning session_id
        )
        select pg_notify(%s, '') from revived
        """,
        (instance_id, session_id, SESSIONS),
    )
    return await cursor.fetchone() is not None


async def router_of(tx: Tx, instance_id: InstanceId) -> SessionId:
    """Return the instance's Router session. Raises NotFound before ``ensure_instance`` ran."""
    cursor = await tx.execute(
        """
        select session_id from sessions
        where instance_id = %s and kind = 'router' and shard_key = ''
        """,
        (instance_id,),
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound(f"cannot find the router of instance {instance_id}: set the instance up")
    return SessionId(row["session_id"])


async def get(tx: Tx, instance_id: InstanceId, session_id: SessionId) -> SessionView | None:
    """Return one session for display; None when the instance does not have it."""
    cursor = await tx.execute(
        """
        select s.session_id, s.kind, s.ticket_id, s.ready_at,
               coalesce(s.lease_until > farhand_now(), false) as running,
               s.tombstoned_at, s.ended_at, s.error,
               count(i.seq) filter (where i.consumed_by_seq is null and i.parked_at is null)
                 as pending,
               count(i.seq) filter (where i.parked_at is not null) as parked
        from sessions s
        left join inbox i using (instance_id, session_id)
        where s.instance_id = %s and s.session_id = %s
        group by s.instance_id, s.session_id
        """,
        (instance_id, session_id),
    )
    row = await cursor.fetchone()
    return None if row is None else SessionView(**{**row, "kind": SessionKind(row["kind"])})


async def items(
    tx: Tx, instance_id: InstanceId, session_id: SessionId, *, after: int = 0, limit: int = 500
) -> Sequence[ItemView]:
    """Return entries of the log with a higher number than ``after``, oldest first."""
    cursor = await tx.execute(
        """
        select item_seq, kind, payload, created_at
        from items
        where instance_id = %s and session_id = %s and item_seq > %s
        order by item_seq
        limit %s
        """,
        (instance_id, session_id, after, limit),
    )
    return [ItemView(**row) for row in await cursor.fetchall()]
