"""A session's log, its calls and its inbox, as the engine reads and writes them.

Nothing here checks the fence: each function runs in a transaction that ``leases.fence`` or
``leases.lock`` has opened.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from farhand_control_plane.db.leases import Claim
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import ToolCallState
from farhand_shared.ids import new_id

Json = dict[str, Any]  # its shape belongs to the agents


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredItem:
    item_seq: int
    kind: str
    payload: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    seq: int
    kind: str
    dedupe_key: str
    wakes: bool
    payload: Json
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCall:
    """``result`` is what the model reads; of a waiting call, what it reads if nothing comes."""

    item_seq: int
    call_index: int
    call_id: str
    name: str
    arguments: Json
    state: ToolCallState
    waits_for: str | None
    expired: bool  # its wait is over
    result: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCall:
    call_index: int
    call_id: str
    name: str
    arguments: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    model: str
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    price_micros: int


async def items(tx: Tx, held: Claim) -> list[StoredItem]:
    """Return the whole log, oldest first."""
    cursor = await tx.execute(
        """
        select item_seq, kind, payload from items
        where instance_id = %s and session_id = %s
        order by item_seq
        """,
        (held.instance_id, held.session_id),
    )
    return [StoredItem(**row) for row in await cursor.fetchall()]


async def add_item(tx: Tx, held: Claim, item: StoredItem) -> None:
    """Append one entry; its number is the caller's, who holds the claim."""
    await tx.execute(
        """
        insert into items (instance_id, session_id, item_seq, kind, payload, generation)
        values (%s, %s, %s, %s, %s, %s)
        """,
        (
            held.instance_id,
            held.session_id,
            item.item_seq,
            item.kind,
            Jsonb(item.payload),
            held.generation,
        ),
    )


async def pending(tx: Tx, held: Claim, *, limit: int) -> list[StoredMessage]:
    """Return the oldest messages that nobody took, digest entries included."""
    cursor = await tx.execute(
        """
        select seq, kind, dedupe_key, wakes, payload, created_at from inbox
        where instance_id = %s and session_id = %s
          and consumed_by_seq is null and parked_at is null
        order by seq
        limit %s
        """,
        (held.instance_id, held.session_id, limit),
    )
    return [StoredMessage(**row) for row in await cursor.fetchall()]


async def pending_by_key(
    tx: Tx, held: Claim, dedupe_keys: Sequence[str]
) -> dict[str, StoredMessage]:
    """Return those of the named messages that have arrived and that nobody took."""
    cursor = await tx.execute(
        """
        select seq, kind, dedupe_key, wakes, payload, created_at from inbox
        where instance_id = %s and session_id = %s and dedupe_key = any(%s)
          and consumed_by_seq is null and parked_at is null
        """,
        (held.instance_id, held.session_id, [*dedupe_keys]),
    )
    return {row["dedupe_key"]: StoredMessage(**row) for row in await cursor.fetchall()}


async def has_waking(tx: Tx, held: Claim, *, besides: Sequence[str] = ()) -> bool:
    """Tell whether a message waits that wakes the session, other than those named."""
    cursor = await tx.execute(
        """
        select exists (
          select from inbox
          where instance_id = %s and session_id = %s
            and consumed_by_seq is null and parked_at is null
            and wakes and dedupe_key <> all(%s)
        ) as found
        """,
        (held.instance_id, held.session_id, [*besides]),
    )
    row = await cursor.fetchone()
    return row is not None and bool(row["found"])


async def consume(tx: Tx, held: Claim, seqs: Sequence[int], *, by_seq: int) -> None:
    """Mark exactly these messages as taken by item ``by_seq``."""
    cursor = await tx.execute(
        """
        update inbox set consumed_by_seq = %s
        where instance_id = %s and session_id = %s and seq = any(%s)
          and consumed_by_seq is null
        """,
        (by_seq, held.instance_id, held.session_id, [*seqs]),
    )
    if cursor.rowcount != len(seqs):
        # Under the fence nobody else consumes: this is a fault of the engine, never a lost race.
        raise AssertionError(f"{len(seqs) - cursor.rowcount} messages were consumed twice")


async def park(tx: Tx, held: Claim, seq: int) -> None:
    """Set a message aside for a person."""
    await tx.execute(
        """
        update inbox set parked_at = farhand_now()
        where instance_id = %s and session_id = %s and seq = %s and consumed_by_seq is null
        """,
        (held.instance_id, held.session_id, seq),
    )


async def intend(tx: Tx, held: Claim, item_seq: int, calls: Sequence[NewCall]) -> None:
    """Store the calls of an assistant item, none of them carried out yet."""
    for call in calls:
        await tx.execute(
            """
            insert into tool_calls
              (instance_id, session_id, item_seq, call_index, call_id, name, arguments, state)
            values (%s, %s, %s, %s, %s, %s, %s, 'intended')
            """,
            (
                held.instance_id,
                held.session_id,
                item_seq,
                call.call_index,
                call.call_id,
                call.name,
                Jsonb(call.arguments),
            ),
        )


async def calls_of(tx: Tx, held: Claim, item_seq: int) -> list[StoredCall]:
    """Return the calls of one assistant item in their order."""
    cursor = await tx.execute(
        """
        select item_seq, call_index, call_id, name, arguments, state, waits_for,
               coalesce(wait_until <= farhand_now(), false) as expired,
               result
        from tool_calls
        where instance_id = %s and session_id = %s and item_seq = %s
        order by call_index
        """,
        (held.instance_id, held.session_id, item_seq),
    )
    return [
        StoredCall(
            item_seq=row["item_seq"],
            call_index=row["call_index"],
            call_id=row["call_id"],
            name=row["name"],
            arguments=row["arguments"],
            state=ToolCallState(row["state"]),
            waits_for=row["waits_for"],
            expired=row["expired"],
            result=row["result"]["content"] if row["result"] else None,
        )
        for row in await cursor.fetchall()
    ]


async def finish_call(tx: Tx, held: Claim, call: StoredCall, content: str) -> None:
    """Give an open call its result."""
    await tx.execute(
        """
        update tool_calls set state = 'done', result = %s, done_at = farhand_now()
        where instance_id = %s and session_id = %s and item_seq = %s and call_index = %s
          and state <> 'done'
        """,
        (Jsonb({"content": content}), *_key(held, call)),
    )


async def let_wait(
    tx: Tx, held: Claim, call: StoredCall, *, waits_for: str, wait_s: float, otherwise: str
) -> None:
    """Let a call wait for a message; ``otherwise`` becomes its result if none comes in time."""
    await tx.execute(
        """
        update tool_calls
        set state = 'waiting', waits_for = %s, result = %s,
            wait_until = farhand_now() + %s * interval '1 second'
        where instance_id = %s and session_id = %s and item_seq = %s and call_index = %s
          and state = 'intended'
        """,
        (waits_for, Jsonb({"content": otherwise}), wait_s, *_key(held, call)),
    )


async def record_usage(tx: Tx, held: Claim, used: ModelCall) -> None:
    """Add one model call to the ledger."""
    await tx.execute(
        """
        insert into usage
          (instance_id, usage_id, session_id, ticket_id, model, prompt_tokens, cached_tokens,
           output_tokens, price_micros)
        values (%s, %s, %s, %s, %s, %s, %s, %s, %s)
        """,
        (
            held.instance_id,
            new_id(),
            held.session_id,
            held.ticket_id,
            used.model,
            used.prompt_tokens,
            used.cached_tokens,
            used.output_tokens,
            used.price_micros,
        ),
    )


def _key(held: Claim, call: StoredCall) -> tuple[str, str, int, int]:
    return held.instance_id, held.session_id, call.item_seq, call.call_index
