"""One attempt, one result: sent again, late, another one, or none that anybody can know."""

import asyncio
from datetime import UTC, datetime, timedelta

from farhand_control_plane.db import attempts, output, partitions, sessions
from farhand_control_plane.domain.words import SessionKind
from farhand_control_plane.machines.sweeper import sweep
from farhand_shared import codec
from farhand_shared.command import CommandResult, ExitReason
from farhand_shared.ids import new_id
from farhand_shared.link_events import Result, Stream
from tests.fakes.fake_daemon import FakeDaemon, hold
from tests.fakes.machine_lab import DAY_S


async def test_a_result_sent_again_and_again_is_recorded_once(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    async with lab.daemon(machine, replica) as daemon:
        seen, task = await lab.start(replica, "fake", "x")
        await lab.sees(lambda: machine.starts)
        (job,) = machine.jobs.values()
        job.end(3)
        await daemon.send([job.result, job.result])
        await asyncio.wait_for(task, 20)
        await lab.sees(lambda: job.receipted)
        # And once more from a daemon that lost the acknowledgement.
        await daemon.die()
        job.receipted = False
        async with FakeDaemon(machine):
            await lab.sees(lambda: job.receipted)
    view = await lab.view(seen.command_id)
    assert (view.state, view.result.exit_code) == ("exited", 3)
    assert len(await lab.sql("select 1 from attempts")) == 1


def another_result(job, exit_code=99):
    """Make a machine tell another end of its job than before."""
    result = CommandResult(reason=ExitReason.EXIT, exit_code=exit_code)
    job.result = Result(
        attempt_id=job.attempt_id, result=result, result_hash=codec.result_hash(result)
    )
    job.wrote = {stream: bytearray() for stream in job.wrote}
    job.receipted = False


async def test_another_result_for_a_recorded_attempt_is_refused(lab, caplog):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    async with lab.daemon(machine, replica) as daemon:
        seen = await lab.exec(replica, "fake", "echo", "x")
        (job,) = machine.jobs.values()
        await daemon.die()
        another_result(job)
        async with FakeDaemon(machine) as again:
            await lab.sees(lambda: again.conflicts == [job.attempt_id])
    assert (await lab.view(seen.command_id)).result.exit_code == 0
    assert f"another result for attempt {job.attempt_id}, it is refused" in caplog.text


async def test_the_result_of_a_command_that_ended_while_the_link_was_down_arrives(lab):
    async with lab.running() as (_, machine, daemon, queued):
        await daemon.cut()
        (job,) = machine.jobs.values()
        job.write(b"while away")
        job.end()
        await daemon.connect()
        view = await lab.ended(queued.command_id)
    assert (view.state, view.stdout_stored) == ("exited", 10)
    assert machine.starts == [queued.attempt_id]


async def test_a_wiped_machine_makes_its_work_indeterminate_and_nothing_runs_twice(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    async with lab.daemon(machine, replica) as daemon:
        queued = await lab.enqueue(machine, "long")

        await lab.is_in("started", queued.command_id)
        await daemon.die()
        machine.jobs.clear()
        machine.journal_id = new_id()
        machine.journal_counter = 0
        async with FakeDaemon(machine):
            view = await lab.ended(queued.command_id)
    assert (view.state, view.reason) == ("indeterminate", "journal_replaced")
    assert machine.starts == [queued.attempt_id]


async def test_a_lost_command_is_upgraded_once_by_its_real_result(lab):
    async with lab.database.transaction() as tx:
        session_id = await sessions.create(tx, lab.instance.instance_id, SessionKind.WORKER)
    asked = {"session_id": session_id, "item_seq": 1, "call_index": 0}
    async with lab.running(**asked) as running:
        queued = running.queued
        await lab.given_up(running)
        assert (await lab.view(queued.command_id)).state == "lost"
        (job,) = running.machine.jobs.values()
        job.write(b"late")
        job.end(4)
        await running.daemon.connect()
        await lab.is_in("exited", queued.command_id)
    view = await lab.view(queued.command_id)
    assert (view.result.exit_code, view.stdout_stored) == (4, 4)
    rows = await lab.sql("select dedupe_key, payload ->> 'state' as state from inbox order by seq")
    assert [(row["dedupe_key"].rsplit(":", 1)[1], row["state"]) for row in rows] == [
        ("done", "lost"),
        ("late", "exited"),
    ]


async def test_what_the_server_does_not_keep_is_gone(lab):
    async with lab.left_running() as (machine, queued):
        await lab.sql("delete from attempts")
        await lab.sql("delete from commands")
        async with FakeDaemon(machine) as again:
            await lab.sees(lambda: again.gone == [queued.attempt_id])


async def test_a_late_result_is_taken_once_and_the_next_one_is_refused(lab):
    async with lab.left_running() as (machine, queued):
        await lab.sql("update machines set seen_at = farhand_now() - interval '8 days'")
        async with lab.database.transaction() as tx:
            assert await attempts.give_up_unseen(tx, after_days=7) == 1
        (job,) = machine.jobs.values()
        job.end(4)
        async with FakeDaemon(machine):
            await lab.is_in("exited", queued.command_id)
        another_result(job)
        async with FakeDaemon(machine) as again:
            await lab.sees(lambda: again.conflicts == [job.attempt_id])
    view = await lab.view(queued.command_id)
    assert (view.state, view.result.exit_code) == ("exited", 4)


async def test_a_machine_whose_disk_is_put_back_tells_what_really_happened(lab):
    """Nobody could know; then somebody can."""
    async with lab.left_running() as (machine, queued):
        kept = (machine.jobs, machine.journal_id, machine.journal_counter)
        machine.jobs, machine.journal_id, machine.journal_counter = {}, new_id(), 0
        async with FakeDaemon(machine):
            assert (await lab.ended(queued.command_id)).state == "indeterminate"
        machine.jobs, machine.journal_id, machine.journal_counter = kept
        (job,) = machine.jobs.values()
        job.write(b"it did run")
        job.end(5)
        async with FakeDaemon(machine):
            await lab.is_in("exited", queued.command_id)
    view = await lab.view(queued.command_id)
    assert (view.result.exit_code, view.stdout_stored) == (5, 10)


async def test_a_result_sent_again_after_two_months_is_known_and_its_output_is_not_kept(lab):
    """Else a daemon that was away with an unacknowledged result would send it for ever."""
    replica = await lab.replica()
    machine = await lab.machine(replica)
    async with lab.daemon(machine, replica) as daemon:
        seen = await lab.exec(replica, "fake", "echo", "x")
        (job,) = machine.jobs.values()
        await lab.sees(lambda: job.receipted)
        await daemon.die()
    await lab.shift_clock(61 * DAY_S)
    await sweep(lab.database, daily=True)
    async with lab.database.transaction() as tx:
        await sessions.forget_old_messages(tx, 30 * DAY_S)
        await partitions.drop_output_before(tx, datetime.now(UTC) + timedelta(days=31))
    job.receipted = False
    async with FakeDaemon(machine) as again:
        await lab.sees(lambda: job.receipted)
        assert again.gone == []
        assert again.conflicts == []
    assert (await lab.view(seen.command_id)).result.exit_code == 0
    async with lab.database.transaction() as tx:
        kept = await output.read(
            tx, lab.instance.instance_id, seen.attempt_id, Stream.STDOUT, 0, 10
        )
    assert kept == b""
