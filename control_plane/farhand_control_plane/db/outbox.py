"""Outward effects: stored before they are tried, claimed, settled."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from farhand_control_plane.db import members
from farhand_control_plane.db.listen import OUTBOX
from farhand_control_plane.db.mandates import current_policy
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.authority import check_may_answer
from farhand_control_plane.domain.outbox import CLAIM_S, OutboxEvent, Settlement, step
from farhand_control_plane.domain.words import OutboxState
from farhand_shared.errors import NotFound
from farhand_shared.ids import (
    CommandId,
    InstanceId,
    MemberId,
    OutboxId,
    QuestionId,
    ReportId,
    ThreadId,
    TicketId,
    TriggerId,
    is_id,
    new_id,
)

_ROW = """
    o.outbox_id, o.instance_id, o.thread_id, o.ticket_id, o.reply_to_trigger_id, o.kind, o.body,
    o.idempotency_key, o.state, o.tries, o.error, o.created_at, o.sent_at
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxView:
    """An outward effect. ``text`` is prose; the output of ``command_ids`` is rendered by code."""

    outbox_id: OutboxId
    instance_id: InstanceId
    thread_id: ThreadId
    ticket_id: TicketId | None
    reply_to_trigger_id: TriggerId | None
    kind: str  # acknowledgement, reply, question
    text: str
    command_ids: tuple[CommandId, ...]
    report_id: ReportId | None
    question_id: QuestionId | None
    idempotency_key: str
    state: OutboxState
    tries: int
    error: str | None
    created_at: datetime
    sent_at: datetime | None


async def enqueue(
    tx: Tx,
    instance_id: InstanceId,
    thread_id: ThreadId,
    *,
    kind: str,
    text: str,
    idempotency_key: str,
    command_ids: Sequence[CommandId] = (),
    ticket_id: TicketId | None = None,
    reply_to_trigger_id: TriggerId | None = None,
    report_id: ReportId | None = None,
    question_id: QuestionId | None = None,
    draft: bool = False,
) -> OutboxId:
    """Store an effect, due at once unless it is a draft; the same key is the same effect."""
    body: dict[str, Any] = {
        "text": text,
        "command_ids": list(command_ids),
        "report_id": report_id,
        "question_id": question_id,
    }
    cursor = await tx.execute(
        """
        insert into outbox
          (instance_id, outbox_id, thread_id, ticket_id, reply_to_trigger_id, kind, body,
           idempotency_key, state, next_try_at, created_at)
        values (%s, %s, %s, %s, %s, %s, %s, %s, %s, farhand_now(), farhand_now())
        on conflict (instance_id, idempotency_key) do nothing
        returning outbox_id, pg_notify(%s, '')
        """,
        (
            instance_id,
            new_id(),
            thread_id,
            ticket_id,
            reply_to_trigger_id,
            kind,
            Jsonb(body),
            idempotency_key,
            (OutboxState.DRAFT if draft else OutboxState.READY).value,
            OUTBOX,
        ),
    )
    row = await cursor.fetchone()
    if row is None:
        cursor = await tx.execute(
            "select outbox_id from outbox where instance_id = %s and idempotency_key = %s",
            (instance_id, idempotency_key),
        )
        row = await cursor.fetchone()
    if row is None:
        raise NotFound(f"cannot find outbox row {idempotency_key!r}: it was removed")
    return OutboxId(row["outbox_id"])


# A row waits while an earlier one of its Thread is on its way; drafts and dead rows hold nobody up.
_FIRST_OF_ITS_THREAD = """
    o.state in ('ready', 'sending', 'unknown')
    and exists (select from threads th
                  join sources so
                    on so.instance_id = th.instance_id and so.source_id = th.source_id
                 where th.instance_id = o.instance_id and th.thread_id = o.thread_id
                   and so.kind = %(kind)s)
    and not exists (select from outbox earlier
                     where earlier.instance_id = o.instance_id
                       and earlier.thread_id = o.thread_id
                       and earlier.thread_position < o.thread_position
                       and earlier.state in ('ready', 'sending', 'unknown'))
"""


async def claim_next(tx: Tx, source_kind: str) -> OutboxView | None:
    """Claim one due row of any instance, for a channel of this kind; None when none is due.

    The view has the state from before: ``ready`` is to be sent and is ``sending`` from now on;
    any other lost its relay or its answer, is to be looked up, and is ``unknown``.
    """
    cursor = await tx.execute(
        f"""
        with due as (
          select o.instance_id, o.outbox_id, o.state
            from outbox o
           where o.next_try_at <= farhand_now() and {_FIRST_OF_ITS_THREAD}
           order by o.next_try_at, o.thread_position
           limit 1
             for no key update of o skip locked
        )
        update outbox o
           set state = case when o.state = 'ready' then 'sending' else 'unknown' end,
               tries = o.tries + 1,
               next_try_at = farhand_now() + %(claim_s)s * interval '1 second'
          from due
         where o.instance_id = due.instance_id and o.outbox_id = due.outbox_id
        returning {_ROW}, due.state as was
        """,  # noqa: S608 - constants of this module
        {"kind": source_kind, "claim_s": CLAIM_S},
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    was = row.pop("was")
    return _view({**row, "state": was})


async def settle(
    tx: Tx,
    row: OutboxView,
    settlement: Settlement,
    *,
    error: str | None = None,
    receipt: dict[str, Any] | None = None,
) -> bool:
    """Write how a try ended; False when the claim had lapsed and somebody else tried since."""
    cursor = await tx.execute(
        """
        update outbox
           set state = %(state)s, error = %(error)s,
               send_result = coalesce(%(receipt)s, send_result),
               sent_at = case when %(state)s = 'sent' then farhand_now() end,
               next_try_at = farhand_now() + %(retry)s * interval '1 second'
         where instance_id = %(instance)s and outbox_id = %(outbox)s
           and state in ('sending', 'unknown') and tries = %(tries)s
        """,
        {
            "state": settlement.state.value,
            "error": error,
            "receipt": None if receipt is None else Jsonb(receipt),
            "retry": settlement.retry_in_s,
            "instance": row.instance_id,
            "outbox": row.outbox_id,
            "tries": row.tries,
        },
    )
    return cursor.rowcount == 1


async def postpone(tx: Tx, row: OutboxView, settlement: Settlement, error: str) -> None:
    """Write that a try of a row that is ready again did not go out: its claim was rolled back."""
    await tx.execute(
        """
        update outbox
           set state = %s, error = %s, tries = tries + 1,
               next_try_at = farhand_now() + %s * interval '1 second'
         where instance_id = %s and outbox_id = %s and state = 'ready'
        """,
        (
            settlement.state.value,
            error,
            settlement.retry_in_s,
            row.instance_id,
            row.outbox_id,
        ),
    )


async def next_due_s(tx: Tx, source_kind: str) -> float | None:
    """Return the seconds until some row of this kind is due (0: now); None when none is planned."""
    cursor = await tx.execute(
        f"""
        select extract(epoch from min(o.next_try_at) - farhand_now())::float8 as due_s
          from outbox o
         where {_FIRST_OF_ITS_THREAD}
        """,  # noqa: S608 - a constant of this module
        {"kind": source_kind},
    )
    row = await cursor.fetchone()
    return None if row is None or row["due_s"] is None else max(0.0, float(row["due_s"]))


async def get(tx: Tx, instance_id: InstanceId, outbox_id: OutboxId) -> OutboxView | None:
    """Return one row; None when this instance has none of that id."""
    if not is_id(outbox_id):
        return None
    cursor = await tx.execute(
        f"select {_ROW} from outbox o"  # noqa: S608 - a constant of this module
        " where o.instance_id = %s and o.outbox_id = %s",
        (instance_id, outbox_id),
    )
    row = await cursor.fetchone()
    return None if row is None else _view(row)


async def list_(
    tx: Tx, instance_id: InstanceId, *, states: Sequence[OutboxState] = (), limit: int = 50
) -> list[OutboxView]:
    """Return the newest rows in the given states (none given: all), newest first."""
    cursor = await tx.execute(
        f"""
        select {_ROW}
          from outbox o
         where o.instance_id = %(instance)s
           and (%(all)s or o.state = any(%(states)s))
         order by o.thread_position desc
         limit %(limit)s
        """,  # noqa: S608 - a constant of this module
        {
            "instance": instance_id,
            "all": not states,
            "states": [state.value for state in states],
            "limit": limit,
        },
    )
    return [_view(row) for row in await cursor.fetchall()]


async def approve(
    tx: Tx, instance_id: InstanceId, outbox_id: OutboxId, member_id: MemberId
) -> None:
    """Let a draft go out as it stands. Raises NotFound, NotAllowed; Conflict when not a draft."""
    await _move(tx, instance_id, outbox_id, member_id, OutboxEvent.APPROVE)


async def discard(
    tx: Tx, instance_id: InstanceId, outbox_id: OutboxId, member_id: MemberId
) -> None:
    """Drop what has not gone out. Raises NotFound, NotAllowed, Conflict."""
    await _move(tx, instance_id, outbox_id, member_id, OutboxEvent.DISCARD)


async def retry(tx: Tx, instance_id: InstanceId, outbox_id: OutboxId, member_id: MemberId) -> None:
    """Try a dead row again: it is looked up first. Raises NotFound, NotAllowed, Conflict."""
    await _move(tx, instance_id, outbox_id, member_id, OutboxEvent.RETRY)


async def has_key(tx: Tx, instance_id: InstanceId, idempotency_key: str) -> bool:
    """Tell whether an effect of that key is stored."""
    cursor = await tx.execute(
        "select 1 from outbox where instance_id = %s and idempotency_key = %s",
        (instance_id, idempotency_key),
    )
    return await cursor.fetchone() is not None


async def discard_unsent(
    tx: Tx,
    instance_id: InstanceId,
    *,
    ticket_id: TicketId | None = None,
    question_ids: Sequence[QuestionId] = (),
) -> None:
    """Drop a Ticket's drafts and questions' rows that nobody has tried yet.

    A row that a relay holds at this moment is left: it goes out.
    """
    await tx.execute(
        """
        with moot as (
          select instance_id, outbox_id from outbox
           where instance_id = %(instance)s
             and ((state = 'draft' and ticket_id = %(ticket)s::uuid)
                  or (state in ('draft', 'ready') and body ->> 'question_id' = any(%(questions)s)))
             for no key update skip locked
        )
        update outbox o set state = 'discarded', next_try_at = null
          from moot
         where o.instance_id = moot.instance_id and o.outbox_id = moot.outbox_id
        """,
        {"instance": instance_id, "ticket": ticket_id, "questions": list(question_ids)},
    )


async def _move(
    tx: Tx, instance_id: InstanceId, outbox_id: OutboxId, member_id: MemberId, event: OutboxEvent
) -> None:
    member = await members.get(tx, instance_id, member_id)
    policy = await current_policy(tx, instance_id)
    check_may_answer(policy.rules, None if member is None else member.role)
    row = None
    if is_id(outbox_id):
        cursor = await tx.execute(
            """
            select state from outbox
             where instance_id = %s and outbox_id = %s
               for no key update
            """,
            (instance_id, outbox_id),
        )
        row = await cursor.fetchone()
    if row is None:
        raise NotFound(f"cannot {event} outbox row {outbox_id!r}: there is none")
    reached = step(OutboxState(row["state"]), event)
    await tx.execute(
        """
        update outbox set state = %s, tries = 0, error = null, next_try_at = farhand_now()
         where instance_id = %s and outbox_id = %s
        """,
        (reached.value, instance_id, outbox_id),
    )
    await tx.execute("select pg_notify(%s, '')", (OUTBOX,))


def _view(row: dict[str, Any]) -> OutboxView:
    body = row.pop("body")
    return OutboxView(
        **{**row, "state": OutboxState(row["state"])},
        text=body["text"],
        command_ids=tuple(body["command_ids"]),
        report_id=body["report_id"],
        question_id=body["question_id"],
    )
