"""Questions to people: asked, listed, settled once."""

from dataclasses import dataclass
from datetime import datetime

from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import QuestionState
from farhand_shared.ids import InstanceId, MemberId, QuestionId, ThreadId, TicketId


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


async def get(tx: Tx, instance_id: InstanceId, question_id: QuestionId) -> QuestionView | None:
    """Return one question; None when this instance has none of that id."""
    raise NotImplementedError


async def open_(
    tx: Tx, instance_id: InstanceId, *, ticket_id: TicketId | None = None
) -> list[QuestionView]:
    """Return pending questions, oldest first: of one Ticket, or of the whole instance.

    Those without a Ticket (a Router's, an event that nobody took) are only in the latter.
    """
    raise NotImplementedError
