"""A Ticket's life: reports, questions, acceptance, stop, expiry, and what closing does."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from farhand_control_plane.channels import relay
from farhand_control_plane.db import ticket_records, tickets
from farhand_control_plane.domain.feedback import count_words
from farhand_control_plane.domain.words import (
    MemberRole,
    Needs,
    QuestionState,
    ReportKind,
    Stage,
    TicketOutcome,
)
from farhand_control_plane.ingest.tickets import (
    NewQuestion,
    accept_ticket,
    answer_question,
    deny_question,
    stop_ticket,
    withdraw_mandate,
)
from farhand_shared.errors import Conflict, InvalidInput, NotAllowed, NotFound
from farhand_shared.ids import CommandId, MemberId, QuestionId, ReportId, TicketId, new_id

from .conftest import Desk

# ── reports ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_report_is_stored_and_wakes_the_router(desk: Desk) -> None:
    ticket = await desk.open_ticket()
    command_id = await desk.command(ticket, await desk.machine())

    report_id = await desk.report(
        ticket, ReportKind.READY, "Linux", command_ids=[command_id], accept="the answer"
    )

    (report,) = (await desk.ticket(ticket.row.ticket_id)).reports
    assert report.report_id == report_id
    assert (report.text, report.accept, report.command_ids) == (
        "Linux",
        "the answer",
        (command_id,),
    )
    assert report.thread_ids == ticket.thread_ids
    message = (await desk.inbox(desk.router))[-1]
    assert (message["kind"], message["payload"]) == ("report", {"report_id": report_id})


async def test_the_same_effect_is_one_report_even_after_the_ticket_closed(desk: Desk) -> None:
    ticket = await desk.open_ticket()
    first = await desk.report(ticket, ReportKind.PROGRESS, effect_key="s:1:0")
    again = await desk.report(ticket, ReportKind.PROGRESS, effect_key="s:1:0")
    other = await desk.report(ticket, ReportKind.PROGRESS, effect_key="s:1:1")

    assert first == again != other
    await stop(desk, ticket.row.ticket_id)
    assert await desk.report(ticket, ReportKind.PROGRESS, effect_key="s:1:0") == first
    assert await desk.count("reports") == 2


async def test_only_the_executor_of_an_open_ticket_reports(desk: Desk) -> None:
    ticket, other = await desk.open_ticket(), await desk.open_ticket(conversation="two")

    with pytest.raises(Conflict, match="not the ticket's executor"):
        await desk.report(ticket, ReportKind.READY, session_id=other.last_session_id)
    await stop(desk, ticket.row.ticket_id)
    with pytest.raises(Conflict, match=r"closed \(stopped\)"):
        await desk.report(ticket, ReportKind.READY)


@pytest.mark.parametrize(
    ("kind", "text", "changes", "words"),
    [
        (ReportKind.READY, " ", {}, "empty"),
        (ReportKind.READY, "x" * 70_000, {}, "70,000 bytes, the limit is 65,536"),
        (ReportKind.READY, "x", {"question": NewQuestion(text="?")}, "no other"),
        (ReportKind.QUESTION, "x", {"question": None}, "carries a question"),
        (ReportKind.QUESTION, "x", {"question": NewQuestion(text=" ")}, "question: it is empty"),
        (ReportKind.BLOCKED, "x", {"accept": "y"}, "only a ready report"),
        (ReportKind.READY, "x", {"command_ids": [CommandId(new_id())]}, "no command of this"),
        (ReportKind.READY, "x", {"command_ids": [CommandId("no id")]}, "no command of this"),
    ],
)
async def test_a_report_that_breaks_a_rule_is_refused(
    desk: Desk, kind: ReportKind, text: str, changes: dict[str, Any], words: str
) -> None:
    ticket = await desk.open_ticket()

    with pytest.raises(InvalidInput, match=words):
        await desk.report(ticket, kind, text, **changes)


async def test_a_report_cannot_show_another_tickets_output(desk: Desk) -> None:
    ticket, other = await desk.open_ticket(), await desk.open_ticket(conversation="two")
    command_id = await desk.command(other, await desk.machine())

    with pytest.raises(InvalidInput, match="no command of this ticket"):
        await desk.report(ticket, ReportKind.READY, command_ids=[command_id])


async def test_what_a_model_wrote_is_stored_whatever_it_holds(desk: Desk) -> None:
    ticket = await desk.open_ticket()

    await desk.report(ticket, ReportKind.PROGRESS, "a\0b\ud800c")

    assert (await desk.ticket(ticket.row.ticket_id)).reports[0].text == "a\ufffdb\ufffdc"


# ── questions ───────────────────────────────────────────────────────────────────────────────────


async def asked(desk: Desk) -> tuple[TicketId, QuestionId]:
    ticket = await desk.open_ticket()
    report_id = await desk.report(
        ticket,
        ReportKind.QUESTION,
        "laptop or server?",
        question=NewQuestion(
            text="laptop or server?",
            options=("laptop", "server"),
            default_option="laptop",
            if_unanswered="it waits",
        ),
    )
    return ticket.row.ticket_id, QuestionId(report_id)


async def answer(
    desk: Desk, question_id: QuestionId, text: str, member_id: MemberId | None = None
) -> None:
    async with desk.database.transaction() as tx:
        await answer_question(
            tx, desk.instance.instance_id, question_id, member_id or desk.owner, text
        )


async def test_a_question_waits_for_a_person_and_its_answer_wakes_the_worker(desk: Desk) -> None:
    ticket_id, question_id = await asked(desk)
    ticket = await desk.ticket(ticket_id)
    assert (ticket.row.stage, ticket.row.needs) == (Stage.NEEDS_PERSON, Needs.ANSWER)
    (question,) = ticket.questions
    assert (question.options, question.default_option) == (("laptop", "server"), "laptop")
    assert ticket.reports[0].question == question

    await answer(desk, question_id, "server")

    ticket = await desk.ticket(ticket_id)
    assert ticket.questions == ()
    assert ticket.row.stage is Stage.WORKING
    message = (await desk.inbox(ticket.last_session_id))[-1]
    assert (message["kind"], message["dedupe_key"]) == ("answer", f"answer:{question_id}")
    assert message["payload"]["answer"] == "server"
    assert message["payload"]["state"] == "answered"
    settled = await desk.question(question_id)
    assert settled.state is QuestionState.ANSWERED
    assert settled.answered_by_member_id == desk.owner


async def test_no_answer_is_not_yes_however_long_it_takes(desk: Desk) -> None:
    ticket_id, question_id = await asked(desk)

    await desk.shift_clock(6 * 24 * 3600)
    await desk.due()

    assert (await desk.question(question_id)).state is QuestionState.PENDING
    assert (await desk.ticket(ticket_id)).row.needs is Needs.ANSWER


async def test_of_many_answers_at_once_exactly_one_is_first(desk: Desk) -> None:
    ticket_id, question_id = await asked(desk)
    people = [await desk.member(MemberRole.MEMBER, f"m{n}") for n in range(8)]

    outcomes = await asyncio.gather(
        *(answer(desk, question_id, f"answer {n}", who) for n, who in enumerate(people)),
        return_exceptions=True,
    )

    assert sum(outcome is None for outcome in outcomes) == 1
    assert all("it was answered" in str(o) for o in outcomes if o is not None)
    settled = await desk.question(question_id)
    answers = [
        m
        for m in await desk.inbox((await desk.ticket(ticket_id)).last_session_id)
        if m["kind"] == "answer"
    ]
    assert [m["payload"]["answer"] for m in answers] == [settled.answer]


async def test_the_same_answer_by_the_same_person_is_taken_again_without_effect(
    desk: Desk,
) -> None:
    ticket_id, question_id = await asked(desk)

    await answer(desk, question_id, "server")
    await answer(desk, question_id, "server")

    inbox = await desk.inbox((await desk.ticket(ticket_id)).last_session_id)
    assert [m["kind"] for m in inbox] == ["ticket", "answer"]
    with pytest.raises(Conflict, match="it was answered"):
        await answer(desk, question_id, "laptop")


async def test_a_denied_question_is_not_an_answered_one(desk: Desk) -> None:
    ticket_id, question_id = await asked(desk)

    async with desk.database.transaction() as tx:
        await deny_question(tx, desk.instance.instance_id, question_id, desk.owner)

    message = (await desk.inbox((await desk.ticket(ticket_id)).last_session_id))[-1]
    assert (message["payload"]["state"], message["payload"]["answer"]) == ("denied", None)
    with pytest.raises(Conflict, match="it was denied"):
        await answer(desk, question_id, "server")


@pytest.mark.parametrize("kind", [k for k in ReportKind if k is not ReportKind.PROGRESS])
async def test_a_later_report_supersedes_the_open_question(desk: Desk, kind: ReportKind) -> None:
    ticket_id, question_id = await asked(desk)

    await desk.report(await desk.ticket(ticket_id), kind, "something else")

    assert (await desk.question(question_id)).state is QuestionState.SUPERSEDED
    assert len((await desk.ticket(ticket_id)).questions) == (kind is ReportKind.QUESTION)
    with pytest.raises(Conflict, match="no longer asked"):
        await answer(desk, question_id, "server")


async def test_progress_leaves_the_question_open(desk: Desk) -> None:
    ticket_id, question_id = await asked(desk)

    await desk.report(await desk.ticket(ticket_id), ReportKind.PROGRESS, "still here")

    assert (await desk.question(question_id)).state is QuestionState.PENDING


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (TicketOutcome.STOPPED, QuestionState.SUPERSEDED),
        (TicketOutcome.EXPIRED, QuestionState.EXPIRED),
    ],
)
async def test_a_question_ends_with_its_ticket(
    desk: Desk, outcome: TicketOutcome, state: QuestionState
) -> None:
    ticket_id, question_id = await asked(desk)

    if outcome is TicketOutcome.STOPPED:
        await stop(desk, ticket_id)
    else:
        await desk.shift_clock(8 * 24 * 3600)
        assert await desk.due() == 1

    assert (await desk.ticket(ticket_id)).row.outcome is outcome
    assert (await desk.question(question_id)).state is state
    with pytest.raises(Conflict):
        await answer(desk, question_id, "server")


async def test_bad_answers_are_refused(desk: Desk, other_desk: Desk) -> None:
    _, question_id = await asked(desk)
    _, theirs = await asked(other_desk)
    viewer = await desk.member(MemberRole.VIEWER)

    with pytest.raises(InvalidInput, match="empty"):
        await answer(desk, question_id, " ")
    with pytest.raises(NotAllowed, match="viewer"):
        await answer(desk, question_id, "server", viewer)
    with pytest.raises(NotAllowed, match="no member"):
        await answer(desk, question_id, "server", other_desk.owner)
    for unknown in (theirs, QuestionId(new_id()), QuestionId("no id")):
        with pytest.raises(NotFound, match="there is none"):
            await answer(desk, unknown, "server")
    assert (await other_desk.question(theirs)).state is QuestionState.PENDING


# ── a silent Router ─────────────────────────────────────────────────────────────────────────────


async def test_a_report_that_the_router_does_not_read_for_a_minute_is_told_by_code(
    desk: Desk,
) -> None:
    ticket = await desk.open_ticket("run uname")
    command_id = await desk.command(ticket, await desk.machine())
    await desk.report(ticket, ReportKind.PROGRESS, "half way")
    report_id = await desk.report(
        ticket, ReportKind.READY, "It is Linux. " * 100, command_ids=[command_id]
    )
    await desk.relay()
    assert await desk.due() == 0

    await desk.shift_clock(61)
    assert await desk.due() == 1
    assert await desk.due() == 0
    await desk.relay()

    told = (await desk.events("reply_sent"))[-1]["payload"]
    assert told["text"].startswith("run uname: It is Linux.")
    assert told["text"].endswith("…")
    assert count_words(told["text"]) <= 100
    assert told["command_ids"] == [command_id]
    assert (await desk.ticket(ticket.row.ticket_id)).row.outcome is TicketOutcome.DONE

    # The Router comes back: it says nothing again.
    async with desk.database.transaction() as tx:
        with pytest.raises(Conflict, match="people have it already"):
            await relay.send(
                tx,
                desk.instance.instance_id,
                ticket.origin_thread_id,
                kind="reply",
                text="It is Linux.",
                ticket_id=ticket.row.ticket_id,
                report_id=report_id,
                idempotency_key="r:1:0",
            )


async def test_a_question_is_told_with_its_options(desk: Desk) -> None:
    ticket_id, question_id = await asked(desk)

    await desk.shift_clock(61)
    await desk.due()
    await desk.relay()

    told = (await desk.events("reply_sent"))[-1]["payload"]
    assert (told["kind"], told["question_id"]) == ("question", question_id)
    assert told["text"].endswith("laptop or server?\nOptions: laptop, server")
    assert (await desk.ticket(ticket_id)).row.needs is Needs.ANSWER


async def test_what_the_router_has_read_is_its_own_to_tell(desk: Desk) -> None:
    ticket = await desk.open_ticket()
    await desk.report(ticket, ReportKind.READY)
    await desk.read(desk.router)

    await desk.shift_clock(3600)

    assert await desk.due() == 0


# ── closing ─────────────────────────────────────────────────────────────────────────────────────


async def stop(desk: Desk, ticket_id: TicketId, member_id: MemberId | None = None) -> None:
    async with desk.database.transaction() as tx:
        await stop_ticket(
            tx, desk.instance.instance_id, ticket_id, member_id or desk.owner, "enough"
        )


async def test_stop_ends_executor_commands_and_subscription(desk: Desk) -> None:
    ticket = await desk.open_ticket()
    command_id = await desk.command(ticket, await desk.machine())

    await stop(desk, ticket.row.ticket_id)

    stopped = await desk.ticket(ticket.row.ticket_id)
    assert (stopped.row.stage, stopped.row.outcome) == (Stage.CLOSED, TicketOutcome.STOPPED)
    assert stopped.session_id is None
    (assignment,) = await desk.rows("select * from assignments")
    assert assignment["end_reason"] == "stopped"
    (session,) = await desk.rows(
        "select * from sessions where session_id = %s", ticket.last_session_id
    )
    assert session["ended_at"] is not None
    (attempt,) = await desk.rows("select * from attempts where command_id = %s", command_id)
    assert attempt["state"] == "cancelled_before_start"
    (subscription,) = await desk.rows("select * from subscriptions")
    assert subscription["ended_at"] is not None
    (event,) = await desk.events("ticket_closed")
    assert event["payload"]["outcome"] == "stopped"


async def test_of_many_stops_at_once_one_stops(desk: Desk) -> None:
    ticket = await desk.open_ticket()

    outcomes = await asyncio.gather(
        *(stop(desk, ticket.row.ticket_id) for _ in range(8)), return_exceptions=True
    )

    assert sum(outcome is None for outcome in outcomes) == 1
    assert all("closed already (stopped)" in str(o) for o in outcomes if o is not None)
    assert len(await desk.events("ticket_closed")) == 1


async def test_only_entitled_people_close_a_ticket(desk: Desk, other_desk: Desk) -> None:
    ticket = await desk.open_ticket()
    theirs = await other_desk.open_ticket()
    viewer = await desk.member(MemberRole.VIEWER)

    for member_id in (viewer, other_desk.owner, MemberId(new_id()), MemberId("no id")):
        with pytest.raises(NotAllowed):
            await stop(desk, ticket.row.ticket_id, member_id)
    for unknown in (theirs.row.ticket_id, TicketId(new_id()), TicketId("no id")):
        with pytest.raises(NotFound):
            await stop(desk, unknown)
    assert (await desk.ticket(ticket.row.ticket_id)).row.stage is Stage.WORKING
    assert (await other_desk.ticket(theirs.row.ticket_id)).row.stage is Stage.WORKING


async def test_a_withdrawn_mandate_stops_its_ticket_and_stays_as_it_was(desk: Desk) -> None:
    ticket = await desk.open_ticket()

    async with desk.database.transaction() as tx:
        await withdraw_mandate(
            tx, desk.instance.instance_id, ticket.row.ticket_id, desk.owner, "too far"
        )

    after = await desk.ticket(ticket.row.ticket_id)
    assert after.row.outcome is TicketOutcome.STOPPED
    assert after.mandate.withdrawn_at is not None
    assert after.mandate.mandate_hash == ticket.mandate.mandate_hash
    (row,) = await desk.rows("select * from mandate_withdrawals")
    assert (row["withdrawn_by_member_id"], row["reason"]) == (desk.owner, "too far")


async def test_a_person_accepts_what_the_latest_report_names(desk: Desk) -> None:
    ticket = await desk.open_ticket()
    await desk.report(ticket, ReportKind.READY, "done", accept="the patch")
    waiting = await desk.ticket(ticket.row.ticket_id)
    assert (waiting.row.stage, waiting.row.needs) == (Stage.NEEDS_PERSON, Needs.REVIEW)

    async with desk.database.transaction() as tx:
        await accept_ticket(tx, desk.instance.instance_id, ticket.row.ticket_id, desk.owner)

    done = await desk.ticket(ticket.row.ticket_id)
    assert (done.row.outcome, done.closed_by_member_id) == (TicketOutcome.DONE, desk.owner)
    (assignment,) = await desk.rows("select * from assignments")
    assert assignment["end_reason"] == "finished"


async def test_there_must_be_something_to_accept(desk: Desk) -> None:
    ticket = await desk.open_ticket()

    async def accept() -> None:
        async with desk.database.transaction() as tx:
            await accept_ticket(tx, desk.instance.instance_id, ticket.row.ticket_id, desk.owner)

    with pytest.raises(Conflict, match="nothing to accept"):
        await accept()
    await desk.report(ticket, ReportKind.READY, "done", accept="the patch")
    await desk.report(ticket, ReportKind.BLOCKED, "no, wait")
    with pytest.raises(Conflict, match="nothing to accept"):
        await accept()


async def test_an_expired_mandate_closes_its_ticket_as_expired_on_one_replica(desk: Desk) -> None:
    ticket = await desk.open_ticket()
    command_id = await desk.command(ticket, await desk.machine())
    assert await desk.due() == 0

    await desk.shift_clock(8 * 24 * 3600)
    changed = await asyncio.gather(*(desk.due() for _ in range(4)))

    assert sum(changed) == 1
    expired = await desk.ticket(ticket.row.ticket_id)
    assert (expired.row.stage, expired.row.outcome) == (Stage.CLOSED, TicketOutcome.EXPIRED)
    assert expired.closed_by_member_id is None
    (attempt,) = await desk.rows("select state from attempts where command_id = %s", command_id)
    assert attempt["state"] in ("expired", "cancelled_before_start")
    (event,) = await desk.events("ticket_closed")
    assert event["payload"]["outcome"] == "expired"


_Close = Callable[[Desk, TicketId], Awaitable[Any]]


async def expire(desk: Desk, _: TicketId) -> None:
    await desk.shift_clock(8 * 24 * 3600)
    await desk.due()


@pytest.mark.parametrize("close", [stop, expire], ids=["stopped", "expired"])
async def test_a_message_that_the_executor_never_read_is_judged_when_its_ticket_closes(
    desk: Desk, close: _Close
) -> None:
    ticket = await desk.open_ticket()
    read = await desk.say("faster")
    await desk.read(ticket.last_session_id)
    unread = await desk.say("run date")

    await close(desk, ticket.row.ticket_id)

    (pending,) = await desk.rows(
        "select et.trigger_id from evals e join eval_triggers et using (instance_id, eval_id)"
        " where e.state = 'pending'"
    )
    assert pending["trigger_id"] == unread.trigger_id != read.trigger_id


async def test_messages_and_stops_at_the_same_moment_lose_nothing(desk: Desk) -> None:
    ticket = await desk.open_ticket()

    said, _ = await asyncio.gather(
        asyncio.gather(*(desk.say(f"message {n}") for n in range(20))),
        stop(desk, ticket.row.ticket_id),
    )

    judged = {
        row["trigger_id"]
        for row in await desk.rows(
            "select et.trigger_id from evals e join eval_triggers et using (instance_id, eval_id)"
            " where e.state = 'pending'"
        )
    }
    assert judged == {one.trigger_id for one in said}


async def test_a_closed_ticket_cannot_be_opened_again_in_the_database_by_halves(
    desk: Desk,
) -> None:
    ticket = await desk.open_ticket()
    await stop(desk, ticket.row.ticket_id)

    with pytest.raises(psycopg.errors.CheckViolation):
        await desk.run(
            "update tickets set outcome = null where ticket_id = %s", ticket.row.ticket_id
        )


# ── delivery to an executor that is gone ────────────────────────────────────────────────────────


async def test_input_that_cannot_be_delivered_needs_a_person_and_is_tried_again(
    desk: Desk,
) -> None:
    ticket = await desk.open_ticket()
    await desk.run("update assignments set ended_at = farhand_now(), end_reason = 'tombstoned'")

    message = await desk.say("are you there?")

    assert message.delivered_to == (ticket.row.ticket_id,)
    waiting = await desk.ticket(ticket.row.ticket_id)
    assert (waiting.row.stage, waiting.row.needs) == (Stage.NEEDS_PERSON, Needs.DELIVERY)
    tries = []
    for _ in range(7):
        await desk.shift_clock(60)
        await desk.due()
        (row,) = await desk.rows(
            "select tries, extract(epoch from next_try_at - farhand_now())::float8 as s"
            " from deliveries"
        )
        tries.append((row["tries"], round(row["s"])))
    assert tries == [(2, 4), (3, 8), (4, 16), (5, 32), (6, 60), (7, 60), (8, 60)]

    # A new executor gets it.
    async with desk.database.transaction() as tx:
        session_id = await ticket_records.assign(
            tx, desk.instance.instance_id, ticket.row.ticket_id
        )
    await desk.shift_clock(60)
    assert await desk.due() == 1
    assert [m["kind"] for m in await desk.inbox(session_id)] == ["trigger"]
    assert (await desk.ticket(ticket.row.ticket_id)).row.stage is Stage.WORKING


async def test_a_ticket_has_one_live_assignment_at_most(desk: Desk) -> None:
    ticket = await desk.open_ticket()

    with pytest.raises(psycopg.errors.UniqueViolation):
        async with desk.database.transaction() as tx:
            await ticket_records.assign(tx, desk.instance.instance_id, ticket.row.ticket_id)


async def test_a_report_id_of_another_instance_is_absent(desk: Desk, other_desk: Desk) -> None:
    theirs = await other_desk.report(await other_desk.open_ticket(), ReportKind.PROGRESS)

    async with desk.database.transaction() as tx:
        for report_id in (theirs, ReportId(new_id()), ReportId("no id")):
            assert await tickets.report_view(tx, desk.instance.instance_id, report_id) is None
