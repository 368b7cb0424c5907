"""Chat with the agent: a message goes in, what comes of it is told as events."""

from typing import Annotated

from fastapi import APIRouter, Depends

from farhand_control_plane.api import shapes
from farhand_control_plane.api.access import Chatter
from farhand_control_plane.api.machines import find
from farhand_control_plane.api.services import Services, services_of
from farhand_control_plane.db import events
from farhand_control_plane.ingest.chat import ChatMessage, accept_chat
from farhand_shared.ids import new_id

router = APIRouter(prefix="/v1/chat", tags=["chat"])

_Services = Annotated[Services, Depends(services_of)]


@router.post("", status_code=202)
async def send_message(
    asked: shapes.ChatAsked, caller: Chatter, services: _Services
) -> shapes.ChatAccepted:
    """Take a message: it is stored before this answers, and becomes at most one Ticket."""
    async with services.database.transaction() as tx:
        this_machine = caller.machine_id
        if asked.this_machine is not None:
            this_machine = (await find(tx, caller, asked.this_machine)).machine_id
        after = await events.last_seq(tx, caller.instance_id)
        accepted = await accept_chat(
            tx,
            ChatMessage(
                instance_id=caller.instance_id,
                source_id=services.chat_source_id,
                member_id=caller.member_id,
                conversation=asked.conversation,
                client_message_id=asked.client_message_id or new_id(),
                text=asked.text,
                this_machine_id=this_machine,
            ),
        )
        if accepted.duplicate:  # what came of it the first time is to be followed too
            first = await events.first_about(tx, caller.instance_id, accepted.trigger_id)
            after = after if first is None else first - 1
    return shapes.ChatAccepted(
        trigger_id=accepted.trigger_id,
        thread_id=accepted.thread_id,
        eval_id=accepted.eval_id,
        delivered_to=list(accepted.delivered_to),
        duplicate=accepted.duplicate,
        events_after=after,
    )
