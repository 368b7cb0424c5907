"""A Ticket's life after it was opened: reports, answers, acceptance, stop, expiry, delivery."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from farhand_control_plane.db.outbox import OutboxView
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import ReportKind
from farhand_shared.ids import (
    CommandId,
    InstanceId,
    MemberId,
    QuestionId,
    ReportId,
    SessionId,
    ThreadId,
    TicketId,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewQuestion:
    """One concrete question: options, the default, and what happens if nobody answers."""

    text: str
    options: tuple[str, ...] = ()
    default_option: str | None = None
    if_unanswered: str = ""


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
    """Store what a Worker says of its Ticket and tell the Router; the same effect_key is one report.

    A ``question`` report carries exactly one question and supersedes the Ticket's open one. Raises
    Conflict (the Ticket is closed, or the session is not its executor), InvalidInput.
    """
    raise NotImplementedError


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

    Sends nothing: the caller enqueues the reply that carries it.
    """
    raise NotImplementedError


async def answer_question(
    tx: Tx, instance_id: InstanceId, question_id: QuestionId, member_id: MemberId, answer: str
) -> None:
    """Settle a question; the first answer wins. The same answer by the same member is a no-op.

    Raises NotFound, NotAllowed (a viewer), InvalidInput (empty), Conflict (settled: says how).
    """
    raise NotImplementedError


async def deny_question(
    tx: Tx, instance_id: InstanceId, question_id: QuestionId, member_id: MemberId
) -> None:
    """Settle a question as denied: the person will not decide this. Raises like answer_question."""
    raise NotImplementedError


async def accept_ticket(
    tx: Tx, instance_id: InstanceId, ticket_id: TicketId, member_id: MemberId
) -> None:
    """Close a Ticket as done because a person accepts what its latest report names.

    Raises NotFound, NotAllowed, Conflict (closed, or nothing to accept).
    """
    raise NotImplementedError


async def stop_ticket(
    tx: Tx, instance_id: InstanceId, ticket_id: TicketId, member_id: MemberId, reason: str
) -> None:
    """Close a Ticket as stopped, with its session, its commands and its open question.

    Raises NotFound, NotAllowed, Conflict (already closed: says how).
    """
    raise NotImplementedError


async def withdraw_mandate(
    tx: Tx, instance_id: InstanceId, ticket_id: TicketId, member_id: MemberId, reason: str
) -> None:
    """Take a Ticket's Mandate back and stop the Ticket. Raises like stop_ticket."""
    raise NotImplementedError


async def reply_sent(tx: Tx, row: OutboxView) -> None:
    """Draw the consequences of a reply that went out (given to the relay by the wiring).

    Marks its report delivered; a ``ready`` report that names nothing to accept closes its Ticket.
    """
    raise NotImplementedError


async def expire_due(tx: Tx) -> int:
    """Close what is due in all instances: expired mandates with their questions, late deliveries.

    Returns how many rows changed; bounded per call, so call again until it returns 0.
    """
    raise NotImplementedError


async def next_due(tx: Tx) -> datetime | None:
    """Return when ``expire_due`` next has something to do; None when nothing is planned."""
    raise NotImplementedError
