"""The chat source: one message from a person becomes one Trigger."""

from dataclasses import dataclass

from farhand_control_plane.db.transaction import Tx
from farhand_shared.ids import (
    EvalId,
    InstanceId,
    MachineId,
    MemberId,
    SourceId,
    ThreadId,
    TicketId,
    TriggerId,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """What a person wrote. ``client_message_id`` names it: the same id again is the same event."""

    instance_id: InstanceId
    source_id: SourceId
    member_id: MemberId
    conversation: str  # the Thread's key within the source
    client_message_id: str
    text: str
    this_machine_id: MachineId | None = None  # what "this machine" means to the sender
    replaces_client_message_id: str | None = None  # an edit names the message it replaces


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """What a message became."""

    trigger_id: TriggerId
    thread_id: ThreadId
    eval_id: EvalId | None  # None: only delivered
    delivered_to: tuple[TicketId, ...]
    duplicate: bool  # it had arrived before; the ids are the first one's


async def accept_chat(tx: Tx, message: ChatMessage) -> Accepted:
    """Store a message and bring it where it belongs; durable once ``tx`` commits.

    Raises InvalidInput (empty, unstorable), TooLarge (64 KiB), NotFound (source, member or machine
    of another instance), Conflict (the id was used for another text).
    """
    raise NotImplementedError
