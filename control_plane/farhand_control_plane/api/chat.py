"""Chat with the agent: a message goes in, what comes of it is told as events, all can be read."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from farhand_control_plane.api.access import Chatter, Reader
from farhand_control_plane.api.chat_shapes import ChatAccepted, ChatAsked, ChatHistory, chat_item
from farhand_control_plane.api.machines import find
from farhand_control_plane.api.services import Services, services_of
from farhand_control_plane.api.shapes import is_storable
from farhand_control_plane.db import chat_history, events, questions
from farhand_control_plane.ingest.chat import ChatMessage, accept_chat
from farhand_shared.errors import InvalidInput
from farhand_shared.ids import QuestionId, new_id

router = APIRouter(prefix="/v1/chat", tags=["chat"])

_Services = Annotated[Services, Depends(services_of)]


@router.post("", status_code=202)
async def send_message(asked: ChatAsked, caller: Chatter, services: _Services) -> ChatAccepted:
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
    return ChatAccepted(
        trigger_id=accepted.trigger_id,
        thread_id=accepted.thread_id,
        eval_id=accepted.eval_id,
        delivered_to=list(accepted.delivered_to),
        duplicate=accepted.duplicate,
        events_after=after,
    )


@router.get("")
async def read_conversation(
    caller: Reader,
    services: _Services,
    conversation: Annotated[str, Query(min_length=1, max_length=200)] = "main",
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: str | None = None,
) -> ChatHistory:
    """Read a conversation, newest first: what was written, and what the agent has sent."""
    if not is_storable(conversation):
        raise InvalidInput("cannot read the conversation: nothing can have this name")
    async with services.database.transaction() as tx:
        # The number first: what is stored meanwhile is then told again, never missed.
        after = await events.last_seq(tx, caller.instance_id)
        page = await chat_history.list_(
            tx, caller.instance_id, services.chat_source_id, conversation,
            limit=limit, cursor=cursor,
        )  # fmt: skip
        asked = await questions.of_ids(
            tx, caller.instance_id, [item.question_id for item in page.items if item.question_id]
        )
    by_id = {view.question_id: view for view in asked}
    return ChatHistory(
        items=[
            chat_item(item, caller.member_id, by_id.get(item.question_id or QuestionId("")))
            for item in page.items
        ],
        next_cursor=page.next_cursor,
        events_after=after,
    )
