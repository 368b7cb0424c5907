"""Tickets: what needs a person first, one with its why, answering, accepting, stopping."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from farhand_control_plane.api import shapes, ticket_shapes
from farhand_control_plane.api.access import Chatter, Reader, TicketKeeper
from farhand_control_plane.api.services import Services, services_of
from farhand_control_plane.db import command_views, questions, tickets
from farhand_control_plane.db.tickets import TicketView
from farhand_control_plane.db.tokens import Caller
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import Stage
from farhand_control_plane.ingest.tickets import accept_ticket, answer_question, stop_ticket
from farhand_shared.errors import Conflict, NotFound
from farhand_shared.ids import QuestionId, TicketId, is_id

router = APIRouter(prefix="/v1/tickets", tags=["tickets"])

_Services = Annotated[Services, Depends(services_of)]


@router.get("")
async def list_tickets(
    caller: Reader,
    services: _Services,
    stage: Stage | None = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: str | None = None,
) -> shapes.Page[ticket_shapes.Ticket]:
    """List tickets: those that need a person first, then what runs, then closed ones."""
    async with services.database.transaction() as tx:
        page = await tickets.list_(tx, caller.instance_id, limit=limit, cursor=cursor, stage=stage)
    return shapes.Page(
        items=[ticket_shapes.Ticket(**ticket_shapes.ticket_fields(row)) for row in page.items],
        next_cursor=page.next_cursor,
    )


@router.get("/{ticket_id}")
async def show_ticket(
    ticket_id: str, caller: Reader, services: _Services
) -> ticket_shapes.TicketWithAll:
    """Show a ticket: why it exists, what it asks, what was reported, what ran."""
    async with services.database.transaction() as tx:
        return await _show(tx, caller, ticket_id)


@router.post("/{ticket_id}/answer")
async def answer_ticket(
    ticket_id: str, asked: ticket_shapes.AnswerAsked, caller: Chatter, services: _Services
) -> ticket_shapes.TicketWithAll:
    """Answer its open question; the first answer counts."""
    async with services.database.transaction() as tx:
        view = await _find(tx, caller, ticket_id)
        pending = {question.question_id: question for question in view.questions}
        if asked.question_id is not None:
            question_id = QuestionId(asked.question_id)
            if question_id not in pending:
                raise Conflict("cannot answer: this question is not open on this ticket")
        elif len(pending) == 1:
            (question_id,) = pending
        else:
            raise Conflict(
                "cannot answer: the ticket asks nothing"
                if not pending
                else f"cannot answer: {len(pending)} questions are open; name one by question_id"
            )
        await answer_question(tx, caller.instance_id, question_id, caller.member_id, asked.answer)
        return await _show(tx, caller, ticket_id)


@router.post("/{ticket_id}/accept")
async def accept(
    ticket_id: str, caller: Chatter, services: _Services
) -> ticket_shapes.TicketWithAll:
    """Accept what its latest report names; the ticket is done."""
    async with services.database.transaction() as tx:
        view = await _find(tx, caller, ticket_id)
        await accept_ticket(tx, caller.instance_id, view.row.ticket_id, caller.member_id)
        return await _show(tx, caller, ticket_id)


@router.post("/{ticket_id}/stop")
async def stop(
    ticket_id: str, asked: ticket_shapes.StopAsked, caller: TicketKeeper, services: _Services
) -> ticket_shapes.TicketWithAll:
    """Stop a ticket with its session and its commands."""
    async with services.database.transaction() as tx:
        view = await _find(tx, caller, ticket_id)
        await stop_ticket(
            tx, caller.instance_id, view.row.ticket_id, caller.member_id, asked.reason
        )
        return await _show(tx, caller, ticket_id)


async def _find(tx: Tx, caller: Caller, ticket_id: str) -> TicketView:
    found = (
        await tickets.get(tx, caller.instance_id, TicketId(ticket_id)) if is_id(ticket_id) else None
    )
    if found is None:
        raise NotFound(f"cannot find ticket {ticket_id!r}; see farhand tickets list")
    return found


async def _show(tx: Tx, caller: Caller, ticket_id: str) -> ticket_shapes.TicketWithAll:
    view = await _find(tx, caller, ticket_id)
    chain = await tickets.why(tx, caller.instance_id, view.row.ticket_id)
    if chain is None:
        raise NotFound(f"cannot find ticket {ticket_id!r}; see farhand tickets list")
    settled = await questions.settled(tx, caller.instance_id, view.row.ticket_id)
    ran = await command_views.of_ticket(tx, caller.instance_id, view.row.ticket_id)
    return ticket_shapes.TicketWithAll(
        **ticket_shapes.ticket_fields(view.row),
        request=view.request,
        thread_ids=list(view.thread_ids),
        questions=[shapes.question(question) for question in view.questions],
        settled_questions=[shapes.question(question) for question in settled],
        reports=[ticket_shapes.report(report) for report in view.reports],
        commands=[shapes.command(command) for command in ran],
        why=ticket_shapes.why(chain),
    )
