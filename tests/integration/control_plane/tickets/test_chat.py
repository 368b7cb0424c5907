"""A person's message: durable, once, and brought where it belongs."""

import asyncio

import pytest

from farhand_control_plane.db import intake
from farhand_control_plane.domain.words import MemberRole, ReportKind, Strength
from farhand_control_plane.ingest.chat import Accepted, accept_chat
from farhand_control_plane.ingest.verdicts import Accept, Answer
from farhand_shared.errors import Conflict, InvalidInput, NotFound, TooLarge
from farhand_shared.ids import MachineId, MemberId, SourceId, new_id

from .conftest import Desk


async def test_a_message_becomes_a_trigger_and_a_pending_eval_that_wakes_the_router(
    desk: Desk,
) -> None:
    machine_id = await desk.machine()

    accepted = await desk.say("run uname on this machine", this_machine_id=machine_id)

    assert not accepted.duplicate
    assert accepted.eval_id is not None
    (message,) = await desk.inbox(desk.router)
    assert (message["kind"], message["dedupe_key"], message["payload"], message["wakes"]) == (
        "eval",
        f"eval:{accepted.eval_id}",
        {"eval_id": accepted.eval_id},
        True,
    )
    async with desk.database.transaction() as tx:
        view = await intake.eval_for_router(tx, desk.instance.instance_id, accepted.eval_id)
    assert view is not None
    (trigger,) = view.triggers
    assert trigger.text == "run uname on this machine"
    assert trigger.this_machine_id == machine_id
    assert trigger.sender_name == "owner"
    assert (view.strength, view.requester_member_id) == (Strength.EXPLICIT, desk.owner)
    assert view.source_kind == "chat"
    assert await desk.count("raw_deliveries") == 1
    (received,) = await desk.events("trigger_received")
    assert received["thread_id"] == accepted.thread_id


async def test_the_same_delivery_a_hundred_times_at_once_is_one_trigger_and_one_ticket(
    desk: Desk,
) -> None:
    message = desk.message("run it once")

    async def deliver() -> Accepted:
        async with desk.database.transaction() as tx:
            return await accept_chat(tx, message)

    answers = await asyncio.gather(*(deliver() for _ in range(100)))

    assert sum(not answer.duplicate for answer in answers) == 1
    assert len({(a.trigger_id, a.thread_id, a.eval_id) for a in answers}) == 1
    assert await desk.count("triggers") == 1
    assert await desk.count("evals") == 1
    assert len(await desk.inbox(desk.router)) == 1

    # Every replica may try to accept it, too: one Ticket.
    eval_id = answers[0].eval_id
    outcomes = await asyncio.gather(
        *(desk.close(eval_id, Accept(title="once")) for _ in range(20)), return_exceptions=True
    )
    assert sum(not isinstance(outcome, BaseException) for outcome in outcomes) == 1
    assert all(isinstance(o, Conflict) for o in outcomes if isinstance(o, BaseException))
    assert await desk.count("tickets") == 1
    assert await desk.count("assignments") == 1
    late = await deliver()
    assert late.duplicate
    assert await desk.count("tickets") == 1


async def test_the_same_id_in_two_conversations_at_once_is_one_event(desk: Desk) -> None:
    one = desk.message("hello", conversation="a")
    two = desk.message("hello", conversation="b", client_message_id=one.client_message_id)

    async def deliver(n: int) -> Accepted:
        async with desk.database.transaction() as tx:
            return await accept_chat(tx, (one, two)[n % 2])

    answers = await asyncio.gather(*(deliver(n) for n in range(20)))

    assert len({answer.trigger_id for answer in answers}) == 1
    assert await desk.count("triggers") == 1


async def test_numbers_in_a_thread_have_no_gap_and_no_double_however_many_write_at_once(
    desk: Desk,
) -> None:
    await asyncio.gather(*(desk.say(f"message {n}") for n in range(30)))

    rows = await desk.rows("select thread_seq from triggers order by thread_seq")
    assert [row["thread_seq"] for row in rows] == list(range(1, 31))


async def test_an_id_that_was_used_for_another_text_is_refused(desk: Desk) -> None:
    await desk.say("run uname", client_message_id="1")

    with pytest.raises(Conflict, match="was used for another text"):
        await desk.say("rm -rf /", client_message_id="1")


async def test_nobody_reads_or_shadows_anothers_message_by_its_id(desk: Desk) -> None:
    bob = await desk.member(MemberRole.MEMBER)
    mine = await desk.say("run uname", client_message_id="1")

    theirs = await desk.say("run date", client_message_id="1", member_id=bob)

    assert not theirs.duplicate
    assert theirs.trigger_id != mine.trigger_id


async def test_an_edit_is_a_new_trigger_that_names_the_old_one(desk: Desk) -> None:
    first = await desk.say("run unam", client_message_id="1")

    edit = desk.message("run uname", client_message_id="2", replaces_client_message_id="1")
    async with desk.database.transaction() as tx:
        edited = await accept_chat(tx, edit)
    async with desk.database.transaction() as tx:
        again = await accept_chat(tx, edit)
    second = await desk.say("run uname -a", client_message_id="3", replaces_client_message_id="1")

    assert again.duplicate
    rows = await desk.rows("select * from triggers order by thread_seq")
    assert [row["text"] for row in rows] == ["run unam", "run uname", "run uname -a"]
    assert [row["replaces_trigger_id"] for row in rows] == [
        None,
        first.trigger_id,
        edited.trigger_id,
    ]
    assert second.trigger_id == rows[2]["trigger_id"]


async def test_an_edit_that_changes_nothing_is_no_trigger(desk: Desk) -> None:
    first = await desk.say("run uname", client_message_id="1")

    same = await desk.say("run uname", client_message_id="2", replaces_client_message_id="1")

    assert same.duplicate
    assert same.trigger_id == first.trigger_id
    assert await desk.count("triggers") == 1


async def test_only_ones_own_messages_of_the_conversation_can_be_edited(desk: Desk) -> None:
    bob = await desk.member(MemberRole.MEMBER)
    await desk.say("run uname", client_message_id="1")

    for changes in ({"member_id": bob}, {"conversation": "elsewhere"}):
        with pytest.raises(NotFound, match="cannot edit message '1'"):
            await desk.say("x", replaces_client_message_id="1", **changes)


async def test_a_message_on_the_thread_of_a_live_ticket_is_only_delivered(desk: Desk) -> None:
    ticket = await desk.open_ticket()

    follow_up = await desk.say("and the kernel, please")

    assert follow_up.eval_id is None
    assert follow_up.delivered_to == (ticket.row.ticket_id,)
    assert await desk.count("evals") == 1
    ticket_message, delivered = await desk.inbox(ticket.last_session_id)
    assert ticket_message["kind"] == "ticket"
    assert (delivered["kind"], delivered["dedupe_key"]) == (
        "trigger",
        f"trigger:{follow_up.trigger_id}",
    )
    # The Router sees it all the same, as a digest entry that lets it sleep.
    (digest,) = [m for m in await desk.inbox(desk.router) if m["consumed_by_seq"] is None]
    assert (digest["kind"], digest["wakes"]) == ("digest", False)
    assert digest["payload"]["trigger_id"] == follow_up.trigger_id


async def test_a_follow_up_is_delivered_once_however_often_it_arrives(desk: Desk) -> None:
    ticket = await desk.open_ticket()
    message = desk.message("once more")

    async def deliver() -> Accepted:
        async with desk.database.transaction() as tx:
            return await accept_chat(tx, message)

    answers = await asyncio.gather(*(deliver() for _ in range(20)))

    assert {answer.delivered_to for answer in answers} == {(ticket.row.ticket_id,)}
    assert [m["kind"] for m in await desk.inbox(ticket.last_session_id)] == ["ticket", "trigger"]


async def test_a_message_in_another_conversation_is_judged_for_itself(desk: Desk) -> None:
    await desk.open_ticket(conversation="one")

    other = await desk.say("run date", conversation="two")

    assert other.eval_id is not None
    assert other.delivered_to == ()


async def test_two_tickets_on_one_thread_both_hear_it(desk: Desk) -> None:
    first = await desk.say("run uname")
    second = await desk.say("run date")
    await desk.read(desk.router)
    one = await desk.close(first.eval_id, Accept(title="uname"))
    two = await desk.close(second.eval_id, Accept(title="date"))

    heard = await desk.say("hurry up")

    assert set(heard.delivered_to) == {one.ticket_id, two.ticket_id}


async def test_a_viewers_message_is_heard_but_may_open_nothing(desk: Desk) -> None:
    viewer = await desk.member(MemberRole.VIEWER)
    accepted = await desk.say("run uname", member_id=viewer)

    closed = await desk.close(accepted.eval_id, Answer())

    assert closed.ticket_id is None


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("", InvalidInput, "empty"),
        (" \n\t", InvalidInput, "empty"),
        ("a\0b", InvalidInput, "NUL"),
        ("\ud800", InvalidInput, "broken character"),
        ("x" * (64 * 1024 + 1), TooLarge, "65,537 bytes, the limit is 65,536 bytes"),
        ("é" * 1024 * 1024, TooLarge, "2,097,152 bytes, the limit is 65,536 bytes"),
    ],
    ids=["empty", "blank", "NUL", "surrogate", "one byte too long", "1 MB"],
)
async def test_bad_text_is_refused_plainly_and_nothing_is_stored(
    desk: Desk, text: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        await desk.say(text)

    assert await desk.count("triggers") == 0
    assert await desk.count("threads") == 0


async def test_the_longest_text_is_taken(desk: Desk) -> None:
    accepted = await desk.say("x" * 64 * 1024)

    assert not accepted.duplicate


async def test_ids_that_are_not_of_this_instance_are_absent(desk: Desk, other_desk: Desk) -> None:
    theirs = await other_desk.machine("theirs")
    for changes in (
        {"source_id": other_desk.instance.chat_source_id},
        {"source_id": SourceId(new_id())},
        {"source_id": SourceId("no id")},
        {"member_id": other_desk.owner},
        {"member_id": MemberId(new_id())},
        {"this_machine_id": theirs},
        {"this_machine_id": MachineId("no id")},
    ):
        with pytest.raises(NotFound, match="cannot accept the message: there is no"):
            await desk.say("run uname", **changes)
    assert await desk.count("triggers") == 0


async def test_a_removed_member_is_absent(desk: Desk) -> None:
    bob = await desk.member(MemberRole.MEMBER)
    await desk.run("update members set removed_at = now() where member_id = %s", bob)

    with pytest.raises(NotFound, match="no member"):
        await desk.say("run uname", member_id=bob)


async def test_a_message_after_the_ticket_closed_is_judged_anew(desk: Desk) -> None:
    ticket = await desk.open_ticket()
    await desk.report(ticket, ReportKind.READY)
    report_id = (await desk.ticket(ticket.row.ticket_id)).reports[0].report_id
    await desk.run("update reports set delivered_at = now() where report_id = %s", report_id)
    assert await desk.due() == 1

    later = await desk.say("run date")

    assert later.delivered_to == ()
    assert later.eval_id is not None
