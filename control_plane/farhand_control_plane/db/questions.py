"""Questions to people: asked, listed, settled once."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import QuestionState
from farhand_shared.ids import InstanceId, MemberId, QuestionId, ThreadId, TicketId, is_id

_QUESTION = """
    select question_id, ticket_id, thread_id, text, options, default_option, if_unanswered, state,
           asked_at, answer, answered_by_member_id, settled_at
      from questions
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionView:
    """One concrete question to a person."""

    question_id: QuestionId
    ticket_id: TicketId | None
    thread_id: ThreadId | None
    text: str
    options: tuple[str, ...]
    default_option: str | None
    if_unanswered: str
    state: QuestionState
    asked_at: datetime
    answer: str | None
    answered_by_member_id: MemberId | None
    settled_at: datetime | None


async def ask(
    tx: Tx,
    instance_id: InstanceId,
    question_id: QuestionId,
    *,
    ticket_id: TicketId | None,
    thread_id: ThreadId | None,
    text: str,
    options: Sequence[str] = (),
    default_option: str | None = None,
    if_unanswered: str = "",
) -> bool:
    """Store a pending question under an id of the caller's; False when it is there already."""
    cursor = await tx.execute(
        """
        insert into questions
          (instance_id, question_id, ticket_id, thread_id, text, options, default_option,
           if_unanswered, asked_at)
        values (%s, %s, %s, %s, %s, %s, %s, %s, farhand_now())
        on conflict do nothing
        """,
        (
            instance_id,
            question_id,
            ticket_id,
            thread_id,
            text,
            Jsonb(list(options)),
            default_option,
            if_unanswered,
        ),
    )
    return cursor.rowcount == 1


async def get(tx: Tx, instance_id: InstanceId, question_id: QuestionId) -> QuestionView | None:
    """Return one question; None when this instance has none of that id."""
    return await _one(tx, instance_id, question_id, lock=False)


async def lock(tx: Tx, instance_id: InstanceId, question_id: QuestionId) -> QuestionView | None:
    """Return one question, its row locked until commit: one answer is first."""
    return await _one(tx, instance_id, question_id, lock=True)


async def settle(
    tx: Tx,
    instance_id: InstanceId,
    question_id: QuestionId,
    state: QuestionState,
    *,
    answer: str | None = None,
    member_id: MemberId | None = None,
) -> bool:
    """Settle a pending question; False when it was settled before."""
    cursor = await tx.execute(
        """
        update questions
           set state = %s, answer = %s, answered_by_member_id = %s, settled_at = farhand_now()
         where instance_id = %s and question_id = %s and state = 'pending'
        """,
        (state.value, answer, member_id, instance_id, question_id),
    )
    return cursor.rowcount == 1


async def settle_of_ticket(
    tx: Tx, instance_id: InstanceId, ticket_id: TicketId, state: QuestionState
) -> list[QuestionId]:
    """Settle what a Ticket still asks, unanswered; returns what was settled."""
    cursor = await tx.execute(
        """
        update questions set state = %s, settled_at = farhand_now()
         where instance_id = %s and ticket_id = %s and state = 'pending'
        returning question_id
        """,
        (state.value, instance_id, ticket_id),
    )
    return [row["question_id"] for row in await cursor.fetchall()]


async def open_(
    tx: Tx, instance_id: InstanceId, *, ticket_id: TicketId | None = None
) -> list[QuestionView]:
    """Return pending questions, oldest first: of one Ticket, or of the whole instance.

    Those without a Ticket (a Router's, an event that nobody took) are only in the latter.
    """
    if ticket_id is not None and not is_id(ticket_id):
        return []
    cursor = await tx.execute(
        f"""
        {_QUESTION}
         where instance_id = %(instance)s and state = 'pending'
           and (%(ticket)s::uuid is null or ticket_id = %(ticket)s::uuid)
         order by asked_at, question_id
        """,
        {"instance": instance_id, "ticket": ticket_id},
    )
    return [_view(row) for row in await cursor.fetchall()]


async def settled(tx: Tx, instance_id: InstanceId, ticket_id: TicketId) -> list[QuestionView]:
    """Return what a Ticket asked and does not ask any more, in the order in which that ended."""
    cursor = await tx.execute(
        f"""
        {_QUESTION}
         where instance_id = %s and ticket_id = %s and state <> 'pending'
         order by settled_at, question_id
        """,
        (instance_id, ticket_id),
    )
    return [_view(row) for row in await cursor.fetchall()]


async def open_at(tx: Tx, instance_id: InstanceId, moment: datetime) -> list[QuestionView]:
    """Return the questions that were open at a moment, oldest first, settled since or not."""
    cursor = await tx.execute(
        f"""
        {_QUESTION}
         where instance_id = %(instance)s and asked_at <= %(moment)s
           and (state = 'pending' or settled_at >= %(moment)s)
         order by asked_at, question_id
        """,
        {"instance": instance_id, "moment": moment},
    )
    return [_view(row) for row in await cursor.fetchall()]


async def of_ids(
    tx: Tx, instance_id: InstanceId, question_ids: Sequence[QuestionId]
) -> list[QuestionView]:
    """Return those of these questions that this instance has, settled or not."""
    if not question_ids:
        return []
    cursor = await tx.execute(
        f"{_QUESTION} where instance_id = %s and question_id = any(%s::uuid[])",
        (instance_id, list(question_ids)),
    )
    return [_view(row) for row in await cursor.fetchall()]


async def of_reports(
    tx: Tx, instance_id: InstanceId, ticket_id: TicketId
) -> dict[str, QuestionView]:
    """Return all questions of a Ticket by id; one asked by a report carries the report's id."""
    cursor = await tx.execute(
        f"{_QUESTION} where instance_id = %s and ticket_id = %s",
        (instance_id, ticket_id),
    )
    return {row["question_id"]: _view(row) for row in await cursor.fetchall()}


async def _one(
    tx: Tx, instance_id: InstanceId, question_id: QuestionId, *, lock: bool
) -> QuestionView | None:
    if not is_id(question_id):
        return None
    locking = "for no key update" if lock else ""
    cursor = await tx.execute(
        f"{_QUESTION} where instance_id = %s and question_id = %s {locking}",
        (instance_id, question_id),
    )
    row = await cursor.fetchone()
    return None if row is None else _view(row)


def _view(row: dict[str, Any]) -> QuestionView:
    """Return the value of a row of questions."""
    return QuestionView(
        **{**row, "options": tuple(row["options"]), "state": QuestionState(row["state"])}
    )
