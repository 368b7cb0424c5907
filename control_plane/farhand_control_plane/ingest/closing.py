"""The end of a Ticket, with everything that lived for it."""

from typing import Final

from farhand_control_plane.db import (
    command_stops,
    outbox,
    questions,
    sessions,
    subscriptions,
    ticket_records,
)
from farhand_control_plane.db.ticket_records import LockedTicket
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import (
    AssignmentEnd,
    QuestionState,
    ReportKind,
    TicketOutcome,
)
from farhand_control_plane.ingest.announcements import Announcements
from farhand_control_plane.ingest.handback import give_back
from farhand_shared.errors import Conflict, NotFound
from farhand_shared.ids import InstanceId, MemberId, TicketId

_ASSIGNMENT_END: Final = {
    TicketOutcome.DONE: AssignmentEnd.FINISHED,
    TicketOutcome.STOPPED: AssignmentEnd.STOPPED,
    TicketOutcome.EXPIRED: AssignmentEnd.STOPPED,
}
_QUESTION_END: Final = {
    TicketOutcome.DONE: QuestionState.SUPERSEDED,
    TicketOutcome.STOPPED: QuestionState.SUPERSEDED,
    TicketOutcome.EXPIRED: QuestionState.EXPIRED,
}


async def lock_open(tx: Tx, instance_id: InstanceId, ticket_id: TicketId) -> LockedTicket:
    """Return an open Ticket, ready to be closed. Raises NotFound, Conflict (says how it ended)."""
    ticket = await ticket_records.lock(tx, instance_id, ticket_id, to_close=True)
    if ticket is None:
        raise NotFound(f"cannot close ticket {ticket_id}: there is none")
    if ticket.outcome is not None:
        raise Conflict(f"cannot close the ticket: it is closed already ({ticket.outcome.value})")
    return ticket


async def close(
    tx: Tx,
    instance_id: InstanceId,
    ticket: LockedTicket,
    outcome: TicketOutcome,
    announcements: Announcements,
    *,
    member_id: MemberId | None = None,
    reason: str = "",
) -> None:
    """Close a Ticket that ``lock_open`` returned: executor, commands, questions, drafts.

    What was brought to it and never read is given back, so that nothing a person said is lost.
    Stops commands last: that may store events, after which no lock may be taken.
    """
    ticket_id = ticket.ticket_id
    await ticket_records.close(tx, instance_id, ticket_id, outcome, member_id)
    session_id = await ticket_records.end_assignment(
        tx, instance_id, ticket_id, _ASSIGNMENT_END[outcome]
    )
    if session_id is not None:
        await sessions.end(tx, instance_id, session_id)
    unread = await subscriptions.unread(tx, instance_id, ticket_id)
    await subscriptions.end_all(tx, instance_id, ticket_id)
    settled = await questions.settle_of_ticket(tx, instance_id, ticket_id, _QUESTION_END[outcome])
    await outbox.discard_unsent(tx, instance_id, ticket_id=ticket_id, question_ids=settled)
    for trigger_id in unread:
        await give_back(
            tx, instance_id, ticket_id, trigger_id, f"the ticket is {outcome}", announcements
        )
    for question_id in settled:
        announcements.add(
            "question_settled",
            subject_id=question_id,
            ticket_id=ticket_id,
            question_id=question_id,
            state=_QUESTION_END[outcome].value,
        )
    await command_stops.request_stop(
        tx,
        instance_id,
        ticket_id=ticket_id,
        reason="expired" if outcome is TicketOutcome.EXPIRED else "cancel",
    )
    announcements.add(
        "ticket_closed",
        subject_id=ticket_id,
        ticket_id=ticket_id,
        title=ticket.title,
        outcome=outcome.value,
        reason=reason,
    )


async def close_if_finished(
    tx: Tx, instance_id: InstanceId, ticket_id: TicketId, announcements: Announcements
) -> bool:
    """Close a Ticket as done when people have its ready report and nothing is left to accept.

    Not while its executor keeps a message that it read after it had reported: that is work again.
    """
    ticket = await ticket_records.lock(tx, instance_id, ticket_id, to_close=True)
    if ticket is None or ticket.outcome is not None:
        return False
    report = await ticket_records.latest_report(tx, instance_id, ticket_id)
    if (
        report is None
        or report.kind is not ReportKind.READY
        or report.accept
        or report.delivered_at is None
        or await questions.open_(tx, instance_id, ticket_id=ticket_id)
        or await subscriptions.read_after(tx, instance_id, ticket_id, report.created_at)
    ):
        return False
    await close(tx, instance_id, ticket, TicketOutcome.DONE, announcements)
    return True
