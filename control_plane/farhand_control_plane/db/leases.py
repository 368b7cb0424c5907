"""Who steps which session: claims, leases and the fence. The engine alone calls this.

A claim raises the session's generation, and every later write of that claim checks it. The check
takes a lock on the session's row that lasts until commit, so a claim by somebody else (which skips
locked rows) cannot fall between the check and the write.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from farhand_control_plane.db.listen import SESSIONS
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import SessionKind
from farhand_shared.ids import InstanceId, ReplicaId, SessionId, TicketId


class FenceLost(Exception):
    """The session was claimed by another replica, or it ended: this claim may write nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to step one session while the lease is renewed and nobody claims it after us."""

    instance_id: InstanceId
    session_id: SessionId
    kind: SessionKind
    ticket_id: TicketId | None
    generation: int
    owner: ReplicaId
    resumes_charged: int  # steps of this session that ended badly since its last progress
    next_item_seq: int
    error: str | None  # how the last of those steps ended


async def claim(
    tx: Tx, owner: ReplicaId, kinds: Sequence[SessionKind], *, limit: int, lease_s: float
) -> list[Claim]:
    """Lease up to ``limit`` sessions that have work, oldest first; locked rows are skipped.

    ``ready_at`` stays until the release. In the future it is a back-off. A lapsed lease means that
    its owner died, and ``ready_at`` was kept for this moment; taking over is charged.
    """
    cursor = await tx.execute(
        """
        with due as (
          select instance_id, session_id, lease_until is not null as resumed
          from sessions
          where ended_at is null and tombstoned_at is null and kind = any(%(kinds)s)
            and ((lease_until is null and ready_at <= farhand_now())
                 or (lease_until is null and wake_at <= farhand_now())
                 or lease_until < farhand_now())
          order by coalesce(ready_at, wake_at, lease_until)
          limit %(limit)s
          for update skip locked
        )
        update sessions s
        set lease_owner = %(owner)s,
            lease_until = farhand_now() + %(lease_s)s * interval '1 second',
            generation = s.generation + 1,
            wake_at = null,
            resumes_charged = s.resumes_charged + due.resumed::int
        from due
        where s.instance_id = due.instance_id and s.session_id = due.session_id
        returning s.instance_id, s.session_id, s.kind, s.ticket_id, s.generation,
                  s.lease_owner as owner, s.resumes_charged, s.next_item_seq,
                  s.error
        """,
        {"kinds": [*kinds], "limit": limit, "owner": owner, "lease_s": lease_s},
    )
    return [Claim(**{**row, "kind": SessionKind(row["kind"])}) for row in await cursor.fetchall()]


async def due_in(tx: Tx, kinds: Sequence[SessionKind]) -> float | None:
    """Return the seconds until some session can be claimed (0: one is due now); None for never."""
    cursor = await tx.execute(
        """
        select extract(epoch from min(at) - farhand_now())::float8 as due_s
        from (
          select min(ready_at) as at from sessions
          where ready_at is not null and lease_until is null
            and ended_at is null and tombstoned_at is null and kind = any(%(kinds)s)
          union all
          select min(wake_at) from sessions
          where wake_at is not null and lease_until is null
            and ended_at is null and tombstoned_at is null and kind = any(%(kinds)s)
          union all
          select min(lease_until) from sessions
          where lease_until is not null
            and ended_at is null and tombstoned_at is null and kind = any(%(kinds)s)
        ) times
        """,
        {"kinds": [*kinds]},
    )
    row = await cursor.fetchone()
    return None if row is None or row["due_s"] is None else max(0.0, row["due_s"])


async def renew(
    tx: Tx, owner: ReplicaId, held: Sequence[Claim], *, lease_s: float
) -> set[SessionId]:
    """Extend the leases of ``held`` and return the sessions that are still this owner's.

    A row that is locked at this moment is left for the next round: the lease outlasts three.
    """
    keys = {
        "owner": owner,
        "lease_s": lease_s,
        "sessions": [claim.session_id for claim in held],
        "generations": [claim.generation for claim in held],
    }
    await tx.execute(
        """
        with held as (
          select s.instance_id, s.session_id
          from unnest(%(sessions)s::uuid[], %(generations)s::bigint[]) h(session_id, generation)
          join sessions s using (session_id, generation)
          where s.lease_owner = %(owner)s
          for no key update of s skip locked
        )
        update sessions s
        set lease_until = farhand_now() + %(lease_s)s * interval '1 second'
        from held
        where s.instance_id = held.instance_id and s.session_id = held.session_id
        """,
        keys,
    )
    cursor = await tx.execute(
        """
        select session_id
        from unnest(%(sessions)s::uuid[], %(generations)s::bigint[]) h(session_id, generation)
        join sessions s using (session_id, generation)
        where s.lease_owner = %(owner)s
        """,
        keys,
    )
    return {SessionId(row["session_id"]) for row in await cursor.fetchall()}


async def fence(tx: Tx, held: Claim) -> None:
    """Prove that the claim still holds, until this transaction ends. Raises FenceLost.

    The lock (FOR KEY SHARE) keeps claims and ``sessions.end`` out and lets messages in, so that two
    sessions that write to each other at the same time do not wait in a circle.
    """
    cursor = await tx.execute(
        """
        select 1 from sessions
        where instance_id = %(instance)s and session_id = %(session)s
          and generation = %(generation)s and lease_owner = %(owner)s and ended_at is null
        for key share
        """,
        _keys(held),
    )
    _expect_one(cursor.rowcount, held)


async def lock(tx: Tx, held: Claim) -> None:
    """The same, and no message can arrive meanwhile: what the inbox shows is all there is."""
    cursor = await tx.execute(
        """
        select 1 from sessions
        where instance_id = %(instance)s and session_id = %(session)s
          and generation = %(generation)s and lease_owner = %(owner)s and ended_at is null
        for no key update
        """,
        _keys(held),
    )
    _expect_one(cursor.rowcount, held)


async def progressed(tx: Tx, held: Claim, *, next_item_seq: int) -> None:
    """Store how far the log goes; the session is well, so nothing is charged to it any more."""
    cursor = await tx.execute(
        """
        update sessions
        set next_item_seq = %(next)s, resumes_charged = 0, error = null
        where instance_id = %(instance)s and session_id = %(session)s
          and generation = %(generation)s and lease_owner = %(owner)s
        """,
        {**_keys(held), "next": next_item_seq},
    )
    _expect_one(cursor.rowcount, held)


async def release(tx: Tx, held: Claim, *, wake: bool) -> None:
    """Give the session back with nothing left to do.

    With ``wake`` it sleeps until the first of its waiting calls runs out of patience.
    """
    cursor = await tx.execute(
        """
        update sessions
        set lease_owner = null, lease_until = null, ready_at = null, resumes_charged = 0,
            error = null,
            wake_at = case when %(wake)s then (
              select min(wait_until) from tool_calls c
              where c.instance_id = %(instance)s and c.session_id = %(session)s
                and c.state = 'waiting') end
        where instance_id = %(instance)s and session_id = %(session)s
          and generation = %(generation)s and lease_owner = %(owner)s
        """,
        {**_keys(held), "wake": wake},
    )
    _expect_one(cursor.rowcount, held)


async def put_back(
    tx: Tx, held: Claim, *, in_s: float, error: str | None = None, charged: bool = False
) -> None:
    """Give the session back with work left: anyone may claim it after ``in_s`` seconds.

    ``error`` is shown to people until the session makes progress; ``charged`` counts the failure.
    """
    cursor = await tx.execute(
        """
        with given_back as (
          update sessions
          set lease_owner = null, lease_until = null,
              ready_at = farhand_now() + %(in_s)s * interval '1 second',
              resumes_charged = resumes_charged + %(charge)s,
              error = coalesce(%(error)s, error)
          where instance_id = %(instance)s and session_id = %(session)s
          and generation = %(generation)s and lease_owner = %(owner)s and ended_at is null
          returning session_id
        )
        select pg_notify(%(channel)s, '') from given_back
        """,
        {
            **_keys(held),
            "in_s": in_s,
            "charge": int(charged),
            "error": error,
            "channel": SESSIONS,
        },
    )
    _expect_one(cursor.rowcount, held)


async def tombstone(tx: Tx, held: Claim, reason: str) -> None:
    """Stop stepping the session until a person revives it; its messages stay."""
    cursor = await tx.execute(
        """
        update sessions
        set lease_owner = null, lease_until = null, ready_at = null, wake_at = null,
            tombstoned_at = farhand_now(), error = %(reason)s
        where instance_id = %(instance)s and session_id = %(session)s
          and generation = %(generation)s and lease_owner = %(owner)s
        """,
        {**_keys(held), "reason": reason},
    )
    _expect_one(cursor.rowcount, held)


def _keys(held: Claim) -> dict[str, str | int]:
    return {
        "instance": held.instance_id,
        "session": held.session_id,
        "generation": held.generation,
        "owner": held.owner,
    }


def _expect_one(rows: int, held: Claim) -> None:
    if rows != 1:
        raise FenceLost(f"session {held.session_id} is not at generation {held.generation}")
