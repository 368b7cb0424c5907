"""A new version on trial: real daemons of an installation, against a control plane on sockets."""

import asyncio
import contextlib
import signal
import socket
from pathlib import Path

import pytest

from farhand_shared.command import ExitReason
from tests.fakes.installed_program import (
    CONNECTS_ONCE,
    ENDS_AT_ONCE,
    HANGS,
    NEVER_CONNECTS,
    alive,
)
from tests.integration.endpoint_daemon.update.conftest import (
    FULL_LENGTH,
    PASSES_S,
    Machine,
    machine_file,
)

pytestmark = pytest.mark.timeout(600 if FULL_LENGTH else 120)


def gate(folder: Path) -> bytes:
    return f"while [ ! -e '{folder}/go' ]; do sleep 0.05; done; echo alive".encode()


async def test_a_command_that_runs_lives_through_an_update_and_the_new_version_reports_it(
    machine: Machine, tmp_path: Path
) -> None:
    # https://github.com/gravitational/teleport/issues/44482
    process = await machine.run()
    await machine.connects("0.1.0")
    attempt = machine.plane.offer(machine.machine_id, gate(tmp_path))
    await machine.plane.until(lambda: bool(attempt.started))
    new = machine.program.add("0.2.0")
    machine.program.offer(new)
    await machine.connects("0.2.0")
    # On trial: what would start again after a kill is still the version that is known to work.
    assert machine.program.slots.current() != new
    await machine.comes_to(lambda: machine.program.slots.current() == new)
    await machine.comes_to(lambda: machine.program.state.trial is None)
    await machine.plane.connected(machine.machine_id, after_epoch=machine.there.epoch - 1)
    (tmp_path / "go").touch()
    await machine.plane.result(attempt)
    assert attempt.result is not None
    assert (attempt.result.reason, attempt.result.exit_code) == (ExitReason.EXIT, 0)
    assert bytes(attempt.stdout) == b"alive\n"
    assert len(attempt.started) == 1
    assert machine.there.hellos[-1].daemon_version == "0.2.0"
    assert process.returncode is None  # the same process, whichever version it is
    last = machine.program.state.last
    assert last is not None
    assert (last.kind, last.version) == ("updated", "0.2.0")
    previous = machine.program.slots.previous()
    assert previous is not None
    assert previous.version() == "0.1.0"


@pytest.mark.parametrize(
    ("sabotage", "probation_s", "why"),
    [
        pytest.param(
            ENDS_AT_ONCE, 60, "ended 3 times, the last time with exit status 1", id="ends"
        ),
        pytest.param(HANGS, 1, "it did not connect within ", id="hangs"),
        pytest.param(NEVER_CONNECTS, 4, "nobody answers", id="never connects"),
        pytest.param(CONNECTS_ONCE, 5, "did not stay connected", id="connects once"),
    ],
)
async def test_a_bad_version_is_left_for_the_one_before_and_remembered(
    machine: Machine, sabotage: str, probation_s: int, why: str
) -> None:
    # https://github.com/actions/runner/issues/1812
    machine.farhandd.narrow(machine_file(probation_s=probation_s))
    old = machine.program.slots.current()
    bad = machine.program.add("0.2.0", sabotage)
    machine.program.offer(bad)
    process = await machine.run()
    await machine.comes_to(lambda: machine.program.state.bad_version(bad.name) is not None)
    await machine.connects("0.1.0")
    assert machine.program.slots.current() == old
    state = machine.program.state
    assert (state.ready, state.trial, state.doubt) == (None, None, None)
    remembered = state.bad_version(bad.name)
    assert remembered is not None
    assert why in remembered.reason
    assert process.returncode is None
    assert (await machine.plane.run(machine.machine_id, b"echo here")).result is not None


async def test_a_trial_that_is_killed_is_begun_again_and_the_third_time_it_is_the_versions_fault(
    machine: Machine,
) -> None:
    machine.farhandd.narrow(machine_file(probation_s=60))
    bad = machine.program.add("0.2.0", HANGS)
    machine.program.offer(bad)
    seen = set()
    for _ in range(3):
        process = await machine.run()

        def on_trial() -> bool:
            trial = machine.program.state.trial
            return trial is not None and trial.pid not in seen and alive(trial.pid)

        await machine.comes_to(on_trial)
        trial = machine.program.state.trial
        assert trial is not None
        seen.add(trial.pid)
        process.kill()
        await process.wait()
        await machine.comes_to(lambda pid=trial.pid: not alive(pid))  # type: ignore[misc]
    await machine.run()
    await machine.connects("0.1.0")
    remembered = machine.program.state.bad_version(bad.name)
    assert remembered is not None
    assert "broken off 3 times" in remembered.reason


async def test_the_service_manager_sees_one_process_that_runs_all_the_time(
    machine: Machine, tmp_path: Path
) -> None:
    address = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        manager.setblocking(False)
        process = await machine.run(NOTIFY_SOCKET=str(address))
        await machine.connects("0.1.0")
        machine.farhandd.narrow(machine_file(probation_s=60))
        machine.program.offer(machine.program.add("0.2.0", ENDS_AT_ONCE))
        await machine.comes_to(lambda: machine.program.state.bad != ())
        await machine.connects("0.1.0")
        told = []
        with contextlib.suppress(BlockingIOError):
            while True:
                told.append(manager.recv(4096).decode().splitlines())
    # Ready twice, each time as itself; the version on trial says nothing, and nobody stops.
    ready = [lines for lines in told if "READY=1" in lines]
    assert [lines[1] for lines in ready] == [f"MAINPID={process.pid}"] * 2
    assert not any("STOPPING=1" in lines for lines in told)


async def test_a_stop_during_the_trial_is_obeyed_and_counts_for_nothing(machine: Machine) -> None:
    new = machine.program.add("0.2.0")
    machine.program.offer(new)
    process = await machine.run()
    await machine.connects("0.2.0")
    trial = machine.program.state.trial
    assert trial is not None
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(20):
        assert await process.wait() == 0
    assert not alive(trial.pid)
    state = machine.program.state
    assert state.trial is None
    assert state.ready is not None
    assert (state.ready.slot, state.ready.tries) == (new.name, 0)
    await machine.run()
    await machine.connects("0.2.0")


async def test_ctrl_c_during_the_trial_ends_the_commands(machine: Machine, tmp_path: Path) -> None:
    machine.program.offer(machine.program.add("0.2.0"))
    process = await machine.run()
    await machine.connects("0.2.0")
    attempt = machine.plane.offer(machine.machine_id, gate(tmp_path))
    await machine.plane.until(lambda: bool(attempt.started))
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(20):
        assert await process.wait() == 0
    assert attempt.result is not None
    assert attempt.result.reason is ExitReason.SHUTDOWN


async def test_off_in_the_machines_file_keeps_what_was_installed_by_itself_from_being_tried(
    machine: Machine,
) -> None:
    machine.farhandd.narrow(machine_file(probation_s=PASSES_S) + 'update = "off"\n')
    machine.program.offer(machine.program.add("0.2.0"), asked=False)
    await machine.run()
    await machine.connects("0.1.0")
    assert machine.program.state.ready is not None
    assert machine.program.state.trial is None
