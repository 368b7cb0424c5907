"""The list of Tickets: people first, whatever else there is; and the facts behind each stage."""

import pytest

from farhand_control_plane.channels import relay
from farhand_control_plane.db import tickets
from farhand_control_plane.db.tickets import TicketPage, TicketView
from farhand_control_plane.domain.words import Needs, ReportKind, Stage
from farhand_control_plane.ingest.tickets import stop_ticket
from farhand_shared.errors import InvalidInput
from farhand_shared.ids import TicketId, new_id

from .conftest import Desk


async def listed(
    desk: Desk, *, limit: int = 50, cursor: str | None = None, stage: Stage | None = None
) -> TicketPage:
    async with desk.database.transaction() as tx:
        return await tickets.list_(
            tx, desk.instance.instance_id, limit=limit, cursor=cursor, stage=stage
        )


async def open_apart(desk: Desk, text: str) -> TicketView:
    return await desk.open_ticket(text, conversation=new_id())


async def one_of_each(desk: Desk) -> dict[str, TicketView]:
    """Make a Ticket in every stage, those that need a person in the middle of the others."""
    made = {"closed": await open_apart(desk, "closed")}
    async with desk.database.transaction() as tx:
        await stop_ticket(
            tx, desk.instance.instance_id, made["closed"].row.ticket_id, desk.owner, ""
        )
    made["working"] = await open_apart(desk, "working")
    for kind, changes in (
        (ReportKind.QUESTION, {}),
        (ReportKind.READY, {"accept": "the patch"}),
        (ReportKind.BLOCKED, {}),
        (ReportKind.FAILED, {}),
    ):
        made[kind.value] = await open_apart(desk, kind.value)
        await desk.report(made[kind.value], kind, **changes)
    made["delivery"] = await desk.open_ticket("delivery", conversation="delivery")
    await desk.run(
        "update assignments set ended_at = farhand_now() where ticket_id = %s",
        made["delivery"].row.ticket_id,
    )
    await desk.say("hello?", conversation="delivery")
    made["queued"] = await open_apart(desk, "queued")
    await desk.command(made["queued"], await desk.machine("laptop"))
    made["idle"] = await open_apart(desk, "idle")
    await desk.read(made["idle"].last_session_id)
    await desk.read(made["queued"].last_session_id)
    made["newest"] = await open_apart(desk, "newest")
    return made


EXPECTED = {
    "closed": (Stage.CLOSED, None),
    "working": (Stage.WORKING, None),
    "question": (Stage.NEEDS_PERSON, Needs.ANSWER),
    "ready": (Stage.NEEDS_PERSON, Needs.REVIEW),
    "blocked": (Stage.NEEDS_PERSON, Needs.BLOCKED),
    "failed": (Stage.NEEDS_PERSON, Needs.FAILED),
    "delivery": (Stage.NEEDS_PERSON, Needs.DELIVERY),
    "queued": (Stage.QUEUED, None),
    "idle": (Stage.IDLE, None),
    "newest": (Stage.WORKING, None),
}


async def test_every_stage_is_computed_from_what_happened(desk: Desk) -> None:
    await one_of_each(desk)

    page = await listed(desk)

    assert {row.title: (row.stage, row.needs) for row in page.items} == EXPECTED


async def test_everything_that_needs_a_person_is_first_and_closed_tickets_are_last(
    desk: Desk,
) -> None:
    await one_of_each(desk)

    page = await listed(desk)

    order = [row.stage for row in page.items]
    assert order[:5] == [Stage.NEEDS_PERSON] * 5
    assert Stage.NEEDS_PERSON not in order[5:]
    assert Stage.CLOSED not in order[:-1]
    assert [row.title for row in page.items[5:]] == [
        "newest",
        "idle",
        "queued",
        "working",
        "closed",
    ]
    assert page.next_cursor is None


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 10])
async def test_pages_together_are_the_list(desk: Desk, limit: int) -> None:
    await one_of_each(desk)
    for n in range(3):
        more = await open_apart(desk, f"closed {n}")
        async with desk.database.transaction() as tx:
            await stop_ticket(tx, desk.instance.instance_id, more.row.ticket_id, desk.owner, "")
    whole = [row.ticket_id for row in (await listed(desk)).items]

    paged: list[TicketId] = []
    cursor = None
    while True:
        page = await listed(desk, limit=limit, cursor=cursor)
        assert len(page.items) <= limit
        paged += [row.ticket_id for row in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break

    assert paged == whole


@pytest.mark.parametrize("stage", Stage)
async def test_the_list_of_one_stage(desk: Desk, stage: Stage) -> None:
    await one_of_each(desk)

    page = await listed(desk, stage=stage)

    assert {row.title for row in page.items} == {
        title for title, (is_stage, _) in EXPECTED.items() if is_stage is stage
    }


@pytest.mark.parametrize(
    "cursor", ["", "x", "AAAA", "W10", "WzAsICJub3ciLCAieCJd", "é", "W1tb" * 4000]
)
async def test_a_cursor_of_somebody_elses_making_is_refused(desk: Desk, cursor: str) -> None:
    with pytest.raises(InvalidInput, match="cursor"):
        await listed(desk, cursor=cursor)


async def test_a_ticket_that_waits_for_a_machine_names_it(desk: Desk) -> None:
    ticket = await desk.open_ticket()
    laptop = await desk.machine("laptop")
    await desk.command(ticket, laptop)
    await desk.read(ticket.last_session_id)

    (row,) = (await listed(desk)).items
    assert row.stage is Stage.QUEUED
    (machine,) = row.machines
    assert (machine.name, machine.online, machine.waiting) == ("laptop", False, True)

    # It comes online: nothing is waited for, the command is about to run.
    await desk.run(
        "insert into machine_connections (instance_id, machine_id, replica_id, epoch, lease_until)"
        " values (%s, %s, %s, 1, farhand_now() + interval '90 seconds')",
        desk.instance.instance_id,
        laptop,
        new_id(),
    )
    (row,) = (await listed(desk)).items
    assert row.stage is Stage.WORKING
    assert [(m.online, m.waiting) for m in row.machines] == [(True, False)]


async def test_a_ticket_counts_what_did_not_succeed_also_when_it_is_done(desk: Desk) -> None:
    ticket = await desk.open_ticket()
    ends = [  # one of each way to end, and whether that is no success
        ("exited", "exit", 0, False),
        ("exited", "exit", 2, True),
        ("exited", "signal", None, True),
        ("exited", "timeout", 0, True),
        ("exited", "cancel", None, False),
        ("spawn_error", "spawn_error", None, True),
        ("expired", None, None, True),
        ("superseded", None, None, False),
    ]
    for number in range(len(ends)):
        await desk.command(ticket, await desk.machine(f"box-{number}"))
    for state, reason, exit_code, _ in ends:
        await desk.run(
            "update attempts set state = %s, reason = %s, exit_code = %s, ended_at = farhand_now()"
            " where attempt_id = (select min(attempt_id::text)::uuid from attempts"
            " where state = 'queued')",
            state,
            reason,
            exit_code,
        )
    (row,) = (await listed(desk)).items
    assert (row.command_count, row.failed_commands) == (8, 5)


async def test_a_persons_message_releases_a_blocked_ticket(desk: Desk) -> None:
    ticket = await desk.open_ticket()
    await desk.report(ticket, ReportKind.BLOCKED, "no network")
    assert (await desk.ticket(ticket.row.ticket_id)).row.needs is Needs.BLOCKED

    await desk.say("it is back")

    assert (await desk.ticket(ticket.row.ticket_id)).row.stage is Stage.WORKING


async def test_a_message_that_was_handed_back_releases_nothing(desk: Desk) -> None:
    ticket = await desk.open_ticket()
    await desk.report(ticket, ReportKind.BLOCKED, "no network")
    other = await desk.say("run date")

    await desk.hand_back(ticket, other.trigger_id)

    assert (await desk.ticket(ticket.row.ticket_id)).row.needs is Needs.BLOCKED


async def test_a_tombstone_needs_a_person_until_somebody_speaks_to_it(desk: Desk) -> None:
    ticket = await desk.open_ticket()
    await desk.run(
        "update sessions set tombstoned_at = farhand_now(), ready_at = null where session_id = %s",
        ticket.last_session_id,
    )
    assert (await desk.ticket(ticket.row.ticket_id)).row.needs is Needs.FAILED

    await desk.say("try again")

    assert (await desk.ticket(ticket.row.ticket_id)).row.stage is Stage.WORKING


async def test_a_parked_message_needs_a_person(desk: Desk) -> None:
    ticket = await desk.open_ticket()

    await desk.run(
        "update inbox set parked_at = farhand_now() where session_id = %s", ticket.last_session_id
    )

    assert (await desk.ticket(ticket.row.ticket_id)).row.needs is Needs.DELIVERY


async def test_a_draft_waits_for_review(desk: Desk) -> None:
    ticket = await desk.open_ticket()

    async with desk.database.transaction() as tx:
        await relay.send(
            tx,
            desk.instance.instance_id,
            ticket.origin_thread_id,
            kind="reply",
            text="shall I say this?",
            ticket_id=ticket.row.ticket_id,
            idempotency_key="draft",
            draft=True,
        )

    assert (await desk.ticket(ticket.row.ticket_id)).row.needs is Needs.REVIEW


async def test_a_reply_that_cannot_be_sent_needs_a_person(desk: Desk) -> None:
    ticket = await desk.open_ticket()

    await desk.run("update outbox set state = 'dead'")

    assert (await desk.ticket(ticket.row.ticket_id)).row.needs is Needs.DELIVERY


async def test_an_instance_lists_its_own_tickets_only(desk: Desk, other_desk: Desk) -> None:
    mine = await desk.open_ticket()
    theirs = await other_desk.open_ticket()

    assert [row.ticket_id for row in (await listed(desk)).items] == [mine.row.ticket_id]
    assert [row.ticket_id for row in (await listed(other_desk)).items] == [theirs.row.ticket_id]
    async with desk.database.transaction() as tx:
        for unknown in (theirs.row.ticket_id, TicketId(new_id()), TicketId("no id")):
            assert await tickets.get(tx, desk.instance.instance_id, unknown) is None
            assert await tickets.why(tx, desk.instance.instance_id, unknown) is None
