"""Failures of other daemons that were reported in public, with their own inputs, against ours.

Which report is tested where is listed in tests/README.md. What needs Windows or macOS cannot run
here: there the rule is tested that keeps the failure away.
"""

import asyncio
import json
import os
import pwd
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from farhand_shared.command import Argv, CommandSpec, ExitReason, shell_exit_status
from tests.fakes.fake_control_plane import FakeAttempt, FakeControlPlane
from tests.integration.endpoint_daemon.conftest import Farhandd
from tests.integration.endpoint_daemon.test_daemon_runs import _eventually, _linked


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _group(leader: int) -> list[int]:
    """Return the living processes of a session."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == leader and fields[0] != "Z":
                found.append(int(folder.name))
    return found


async def test_children_of_a_killed_daemon_are_adopted_and_end_with_a_cancel(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    """https://github.com/hashicorp/nomad/issues/5593: children leak when the agent restarts."""
    machine_id = await _linked(plane, farhandd)
    attempt = plane.offer(machine_id, b"sleep 1001 & sleep 1002")
    await plane.until(lambda: bool(attempt.started))
    leader = attempt.started[0].pid
    await _eventually(lambda: len(_group(leader)) >= 2)
    farhandd.started[-1].kill()
    await farhandd.started[-1].wait()
    await farhandd.start("run")
    await plane.connected(machine_id, after_epoch=1)
    hello = plane.machines[machine_id].hellos[-1]
    assert [live.attempt_id for live in hello.live] == [attempt.offer.attempt_id]
    began = time.monotonic()
    plane.cancel(attempt.offer.attempt_id, machine_id)
    await plane.result(attempt)
    await _eventually(lambda: not _group(leader))
    assert time.monotonic() - began < 15
    assert attempt.result is not None
    assert attempt.result.reason is ExitReason.CANCEL


async def test_five_hundred_commands_eight_at_once_beside_a_live_stream_all_end(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    """https://github.com/grpc/grpc/issues/22624: subprocess hangs beside live gRPC."""
    machine_id = await _linked(plane, farhandd)
    farhandd.narrow('trust_level = "trusted"\nconcurrency = 9\n')
    talking = plane.offer(machine_id, b"while :; do echo traffic; sleep 0.005; done")
    await plane.until(lambda: bool(talking.started))
    began = time.monotonic()
    left = iter(range(500))

    async def run_some() -> None:
        for _ in left:
            attempt = await plane.run(machine_id, CommandSpec(run=Argv(argv=(b"true",))))
            assert attempt.result is not None
            assert attempt.result.exit_code == 0

    await asyncio.gather(*(run_some() for _ in range(8)))
    assert time.monotonic() - began < 60
    plane.cancel(talking.offer.attempt_id, machine_id)
    await plane.result(talking)


@pytest.mark.parametrize("left_out", ["HOME", "HOME USER LOGNAME SHELL"])
async def test_a_service_without_home_runs_commands_with_the_accounts(
    plane: FakeControlPlane, farhandd: Farhandd, left_out: str
) -> None:
    """https://github.com/chenhg5/cc-connect/issues/1634: a system unit has no HOME, and state
    lands relative to the working folder.
    """
    machine_id = await farhandd.enrol(plane)
    env = {k: v for k, v in os.environ.items() if k not in left_out.split()}
    await farhandd.start("run", env=env, cwd="/")
    await plane.connected(machine_id)
    account = pwd.getpwuid(os.geteuid())
    wanted = f"{account.pw_dir}:{account.pw_name}:{account.pw_shell or '/bin/sh'}".encode()
    attempt = await plane.run(machine_id, b'printf %s "$HOME:$USER:$SHELL"')
    assert bytes(attempt.stdout) == wanted
    status = await farhandd.start_bare("status", "--json", env=env, cwd="/tmp")
    ended = await farhandd.wait(status)
    assert "cannot" in ended.stderr or Path(json.loads(ended.stdout)["home"]).is_absolute()
    assert account.pw_dir in ended.stdout + ended.stderr


async def test_arguments_that_shells_mangle_arrive_as_they_are(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    """https://github.com/remoteclaw/remoteclaw/issues/3120: quoting for cmd.exe differs from the C
    runtime's. There is no native Windows daemon; the rule is that a list of arguments is never
    joined, and so never quoted.
    """
    machine_id = await _linked(plane, farhandd)
    arguments = ["x y", 'a"b', "c&d", "%PATH%", "e^f", "tail\\", "", "é\n2"]
    show = "import json, sys; print(json.dumps(sys.argv[1:]))"
    argv = [sys.executable, "-c", show, *arguments]
    attempt = await plane.run(machine_id, CommandSpec(run=Argv(argv=tuple(map(os.fsencode, argv)))))
    assert json.loads(bytes(attempt.stdout)) == arguments


@pytest.mark.parametrize(("name", "number"), [("KILL", 9), ("TERM", 15)])
async def test_death_by_a_signal_is_no_success(
    plane: FakeControlPlane, farhandd: Farhandd, name: str, number: int
) -> None:
    """https://github.com/earendil-works/pi/issues/8992: killed by a signal, reported as exit 0."""
    machine_id = await _linked(plane, farhandd)
    attempt = await plane.run(machine_id, f"kill -{name} $$".encode())
    result = attempt.result
    assert result is not None
    assert (result.reason, result.signal, result.exit_code) == (ExitReason.SIGNAL, number, None)
    assert shell_exit_status(result) == 128 + number


async def test_a_cancel_reaches_the_command_and_never_the_daemon(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    """https://github.com/PrefectHQ/prefect/issues/7742: on Windows the CTRL_BREAK of a cancel also
    stops the agent. Here every command is a session of its own.
    """
    machine_id = await _linked(plane, farhandd)
    daemon = farhandd.started[-1]
    attempt = plane.offer(machine_id, b"trap '' INT; sleep 300 & wait")
    await plane.until(lambda: bool(attempt.started))
    leader = attempt.started[0].pid
    assert os.getsid(leader) == leader != os.getsid(daemon.pid)
    plane.cancel(attempt.offer.attempt_id, machine_id)
    await plane.result(attempt)
    assert not _alive(leader)
    again = await plane.run(machine_id, b"true")
    assert again.result is not None
    assert again.result.exit_code == 0
    assert daemon.returncode is None


async def _zombies_of_a_container(farhandd: Farhandd, plane: FakeControlPlane) -> FakeAttempt:
    """Run the report's command in a daemon that is process 1; it prints what zombies it left."""
    machine_id = await farhandd.enrol(plane)
    daemon = await asyncio.create_subprocess_exec(
        "unshare", "--pid", "--fork", "--mount-proc", "--kill-child",
        sys.executable, "-m", "farhand_daemon", "run", "--home", str(farhandd.home),
    )  # fmt: skip
    farhandd.started.append(daemon)
    await plane.connected(machine_id)
    many = b"for i in $(seq 1000); do (sleep 0.1 >/dev/null 2>&1 &); done"
    first = await plane.run(machine_id, many)
    assert first.result is not None
    assert first.result.exit_code == 0
    counting = (
        b"end=$(($(date +%s) + 5)); while zombies=$(grep -l '^State:.Z' /proc/[0-9]*/status "
        b"2>/dev/null | wc -l); [ $zombies -gt 0 ] && [ $(date +%s) -lt $end ]; do sleep 0.05; "
        b"done; tr '\\0' ' ' </proc/1/cmdline; echo; echo $zombies"
    )
    return await plane.run(machine_id, counting)


@pytest.mark.skipif(os.geteuid() != 0, reason="a pid namespace with its own /proc needs root")
@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not installed here")
async def test_as_process_1_of_a_container_it_leaves_no_zombie(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    """https://github.com/coder/coder/issues/2398: as pid 1 the agent never reaps."""
    counted = await _zombies_of_a_container(farhandd, plane)
    shown, zombies, _ = bytes(counted.stdout).decode().split("\n")
    assert "farhand_daemon run" in shown
    assert int(zombies) == 0
    daemon = farhandd.started[-1]
    # What stops a container sends TERM to process 1, which passes it on to the daemon.
    (init,) = Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text().split()
    os.kill(int(init), signal.SIGTERM)
    async with asyncio.timeout(20):
        assert await daemon.wait() == 0
