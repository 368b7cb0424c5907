"""The JSON of the chat: a message on its way in, and the conversation as it is read."""

from datetime import datetime

from pydantic import BaseModel, Field

from farhand_control_plane.api.shapes import Asked, Question, question
from farhand_control_plane.db.chat_history import ChatItemKind, ChatItemView
from farhand_control_plane.db.questions import QuestionView
from farhand_control_plane.domain.words import Verdict
from farhand_shared.ids import MemberId


class ChatAsked(Asked):
    text: str
    conversation: str = Field(default="main", min_length=1, max_length=200)
    client_message_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="the same again is the same message: send it when retrying",
    )
    this_machine: str | None = Field(
        default=None, description="name or id of what 'this machine' means; the token's when absent"
    )


class ChatAccepted(BaseModel):
    trigger_id: str
    thread_id: str
    eval_id: str | None
    delivered_to: list[str] = Field(description="tickets that the message went to")
    duplicate: bool
    events_after: int = Field(description="follow GET /v1/events?after= from here")


class ChatItem(BaseModel):
    """One line of a conversation: what somebody wrote, or what the agent sent."""

    id: str = Field(description="of a message the trigger's, which POST /v1/chat has told")
    kind: ChatItemKind
    text: str
    at: datetime
    sender: str | None = Field(description="a person's name; null: the agent")
    sender_member_id: str | None
    client_message_id: str | None = Field(description="of the caller's own messages")
    verdict: Verdict | None = Field(
        description="of a message; null while it is not judged, or where it only went to tickets"
    )
    opened_ticket_id: str | None = Field(description="the ticket that this message opened")
    delivered_to: list[str] = Field(description="tickets that this message went to")
    ticket_id: str | None = Field(description="the ticket that the agent speaks for")
    reply_to_trigger_id: str | None = Field(description="the message that is answered, if known")
    question_id: str | None
    question: Question | None = Field(description="how that question stands now")
    command_ids: list[str] = Field(description="commands whose output belongs to the text")


class ChatHistory(BaseModel):
    """One page of a conversation, newest first."""

    items: list[ChatItem]
    next_cursor: str | None = Field(description="older items' cursor; null at the beginning")
    events_after: int = Field(description="follow GET /v1/events?after= from here")


def chat_item(view: ChatItemView, member_id: MemberId, asked: QuestionView | None) -> ChatItem:
    """Return a line as this member reads it."""
    prefix = f"{member_id}:"  # how ingest.chat names a member's event
    event_id = view.provider_event_id or ""
    return ChatItem(
        id=view.id,
        kind=view.kind,
        text=view.text,
        at=view.at,
        sender=view.sender_name,
        sender_member_id=view.sender_member_id,
        client_message_id=event_id.removeprefix(prefix) if event_id.startswith(prefix) else None,
        verdict=view.verdict,
        opened_ticket_id=view.opened_ticket_id,
        delivered_to=list(view.delivered_to),
        ticket_id=view.ticket_id,
        reply_to_trigger_id=view.reply_to_trigger_id,
        question_id=view.question_id,
        question=None if asked is None else question(asked),
        command_ids=list(view.command_ids),
    )
