"""Limits of a command: kept for all of it together where control groups can be had, and named."""

import os
import resource
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from farhand_daemon.supervisor.cgroup import Group
from farhand_daemon.supervisor.cgroup_base import usable_hierarchies
from farhand_daemon.supervisor.records import ExitRecord, Reason, StopReason
from farhand_shared.command import Limits
from tests.fakes.supervised_lab import Lab, ended, until

MIB = 1 << 20
GREEDY = "b = bytearray(400 << 20); b[::4096] = b'x' * len(b[::4096]); print('had it')"
# Starts more children than it may have, at once; says how many it got.
MANY = """
import os, time
got = 0
try:
    for _ in range(60):
        if os.fork() == 0:
            os.closerange(0, 3)
            time.sleep(30)
            os._exit(0)
        got += 1
except OSError as error:
    print(error.strerror, got)
"""


def codes(record: ExitRecord) -> list[str]:
    return [note.code for note in record.notes]


def limiting(controller: str) -> bool:
    """Tell whether groups made here can limit memory or processes."""
    group = Group.make(f"farhand-{os.getpid()}-0-99", usable_hierarchies())
    if group is None:
        return False
    try:
        if controller == "memory":
            return group.limit_memory(64 * MIB)
        return group.limit_processes(10)
    finally:
        group.remove()


def groups(lab: Lab) -> list[str]:
    """Give the names of all groups of supervisors and commands there are."""
    bases = [Path(hierarchy.base) for hierarchy in lab.fork_server.hierarchies]
    return [folder.name for base in bases for folder in base.glob("farhand-*")]


needs_memory = pytest.mark.skipif(
    not limiting("memory"), reason="this system gives us no control group that limits memory"
)
needs_pids = pytest.mark.skipif(
    not limiting("pids"), reason="this system gives us no control group that limits processes"
)


@pytest.fixture
async def bare_lab(tmp_path: Path) -> AsyncIterator[Lab]:
    """Open a lab as on a machine that gives the daemon no control group."""
    lab = Lab(tmp_path / "state", hierarchies=[])
    await lab.open()
    yield lab
    await lab.close()
    await until(lambda: not lab.supervisors())


@needs_memory
async def test_a_command_over_its_memory_is_killed_and_the_result_names_the_limit(lab: Lab) -> None:
    quiet = await lab.start(lab.spec("sleep", "1000"))
    record, stdout, _ = await lab.run(
        lab.spec(sys.executable, "-I", "-c", GREEDY, limits=Limits(memory_bytes=96 * MIB))
    )
    assert (record.reason, record.signal, record.exit_code) == (Reason.OOM, 9, None)
    assert stdout == b""
    assert codes(record) == ["out_of_memory"]
    assert "96 MiB" in record.notes[0].text
    assert quiet.record is None
    lab.attempts.forget(quiet.attempt_id)


@needs_memory
async def test_a_shell_whose_child_ran_out_of_memory_says_so_with_its_own_exit_code(
    lab: Lab,
) -> None:
    script = f'{sys.executable} -I -c "{GREEDY}"; echo $?; exit 3'
    record, stdout, _ = await lab.run(lab.shell(script, limits=Limits(memory_bytes=96 * MIB)))
    assert (record.reason, record.exit_code) == (Reason.EXIT, 3)
    assert stdout == b"137\n"
    assert codes(record) == ["out_of_memory"]


@needs_memory
async def test_memory_within_the_limit_is_nobodys_business(lab: Lab) -> None:
    record, _, _ = await lab.run(
        lab.spec(
            sys.executable, "-I", "-c", "bytearray(8 << 20)", limits=Limits(memory_bytes=96 * MIB)
        )
    )
    assert (record.reason, record.exit_code, record.notes) == (Reason.EXIT, 0, ())


@needs_pids
async def test_no_more_processes_than_allowed_are_made_and_the_result_says_so(lab: Lab) -> None:
    record, stdout, _ = await lab.run(
        lab.spec(sys.executable, "-I", "-c", MANY, limits=Limits(processes=10))
    )
    assert stdout == b"Resource temporarily unavailable 9\n"  # and itself
    assert record.exit_code == 0
    assert codes(record) == ["process_limit"]
    assert "10 processes" in record.notes[0].text
    for pid in lab.processes():
        os.kill(pid, 9)


@needs_pids
async def test_a_fork_bomb_is_held_by_its_limit_and_gone_after_a_cancel(lab: Lab) -> None:
    bomb = "bomb() { bomb | bomb & }; trap '' TERM; bomb; while :; do sleep 0.1; done"
    handle = await lab.start(
        lab.spec("bash", "-c", bomb, limits=Limits(processes=30), grace_ms=300)
    )
    await until(lambda: len(lab.processes()) >= 20)
    assert len(lab.processes()) <= 30
    handle.cancel(StopReason.CANCEL)
    record = await ended(handle)
    assert (record.reason, record.survivors) == (Reason.CANCEL, 0)
    assert not lab.processes()
    assert "process_limit" in codes(record)


async def test_open_files_are_limited_for_good_and_the_result_names_the_limit(lab: Lab) -> None:
    program = (
        "import resource; print(*resource.getrlimit(resource.RLIMIT_NOFILE));"
        "kept = [open('/dev/null') for _ in range(100)]"
    )
    record, stdout, stderr = await lab.run(
        lab.spec(sys.executable, "-I", "-c", program, limits=Limits(open_files=64))
    )
    assert stdout == b"64 64\n"
    assert b"Too many open files" in stderr
    assert (record.exit_code, codes(record)) == (1, ["open_files_limit"])
    _, stdout, _ = await lab.run(lab.spec("sh", "-c", "ulimit -n"))
    assert int(stdout) > 64  # the next command of the same supervisor has its own again


async def test_more_open_files_than_the_machine_allows_are_refused_by_name(lab: Lab) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    record, _, _ = await lab.run(lab.spec("true", limits=Limits(open_files=hard + 1)))
    assert record.reason is Reason.SPAWN_ERROR
    assert record.problem is not None
    assert (record.problem.kind, record.problem.limit_bytes) == ("limit_unavailable", hard)
    assert f"{hard:,}" in record.problem.message


async def test_without_control_groups_memory_is_limited_per_process_and_that_is_said(
    bare_lab: Lab,
) -> None:
    record, stdout, stderr = await bare_lab.run(
        bare_lab.spec(sys.executable, "-I", "-c", GREEDY, limits=Limits(memory_bytes=96 * MIB))
    )
    assert (record.exit_code, stdout) == (1, b"")
    assert b"MemoryError" in stderr
    assert codes(record) == ["memory_limit_per_process"]


async def test_without_control_groups_a_limit_of_processes_is_refused(bare_lab: Lab) -> None:
    record, _, _ = await bare_lab.run(bare_lab.spec("true", limits=Limits(processes=10)))
    assert record.reason is Reason.SPAWN_ERROR
    assert record.problem is not None
    assert record.problem.kind == "limit_unavailable"
    record, _, _ = await bare_lab.run(bare_lab.spec("true"))  # the supervisor is unharmed
    assert record.exit_code == 0


async def test_a_command_with_limits_leaves_no_group_behind(lab: Lab) -> None:
    handle = await lab.start(lab.shell("exit 0", limits=Limits(memory_bytes=64 * MIB)))
    record = await ended(handle)
    assert record.exit_code == 0
    named = record.started.group if record.started is not None else ""
    for hierarchy in lab.fork_server.hierarchies:
        assert not Path(hierarchy.base, named or "none").exists()


async def test_what_fails_to_start_under_limits_leaves_no_group_behind(lab: Lab) -> None:
    before = set(groups(lab))
    record, _, _ = await lab.run(lab.spec("/etc/passwd", limits=Limits(memory_bytes=64 * MIB)))
    assert record.problem is not None
    assert record.problem.kind == "not_executable"
    after = set(groups(lab))
    ours = str(lab.supervisors()[0])
    assert not {n for n in after - before if n.startswith(f"farhand-{ours}-") and n.count("-") > 2}
