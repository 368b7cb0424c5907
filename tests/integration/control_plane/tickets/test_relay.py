"""From the outbox to people: once, in order, and never in doubt."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from farhand_control_plane.channels import relay
from farhand_control_plane.channels.channel import NotSent, SendResult, Sent, Unclear
from farhand_control_plane.channels.chat import ChatChannel
from farhand_control_plane.channels.relay import Relay
from farhand_control_plane.db import outbox
from farhand_control_plane.db.listen import Listener
from farhand_control_plane.db.outbox import OutboxView
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.outbox import TRIES_MAX
from farhand_control_plane.domain.words import (
    MemberRole,
    OutboxState,
    ReportKind,
    Stage,
    TicketOutcome,
)
from farhand_control_plane.ingest.tickets import reply_sent
from farhand_control_plane.ingest.verdicts import Answer
from farhand_shared.errors import Conflict, InvalidInput, NotAllowed, NotFound
from farhand_shared.ids import (
    CommandId,
    OutboxId,
    QuestionId,
    ReportId,
    ThreadId,
    TicketId,
    TriggerId,
    new_id,
)

from .conftest import Desk

Until = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]


class Post:
    """A provider with a memory: what arrived, by idempotency key.

    Does not model: rate limits, edits, other people's messages.
    """

    record_is_delivery = False

    def __init__(self) -> None:
        self.arrived: list[tuple[str, str]] = []  # key, text
        self.sends = self.lookups = 0
        self.faults: list[str] = []  # what happens to the next sends
        self.blind = False  # look-ups do not answer

    async def send(self, row: OutboxView) -> SendResult:
        self.sends += 1
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "refused":
            return NotSent(error="the channel is archived", final=True)
        if fault == "busy":
            return NotSent(error="try later", retry_after_s=120)
        if fault == "lost before":
            raise ConnectionError("connection reset")
        self.arrived.append((row.idempotency_key, row.text))
        if fault == "lost after":
            raise ConnectionError("connection reset")
        if fault == "unclear":
            return Unclear(error="502")
        if fault == "killed after":
            raise asyncio.CancelledError
        return Sent(receipt={"ts": len(self.arrived)})

    async def reconcile(self, row: OutboxView) -> SendResult:
        self.lookups += 1
        if self.blind:
            return Unclear(error="the provider is down")
        if any(key == row.idempotency_key for key, _ in self.arrived):
            return Sent(receipt={"found": True})
        return NotSent(error="not there")

    @property
    def texts(self) -> list[str]:
        return [text for _, text in self.arrived]


def relay_to(desk: Desk, channel: Any) -> Relay:
    return Relay(desk.database, Listener(desk.database.dsn), {"chat": channel}, on_sent=reply_sent)


async def thread(desk: Desk, conversation: str = "main") -> ThreadId:
    accepted = await desk.say("hello", conversation=conversation)
    await desk.close(accepted.eval_id, Answer())
    return accepted.thread_id


async def send(desk: Desk, thread_id: ThreadId, text: str, **changes: Any) -> OutboxId:
    changes.setdefault("kind", "reply")
    changes.setdefault("idempotency_key", text)
    async with desk.database.transaction() as tx:
        return await relay.send(tx, desk.instance.instance_id, thread_id, text=text, **changes)


async def row_of(desk: Desk, outbox_id: OutboxId) -> OutboxView:
    async with desk.database.transaction() as tx:
        view = await outbox.get(tx, desk.instance.instance_id, outbox_id)
    assert view is not None
    return view


# ── what may be said ────────────────────────────────────────────────────────────────────────────


async def test_a_reply_of_more_than_a_hundred_words_is_refused_with_both_counts(
    desk: Desk,
) -> None:
    thread_id = await thread(desk)

    with pytest.raises(InvalidInput, match="101 words, the limit is 100"):
        await send(desk, thread_id, "word " * 101)
    with pytest.raises(InvalidInput, match="empty"):
        await send(desk, thread_id, " ")
    with pytest.raises(InvalidInput, match="use reply or question"):
        await send(desk, thread_id, "hi", kind="acknowledgement")
    assert await desk.count("outbox") == 0


async def test_command_output_is_attached_by_id_and_does_not_count(desk: Desk) -> None:
    ticket = await desk.open_ticket()
    command_id = await desk.command(ticket, await desk.machine())

    outbox_id = await send(
        desk,
        ticket.origin_thread_id,
        "word " * 100,
        ticket_id=ticket.row.ticket_id,
        command_ids=[command_id],
    )

    assert (await row_of(desk, outbox_id)).command_ids == (command_id,)


async def test_the_same_idempotency_key_is_the_same_message(desk: Desk) -> None:
    thread_id = await thread(desk)

    ids = await asyncio.gather(
        *(send(desk, thread_id, "hi", idempotency_key="s:1:0") for _ in range(10))
    )

    assert len(set(ids)) == 1
    assert await desk.relay() == 1
    assert len(await desk.events("reply_sent")) == 1


async def test_ids_of_another_instance_are_absent(desk: Desk, other_desk: Desk) -> None:
    thread_id = await thread(desk)
    theirs = await other_desk.open_ticket()
    their_report = await other_desk.report(theirs, ReportKind.PROGRESS)
    their_question = QuestionId(await other_desk.report(theirs, ReportKind.QUESTION, "where?"))
    their_message = await other_desk.say("hello")
    their_command = await other_desk.command(theirs, await other_desk.machine())

    for changes in (
        {"ticket_id": theirs.row.ticket_id},
        {"ticket_id": TicketId("no id")},
        {"report_id": their_report},
        {"report_id": ReportId("no id")},
        {"command_ids": [their_command]},
        {"command_ids": [CommandId("no id")]},
        {"reply_to_trigger_id": their_message.trigger_id},
        {"reply_to_trigger_id": TriggerId("no id")},
        {"question_id": their_question},
        {"question_id": QuestionId("no id")},
    ):
        with pytest.raises(NotFound):
            await send(desk, thread_id, "hi", **changes)
    for unknown in (theirs.origin_thread_id, ThreadId(new_id()), ThreadId("no id")):
        with pytest.raises(NotFound):
            await send(desk, unknown, "hi")
    mine = await send(desk, thread_id, "hi")
    async with desk.database.transaction() as tx:
        assert await outbox.get(tx, other_desk.instance.instance_id, mine) is None


async def test_a_ticket_speaks_only_if_its_mandate_lets_it(desk: Desk, change_policy: Any) -> None:
    def silent(rules: dict[str, Any]) -> None:
        rules["mandate"]["scope"]["actions"] = ["run_command"]

    await change_policy(silent)
    ticket = await desk.open_ticket()

    with pytest.raises(NotAllowed, match="its mandate does not allow it"):
        await send(desk, ticket.origin_thread_id, "hi", ticket_id=ticket.row.ticket_id)


# ── the chat ────────────────────────────────────────────────────────────────────────────────────


async def test_a_chat_reply_is_an_event_with_all_a_page_shows(desk: Desk) -> None:
    thread_id = await thread(desk)
    outbox_id = await send(desk, thread_id, "you have one machine")

    await desk.relay()

    (event,) = await desk.events("reply_sent")
    assert (event["thread_id"], event["subject_id"]) == (thread_id, outbox_id)
    payload = event["payload"]
    assert (payload["text"], payload["kind"]) == ("you have one machine", "reply")
    assert (payload["command_ids"], payload["report_id"], payload["question_id"]) == (
        [],
        None,
        None,
    )
    assert (await row_of(desk, outbox_id)).state is OutboxState.SENT


async def test_the_acknowledgement_and_then_nothing_until_there_is_something_to_say(
    desk: Desk,
) -> None:
    ticket = await desk.open_ticket("run uname")
    await desk.report(ticket, ReportKind.PROGRESS, "half way")
    await desk.say("and?")

    await desk.relay()
    await desk.relay()

    (event,) = await desk.events("reply_sent")
    assert event["payload"]["text"] == "On it: run uname"
    assert event["payload"]["kind"] == "acknowledgement"


async def test_a_delivered_ready_report_that_names_nothing_closes_its_ticket(desk: Desk) -> None:
    ticket = await desk.open_ticket()
    report_id = await desk.report(ticket, ReportKind.READY, "Linux")
    assert (await desk.ticket(ticket.row.ticket_id)).row.stage is Stage.WORKING
    await send(
        desk,
        ticket.origin_thread_id,
        "It is Linux.",
        ticket_id=ticket.row.ticket_id,
        report_id=report_id,
    )

    await desk.relay()

    done = await desk.ticket(ticket.row.ticket_id)
    assert (done.row.stage, done.row.outcome) == (Stage.CLOSED, TicketOutcome.DONE)
    assert done.reports[0].delivered_at is not None
    (assignment,) = await desk.rows("select end_reason from assignments")
    assert assignment["end_reason"] == "finished"
    kinds = [e["kind"] for e in await desk.events("reply_sent", "ticket_closed")]
    assert kinds == ["reply_sent", "reply_sent", "ticket_closed"]  # people first hear the result


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (ReportKind.READY, {"accept": "the patch"}),
        (ReportKind.BLOCKED, {}),
        (ReportKind.FAILED, {}),
        (ReportKind.PROGRESS, {}),
        (ReportKind.QUESTION, {}),
    ],
)
async def test_no_other_report_closes_its_ticket(
    desk: Desk, kind: ReportKind, changes: dict[str, Any]
) -> None:
    ticket = await desk.open_ticket()
    report_id = await desk.report(ticket, kind, "so far", **changes)
    await send(
        desk,
        ticket.origin_thread_id,
        "so far",
        ticket_id=ticket.row.ticket_id,
        report_id=report_id,
    )

    await desk.relay()

    after = await desk.ticket(ticket.row.ticket_id)
    assert after.row.stage is not Stage.CLOSED
    assert after.reports[0].delivered_at is not None


async def deliver_ready(desk: Desk, ticket: Any) -> None:
    report_id = await desk.report(ticket, ReportKind.READY, "Linux")
    await send(
        desk,
        ticket.origin_thread_id,
        new_id(),
        ticket_id=ticket.row.ticket_id,
        report_id=report_id,
    )


async def test_a_message_that_the_executor_never_read_is_judged_when_the_ticket_is_done(
    desk: Desk,
) -> None:
    ticket = await desk.open_ticket()
    await deliver_ready(desk, ticket)
    late = await desk.say("run date too")
    assert late.delivered_to == (ticket.row.ticket_id,)

    await desk.relay()

    assert (await desk.ticket(ticket.row.ticket_id)).row.stage is Stage.CLOSED
    (pending,) = await desk.rows(
        "select et.trigger_id from evals e join eval_triggers et using (instance_id, eval_id)"
        " where e.state = 'pending'"
    )
    assert pending["trigger_id"] == late.trigger_id


async def test_a_ticket_stays_open_while_its_executor_works_on_a_message_read_after_the_report(
    desk: Desk,
) -> None:
    ticket = await desk.open_ticket()
    await deliver_ready(desk, ticket)
    late = await desk.say("run date too")
    await desk.read(ticket.last_session_id)

    await desk.relay()
    assert (await desk.ticket(ticket.row.ticket_id)).row.stage is not Stage.CLOSED

    # It hands the message back: nothing is left to do, and the message is judged.
    handed = await desk.hand_back(ticket, late.trigger_id)
    assert handed.eval_id is not None
    assert await desk.due() == 1
    assert (await desk.ticket(ticket.row.ticket_id)).row.outcome is TicketOutcome.DONE


async def test_a_next_ready_report_closes_a_ticket_that_had_gone_on(desk: Desk) -> None:
    ticket = await desk.open_ticket()
    await deliver_ready(desk, ticket)
    await desk.say("run date too")
    await desk.read(ticket.last_session_id)
    await desk.relay()

    await deliver_ready(desk, ticket)
    await desk.relay()

    assert (await desk.ticket(ticket.row.ticket_id)).row.outcome is TicketOutcome.DONE


async def test_an_older_report_that_is_delivered_late_closes_nothing(desk: Desk) -> None:
    ticket = await desk.open_ticket()
    await deliver_ready(desk, ticket)
    await desk.report(ticket, ReportKind.BLOCKED, "no, it is not done")

    await desk.relay()

    assert (await desk.ticket(ticket.row.ticket_id)).row.stage is Stage.NEEDS_PERSON


async def test_an_unsent_question_that_nobody_asks_any_more_is_not_sent(desk: Desk) -> None:
    ticket = await desk.open_ticket()
    report_id = await desk.report(ticket, ReportKind.QUESTION, "laptop or server?")
    await send(
        desk,
        ticket.origin_thread_id,
        "laptop or server?",
        kind="question",
        ticket_id=ticket.row.ticket_id,
        report_id=report_id,
        question_id=report_id,
    )
    await desk.report(ticket, ReportKind.PROGRESS, "hm")
    await desk.report(ticket, ReportKind.READY, "never mind", accept="it")

    await desk.relay()

    assert [e["payload"]["kind"] for e in await desk.events("reply_sent")] == ["acknowledgement"]


async def test_a_failure_of_ours_holds_up_one_thread_and_in_the_end_a_person_looks(
    desk: Desk,
) -> None:
    bad, good = await thread(desk, "bad"), await thread(desk, "good")
    ill = await send(desk, bad, "ill")

    async def fails_for_one(tx: Tx, row: OutboxView) -> None:
        if row.outbox_id == ill:
            raise RuntimeError("a bug of ours")
        await reply_sent(tx, row)

    one = Relay(
        desk.database,
        Listener(desk.database.dsn),
        {"chat": ChatChannel()},
        on_sent=fails_for_one,
    )
    await one.deliver_due()
    await send(desk, good, "well")
    assert await one.deliver_due() == 1
    assert [e["payload"]["text"] for e in await desk.events("reply_sent")] == ["well"]

    for _ in range(TRIES_MAX):
        await desk.shift_clock(60)
        await one.deliver_due()
    row = await row_of(desk, ill)
    assert row.state is OutboxState.DEAD
    assert row.error == "RuntimeError: a bug of ours"


# ── drafts ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_draft_goes_out_when_a_person_approves_it_in_place(desk: Desk) -> None:
    thread_id = await thread(desk)
    draft = await send(desk, thread_id, "dear all", draft=True)
    await send(desk, thread_id, "meanwhile")
    await desk.relay()
    assert [e["payload"]["text"] for e in await desk.events("reply_sent")] == ["meanwhile"]

    viewer = await desk.member(MemberRole.VIEWER)
    async with desk.database.transaction() as tx:
        with pytest.raises(NotAllowed):
            await outbox.approve(tx, desk.instance.instance_id, draft, viewer)
        await outbox.approve(tx, desk.instance.instance_id, draft, desk.owner)
        with pytest.raises(Conflict, match="cannot approve an outbox row that is ready"):
            await outbox.approve(tx, desk.instance.instance_id, draft, desk.owner)
    await desk.relay()

    texts = [e["payload"]["text"] for e in await desk.events("reply_sent")]
    assert texts == ["meanwhile", "dear all"]


async def test_a_discarded_draft_never_goes_out(desk: Desk, other_desk: Desk) -> None:
    thread_id = await thread(desk)
    draft = await send(desk, thread_id, "dear all", draft=True)

    async with desk.database.transaction() as tx:
        with pytest.raises(NotFound):
            await outbox.discard(tx, other_desk.instance.instance_id, draft, other_desk.owner)
        await outbox.discard(tx, desk.instance.instance_id, draft, desk.owner)
        with pytest.raises(Conflict):
            await outbox.approve(tx, desk.instance.instance_id, draft, desk.owner)

    assert await desk.relay() == 0


# ── a provider ──────────────────────────────────────────────────────────────────────────────────


async def test_messages_of_a_thread_go_out_in_order_and_once_however_many_relays_run(
    desk: Desk,
) -> None:
    post = Post()
    threads = [await thread(desk, f"t{n}") for n in range(4)]
    for n in range(10):
        for number, thread_id in enumerate(threads):
            await send(desk, thread_id, f"{number}:{n}")

    async def work() -> None:
        while len(post.arrived) < 40:
            await relay_to(desk, post).deliver_due()

    async with asyncio.timeout(60):
        await asyncio.gather(*(work() for _ in range(4)))

    assert len(post.texts) == len(set(post.texts)) == 40
    for number in range(4):
        mine = [text for text in post.texts if text.startswith(f"{number}:")]
        assert mine == [f"{number}:{n}" for n in range(10)]


@pytest.mark.parametrize("fault", ["lost after", "unclear"])
async def test_an_unknown_send_that_arrived_is_found_and_not_repeated(
    desk: Desk, fault: str
) -> None:
    post, thread_id = Post(), await thread(desk)
    post.faults = [fault]
    outbox_id = await send(desk, thread_id, "hello")

    await relay_to(desk, post).deliver_due()
    assert (await row_of(desk, outbox_id)).state is OutboxState.UNKNOWN
    await desk.shift_clock(60)
    await relay_to(desk, post).deliver_due()

    assert (post.texts, post.sends, post.lookups) == (["hello"], 1, 1)
    assert (await row_of(desk, outbox_id)).state is OutboxState.SENT
    assert len(await desk.events("reply_sent")) == 1


async def test_an_unknown_send_that_did_not_arrive_is_sent_after_the_look_up(desk: Desk) -> None:
    post, thread_id = Post(), await thread(desk)
    post.faults = ["lost before"]
    await send(desk, thread_id, "hello")

    for _ in range(3):
        await relay_to(desk, post).deliver_due()
        await desk.shift_clock(60)

    assert (post.texts, post.sends, post.lookups) == (["hello"], 2, 1)


async def test_nothing_is_sent_while_nobody_can_look(desk: Desk) -> None:
    post, thread_id = Post(), await thread(desk)
    post.faults, post.blind = ["unclear"], True
    outbox_id = await send(desk, thread_id, "hello")
    follower = await send(desk, thread_id, "and then")

    for _ in range(TRIES_MAX + 2):
        await relay_to(desk, post).deliver_due()
        await desk.shift_clock(60)

    # One send, many look-ups; in the end a person looks, and the thread goes on.
    assert (await row_of(desk, outbox_id)).state is OutboxState.DEAD
    assert (await row_of(desk, follower)).state is OutboxState.SENT
    assert post.texts == ["hello", "and then"]

    post.blind = False
    async with desk.database.transaction() as tx:
        await outbox.retry(tx, desk.instance.instance_id, outbox_id, desk.owner)
    await relay_to(desk, post).deliver_due()
    assert post.texts == ["hello", "and then"]  # it was there: found, not sent again
    assert (await row_of(desk, outbox_id)).state is OutboxState.SENT


async def test_a_relay_that_dies_after_the_send_leads_to_a_look_up_not_to_a_second_send(
    desk: Desk,
) -> None:
    post, thread_id = Post(), await thread(desk)
    post.faults = ["killed after"]
    outbox_id = await send(desk, thread_id, "hello")
    with pytest.raises(asyncio.CancelledError):
        await relay_to(desk, post).deliver_due()
    assert (await row_of(desk, outbox_id)).state is OutboxState.SENDING

    # While the claim may be alive nobody touches it.
    assert await relay_to(desk, post).deliver_due() == 0
    await desk.shift_clock(61)
    await relay_to(desk, post).deliver_due()

    assert (post.texts, post.sends, post.lookups) == (["hello"], 1, 1)
    assert (await row_of(desk, outbox_id)).state is OutboxState.SENT


async def test_who_wakes_after_its_claim_lapsed_writes_nothing(desk: Desk) -> None:
    thread_id = await thread(desk)
    outbox_id = await send(desk, thread_id, "hello")
    post = Post()

    class Slow(Post):
        async def send(self, row: OutboxView) -> SendResult:
            # Everybody else finds it, tries it and is done with it before this one answers.
            result = await post.send(row)
            await desk.shift_clock(61)
            await relay_to(desk, post).deliver_due()
            return NotSent(error=f"too late for {result}", final=True)

    await relay_to(desk, Slow()).deliver_due()

    assert (await row_of(desk, outbox_id)).state is OutboxState.SENT
    assert post.texts == ["hello"]
    assert len(await desk.events("reply_sent")) == 1


async def test_a_refused_message_is_dead_and_the_next_ones_go_on(desk: Desk) -> None:
    post, thread_id = Post(), await thread(desk)
    post.faults = ["refused"]
    refused = await send(desk, thread_id, "first")
    await send(desk, thread_id, "second")

    await relay_to(desk, post).deliver_due()

    row = await row_of(desk, refused)
    assert (row.state, row.error) == (OutboxState.DEAD, "the channel is archived")
    assert post.texts == ["second"]


async def test_a_busy_provider_is_given_the_time_it_asks_for_and_holds_its_thread(
    desk: Desk,
) -> None:
    post, thread_id = Post(), await thread(desk)
    post.faults = ["busy"]
    await send(desk, thread_id, "first")
    await send(desk, thread_id, "second")

    await relay_to(desk, post).deliver_due()
    await desk.shift_clock(119)
    assert await relay_to(desk, post).deliver_due() == 0
    await desk.shift_clock(2)
    await relay_to(desk, post).deliver_due()

    assert post.texts == ["first", "second"]


# ── the loop ────────────────────────────────────────────────────────────────────────────────────


async def test_a_running_relay_delivers_at_once_what_is_enqueued(desk: Desk, until: Until) -> None:
    thread_id = await thread(desk)
    async with Listener(desk.database.dsn) as listener:
        running = asyncio.create_task(
            Relay(desk.database, listener, {"chat": ChatChannel()}, on_sent=reply_sent).run()
        )
        try:
            for n in range(3):
                await send(desk, thread_id, f"message {n}")

                async def arrived(n: int = n) -> bool:
                    return len(await desk.events("reply_sent")) == n + 1

                await until(arrived)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_a_running_relay_outlives_the_loss_of_its_connections(
    desk: Desk, until: Until
) -> None:
    thread_id = await thread(desk)
    async with Listener(desk.database.dsn) as listener:
        running = asyncio.create_task(
            Relay(desk.database, listener, {"chat": ChatChannel()}, on_sent=reply_sent).run()
        )
        try:
            await desk.rows(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )

            async def enqueued() -> OutboxId | None:
                try:
                    return await send(desk, thread_id, "still there")
                except Exception:  # the pool may hand out one more connection that was cut
                    return None

            await until(enqueued)

            async def arrived() -> bool:
                return len(await desk.events("reply_sent")) == 1

            await until(arrived)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
