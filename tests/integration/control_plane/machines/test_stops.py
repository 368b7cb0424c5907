"""A wish to end a command: at once when it is queued, proven by its machine when not."""

import asyncio

from farhand_control_plane.db import command_stops
from farhand_shared.command import ExitReason
from farhand_shared.ids import new_id
from tests.fakes.fake_daemon import FakeDaemon, echo, hold


async def test_a_queued_command_is_cancelled_at_once_and_never_runs(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    queued = await lab.enqueue(machine, "echo", "never")
    assert await lab.stop(queued.command_id) == 1
    view = await lab.view(queued.command_id)
    assert (view.state, view.reason) == ("cancelled_before_start", "cancel")
    async with FakeDaemon(machine):
        later = await lab.enqueue(machine, "echo", "later")
        await lab.ended(later.command_id)
    assert machine.starts == [later.attempt_id]
    assert await lab.stop(queued.command_id) == 0


async def test_a_running_command_is_stopping_until_its_machine_proves_the_end(lab):
    holder, other = await lab.replica(), await lab.replica()
    machine = await lab.machine(holder)
    proven = asyncio.Event()

    async def stubborn(job):
        await job.cancelled.wait()
        await proven.wait()
        job.end(None, reason=ExitReason.CANCEL, signal=9)

    machine.behaviour = stubborn
    async with lab.daemon(machine, holder):
        seen, task = await lab.start(other, "fake", "long")
        await lab.sees(lambda: machine.starts)
        assert await lab.stop(seen.command_id) == 1
        (job,) = machine.jobs.values()
        await asyncio.wait_for(job.cancelled.wait(), 10)
        assert (await lab.view(seen.command_id)).state == "stopping"
        proven.set()
        view = await lab.ended(seen.command_id)
        await asyncio.wait_for(task, 20)
    assert (view.state, view.reason, view.stop_reason) == ("exited", "cancel", "cancel")
    assert view.result.signal == 9


async def test_a_command_stopped_while_its_machine_is_away_is_cancelled_on_return(lab):
    async with lab.running() as running:
        queued = running.queued
        await lab.cut(running)
        await lab.stop(queued.command_id)
        assert (await lab.view(queued.command_id)).state == "stopping"
        await running.daemon.connect()
        view = await lab.ended(queued.command_id)
    assert (view.state, view.reason) == ("exited", "cancel")


async def test_a_stop_beats_the_start_that_waits_for_the_same_reconnect(lab):
    async with lab.offered_to_nobody("echo", "never") as (machine, queued):
        assert await lab.stop(queued.command_id) == 1
        async with FakeDaemon(machine):
            view = await lab.ended(queued.command_id)
    assert (view.state, view.stop_reason) == ("cancelled_before_start", "cancel")
    assert machine.starts == []
    assert machine.tombstones == {queued.attempt_id}


async def test_stopping_a_ticket_stops_all_its_commands(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    machine.concurrency = 1
    ticket = await lab.ticket()
    async with lab.daemon(machine, replica):
        both = [await lab.enqueue(machine, str(n), **ticket.asks(n)) for n in (1, 2)]
        await lab.sees(lambda: len(machine.starts) == 1)
        async with lab.database.transaction() as tx:
            stopped = await command_stops.request_stop(
                tx, lab.instance.instance_id, ticket_id=ticket.ticket_id, reason="cancel"
            )
        assert stopped == 2
        states = {(await lab.ended(command.command_id)).state for command in both}
    assert states == {"exited", "cancelled_before_start"}
    assert len(machine.starts) == 1


async def lose_supervisor(lab, machine):
    """End the machine's only job as a daemon does whose supervisor was killed."""
    await lab.sees(lambda: machine.starts)
    (job,) = machine.jobs.values()
    job.end(None, reason=ExitReason.INDETERMINATE, error_code="supervisor_lost", error="process 1")
    await lab.sees(lambda: job.receipted)
    return job


async def test_a_stop_reaches_the_machine_of_an_indeterminate_command(lab):
    holder, other = await lab.replica(), await lab.replica()
    machine = await lab.machine(holder)
    machine.behaviour = hold
    async with lab.daemon(machine, holder) as daemon:
        seen, task = await lab.start(other, "fake", "long")
        job = await lose_supervisor(lab, machine)
        await asyncio.wait_for(task, 20)
        before = await lab.view(seen.command_id)
        assert (before.state, before.stop_reason) == ("indeterminate", None)
        assert await lab.stop(seen.command_id) == 0  # nothing was open
        await asyncio.wait_for(job.cancelled.wait(), 10)
        assert daemon.conflicts == []
    after = await lab.view(seen.command_id)
    assert (after.state, after.stop_reason) == ("indeterminate", "cancel")
    assert (after.result, after.ended_at) == (before.result, before.ended_at)


async def test_stopping_a_ticket_reaches_its_indeterminate_commands(lab):
    ticket = await lab.ticket()
    async with lab.running(**ticket.asks(1)) as running:
        job = await lose_supervisor(lab, running.machine)
        async with lab.database.transaction() as tx:
            await command_stops.request_stop(
                tx, lab.instance.instance_id, ticket_id=ticket.ticket_id
            )
        await asyncio.wait_for(job.cancelled.wait(), 10)


async def test_an_indeterminate_command_stopped_while_its_machine_is_away_is_ended_on_return(lab):
    async with lab.running() as running:
        queued = running.queued
        job = await lose_supervisor(lab, running.machine)
        await lab.cut(running)
        await lab.stop(queued.command_id)
        assert not job.cancelled.is_set()
        await running.daemon.connect()
        await asyncio.wait_for(job.cancelled.wait(), 10)
    assert (await lab.view(queued.command_id)).state == "indeterminate"


async def test_a_lost_command_that_its_machine_still_runs_can_be_stopped(lab):
    async with lab.running() as running:
        queued = running.queued
        await lab.given_up(running)
        await running.daemon.connect()
        assert await lab.stop(queued.command_id) == 0
        await lab.is_in("exited", queued.command_id)
    assert (await lab.view(queued.command_id)).reason == "cancel"


async def test_a_machine_that_forgot_is_not_asked_to_end_and_so_proves_nothing(lab):
    """Its tombstone would say that the command never ran."""
    async with lab.left_running() as (machine, queued):
        machine.jobs.clear()
        machine.journal_id = new_id()
        machine.journal_counter = 0
        async with FakeDaemon(machine):
            assert (await lab.ended(queued.command_id)).state == "indeterminate"
            await lab.stop(queued.command_id)
            machine.behaviour = echo
            after = await lab.enqueue(machine, "echo", "after")  # looked at behind the stop
            assert (await lab.ended(after.command_id)).state == "exited"
    assert machine.tombstones == set()
    assert (await lab.view(queued.command_id)).state == "indeterminate"
