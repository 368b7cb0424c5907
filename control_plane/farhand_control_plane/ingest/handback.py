"""An executor gives an event back: it goes to others, to judgement, or to a person."""

from dataclasses import dataclass

from farhand_control_plane.db.transaction import Tx
from farhand_shared.ids import EvalId, InstanceId, QuestionId, TicketId, TriggerId


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedBack:
    """Where the event went. Neither id: another subscriber still holds it."""

    eval_id: EvalId | None = None
    question_id: QuestionId | None = None  # given back three times: a person decides
    repeated: bool = False  # this Ticket had handed it back before; nothing changed


async def hand_back(
    tx: Tx, instance_id: InstanceId, ticket_id: TicketId, trigger_id: TriggerId, reason: str
) -> HandedBack:
    """Give a delivered Trigger back; it never returns to this Ticket.

    Raises NotFound when the Trigger was not delivered to the Ticket.
    """
    raise NotImplementedError
