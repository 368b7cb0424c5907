"""A Ticket's life after it was opened: reports, answers, acceptance, stop, delivery."""

from collections.abc import Sequence

from farhand_control_plane.db import (
    intake,
    mandates,
    sessions,
    ticket_records,
)
from farhand_control_plane.db.outbox import OutboxView
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.feedback import storable
from farhand_control_plane.domain.words import (
    ReportKind,
    TicketOutcome,
)
from farhand_control_plane.ingest import closing, people
from farhand_control_plane.ingest.announcements import Announcements
from farhand_control_plane.ingest.asking import (
    NewQuestion,
    answer_question,
    ask,
    check_text,
    deny_question,
    derived_id,
    store_question,
    supersede,
)
from farhand_shared.errors import Conflict, InvalidInput, NotFound
from farhand_shared.ids import (
    CommandId,
    InstanceId,
    MemberId,
    QuestionId,
    ReportId,
    SessionId,
    TicketId,
)

__all__ = [
    "NewQuestion",
    "accept_ticket",
    "answer_question",
    "ask",
    "deny_question",
    "reply_sent",
    "report",
    "stop_ticket",
    "withdraw_mandate",
]


async def report(
    tx: Tx,
    instance_id: InstanceId,
    session_id: SessionId,
    ticket_id: TicketId,
    kind: ReportKind,
    text: str,
    command_ids: Sequence[CommandId] = (),
    *,
    accept: str = "",
    question: NewQuestion | None = None,
    effect_key: str,
) -> ReportId:
    """Store what a Worker says of its Ticket and tell the Router; once per effect_key.

    A ``question`` report carries exactly one question, which gets the report's id. Any report but
    progress supersedes what the Ticket still asks. Raises NotFound, Conflict (the Ticket is closed,
    or the session is not its executor), InvalidInput.
    """
    _check_report(kind, text, accept, question)
    report_id = ReportId(derived_id(instance_id, f"report:{effect_key}"))
    ticket = await ticket_records.lock(tx, instance_id, ticket_id)
    if ticket is None:
        raise NotFound(f"cannot report on ticket {ticket_id}: there is none")
    if await ticket_records.has_report(tx, instance_id, report_id):
        return report_id
    if ticket.outcome is not None:
        raise Conflict(f"cannot report: the ticket is closed ({ticket.outcome.value})")
    if ticket.session_id != session_id:
        raise Conflict("cannot report: this session is not the ticket's executor")
    if foreign := await ticket_records.foreign_commands(tx, instance_id, ticket_id, command_ids):
        raise InvalidInput(f"cannot report: {foreign[0]} is no command of this ticket")
    announcements = Announcements(instance_id)
    if kind is not ReportKind.PROGRESS:
        await supersede(tx, instance_id, ticket_id, announcements)
    await ticket_records.add_report(
        tx,
        instance_id,
        report_id,
        ticket_id=ticket_id,
        session_id=session_id,
        kind=kind,
        text=storable(text),
        accept=storable(accept),
        command_ids=command_ids,
    )
    announcements.add(
        "report_made",
        subject_id=report_id,
        ticket_id=ticket_id,
        report_id=report_id,
        kind=kind.value,
        # What the executor has read and kept: whoever said it follows this Ticket from now on.
        trigger_ids=await intake.kept_by(tx, instance_id, ticket_id),
    )
    if question is not None:
        await store_question(
            tx,
            instance_id,
            QuestionId(report_id),
            question,
            ticket_id=ticket_id,
            thread_id=None,
            announcements=announcements,
        )
    await sessions.append(
        tx,
        instance_id,
        await sessions.router_of(tx, instance_id),
        kind="report",
        dedupe_key=f"report:{report_id}",
        payload={"report_id": report_id},
    )
    await announcements.store(tx)
    return report_id


async def accept_ticket(
    tx: Tx, instance_id: InstanceId, ticket_id: TicketId, member_id: MemberId
) -> None:
    """Close a Ticket as done because a person accepts what its latest report names.

    Raises NotFound, NotAllowed, Conflict (closed, or nothing to accept).
    """
    await people.check_may_stop(tx, instance_id, member_id)
    ticket = await closing.lock_open(tx, instance_id, ticket_id)
    latest = await ticket_records.latest_report(tx, instance_id, ticket_id)
    if latest is None or latest.kind is not ReportKind.READY or not latest.accept:
        raise Conflict("cannot accept: the ticket's latest report names nothing to accept")
    announcements = Announcements(instance_id)
    await closing.close(
        tx,
        instance_id,
        ticket,
        TicketOutcome.DONE,
        announcements,
        member_id=member_id,
        reason="accepted",
    )
    await announcements.store(tx)


async def stop_ticket(
    tx: Tx, instance_id: InstanceId, ticket_id: TicketId, member_id: MemberId, reason: str
) -> None:
    """Close a Ticket as stopped, with its session, its commands and its open question.

    Raises NotFound, NotAllowed, Conflict (already closed: says how).
    """
    await people.check_may_stop(tx, instance_id, member_id)
    ticket = await closing.lock_open(tx, instance_id, ticket_id)
    announcements = Announcements(instance_id)
    await closing.close(
        tx,
        instance_id,
        ticket,
        TicketOutcome.STOPPED,
        announcements,
        member_id=member_id,
        reason=storable(reason),
    )
    await announcements.store(tx)


async def withdraw_mandate(
    tx: Tx, instance_id: InstanceId, ticket_id: TicketId, member_id: MemberId, reason: str
) -> None:
    """Take a Ticket's Mandate back and stop the Ticket. Raises like stop_ticket."""
    await people.check_may_stop(tx, instance_id, member_id)
    ticket = await closing.lock_open(tx, instance_id, ticket_id)
    await mandates.withdraw(tx, instance_id, ticket_id, member_id, storable(reason))
    announcements = Announcements(instance_id)
    await closing.close(
        tx,
        instance_id,
        ticket,
        TicketOutcome.STOPPED,
        announcements,
        member_id=member_id,
        reason="its mandate was withdrawn",
    )
    await announcements.store(tx)


async def reply_sent(tx: Tx, row: OutboxView) -> None:
    """Draw the consequences of a message that went out (given to the relay by the wiring).

    Tells watchers, marks its report delivered; a ``ready`` report that names nothing to accept
    closes its Ticket.
    """
    announcements = Announcements(row.instance_id)
    announcements.add(
        "reply_sent",
        subject_id=row.outbox_id,
        thread_id=row.thread_id,
        ticket_id=row.ticket_id,
        kind=row.kind,
        text=row.text,
        command_ids=list(row.command_ids),
        report_id=row.report_id,
        question_id=row.question_id,
        reply_to_trigger_id=row.reply_to_trigger_id,
    )
    if row.report_id is not None:
        ticket_id = await ticket_records.ticket_of_report(tx, row.instance_id, row.report_id)
        if ticket_id is not None:
            await ticket_records.lock(tx, row.instance_id, ticket_id, to_close=True)
            await ticket_records.mark_delivered(tx, row.instance_id, row.report_id)
            await closing.close_if_finished(tx, row.instance_id, ticket_id, announcements)
    await announcements.store(tx)


def _check_report(kind: ReportKind, text: str, accept: str, question: NewQuestion | None) -> None:
    check_text("report", text)
    if (kind is ReportKind.QUESTION) != (question is not None):
        raise InvalidInput("cannot report: a question report, and no other, carries a question")
    if question is not None:
        check_text("question", question.text)
    if accept.strip() and kind is not ReportKind.READY:
        raise InvalidInput("cannot report: only a ready report names what to accept")
