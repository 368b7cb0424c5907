"""Two transactions at the same moment, one held open: what the locks are for."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from farhand_control_plane.domain.words import QuestionState, ReportKind
from farhand_control_plane.ingest.chat import accept_chat
from farhand_control_plane.ingest.handback import hand_back
from farhand_control_plane.ingest.tickets import (
    NewQuestion,
    answer_question,
    ask,
    stop_ticket,
)
from farhand_control_plane.ingest.verdicts import Accept, close_eval
from farhand_shared.errors import Conflict
from farhand_shared.ids import EvalId, MemberId, QuestionId

from .conftest import Desk, Until

Race = Callable[[Awaitable[Any]], Awaitable["asyncio.Task[Any]"]]


@pytest.fixture
def race(desk: Desk, until: Until) -> Race:
    """Start something beside an open transaction; return it once it ended or waits for a lock."""

    async def start(work: Awaitable[Any]) -> "asyncio.Task[Any]":
        task = asyncio.ensure_future(work)

        async def settled() -> bool:
            waiting = await desk.rows(
                "select 1 from pg_stat_activity where datname = current_database()"
                " and wait_event_type = 'Lock'"
            )
            return task.done() or bool(waiting)

        await until(settled)
        return task

    return start


async def pending(desk: Desk) -> set[str]:
    rows = await desk.rows(
        "select et.trigger_id from evals e join eval_triggers et using (instance_id, eval_id)"
        " where e.state = 'pending'"
    )
    return {row["trigger_id"] for row in rows}


@pytest.mark.parametrize("executor", ["alive", "gone"])
async def test_a_message_and_a_stop_at_the_same_moment(
    desk: Desk, race: Race, executor: str
) -> None:
    ticket = await desk.open_ticket()
    if executor == "gone":
        await desk.run("update assignments set ended_at = farhand_now()")

    async def stop() -> None:
        async with desk.database.transaction() as tx:
            await stop_ticket(tx, desk.instance.instance_id, ticket.row.ticket_id, desk.owner, "")

    async with desk.database.transaction() as tx:
        accepted = await accept_chat(tx, desk.message("one more thing"))
        assert accepted.delivered_to == (ticket.row.ticket_id,)
        stopping = await race(stop())
    await stopping

    assert await pending(desk) == {accepted.trigger_id}


async def test_a_stop_and_a_message_at_the_same_moment(desk: Desk, race: Race) -> None:
    ticket = await desk.open_ticket()

    async with desk.database.transaction() as tx:
        await stop_ticket(tx, desk.instance.instance_id, ticket.row.ticket_id, desk.owner, "")
        saying = await race(desk.say("one more thing"))
    accepted = await saying

    assert accepted.delivered_to == ()
    assert await pending(desk) == {accepted.trigger_id}


async def test_a_message_and_a_verdict_at_the_same_moment(desk: Desk, race: Race) -> None:
    first = await desk.say("run uname")
    await desk.read(desk.router)
    assert first.eval_id is not None

    async with desk.database.transaction() as tx:
        closed = await close_eval(
            tx, desk.instance.instance_id, EvalId(first.eval_id), Accept(title="uname")
        )
        saying = await race(desk.say("on the laptop"))
    accepted = await saying

    assert accepted.delivered_to == (closed.ticket_id,)
    assert await pending(desk) == set()


async def test_two_hand_backs_at_the_same_moment_do_not_take_each_other_for_a_holder(
    desk: Desk, race: Race
) -> None:
    first, second = await desk.say("run uname"), await desk.say("run date")
    await desk.read(desk.router)
    tickets = []
    for asked in (first, second):
        closed = await desk.close(asked.eval_id, Accept(title="work"))
        assert closed.ticket_id is not None
        tickets.append(await desk.ticket(closed.ticket_id))
    message = await desk.say("run whoami")
    one, two = tickets

    async with desk.database.transaction() as tx:
        await hand_back(
            tx, desk.instance.instance_id, one.row.ticket_id, message.trigger_id, "not mine"
        )
        handing = await race(desk.hand_back(two, message.trigger_id))
    last = await handing

    assert last.eval_id is not None
    assert await pending(desk) == {message.trigger_id}


async def test_two_answers_to_the_routers_question_at_the_same_moment(
    desk: Desk, race: Race
) -> None:
    said = await desk.say("hello")
    async with desk.database.transaction() as tx:
        question_id = await ask(
            tx,
            desk.instance.instance_id,
            said.thread_id,
            NewQuestion(text="which machine?"),
            effect_key="r:1:0",
        )

    async def answer(tx: Any, text: str) -> None:
        await answer_question(tx, desk.instance.instance_id, question_id, desk.owner, text)

    async def second() -> None:
        async with desk.database.transaction() as tx:
            await answer(tx, "server")

    async with desk.database.transaction() as tx:
        await answer(tx, "laptop")
        late = await race(second())
    with pytest.raises(Conflict, match="it was answered"):
        await late

    settled = await desk.question(question_id)
    assert (settled.state, settled.answer) == (QuestionState.ANSWERED, "laptop")
    answers = [m for m in await desk.inbox(desk.router) if m["kind"] == "answer"]
    assert [m["payload"]["answer"] for m in answers] == ["laptop"]


async def test_an_answer_and_a_stop_at_the_same_moment(desk: Desk, race: Race) -> None:
    ticket = await desk.open_ticket()
    question_id = QuestionId(await desk.report(ticket, ReportKind.QUESTION, "laptop?"))

    async def answer(member_id: MemberId) -> None:
        async with desk.database.transaction() as tx:
            await answer_question(tx, desk.instance.instance_id, question_id, member_id, "yes")

    async with desk.database.transaction() as tx:
        await stop_ticket(tx, desk.instance.instance_id, ticket.row.ticket_id, desk.owner, "")
        answering = await race(answer(desk.owner))
    with pytest.raises(Conflict, match="no longer asked"):
        await answering
