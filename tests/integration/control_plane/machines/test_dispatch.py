"""From the queue to its machine: claims, offers, and who is told."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from farhand_control_plane.db import (
    command_stops,
    command_views,
    machine_changes,
    sessions,
)
from farhand_control_plane.domain.words import SessionKind
from farhand_shared.errors import Conflict, InvalidInput, NotAllowed, NotFound
from farhand_shared.ids import CommandId, InstanceId, MachineId, MemberId, new_id
from tests.fakes.fake_daemon import FakeDaemon, hold
from tests.fakes.machine_lab import DAY_S


async def test_a_queued_command_waits_for_its_machine_and_starts_when_it_comes(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    queued = await lab.enqueue(machine, "echo", "late")
    assert (await lab.view(queued.command_id)).state == "queued"
    async with FakeDaemon(machine):
        view = await lab.ended(queued.command_id)
    assert (view.state, view.result.exit_code) == ("exited", 0)
    assert machine.starts == [queued.attempt_id]


async def test_a_command_is_claimed_by_the_replica_that_holds_the_link(lab):
    holder, other = await lab.replica(), await lab.replica()
    machine = await lab.machine(holder)
    async with lab.daemon(machine, holder):
        seen = await lab.exec(other, "fake", "echo", "across")
    assert seen.bytes_of() == b"across\n"
    assert other.hub.held() == ()
    assert machine.starts == [seen.attempt_id]


async def test_output_is_followed_across_replicas_while_it_comes(lab):
    holder, other = await lab.replica(), await lab.replica()
    machine = await lab.machine(holder)
    machine.behaviour = hold
    async with lab.daemon(machine, holder):
        seen, task = await lab.start(other, "fake", "long")
        await lab.sees(lambda: machine.starts)
        job = machine.jobs[machine.starts[0]]
        job.write(b"first")
        await lab.sees(lambda: seen.bytes_of() == b"first")
        job.write(b" second")
        job.end()
        await asyncio.wait_for(task, 20)
    assert seen.bytes_of() == b"first second"


async def test_the_effect_key_makes_enqueue_idempotent(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    async with lab.database.transaction() as tx:
        session_id = await sessions.create(tx, lab.instance.instance_id, SessionKind.WORKER)
    key = {"session_id": session_id, "item_seq": 1, "call_index": 0}
    first = await lab.enqueue(machine, "echo", "once", **key)
    again = await lab.enqueue(machine, "echo", "once", **key)
    assert first.created
    assert not again.created
    assert (again.command_id, again.attempt_id) == (first.command_id, first.attempt_id)


async def test_a_session_hears_of_the_end_exactly_once(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    async with lab.database.transaction() as tx:
        session_id = await sessions.create(tx, lab.instance.instance_id, SessionKind.WORKER)
    queued = await lab.enqueue(
        machine, "echo", "x", session_id=session_id, item_seq=1, call_index=0
    )
    async with FakeDaemon(machine):
        await lab.ended(queued.command_id)
    rows = await lab.sql("select kind, dedupe_key, payload from inbox")
    assert rows == [
        {
            "kind": "command_done",
            "dedupe_key": f"command:{queued.command_id}:done",
            "payload": {
                "command_id": queued.command_id,
                "attempt_id": queued.attempt_id,
                "state": "exited",
            },
        }
    ]


async def test_bad_requests_are_refused_before_anything_is_stored(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    stranger = MemberId(new_id())
    await lab.sql(
        "insert into members (instance_id, member_id, name, role) values (%s, %s, 'x', 'member')",
        lab.instance.instance_id,
        stranger,
    )
    with pytest.raises(InvalidInput, match="start_within_ms"):
        await lab.enqueue(machine, "x", start_within_ms=8 * 24 * 3600 * 1000)
    machine_id, machine.machine_id = machine.machine_id, new_id()
    with pytest.raises(NotFound, match="no such machine"):
        await lab.enqueue(machine, "x")
    machine.machine_id = machine_id
    await lab.sql("update machines set owner_member_id = %s", stranger)
    with pytest.raises(NotAllowed, match="another member's"):
        await lab.enqueue(machine, "x")
    await lab.sql(
        "update machines set status = 'pending', owner_member_id = %s",
        lab.instance.owner_member_id,
    )
    with pytest.raises(Conflict, match="nobody has compared its six words"):
        await lab.enqueue(machine, "x")
    assert await lab.sql("select 1 from commands") == []


async def test_another_instances_ids_look_absent(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    queued = await lab.enqueue(machine, "x")
    other = InstanceId(new_id())
    async with lab.database.transaction() as tx:
        assert await command_views.get(tx, other, CommandId(queued.command_id)) is None
        assert await command_views.of_attempt(tx, other, queued.attempt_id) is None
        assert await command_stops.request_stop(tx, other, command_id=queued.command_id) == 0
    with pytest.raises(NotFound):
        await replica.execs.follow(other, lab.instance.owner_member_id, queued.attempt_id)


async def test_a_tickets_commands_are_told_as_events_and_to_its_session(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    ticket = await lab.ticket()
    queued = await lab.enqueue(machine, "echo", "x", **ticket.asks(1))
    async with FakeDaemon(machine):
        assert (await lab.ended(queued.command_id)).state == "exited"
    events = await lab.sql(
        "select kind, ticket_id, payload from events where ticket_id is not null order by seq"
    )
    assert [event["kind"] for event in events] == [
        "command_waiting",
        "command_started",
        "command_ended",
    ]
    assert {event["ticket_id"] for event in events} == {ticket.ticket_id}
    assert events[0]["payload"]["machine"] == "fake"
    assert events[2]["payload"] == {
        "command_id": queued.command_id,
        "machine": "fake",
        "title": "echo x",
        "state": "exited",
        "exit_status": 0,
    }
    async with lab.database.transaction() as tx:
        listed = await command_views.of_ticket(tx, lab.instance.instance_id, ticket.ticket_id)
    assert [view.command_id for view in listed] == [queued.command_id]


async def test_an_offer_that_never_arrived_is_made_again_on_the_next_link(lab):
    async with lab.offered_to_nobody("echo", "x") as (machine, queued), FakeDaemon(machine):
        assert (await lab.ended(queued.command_id)).state == "exited"
    assert machine.starts == [queued.attempt_id]


async def test_a_paused_machine_is_offered_nothing_until_it_is_resumed(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    instance = lab.instance
    whose = (instance.instance_id, MachineId(machine.machine_id), instance.owner_member_id)
    async with lab.daemon(machine, replica):
        async with lab.database.transaction() as tx:
            await machine_changes.pause(tx, *whose)
        queued = await lab.enqueue(machine, "echo", "x")
        with pytest.raises(Conflict, match="it is paused"):
            await lab.exec(replica, "fake", "echo", "y")
        view = await lab.view(queued.command_id)
        assert (view.state, view.waits_because) == ("queued", "paused")
        async with lab.database.transaction() as tx:
            await machine_changes.resume(tx, *whose)
        assert (await lab.ended(queued.command_id)).state == "exited"


@pytest.mark.parametrize("because", ["offline", "paused"])
async def test_what_waits_for_its_machine_is_told_with_the_reason_and_the_end(lab, because):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    ticket = await lab.ticket()
    async with AsyncExitStack() as stack:
        if because == "paused":
            await stack.enter_async_context(lab.daemon(machine, replica))
            await lab.sql("update machines set status = 'paused'")
        queued = await lab.enqueue(machine, "x", **ticket.asks(1))
        view = await lab.view(queued.command_id)
    (event,) = await lab.sql("select kind, payload from events where ticket_id is not null")
    assert event["kind"] == "command_waiting"
    assert event["payload"]["because"] == because
    assert event["payload"]["until"] == view.start_expires_at.isoformat()
    assert (view.start_expires_at - view.queued_at).total_seconds() == DAY_S


async def test_what_can_start_at_once_is_not_said_to_wait(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    ticket = await lab.ticket()
    async with lab.daemon(machine, replica):
        queued = await lab.enqueue(machine, "echo", "x", **ticket.asks(1))
        await lab.ended(queued.command_id)
    events = await lab.sql("select kind from events where ticket_id is not null order by seq")
    assert [event["kind"] for event in events] == ["command_started", "command_ended"]


async def test_a_refused_offer_is_reported_once_and_never_made_again(lab):
    """An agent once accepted the same refused job 758 times.

    https://github.com/buildkite/agent/issues/1723, and for a full disk
    https://github.com/buildkite/agent/issues/1105
    """
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.refuses_as = "disk_full"
    async with lab.daemon(machine, replica) as daemon:
        queued = await lab.enqueue(machine, "echo", "x")
        view = await lab.ended(queued.command_id)
        assert (view.state, view.result.error_code) == ("refused", "disk_full")
        for _ in range(3):
            await daemon.cut()
            await daemon.connect()
            await lab.idle(replica, machine)
        machine.refuses_as = ""  # there is room again, and nobody had to say so
        after = await lab.enqueue(machine, "echo", "y")
        assert (await lab.ended(after.command_id)).state == "exited"
    assert machine.refusals == [queued.attempt_id]
    assert machine.starts == [after.attempt_id]
