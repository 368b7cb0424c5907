"""A newer command of the same machine and key takes the place of the older ones."""

import asyncio
from itertools import count

from farhand_control_plane.db import commands
from farhand_shared.command import ExitReason
from tests.fakes.fake_daemon import FakeDaemon, echo, hold


async def test_a_newer_command_with_the_same_key_supersedes_and_waits_for_the_older(lab):
    async with lab.running(supersede_key="deploy") as (_, machine, _, first):
        job = machine.jobs[first.attempt_id]
        job.deaf = True
        second = await lab.enqueue(machine, "second", supersede_key="deploy")
        third = await lab.enqueue(machine, "third", supersede_key="deploy")
        assert (await lab.view(second.command_id)).state == "superseded"
        await asyncio.wait_for(job.cancelled.wait(), 10)
        assert job.cancel_reason == "superseded"
        assert (await lab.view(third.command_id)).state == "queued"
        assert machine.starts == [first.attempt_id]
        job.end(None, reason=ExitReason.CANCEL, signal=15)
        await lab.sees(lambda: machine.starts == [first.attempt_id, third.attempt_id])
        machine.jobs[third.attempt_id].end()
        assert (await lab.ended(third.command_id)).state == "exited"


async def test_after_an_absence_only_the_newest_of_a_key_runs_and_what_was_too_late_says_so(lab):
    """Token rotations must not be replayed: https://github.com/open-ace/open-ace/issues/2499."""
    replica = await lab.replica()
    machine = await lab.machine(replica)
    rotations = [
        await lab.enqueue(machine, "echo", f"v{n}", supersede_key="token") for n in (1, 2, 3)
    ]
    late = await lab.enqueue(machine, "echo", "old", start_within_ms=5 * 60_000)
    await lab.shift_clock(6 * 60)
    async with FakeDaemon(machine):
        states = [(await lab.ended(one.command_id)).state for one in (*rotations, late)]
    assert states == ["superseded", "superseded", "exited", "expired"]
    assert machine.starts == [rotations[2].attempt_id]


async def test_the_sessions_of_superseded_commands_are_told(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    ticket = await lab.ticket()
    first = await lab.enqueue(machine, "first", supersede_key="k", **ticket.asks(1))
    await lab.enqueue(machine, "second", supersede_key="k", **ticket.asks(2))
    (message,) = await lab.sql("select dedupe_key, payload from inbox")
    assert message["dedupe_key"] == f"command:{first.command_id}:done"
    assert message["payload"]["state"] == "superseded"


async def test_a_key_counts_on_its_own_machine_only(lab):
    replica = await lab.replica()
    here, there = await lab.machine(replica, "here"), await lab.machine(replica, "there")
    kept = [
        await lab.enqueue(here, "a", supersede_key="other"),
        await lab.enqueue(here, "b"),
        await lab.enqueue(there, "c", supersede_key="k"),
    ]
    await lab.enqueue(here, "d", supersede_key="k")
    assert {(await lab.view(one.command_id)).state for one in kept} == {"queued"}


async def test_of_many_that_come_at_once_with_a_key_one_runs(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    asked = await asyncio.gather(
        *(lab.enqueue(machine, "echo", str(n), supersede_key="k") for n in range(8))
    )
    async with FakeDaemon(machine):
        states = [(await lab.ended(one.command_id)).state for one in asked]
    assert sorted(states) == ["exited", *["superseded"] * 7]
    assert len(machine.starts) == 1


async def test_the_newer_one_waits_also_when_its_id_is_the_smaller_one(lab, monkeypatch):
    """Ids hold the time of the replica that makes them, and clocks of replicas differ."""
    async with lab.running(supersede_key="k") as (replica, machine, _, first):
        job = machine.jobs[first.attempt_id]
        job.deaf = True
        numbers = count()
        monkeypatch.setattr(
            commands, "new_id", lambda: f"01890000-0000-7000-8000-{next(numbers):012x}"
        )
        second = await lab.enqueue(machine, "second", supersede_key="k")
        assert second.attempt_id < first.attempt_id
        await asyncio.wait_for(job.cancelled.wait(), 10)
        await lab.idle(replica, machine)
        assert (await lab.view(second.command_id)).state == "queued"
        job.end(None, reason=ExitReason.CANCEL, signal=15)
        await lab.sees(lambda: machine.starts == [first.attempt_id, second.attempt_id])


async def test_a_superseded_offer_that_never_arrived_never_runs(lab):
    async with lab.offered_to_nobody("echo", "old", supersede_key="k") as (machine, old):
        new = await lab.enqueue(machine, "echo", "new", supersede_key="k")
        async with FakeDaemon(machine):
            assert (await lab.ended(old.command_id)).state == "cancelled_before_start"
            assert (await lab.ended(new.command_id)).state == "exited"
    assert machine.starts == [new.attempt_id]
    assert machine.tombstones == {old.attempt_id}


async def test_a_superseded_command_that_ends_while_its_machine_is_away_frees_its_key(lab):
    """At once when the machine is back: nothing else looks at the queue here for an hour."""
    replica = await lab.replica(expire_s=3600.0)
    machine = await lab.machine(replica)
    machine.behaviour = hold
    async with lab.daemon(machine, replica) as daemon:
        old = await lab.enqueue(machine, "old", supersede_key="k")
        await lab.sees(lambda: machine.starts)
        await daemon.cut()
        await lab.sees(lambda: not replica.hub.held())
        new = await lab.enqueue(machine, "new", supersede_key="k")
        machine.jobs[old.attempt_id].end(0)
        machine.behaviour = echo
        await daemon.connect()
        assert (await lab.ended(new.command_id)).state == "exited"
    view = await lab.view(old.command_id)
    assert (view.state, view.stop_reason) == ("exited", "superseded")
