"""Calls from the replica that a client reached to the one that holds a machine's link.

Rows carry them, notifications only wake: the caller puts a call, the holder answers it, the caller
takes the answer and removes the row.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from psycopg.types.json import Jsonb

from farhand_control_plane.db.listen import INPUTS
from farhand_control_plane.db.transaction import Tx
from farhand_shared.ids import AttemptId, InstanceId, new_id

ABANDONED_S: Final = 600.0  # a caller that died asks no more


@dataclass(frozen=True, slots=True, kw_only=True)
class InputCall:
    instance_id: InstanceId
    call_id: str
    attempt_id: AttemptId
    request: dict[str, Any]  # as the caller wrote it
    data: bytes


async def put(
    tx: Tx,
    instance_id: InstanceId,
    attempt_id: AttemptId,
    request: Mapping[str, Any],
    data: bytes,
) -> str:
    """Make a call, wake whoever may answer it, and return its id; drops what was abandoned."""
    call_id = new_id()
    await tx.execute(
        "delete from input_calls where created_at < farhand_now() - make_interval(secs => %s)",
        (ABANDONED_S,),
    )
    await tx.execute(
        """
        insert into input_calls (instance_id, call_id, attempt_id, request, data)
        values (%s, %s, %s, %s, %s)
        """,
        (instance_id, call_id, attempt_id, Jsonb(dict(request)), data),
    )
    await tx.execute("select pg_notify(%s, %s)", (INPUTS, f"{attempt_id} {call_id}"))
    return call_id


async def get(tx: Tx, call_id: str) -> InputCall | None:
    """Return a call that waits for its answer; None when somebody gave it, or nobody waits."""
    cursor = await tx.execute(
        """
        select instance_id, call_id, attempt_id, request, data
          from input_calls
         where call_id = %s and answer is null
        """,
        (call_id,),
    )
    row = await cursor.fetchone()
    return None if row is None else InputCall(**{**row, "data": bytes(row["data"])})


async def answer(tx: Tx, instance_id: InstanceId, call_id: str, answer: Mapping[str, Any]) -> None:
    """Answer a call and wake its caller; the first answer counts."""
    await tx.execute(
        """
        with answered as (
          update input_calls set answer = %s
           where instance_id = %s and call_id = %s and answer is null
          returning call_id
        )
        select pg_notify(%s, call_id::text) from answered
        """,
        (Jsonb(dict(answer)), instance_id, call_id, INPUTS),
    )


async def take_answer(tx: Tx, instance_id: InstanceId, call_id: str) -> dict[str, Any] | None:
    """Return the answer of a call and remove it; None while there is none."""
    cursor = await tx.execute(
        """
        delete from input_calls
         where instance_id = %s and call_id = %s and answer is not null
        returning answer
        """,
        (instance_id, call_id),
    )
    row = await cursor.fetchone()
    return None if row is None else row["answer"]


async def withdraw(tx: Tx, instance_id: InstanceId, call_id: str) -> None:
    """Remove a call that nobody waits for any more."""
    await tx.execute(
        "delete from input_calls where instance_id = %s and call_id = %s", (instance_id, call_id)
    )
