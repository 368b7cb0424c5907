"""A conversation as people read it: what was written to the agent, and what it sent back."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import Verdict
from farhand_shared.errors import InvalidInput
from farhand_shared.ids import (
    CommandId,
    InstanceId,
    MemberId,
    QuestionId,
    SourceId,
    TicketId,
    TriggerId,
    is_id,
)


class ChatItemKind(StrEnum):
    """``message`` is a Trigger; the others are what was sent, by the words of the outbox."""

    MESSAGE = "message"
    REPLY = "reply"
    QUESTION = "question"
    ACKNOWLEDGEMENT = "acknowledgement"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatItemView:
    """One line of a conversation. Its id is the trigger's or the outbox row's."""

    id: str
    kind: ChatItemKind
    text: str
    at: datetime  # received, or sent
    sender_member_id: MemberId | None  # None: the agent, or nobody that is known here
    sender_name: str | None  # None: the agent
    provider_event_id: str | None  # of a message: what its sender called it
    verdict: Verdict | None  # of a message: None while it is not judged, or was only delivered
    opened_ticket_id: TicketId | None
    delivered_to: tuple[TicketId, ...]  # tickets that have it; one that handed it back is not here
    ticket_id: TicketId | None  # of what was sent: the ticket that it speaks for
    question_id: QuestionId | None
    reply_to_trigger_id: TriggerId | None
    command_ids: tuple[CommandId, ...]  # whose output belongs below


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPage:
    items: tuple[ChatItemView, ...]
    next_cursor: str | None


async def list_(
    tx: Tx,
    instance_id: InstanceId,
    source_id: SourceId,
    conversation: str,
    *,
    limit: int,
    cursor: str | None = None,
) -> ChatPage:
    """Return one page of a conversation, newest first; empty when nobody has used that name.

    Drafts, and what has not gone out, are not there. Raises InvalidInput for a cursor that this
    function did not make.
    """
    before_at, before_id = _END if cursor is None else _parse_cursor(cursor)
    found = await tx.execute(
        _PAGE,
        {
            "instance": instance_id,
            "source": source_id,
            "conversation": conversation,
            "sent_kinds": [kind.value for kind in ChatItemKind if kind is not ChatItemKind.MESSAGE],
            "before_at": before_at,
            "before_id": before_id,
            "limit": limit + 1,
        },
    )
    items = tuple(_view(row) for row in await found.fetchall())
    page = items[:limit]
    return ChatPage(items=page, next_cursor=_make_cursor(page[-1]) if len(items) > limit else None)


# Later than everything, as Postgres says it: one condition for all pages, which the indexes serve.
_END: Final = ("infinity", "ffffffff-ffff-ffff-ffff-ffffffffffff")

# Each half is cut before anything is looked up beside it: the price is the page's, not the
# conversation's. A message may have been judged more than once (its tickets handed it back): the
# last verdict counts.
_PAGE: Final = """
    with thread as (
      select thread_id from threads
       where instance_id = %(instance)s and source_id = %(source)s
         and external_key = %(conversation)s
    ), written as (
      select tr.trigger_id as id, 'message' as kind, tr.text, tr.received_at as at,
             tr.sender_member_id, tr.sender_external_id, tr.provider_event_id,
             null::uuid as ticket_id, null::uuid as reply_to_trigger_id, null::jsonb as body
        from triggers tr
       where tr.instance_id = %(instance)s and tr.thread_id = (select thread_id from thread)
         and (tr.received_at, tr.trigger_id) < (%(before_at)s::timestamptz, %(before_id)s::uuid)
       order by tr.received_at desc, tr.trigger_id desc
       limit %(limit)s
    ), sent as (
      select o.outbox_id, o.kind, '', o.sent_at, null::uuid, null, null,
             o.ticket_id, o.reply_to_trigger_id, o.body
        from outbox o
       where o.instance_id = %(instance)s and o.thread_id = (select thread_id from thread)
         and o.state = 'sent' and o.kind = any(%(sent_kinds)s)
         and (o.sent_at, o.outbox_id) < (%(before_at)s::timestamptz, %(before_id)s::uuid)
       order by o.sent_at desc, o.outbox_id desc
       limit %(limit)s
    ), page as (
      select * from written union all select * from sent
       order by at desc, id desc
       limit %(limit)s
    )
    select p.*, coalesce(me.name, p.sender_external_id) as sender_name, judged.verdict,
           opened.ticket_id as opened_ticket_id,
           array(select d.ticket_id from deliveries d
                  where d.instance_id = %(instance)s and d.trigger_id = p.id
                    and d.state in ('pending', 'delivered')
                  order by d.created_at, d.ticket_id) as delivered_to
      from page p
      left join members me
        on me.instance_id = %(instance)s and me.member_id = p.sender_member_id
      left join lateral (
             select e.eval_id, e.verdict
               from eval_triggers et
               join evals e on e.instance_id = et.instance_id and e.eval_id = et.eval_id
              where et.instance_id = %(instance)s and et.trigger_id = p.id
              order by e.eval_id desc
              limit 1
           ) judged on true
      left join lateral (
             select t.ticket_id
               from eval_triggers et
               join tickets t on t.instance_id = et.instance_id and t.eval_id = et.eval_id
              where et.instance_id = %(instance)s and et.trigger_id = p.id
              order by t.created_at desc
              limit 1
           ) opened on true
     order by p.at desc, p.id desc
"""


def _view(row: dict[str, Any]) -> ChatItemView:
    body = row["body"] or {}  # read here, not in SQL: its texts are escaped (json_codec)
    return ChatItemView(
        id=row["id"],
        kind=ChatItemKind(row["kind"]),
        text=body.get("text", row["text"]),
        at=row["at"],
        sender_member_id=row["sender_member_id"],
        sender_name=row["sender_name"],
        provider_event_id=row["provider_event_id"],
        verdict=None if row["verdict"] is None else Verdict(row["verdict"]),
        opened_ticket_id=row["opened_ticket_id"],
        delivered_to=tuple(row["delivered_to"]),
        ticket_id=row["ticket_id"],
        question_id=body.get("question_id"),
        reply_to_trigger_id=row["reply_to_trigger_id"],
        command_ids=tuple(body.get("command_ids", ())),
    )


def _make_cursor(item: ChatItemView) -> str:
    text = json.dumps([item.at.isoformat(), item.id])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _parse_cursor(cursor: str) -> tuple[datetime, str]:
    try:
        parts: Sequence[Any] = json.loads(
            base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        )
        at, id_ = datetime.fromisoformat(parts[0]), str(parts[1])
        if at.tzinfo is None or not is_id(id_):
            raise ValueError
    except (ValueError, TypeError, IndexError, KeyError, RecursionError) as error:
        raise InvalidInput(
            "cannot list the conversation: the cursor is not one of ours; start without it"
        ) from error
    return at, id_
