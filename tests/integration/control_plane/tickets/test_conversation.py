"""The history of a conversation: what was written, what became of it, what was sent."""

import base64

import pytest

from farhand_control_plane.db import chat_history
from farhand_control_plane.db.chat_history import ChatPage
from farhand_control_plane.domain.words import OutboxState, ReportKind, Verdict
from farhand_control_plane.ingest.verdicts import Answer
from farhand_shared.errors import InvalidInput


async def read(desk, *, conversation="main", limit=50, cursor=None) -> ChatPage:
    async with desk.database.transaction() as tx:
        return await chat_history.list_(
            tx,
            desk.instance.instance_id,
            desk.instance.chat_source_id,
            conversation,
            limit=limit,
            cursor=cursor,
        )


async def test_a_conversation_nobody_has_begun_is_empty(desk):
    page = await read(desk, conversation="new")
    assert page == ChatPage(items=(), next_cursor=None)


async def test_a_request_its_ticket_and_what_was_sent_are_one_story(desk):
    ticket = await desk.open_ticket("run uname", client_message_id="mine")
    assert await desk.relay() == 1
    await desk.report(ticket, ReportKind.QUESTION, "which one?")
    await desk.report(ticket, ReportKind.READY, "done, see below")
    await desk.shift_clock(120)  # the Router is silent: code posts what was reported
    await desk.due()
    await desk.relay()
    (message, acknowledgement, *later) = reversed((await read(desk)).items)
    assert (message.kind, message.text, message.verdict) == ("message", "run uname", "accept")
    assert message.opened_ticket_id == ticket.row.ticket_id
    assert message.provider_event_id == f"{desk.owner}:mine"
    assert message.sender_member_id == desk.owner
    assert acknowledgement.kind == "acknowledgement"
    assert acknowledgement.ticket_id == ticket.row.ticket_id
    assert acknowledgement.reply_to_trigger_id == message.id
    assert acknowledgement.sender_name is None
    assert [item.kind for item in later] == ["question", "reply"]
    assert later[0].question_id is not None
    assert all(item.verdict is None and item.delivered_to == () for item in later)


async def test_a_message_that_goes_to_a_ticket_says_to_which(desk):
    ticket = await desk.open_ticket("run uname")
    accepted = await desk.say("and its version")
    newest = (await read(desk)).items[0]
    assert newest.id == accepted.trigger_id
    assert newest.delivered_to == (ticket.row.ticket_id,)
    assert newest.verdict is None
    await desk.hand_back(ticket, accepted.trigger_id)
    newest = (await read(desk)).items[0]
    assert newest.delivered_to == ()


async def test_a_question_that_opens_nothing_has_its_verdict_alone(desk):
    accepted = await desk.say("which machines do I have?")
    assert (await read(desk)).items[0].verdict is None  # nobody has judged it yet
    await desk.read(desk.router)
    await desk.close(accepted.eval_id, Answer())
    item = (await read(desk)).items[0]
    assert (item.verdict, item.opened_ticket_id) == (Verdict.ANSWER, None)


@pytest.mark.parametrize("state", [s for s in OutboxState if s is not OutboxState.SENT])
async def test_what_has_not_gone_out_is_not_there(desk, state):
    await desk.open_ticket("run uname")
    await desk.relay()
    assert [item.kind for item in (await read(desk)).items] == ["acknowledgement", "message"]
    await desk.run("update outbox set state = %s", state.value)
    assert [item.kind for item in (await read(desk)).items] == ["message"]


async def test_a_kind_that_pages_do_not_know_is_not_there(desk):
    await desk.open_ticket("run uname")
    await desk.relay()
    await desk.run("update outbox set kind = 'digest'")
    assert [item.kind for item in (await read(desk)).items] == ["message"]


async def test_pages_follow_one_another_without_gap_or_repetition(desk):
    await desk.open_ticket("run uname")
    await desk.relay()
    for n in range(5):
        await desk.say(f"and {n}")
    whole = (await read(desk)).items
    assert len(whole) == 7
    assert [item.at for item in whole] == sorted((item.at for item in whole), reverse=True)
    found, cursor = [], None
    while True:
        page = await read(desk, limit=2, cursor=cursor)
        found += page.items
        if cursor is None:
            await desk.say("what comes meanwhile is not between the pages")
        cursor = page.next_cursor
        if cursor is None:
            break
        assert len(page.items) == 2
    assert tuple(found) == whole


async def test_conversations_and_instances_are_apart(desk, other_desk):
    await desk.say("here")
    await desk.say("there", conversation="side")
    await other_desk.say("elsewhere")
    assert [item.text for item in (await read(desk)).items] == ["here"]
    assert [item.text for item in (await read(desk, conversation="side")).items] == ["there"]
    assert [item.text for item in (await read(other_desk)).items] == ["elsewhere"]


@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "é",
        "",
        base64.urlsafe_b64encode(b'["2026-01-01T00:00:00", "x"]').decode(),
        "01a22e39-1983-7cba-bf26-ee61ce1306ca",
    ],
)
async def test_a_cursor_that_is_not_ours_is_refused(desk, cursor):
    with pytest.raises(InvalidInput, match="cursor"):
        await read(desk, cursor=cursor)


async def test_text_that_jsonb_refuses_comes_back_as_it_was(desk):
    await desk.open_ticket("run uname")
    await desk.relay()
    await desk.run(
        "update outbox set body = jsonb_set(body, '{text}', to_jsonb('a' || chr(1) || '0000b'))"
    )
    assert (await read(desk)).items[0].text == "a\0b"
