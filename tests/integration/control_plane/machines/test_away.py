"""A machine goes silent in the middle of a command: its client is told, and then the result."""

import asyncio

from farhand_control_plane.machines import following
from farhand_shared.exec_frames import FrameKind
from tests.fakes.fake_daemon import hold


def states(seen):
    return [frame.json() for frame in seen.frames if frame.kind is FrameKind.STATE]


async def test_a_machine_that_stays_away_is_told_and_its_result_comes_when_it_is_back(
    lab, monkeypatch
):
    monkeypatch.setattr(following, "AWAY_TOLD_AFTER_S", 0.0)
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    async with lab.daemon(machine, replica):
        seen, task = await lab.start(replica, "fake", "long")
        await lab.sees(lambda: machine.starts and FrameKind.STATE in seen.kinds)
        (job,) = machine.jobs.values()
        job.write(b"before ")
        await lab.sees(lambda: seen.bytes_of() == b"before ")
    await lab.sees(lambda: len(states(seen)) == 2)
    told = states(seen)[1]
    assert told.pop("since")
    assert told == {"state": "started", "machine": "fake", "online": False}
    async with lab.daemon(machine, replica):
        await lab.sees(lambda: len(states(seen)) == 3)
        assert states(seen)[2] == {"state": "started"}
        job.write(b"after")
        job.end()
        await asyncio.wait_for(task, 30)
    assert seen.bytes_of() == b"before after"
    assert seen.one(FrameKind.EXIT)["result"]["exit_code"] == 0


async def test_a_machine_that_is_soon_back_is_not_worth_a_word(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    async with lab.daemon(machine, replica):
        seen, task = await lab.start(replica, "fake", "long")
        await lab.sees(lambda: machine.starts and FrameKind.STATE in seen.kinds)
        (job,) = machine.jobs.values()
    async with lab.daemon(machine, replica):
        job.end()
        await asyncio.wait_for(task, 30)
    assert states(seen) == [{"state": "started"}]
