"""`farhandd uninstall`: nothing is left, and nobody's running work is lost by accident."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from farhand_daemon.paths import Home
from farhand_daemon.running import running_commands
from farhand_daemon.service.manager import Host
from farhand_daemon.service.verb import service
from farhand_daemon.uninstall import uninstall
from tests.fakes.fake_control_plane import FakeControlPlane
from tests.fakes.fake_service_manager import FakeServiceManager
from tests.integration.endpoint_daemon.conftest import Farhandd

_SLEEPS = b"echo $$ > pid; trap '' TERM; (sleep 1000; :) & wait; wait"


async def _until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not done():  # noqa: ASYNC110 - another process tells nobody here
            await asyncio.sleep(0.02)  # between two looks, not for timing


async def _running(plane: FakeControlPlane, farhandd: Farhandd, folder: Path) -> tuple[str, int]:
    """Start a command that does not end; return the machine and the command's pid."""
    folder.mkdir()
    machine_id = await farhandd.enrol(plane)
    farhandd.narrow(f'trust_level = "trusted"\nroots = ["{folder}"]\n')
    await farhandd.start("run")
    await plane.connected(machine_id)
    plane.offer(machine_id, _SLEEPS)
    pid = folder / "pid"
    await _until(lambda: pid.exists() and pid.read_text().endswith("\n"))
    return machine_id, int(pid.read_text())


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_it_stops_the_daemon_and_leaves_nothing_twice(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await farhandd.enrol(plane)
    daemon = await farhandd.start("run")
    await plane.connected(machine_id)
    await plane.run(machine_id, b"echo something")
    ended = await farhandd.call("uninstall", "--yes")
    assert ended.status == 0, ended.stderr
    assert await daemon.wait() == 0
    assert not farhandd.home.exists()
    assert "farhand machines revoke laptop" in ended.stdout
    assert "was not put there by the installer and stays" in ended.stdout
    again = await farhandd.call("uninstall", "--yes")
    assert (again.status, again.stderr) == (0, "")
    assert "nothing to remove" in again.stdout


async def test_without_a_yes_nothing_happens(plane: FakeControlPlane, farhandd: Farhandd) -> None:
    await farhandd.enrol(plane)
    ended = await farhandd.call("uninstall", typed="yes\n")  # a pipe is nobody
    assert ended.status == 1
    assert "--yes" in ended.stderr
    assert (farhandd.home / "identity.json").exists()


async def test_what_is_not_ours_stays(plane: FakeControlPlane, farhandd: Farhandd) -> None:
    await farhandd.enrol(plane)
    (farhandd.home / "thesis.txt").write_text("mine")
    ended = await farhandd.call("uninstall", "--yes")
    assert ended.status == 0
    assert "not what is not ours: thesis.txt" in ended.stdout
    assert [path.name for path in farhandd.home.iterdir()] == ["thesis.txt"]


async def test_running_commands_keep_it_until_forced(
    plane: FakeControlPlane, farhandd: Farhandd, tmp_path: Path
) -> None:
    _, pid = await _running(plane, farhandd, tmp_path / "work")
    ended = await farhandd.call("uninstall", "--yes")
    assert ended.status == 1
    assert "a command runs on this machine" in ended.stderr
    assert "--force" in ended.stderr
    assert _lives(pid)
    assert (await farhandd.call("status")).stdout.count("connected") == 1
    ended = await farhandd.call("uninstall", "--yes", "--force")
    assert ended.status == 0, ended.stderr
    await _until(lambda: not _lives(pid))
    assert not farhandd.home.exists()


async def test_a_command_without_a_daemon_is_seen_and_ended_too(
    plane: FakeControlPlane, farhandd: Farhandd, tmp_path: Path
) -> None:
    _, pid = await _running(plane, farhandd, tmp_path / "work")
    daemon = farhandd.started[-1]
    daemon.kill()
    await daemon.wait()
    (running,) = running_commands(farhandd.home)
    assert running.started is not None
    assert running.started.pid == pid
    assert (await farhandd.call("uninstall", "--yes")).status == 1
    ended = await farhandd.call("uninstall", "--yes", "--force")
    assert ended.status == 0, ended.stderr
    assert not _lives(pid)
    assert not farhandd.home.exists()


async def test_the_service_goes_first(
    plane: FakeControlPlane,
    farhandd: Farhandd,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    await farhandd.enrol(plane)
    fake = FakeServiceManager.make(tmp_path / "fake")
    host = Host(
        platform="linux",
        uid=1000,
        account="ann",
        account_home=tmp_path / "ann",
        environ={"PATH": str(fake.tools)},
    )
    home = Home(farhandd.home)
    assert service(home, "install", restart=False, as_json=False, host=host) == 0
    fake.calls()
    assert uninstall(home, yes=True, force=False, host=host) == 0
    assert fake.calls()[0][:4] == ["systemctl", "--user", "disable", "--now"]
    assert not home.root.exists()
    assert [path for path in host.account_home.rglob("*") if "systemd" in path.name] == []
    assert "Removed the service" in capsys.readouterr().out


def test_a_home_that_never_was_is_nothing_to_remove(tmp_path: Path) -> None:
    assert running_commands(tmp_path / "nowhere") == ()
    assert not list(tmp_path.iterdir())
