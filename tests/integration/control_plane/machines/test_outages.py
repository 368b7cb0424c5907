"""The database goes away in the middle of a command."""

import asyncio

import psycopg

from farhand_shared.exec_frames import FrameKind
from tests.fakes.fake_daemon import hold


async def cut_database(lab):
    """End every connection to the database, as its restart does."""
    async with await psycopg.AsyncConnection.connect(lab.database.dsn, autocommit=True) as admin:
        await admin.execute(
            """
            select pg_terminate_backend(pid) from pg_stat_activity
             where datname = current_database() and pid <> pg_backend_pid()
            """
        )


async def test_a_running_command_outlives_its_databases_restart(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    async with lab.daemon(machine, replica):
        seen, task = await lab.start(replica, "fake", "long")
        await lab.sees(lambda: machine.starts)
        (job,) = machine.jobs.values()
        job.write(b"before ")
        await lab.sees(lambda: seen.bytes_of() == b"before ")
        await cut_database(lab)
        job.write(b"during ")
        await cut_database(lab)
        job.write(b"after")
        job.end()
        await asyncio.wait_for(task, 30)
        await lab.sees(lambda: job.receipted)
    assert seen.bytes_of() == b"before during after"
    view = await lab.view(seen.command_id)
    assert (view.state, view.stdout_stored) == ("exited", len(b"before during after"))


async def test_a_follower_on_another_replica_waits_for_the_database(lab):
    holder, other = await lab.replica(), await lab.replica()
    machine = await lab.machine(holder)
    machine.behaviour = hold
    async with lab.daemon(machine, holder):
        seen, task = await lab.start(other, "fake", "long")
        await lab.sees(lambda: machine.starts)
        (job,) = machine.jobs.values()
        job.write(b"before ")
        await lab.sees(lambda: seen.bytes_of() == b"before ")
        await cut_database(lab)
        job.write(b"after")
        job.end()
        await asyncio.wait_for(task, 30)
    assert seen.bytes_of() == b"before after"


async def test_commands_started_around_a_restart_run_once_or_are_refused(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.concurrency = 64
    async with lab.daemon(machine, replica):
        runs = [lab.begin(replica, "fake", "echo", str(n)) for n in range(60)]
        await cut_database(lab)
        await asyncio.wait_for(
            asyncio.gather(*(task for _, task in runs), return_exceptions=True), 60
        )
        ended = [seen for seen, task in runs if task.exception() is None]
        assert all(seen.kinds[-1] is FrameKind.COMMITTED for seen in ended)
        rows = await lab.sql("select attempt_id, state from attempts")
        # Nothing ran that is not on record, nothing twice, nothing is left hanging.
        assert len(machine.starts) == len(set(machine.starts))
        assert set(machine.starts) <= {row["attempt_id"] for row in rows}
        for seen in ended:
            assert (await lab.view(seen.command_id)).state == "exited"

        async def all_ended():
            return not await lab.sql("select 1 from attempts where state <> 'exited'")

        await lab.until(all_ended)
