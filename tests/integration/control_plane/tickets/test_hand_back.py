"""Events that an executor gives back are neither lost nor bounced."""

import asyncio

import pytest

from farhand_control_plane.db import intake, questions
from farhand_control_plane.db.tickets import TicketView
from farhand_control_plane.domain.words import EvalState
from farhand_control_plane.ingest.chat import Accepted
from farhand_control_plane.ingest.tickets import answer_question
from farhand_control_plane.ingest.verdicts import Accept, Attach
from farhand_shared.errors import Conflict, NotFound
from farhand_shared.ids import TriggerId, new_id

from .conftest import Desk


async def two_tickets_on_one_thread(desk: Desk) -> tuple[TicketView, TicketView, Accepted]:
    """Two open tickets that both were brought the same message."""
    first, second = await desk.say("run uname"), await desk.say("run date")
    await desk.read(desk.router)
    one = await desk.close(first.eval_id, Accept(title="uname"))
    two = await desk.close(second.eval_id, Accept(title="date"))
    assert one.ticket_id is not None
    assert two.ticket_id is not None
    message = await desk.say("run whoami")
    assert len(message.delivered_to) == 2
    return await desk.ticket(one.ticket_id), await desk.ticket(two.ticket_id), message


async def test_an_event_that_its_only_subscriber_hands_back_is_judged(desk: Desk) -> None:
    ticket = await desk.open_ticket()
    message = await desk.say("run date")
    assert message.eval_id is None

    handed = await desk.hand_back(ticket, message.trigger_id)

    assert handed.eval_id is not None
    async with desk.database.transaction() as tx:
        view = await intake.eval_for_router(tx, desk.instance.instance_id, handed.eval_id)
    assert view is not None
    assert view.state is EvalState.PENDING
    assert [trigger.text for trigger in view.triggers] == ["run date"]
    assert view.handed_back_by == (ticket.row.ticket_id,)
    assert view.requester_member_id == desk.owner
    keys = [m["dedupe_key"] for m in await desk.inbox(desk.router)]
    assert f"eval:{handed.eval_id}" in keys


async def test_an_event_is_judged_only_when_the_last_subscriber_gave_it_back(desk: Desk) -> None:
    one, two, message = await two_tickets_on_one_thread(desk)

    first = await desk.hand_back(one, message.trigger_id)
    last = await desk.hand_back(two, message.trigger_id)

    assert (first.eval_id, first.question_id) == (None, None)
    assert last.eval_id is not None


async def test_two_that_hand_back_at_the_same_moment_make_one_eval(desk: Desk) -> None:
    one, two, message = await two_tickets_on_one_thread(desk)

    outcomes = await asyncio.gather(
        desk.hand_back(one, message.trigger_id), desk.hand_back(two, message.trigger_id)
    )

    assert len([o for o in outcomes if o.eval_id is not None]) == 1


async def test_a_hand_back_counts_once_per_ticket(desk: Desk) -> None:
    ticket = await desk.open_ticket()
    message = await desk.say("run date")

    outcomes = await asyncio.gather(*(desk.hand_back(ticket, message.trigger_id) for _ in range(5)))

    assert sum(not outcome.repeated for outcome in outcomes) == 1
    assert len(await desk.rows("select * from evals where state = 'pending'")) == 1


async def test_an_event_never_returns_to_who_gave_it_back(desk: Desk) -> None:
    ticket = await desk.open_ticket()
    message = await desk.say("run date")
    handed = await desk.hand_back(ticket, message.trigger_id)

    with pytest.raises(Conflict, match="it handed this event back"):
        await desk.close(handed.eval_id, Attach(ticket_id=ticket.row.ticket_id))

    closed = await desk.close(handed.eval_id, Accept(title="date"))
    assert closed.ticket_id != ticket.row.ticket_id
    worker = await desk.inbox(ticket.last_session_id)
    assert [m["kind"] for m in worker] == ["ticket", "trigger"]


async def test_many_subscribers_of_one_conversation_are_one_round(desk: Desk) -> None:
    said = [await desk.say(f"run {n}") for n in range(4)]
    await desk.read(desk.router)
    opened = [await desk.close(one.eval_id, Accept(title=str(n))) for n, one in enumerate(said)]
    message = await desk.say("status")
    assert len(message.delivered_to) == 4

    handed = [
        await desk.hand_back(await desk.ticket(one.ticket_id), message.trigger_id) for one in opened
    ]

    assert [h.question_id for h in handed] == [None] * 4
    assert handed[-1].eval_id is not None


async def test_after_three_hand_backs_a_person_is_asked_once_and_visibly(desk: Desk) -> None:
    first = await desk.open_ticket()
    message = await desk.say("make me a sandwich " * 20)
    handed = await desk.hand_back(first, message.trigger_id)
    for _ in range(2):
        helper = await desk.open_ticket(conversation=new_id())
        await desk.close(handed.eval_id, Attach(ticket_id=helper.row.ticket_id))
        handed = await desk.hand_back(helper, message.trigger_id)

    assert handed.eval_id is None
    assert handed.question_id is not None
    async with desk.database.transaction() as tx:
        (question,) = await questions.open_(tx, desk.instance.instance_id)
    assert question.question_id == handed.question_id
    assert "make me a sandwich" in question.text
    (asked,) = await desk.rows("select * from outbox where kind = 'question'")
    assert asked["thread_id"] == message.thread_id
    assert asked["body"]["question_id"] == question.question_id
    (event,) = await desk.events("question_asked")
    assert event["thread_id"] == message.thread_id

    # Whoever answers wakes the Router, which can open a ticket or let it be.
    async with desk.database.transaction() as tx:
        await answer_question(
            tx, desk.instance.instance_id, question.question_id, desk.owner, "forget it"
        )
    (answer,) = [m for m in await desk.inbox(desk.router) if m["kind"] == "answer"]
    assert answer["payload"]["answer"] == "forget it"


async def test_only_what_was_delivered_can_be_handed_back(desk: Desk, other_desk: Desk) -> None:
    ticket = await desk.open_ticket(conversation="one")
    elsewhere = await desk.say("run date", conversation="two")
    theirs = await other_desk.say("run date")

    for trigger_id in (
        elsewhere.trigger_id,
        theirs.trigger_id,
        TriggerId(new_id()),
        TriggerId("no id"),
    ):
        with pytest.raises(NotFound, match="cannot hand back"):
            await desk.hand_back(ticket, trigger_id)
    assert await desk.events("trigger_handed_back") == []


async def test_the_hand_back_of_a_stranger_to_the_policy_is_only_recorded(desk: Desk) -> None:
    # Delivery skips the gate; judgement does not: who may not ask is not judged after all.
    ticket = await desk.open_ticket()
    message = await desk.say("run date")
    await desk.run("update members set removed_at = now() where member_id = %s", desk.owner)

    handed = await desk.hand_back(ticket, message.trigger_id)

    assert (handed.eval_id, handed.question_id) == (None, None)
    (event,) = await desk.events("trigger_handed_back")
    assert event["subject_id"] == message.trigger_id
