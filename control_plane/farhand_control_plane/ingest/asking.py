"""Questions to people: asked one at a time, settled once, the answer brought to who asked."""

import uuid
from dataclasses import dataclass

from farhand_control_plane.db import (
    outbox,
    questions,
    sessions,
    ticket_records,
)
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain import questions as question_rules
from farhand_control_plane.domain.feedback import TEXT_MAX_BYTES, person_text, storable
from farhand_control_plane.domain.words import (
    QuestionState,
)
from farhand_control_plane.ingest import people
from farhand_control_plane.ingest.announcements import Announcements
from farhand_shared.errors import Conflict, InvalidInput, NotFound, TooLarge
from farhand_shared.ids import (
    InstanceId,
    MemberId,
    QuestionId,
    ThreadId,
    TicketId,
    TriggerId,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewQuestion:
    """One concrete question: options, the default, and what happens if nobody answers."""

    text: str
    options: tuple[str, ...] = ()
    default_option: str | None = None
    if_unanswered: str = ""


async def ask(
    tx: Tx,
    instance_id: InstanceId,
    thread_id: ThreadId,
    question: NewQuestion,
    *,
    ticket_id: TicketId | None = None,
    effect_key: str,
) -> QuestionId:
    """Ask a person on a Thread without a report (the Router's way); the answer wakes who asked.

    Sends nothing: the caller enqueues the message that carries it. Raises NotFound, InvalidInput.
    """
    check_text("question", question.text)
    if not await ticket_records.has_thread(tx, instance_id, thread_id):
        raise NotFound(f"cannot ask on thread {thread_id}: there is none")
    if ticket_id is not None:
        await _lock_open(tx, instance_id, ticket_id, "ask about")
    question_id = QuestionId(derived_id(instance_id, f"question:{effect_key}"))
    announcements = Announcements(instance_id)
    await store_question(
        tx,
        instance_id,
        question_id,
        question,
        ticket_id=ticket_id,
        thread_id=thread_id,
        announcements=announcements,
    )
    await announcements.store(tx)
    return question_id


async def answer_question(
    tx: Tx,
    instance_id: InstanceId,
    question_id: QuestionId,
    member_id: MemberId,
    answer: str,
    *,
    trigger_id: TriggerId | None = None,
) -> None:
    """Settle a question; the first answer wins. The same answer by the same member is a no-op.

    ``trigger_id``: the message that was taken as the answer, for whoever follows that message.
    Raises NotFound, NotAllowed (a viewer), InvalidInput (empty), Conflict (settled: says how).
    """
    await _settle(
        tx,
        instance_id,
        question_id,
        member_id,
        QuestionState.ANSWERED,
        person_text(answer, what="answer"),
        trigger_id,
    )


async def deny_question(
    tx: Tx, instance_id: InstanceId, question_id: QuestionId, member_id: MemberId
) -> None:
    """Settle a question as denied: the person will not decide this. Raises like answer_question."""
    await _settle(tx, instance_id, question_id, member_id, QuestionState.DENIED, None)


async def store_question(
    tx: Tx,
    instance_id: InstanceId,
    question_id: QuestionId,
    question: NewQuestion,
    *,
    ticket_id: TicketId | None,
    thread_id: ThreadId | None,
    announcements: Announcements,
) -> None:
    asked = await questions.ask(
        tx,
        instance_id,
        question_id,
        ticket_id=ticket_id,
        thread_id=thread_id,
        text=storable(question.text),
        options=[storable(option) for option in question.options],
        default_option=question.default_option,
        if_unanswered=storable(question.if_unanswered),
    )
    if asked:
        announcements.add(
            "question_asked",
            subject_id=question_id,
            thread_id=thread_id,
            ticket_id=ticket_id,
            question_id=question_id,
            text=storable(question.text),
            options=list(question.options),
        )


async def supersede(
    tx: Tx, instance_id: InstanceId, ticket_id: TicketId, announcements: Announcements
) -> None:
    """One question at a time: what was asked before is no longer asked, nor sent if unsent."""
    settled = await questions.settle_of_ticket(tx, instance_id, ticket_id, QuestionState.SUPERSEDED)
    if settled:
        await outbox.discard_unsent(tx, instance_id, question_ids=settled)
    for question_id in settled:
        _tell_settled(announcements, question_id, ticket_id, QuestionState.SUPERSEDED)


async def _settle(
    tx: Tx,
    instance_id: InstanceId,
    question_id: QuestionId,
    member_id: MemberId,
    into: QuestionState,
    answer: str | None,
    trigger_id: TriggerId | None = None,
) -> None:
    await people.check_may_answer(tx, instance_id, member_id)
    question = await questions.get(tx, instance_id, question_id)
    if question is None:
        raise NotFound(f"cannot answer question {question_id}: there is none")
    ticket = None
    if question.ticket_id is not None:  # locked before the question, as everywhere
        ticket = await ticket_records.lock(tx, instance_id, question.ticket_id)
    question = await questions.lock(tx, instance_id, question_id)
    if question is None:
        raise NotFound(f"cannot answer question {question_id}: it was removed")
    if (question.state, question.answer, question.answered_by_member_id) == (
        into,
        answer,
        member_id,
    ):
        return
    question_rules.settle(question.state, into)
    if not await questions.settle(
        tx, instance_id, question_id, into, answer=answer, member_id=member_id
    ):
        raise Conflict("cannot answer the question: it was settled meanwhile; read it again")
    await outbox.discard_unsent(tx, instance_id, question_ids=[question_id])
    to = None if ticket is None else ticket.session_id
    if to is not None:
        await sessions.revive(tx, instance_id, to)  # a person has looked at it
    await sessions.append(
        tx,
        instance_id,
        to or await sessions.router_of(tx, instance_id),
        kind="answer",
        dedupe_key=f"answer:{question_id}",
        payload={
            "question_id": question_id,
            "state": into.value,
            "answer": answer,
            "question": question.text,
            "thread_id": question.thread_id,
        },
    )
    announcements = Announcements(instance_id)
    _tell_settled(announcements, question_id, question.ticket_id, into, trigger_id)
    await announcements.store(tx)


def _tell_settled(
    announcements: Announcements,
    question_id: QuestionId,
    ticket_id: TicketId | None,
    state: QuestionState,
    trigger_id: TriggerId | None = None,
) -> None:
    announcements.add(
        "question_settled",
        subject_id=question_id,
        ticket_id=ticket_id,
        question_id=question_id,
        state=state.value,
        trigger_id=trigger_id,
    )


def check_text(what: str, text: str) -> None:
    if not text.strip():
        raise InvalidInput(f"cannot store the {what}: it is empty; say something")
    size = len(storable(text).encode())
    if size > TEXT_MAX_BYTES:
        raise TooLarge(f"the {what}", size, TEXT_MAX_BYTES, "attach command output by its id")


def derived_id(instance_id: InstanceId, key: str) -> str:
    """Return the same id for the same effect, so that a repetition finds what it made."""
    return str(uuid.uuid5(uuid.UUID(instance_id), key))


async def _lock_open(
    tx: Tx, instance_id: InstanceId, ticket_id: TicketId, verb: str
) -> ticket_records.LockedTicket:
    ticket = await ticket_records.lock(tx, instance_id, ticket_id)
    if ticket is None:
        raise NotFound(f"cannot {verb} ticket {ticket_id}: there is none")
    if ticket.outcome is not None:
        raise Conflict(f"cannot {verb} the ticket: it is closed ({ticket.outcome.value})")
    return ticket
