"""Evals as rows: opened, locked, closed, and what waits behind one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg.types.json import Jsonb

from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import EvalState, Strength, Verdict
from farhand_shared.ids import (
    EvalId,
    InstanceId,
    MemberId,
    SessionId,
    ThreadId,
    TicketId,
    TriggerId,
    is_id,
    new_id,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedEval:
    """An Eval whose row, and whose Thread's row, are locked until commit."""

    eval_id: EvalId
    thread_id: ThreadId
    state: EvalState
    strength: Strength
    requester_member_id: MemberId | None
    last_seq_seen: int
    gate: Mapping[str, Any]
    verdict: Verdict | None
    attached_ticket_id: TicketId | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A Trigger that nobody has taken yet, with the Eval that waits over it, if there is one."""

    trigger_id: TriggerId
    eval_id: EvalId | None


async def open_eval(
    tx: Tx,
    instance_id: InstanceId,
    thread_id: ThreadId,
    trigger_ids: Sequence[TriggerId],
    *,
    strength: Strength,
    requester_member_id: MemberId | None,
    policy_version: int,
    last_seq_seen: int,
    gate: Mapping[str, Any],
) -> EvalId:
    """Make a pending Eval over a Thread's Triggers. Tells nobody."""
    eval_id = EvalId(new_id())
    await tx.execute(
        """
        insert into evals
          (instance_id, eval_id, thread_id, state, strength, requester_member_id, policy_version,
           last_seq_seen, gate, created_at)
        values (%s, %s, %s, 'pending', %s, %s, %s, %s, %s, farhand_now())
        """,
        (
            instance_id,
            eval_id,
            thread_id,
            strength.value,
            requester_member_id,
            policy_version,
            last_seq_seen,
            Jsonb(dict(gate)),
        ),
    )
    await tx.execute(
        """
        insert into eval_triggers (instance_id, eval_id, trigger_id)
        select %s, %s, unnest(%s::uuid[])
        """,
        (instance_id, eval_id, list(trigger_ids)),
    )
    return eval_id


async def lock_eval(tx: Tx, instance_id: InstanceId, eval_id: EvalId) -> LockedEval | None:
    """Return an Eval, its Thread locked first, then itself; None when absent."""
    if not is_id(eval_id):
        return None
    await tx.execute(
        """
        select from threads
         where instance_id = %(instance)s
           and thread_id = (select thread_id from evals
                             where instance_id = %(instance)s and eval_id = %(eval)s)
           for no key update
        """,
        {"instance": instance_id, "eval": eval_id},
    )
    cursor = await tx.execute(
        """
        select eval_id, thread_id, state, strength, requester_member_id, last_seq_seen, gate,
               verdict, attached_ticket_id, reason
          from evals
         where instance_id = %s and eval_id = %s
           for no key update
        """,
        (instance_id, eval_id),
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    return LockedEval(
        **{
            **row,
            "state": EvalState(row["state"]),
            "strength": Strength(row["strength"]),
            "verdict": None if row["verdict"] is None else Verdict(row["verdict"]),
        }
    )


async def close_eval(
    tx: Tx,
    instance_id: InstanceId,
    eval_id: EvalId,
    verdict: Verdict,
    *,
    reason: str = "",
    ticket_id: TicketId | None = None,
) -> bool:
    """Write the verdict; False when the Eval was closed before. ``ticket_id``: what it concerns."""
    cursor = await tx.execute(
        """
        update evals
           set state = 'closed', verdict = %s, reason = %s, attached_ticket_id = %s,
               closed_at = farhand_now(), lease_until = null
         where instance_id = %s and eval_id = %s and state <> 'closed'
        """,
        (verdict.value, reason, ticket_id, instance_id, eval_id),
    )
    return cursor.rowcount == 1


async def untaken(
    tx: Tx, instance_id: InstanceId, thread_id: ThreadId, from_seq: int, router: SessionId
) -> list[Waiting]:
    """Return a Thread's Triggers from a number on that nobody has judged, read or received.

    Those with a pending Eval count while the Router's session has not read it: what the Router
    has read it decides itself, and nothing is handled twice.
    """
    cursor = await tx.execute(
        """
        select tr.trigger_id, ev.eval_id
          from triggers tr
          left join eval_triggers et
            on et.instance_id = tr.instance_id and et.trigger_id = tr.trigger_id
          left join evals ev on ev.instance_id = et.instance_id and ev.eval_id = et.eval_id
         where tr.instance_id = %(instance)s and tr.thread_id = %(thread)s
           and tr.thread_seq >= %(from)s
           and not exists (select from deliveries d
                            where d.instance_id = tr.instance_id and d.trigger_id = tr.trigger_id)
           and (ev.eval_id is null
                or (ev.state = 'pending'
                    and exists (select from inbox i
                                 where i.instance_id = ev.instance_id and i.session_id = %(router)s
                                   and i.dedupe_key = 'eval:' || ev.eval_id
                                   and i.consumed_by_seq is null)))
         order by tr.thread_seq
        """,
        {"instance": instance_id, "thread": thread_id, "from": from_seq, "router": router},
    )
    return [Waiting(**row) for row in await cursor.fetchall()]
