"""Direct commands from the request to the committed result."""

import asyncio

import pytest

from farhand_control_plane.db import machines
from farhand_control_plane.db.bootstrap import ensure_instance
from farhand_control_plane.db.pool import Database
from farhand_control_plane.machines.execs import MachineOffline
from farhand_shared.errors import NotAllowed, NotFound
from farhand_shared.exec_frames import FrameKind
from farhand_shared.ids import MachineId, MemberId, new_id
from farhand_shared.link_events import Stream
from tests.fakes.fake_daemon import hold
from tests.fakes.machine_lab import Lab, collect


async def test_a_direct_command_runs_and_its_frames_tell_the_whole_story(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    async with lab.daemon(machine, replica):
        seen = await lab.exec(replica, "fake", "echo", "hi")
        await lab.sees(lambda: machine.jobs[seen.attempt_id].receipted)
    assert seen.bytes_of() == b"hi\n"
    assert seen.kinds == [
        FrameKind.ACCEPTED,
        FrameKind.STATE,
        FrameKind.STDOUT,
        FrameKind.EXIT,
        FrameKind.COMMITTED,
    ]
    assert seen.one(FrameKind.STATE) == {"state": "started"}
    end = seen.one(FrameKind.EXIT)
    assert end["result"]["exit_code"] == 0
    assert end["committed"] is False  # told before the commit, which follows
    view = await lab.view(seen.command_id)
    assert view.state == "exited"
    assert view.stdout_stored == 3
    assert view.title == "echo hi"


async def test_it_is_found_by_id_too(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    async with lab.daemon(machine, replica):
        seen = await lab.exec(replica, machine.machine_id, "echo", "hi")
    assert seen.bytes_of() == b"hi\n"


async def test_bytes_that_are_no_text_come_through_exactly(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    raw = bytes(range(256)) * 3 + b"\0\xff\xfe"

    async def binary(job):
        job.write(raw)
        job.write(raw[::-1], Stream.STDERR)
        job.end()

    machine.behaviour = binary
    async with lab.daemon(machine, replica):
        seen = await lab.exec(replica, "fake", "a\0b\udcff")
    assert seen.bytes_of() == raw
    assert seen.bytes_of(FrameKind.STDERR) == raw[::-1]
    rows = await lab.sql("select stream, data from output_chunks order by stream")
    assert [(row["stream"], bytes(row["data"])) for row in rows] == [(1, raw), (2, raw[::-1])]
    (job,) = machine.jobs.values()
    assert job.spec.run.argv == (b"a\0b\xff",)


async def test_an_offline_machine_is_an_error_at_once_unless_one_waits(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    with pytest.raises(MachineOffline, match="cannot run on fake: it is offline, last seen never"):
        await lab.exec(replica, "fake", "echo", "hi")
    assert await lab.sql("select 1 from commands") == []
    seen, task = await lab.start(replica, "fake", "echo", "later", wait_offline=True)
    await lab.sees(lambda: FrameKind.STATE in seen.kinds)
    state = seen.one(FrameKind.STATE)
    assert (state["state"], state["waiting_for"], state["online"]) == ("queued", "fake", False)
    async with lab.daemon(machine):
        await task
    assert seen.bytes_of() == b"later\n"
    assert seen.kinds[-1] is FrameKind.COMMITTED


async def test_only_the_owner_may_run_there_and_unknown_machines_are_not_found(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    stranger = MemberId(new_id())
    await lab.sql(
        "insert into members (instance_id, member_id, name, role) values (%s, %s, 'x', 'member')",
        lab.instance.instance_id,
        stranger,
    )
    async with lab.daemon(machine, replica):
        request = lab.request("fake", "true")
        foreign = type(request)(
            instance_id=request.instance_id,
            member_id=stranger,
            machine="fake",
            spec=request.spec,
        )
        with pytest.raises(NotAllowed, match="another member's machine"):
            await replica.execs.run(foreign)
        with pytest.raises(NotFound, match="no machine has this name"):
            await lab.exec(replica, "nobody", "true")
    assert machine.starts == []


async def test_without_a_free_slot_it_queues_and_starts_when_one_is_freed(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.concurrency = 1
    machine.behaviour = hold
    async with lab.daemon(machine, replica):
        _, first = await lab.start(replica, "fake", "one")
        await lab.sees(lambda: len(machine.starts) == 1)
        seen, second = await lab.start(replica, "fake", "two")
        await lab.sees(lambda: FrameKind.STATE in seen.kinds)
        assert seen.one(FrameKind.STATE)["state"] == "queued"
        assert len(machine.starts) == 1
        machine.jobs[machine.starts[0]].end()
        await first
        await lab.sees(lambda: len(machine.starts) == 2)
        machine.jobs[machine.starts[1]].end()
        await second
    assert seen.kinds[-1] is FrameKind.COMMITTED


async def test_a_hint_reaches_who_is_attached_until_the_command_writes_again(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    async with lab.daemon(machine, replica):
        seen, task = await lab.start(replica, "fake", "ask")
        await lab.sees(lambda: machine.starts)
        job = machine.jobs[machine.starts[0]]
        job.write(b"name? ")
        job.wait_for_input()
        await lab.sees(lambda: FrameKind.HINT in seen.kinds)
        hint = seen.one(FrameKind.HINT)
        assert (hint["hint"], hint["reads_terminal"], hint["takes_input"]) == (
            "waits_for_input", True, False,
        )  # fmt: skip
        assert seen.kinds.index(FrameKind.STDOUT) < seen.kinds.index(FrameKind.HINT)
        job.write(b"never mind")
        await lab.sees(lambda: seen.bytes_of() == b"name? never mind")
        owner = lab.instance.owner_member_id
        again = await replica.execs.follow(lab.instance.instance_id, owner, seen.attempt_id)
        following = asyncio.create_task(collect(again))
        job.end()
        await task
        late = await following
    assert seen.kinds.count(FrameKind.HINT) == 1
    assert late.bytes_of() == b"name? never mind"
    assert FrameKind.HINT not in late.kinds
    assert await lab.sql("select 1 from attempts where strpos(result::text, 'waits') > 0") == []


async def test_a_client_that_goes_away_does_not_end_the_command_and_may_come_back(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    async with lab.daemon(machine, replica):
        seen, task = await lab.start(replica, "fake", "long")
        await lab.sees(lambda: machine.starts)
        job = machine.jobs[machine.starts[0]]
        job.write(b"first ")
        await lab.sees(lambda: seen.bytes_of() == b"first ")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        job.write(b"second ")
        job.write(b"third")
        owner = lab.instance.owner_member_id
        again = await replica.execs.follow(
            lab.instance.instance_id, owner, seen.attempt_id, stdout_offset=3
        )
        following = asyncio.create_task(collect(again))
        job.end(7)
        back = await following
    assert back.bytes_of() == b"st second third"
    assert back.one(FrameKind.EXIT)["result"]["exit_code"] == 7
    frames = await replica.execs.follow(lab.instance.instance_id, owner, seen.attempt_id)
    whole = await collect(frames)
    assert whole.bytes_of() == b"first second third"
    assert whole.one(FrameKind.EXIT)["committed"] is True


async def test_many_at_once_each_get_their_own_output(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.concurrency = 64
    async with lab.daemon(machine, replica):
        results = await asyncio.gather(
            *(lab.exec(replica, "fake", "echo", str(n)) for n in range(200))
        )
    assert [seen.bytes_of() for seen in results] == [b"%d\n" % n for n in range(200)]
    assert len(machine.starts) == len(set(machine.starts)) == 200
    assert await lab.sql("select 1 from attempts where state <> 'exited'") == []


@pytest.fixture
async def lab_on_15(migrated_pg15_url, until):
    async with Database(migrated_pg15_url) as database:
        async with database.transaction() as tx:
            instance = await ensure_instance(tx)
        lab = Lab(database, instance, until)
        async with lab.stack:
            yield lab


async def test_the_oldest_server_we_support_does_the_same(lab_on_15):
    lab = lab_on_15
    replica = await lab.replica()
    machine = await lab.machine(replica)
    async with lab.daemon(machine, replica):
        assert (await lab.exec(replica, "fake", "echo", "short")).bytes_of() == b"short\n"
        queued = await lab.enqueue(machine, "echo", "queued")
        assert (await lab.ended(queued.command_id)).state == "exited"
    async with lab.database.transaction() as tx:
        await machines.revoke(
            tx,
            lab.instance.instance_id,
            MachineId(machine.machine_id),
            member_id=lab.instance.owner_member_id,
        )
