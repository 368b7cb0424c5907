"""Commands in control groups: nothing of a command is out of reach, however it left.

Version 2 is tried where a tree of it is mounted and ours (also beside version 1, without
controllers); its limits are tried on files alone (unit tests), because a system has its
controllers in one version only.
"""

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from farhand_daemon.supervisor import pool
from farhand_daemon.supervisor.cgroup import Group, Hierarchy
from farhand_daemon.supervisor.cgroup_base import sweep, usable_hierarchies
from farhand_daemon.supervisor.handle import CommandHandle
from farhand_daemon.supervisor.records import Reason, StopReason, Stream
from tests.fakes.supervised_lab import Lab, ended, lost, read_all, supervisor_of, until

# Leaves session, group and parent at once; nothing but a control group still knows it.
RUNAWAY = "(setsid sh -c 'trap \"\" TERM; sleep 1000; sleep 1001' >/dev/null 2>&1 &); "
BOMB = (
    "trap '' TERM; echo ready; while :; do setsid sh -c 'sleep 300 & sleep 301' & sleep 0.01; done"
)


def _trees() -> dict[str, list[Hierarchy]]:
    found = usable_hierarchies()
    kinds = {
        "version 2": [h for h in found if Path(h.base, "cgroup.controllers").exists()],
        "version 1": [h for h in found if not Path(h.base, "cgroup.controllers").exists()],
    }
    return kinds


@pytest.fixture(params=["version 1", "version 2"])
async def grouped(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Lab]:
    """Open a lab whose supervisors have groups of one version; afterwards none may be left."""
    hierarchies = _trees()[request.param]
    if not hierarchies:
        pytest.skip(f"this system gives us no control groups of {request.param}")
    lab = Lab(tmp_path / "state", hierarchies=hierarchies)
    await lab.open()
    yield lab
    await lab.close()
    await until(lambda: not lab.supervisors())
    sweep(hierarchies)


async def said(lab: Lab, handle: CommandHandle, word: bytes) -> None:
    await lab.recorder.until(lambda: word in read_all(handle, Stream.STDOUT))


async def test_everything_a_command_starts_is_born_in_its_supervisors_group(grouped: Lab) -> None:
    handle = await grouped.start(grouped.shell(RUNAWAY + "echo ready; exec sleep 1002"))
    await said(grouped, handle, b"ready")
    await until(lambda: len(grouped.processes()) == 3)
    assert handle.started is not None
    group = Group(handle.started.group, grouped.fork_server.hierarchies)
    assert set(grouped.processes()) <= set(group.members())
    handle.cancel(StopReason.CANCEL)
    handle.cancel(StopReason.CANCEL)
    for pid in grouped.processes():
        os.kill(pid, signal.SIGKILL)
    await ended(handle)


async def test_what_is_born_all_the_time_is_gone_after_one_kill(grouped: Lab) -> None:
    handle = await grouped.start(grouped.spec("bash", "-c", BOMB, grace_ms=300))
    await said(grouped, handle, b"ready")
    await until(lambda: len(grouped.processes()) > 20)
    handle.cancel(StopReason.CANCEL)
    record = await ended(handle)
    assert (record.reason, record.survivors) == (Reason.CANCEL, 0)
    assert not grouped.processes()
    assert not grouped.zombies()


async def test_a_supervisor_whose_command_was_killed_takes_the_next_one(grouped: Lab) -> None:
    first = await grouped.start(grouped.spec("bash", "-c", BOMB, grace_ms=0))
    await said(grouped, first, b"ready")
    first.cancel(StopReason.CANCEL)
    await ended(first)
    supervisor = supervisor_of(first)
    for _ in range(3):
        handle = await grouped.start(grouped.shell("(sh -c 'echo in') | cat"))
        assert (await ended(handle)).exit_code == 0
        assert read_all(handle, Stream.STDOUT) == b"in\n"
        if supervisor_of(handle) == supervisor:
            return
    raise AssertionError("it was not used again")


async def test_the_group_of_what_was_left_behind_goes_some_time_after_it(
    grouped: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_SWEEP_S", 0.05)  # a minute
    handle = await grouped.start(grouped.shell("sleep 1000 >/dev/null 2>&1 & echo done"))
    assert (await ended(handle)).descendants_left
    assert handle.started is not None
    supervisor = supervisor_of(handle)
    await until(lambda: supervisor not in grouped.supervisors())
    group, bases = handle.started.group, [Path(h.base) for h in grouped.fork_server.hierarchies]
    assert all((base / group).exists() for base in bases)
    for pid in grouped.processes():
        os.kill(pid, signal.SIGKILL)
    # The end of another supervisor is the occasion.
    await ended(await grouped.start(grouped.shell("sleep 0.01 >/dev/null 2>&1 & echo done")))
    await until(lambda: not any((base / group).exists() for base in bases))


async def test_an_orphan_that_left_everything_is_found_by_its_group(grouped: Lab) -> None:
    """Its supervisor is killed: no subreaper, session or parent leads to it any more."""
    handle = await grouped.start(grouped.shell(RUNAWAY + "echo ready; exec sleep 1002"))
    await said(grouped, handle, b"ready")
    await until(lambda: len(grouped.processes()) == 3)
    os.kill(supervisor_of(handle), signal.SIGKILL)
    await lost(handle)
    grouped.attempts._pool.orphans._grace_s = 0.3  # the test's patience
    handle.cancel(StopReason.CANCEL)
    await until(lambda: not grouped.processes())
    assert handle.started is not None
    group = handle.started.group
    bases = [Path(hierarchy.base) for hierarchy in grouped.fork_server.hierarchies]
    await until(lambda: not any((base / group).exists() for base in bases))
