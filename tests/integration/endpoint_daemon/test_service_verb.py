"""`farhandd service` and what a service manager sees of the daemon; the managers are fakes."""

import json
import os
import socket
import sys
from pathlib import Path

import pytest

from farhand_daemon.paths import Home
from farhand_daemon.service.manager import Host
from farhand_daemon.service.verb import EXIT_NO_MANAGER, service
from farhand_shared.errors import Conflict, NotFound
from tests.fakes.fake_control_plane import FakeControlPlane
from tests.fakes.fake_service_manager import FakeServiceManager
from tests.integration.endpoint_daemon.conftest import Farhandd


def ann(folder: Path, fake: FakeServiceManager) -> Host:
    """An ordinary account: as root a service would be this computer's own."""
    return Host(
        platform="linux",
        uid=1000,
        account="ann",
        account_home=folder / "ann",
        environ={"PATH": str(fake.tools)},
    )


async def test_a_machine_becomes_a_service_and_stops_being_one(
    plane: FakeControlPlane,
    farhandd: Farhandd,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake = FakeServiceManager.make(tmp_path / "fake")
    host, home = ann(tmp_path, fake), Home(farhandd.home)

    def does(action: str, *, as_json: bool = False) -> tuple[int, str]:
        status = service(home, action, restart=False, as_json=as_json, host=host)
        return status, capsys.readouterr().out

    with pytest.raises(NotFound):  # no machine yet
        does("install")
    await farhandd.enrol(plane)
    assert does("status")[0] == 1
    status, said = does("install")
    assert status == 0
    assert "systemd --user, farhandd-" in said
    status, said = does("status", as_json=True)
    assert status == 0
    assert json.loads(said)["as_rendered"] is True
    unit = Path(json.loads(said)["file"]).read_text()
    assert f'"--home" "{farhandd.home}" "run"' in unit
    assert does("install")[0] == 0
    assert does("remove") == (
        0,
        "The service is stopped and removed; running commands go on. Its machine stays enrolled.\n",
    )
    assert does("remove") == (0, "There is no service of this daemon.\n")
    assert (farhandd.home / "identity.json").exists()


async def test_a_daemon_started_by_hand_is_in_the_way(
    plane: FakeControlPlane, farhandd: Farhandd, tmp_path: Path
) -> None:
    fake = FakeServiceManager.make(tmp_path / "fake")
    machine_id = await farhandd.enrol(plane)
    daemon = await farhandd.start("run")
    await plane.connected(machine_id)
    with pytest.raises(Conflict, match=rf"a daemon \(pid {daemon.pid}\) runs already"):
        service(
            *(Home(farhandd.home), "install"),
            restart=False,
            as_json=False,
            host=ann(tmp_path, fake),
        )
    assert fake.calls() == []


async def test_where_nothing_keeps_services_it_says_so_with_a_status_of_its_own(
    plane: FakeControlPlane, farhandd: Farhandd, tmp_path: Path
) -> None:
    await farhandd.enrol(plane)
    fake = FakeServiceManager.make(tmp_path / "fake")
    fake.say(system=False, session=False)
    ended = await farhandd.wait(
        await farhandd.start("service", "install", env={**os.environ, "PATH": fake.path})
    )
    assert ended.status == EXIT_NO_MANAGER
    if sys.platform == "linux":
        (line,) = ended.stderr.splitlines()
        assert line.startswith("farhandd: cannot make a service: systemd does not run on this")
        assert line.endswith("farhandd run")


async def test_the_daemon_tells_its_manager_when_it_is_ready_and_when_it_stops(
    plane: FakeControlPlane, farhandd: Farhandd, tmp_path: Path
) -> None:
    machine_id = await farhandd.enrol(plane)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(30)
        environ = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"), "INVOCATION_ID": "x"}
        daemon = await farhandd.start("run", env=environ)
        await plane.connected(machine_id)
        assert manager.recv(4096).decode().splitlines()[:2] == [
            "READY=1",
            f"MAINPID={daemon.pid}",
        ]
        attempt = await plane.run(machine_id, b"env")
        assert b"NOTIFY_SOCKET" not in bytes(attempt.stdout)
        assert b"INVOCATION_ID" not in bytes(attempt.stdout)
        daemon.terminate()
        assert await daemon.wait() == 0
        assert manager.recv(4096).startswith(b"STOPPING=1\n")


async def test_launchd_is_told_success_where_it_must_not_start_it_again(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await farhandd.enrol(plane)
    for options, status in (((), 3), (("--not-wanted-is-success",), 0)):
        plane.machines[machine_id].status = "active"
        daemon = await farhandd.start("run", *options)
        await plane.connected(machine_id)
        plane.bye(machine_id, "revoked", retry=False)
        assert (await farhandd.wait(daemon)).status == status
