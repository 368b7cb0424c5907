"""A copied state folder: both copies are locked out, and each comes back as what it is."""

import json
import shutil
from pathlib import Path

from tests.fakes.fake_control_plane import FakeControlPlane
from tests.integration.endpoint_daemon.conftest import Ended, Farhandd


def _copy(farhandd: Farhandd, to: Path) -> Farhandd:
    shutil.copytree(farhandd.home, to, ignore=shutil.ignore_patterns("*.sock"))
    return Farhandd(to, farhandd.started)  # ended by the fixture of the first


async def _rejoin(plane: FakeControlPlane, farhandd: Farhandd, *more: str) -> Ended:
    return await farhandd.call(
        "enroll", "--rejoin", "--code-stdin", "--no-wait", *more, typed=plane.make_code() + "\n"
    )


def _machine_of(farhandd: Farhandd) -> str:
    return str(json.loads((farhandd.home / "identity.json").read_text())["machine_id"])


async def test_a_quarantined_machine_and_its_copy_come_back_as_two(
    plane: FakeControlPlane, farhandd: Farhandd, tmp_path: Path
) -> None:
    machine_id = await farhandd.enrol(plane)
    await farhandd.start("run")
    await plane.connected(machine_id)
    assert (await plane.run(machine_id, b"true")).result is not None
    daemon = farhandd.started[-1]
    daemon.kill()
    await daemon.wait()
    copy = _copy(farhandd, tmp_path / "copy")
    plane.machines[machine_id].status = "quarantined"

    back = await _rejoin(plane, farhandd)
    assert back.status == 0, back.stderr
    assert "This computer is laptop again, under a new key." in back.stdout
    assert _machine_of(farhandd) == machine_id
    assert (farhandd.home / "journal").exists(), "it is still the one that did this work"
    plane.machines[machine_id].status = "active"
    await farhandd.start("run")
    await plane.connected(machine_id)

    other = await _rejoin(plane, copy, "--name", "copy")
    assert other.status == 0, other.stderr
    assert "This computer is a machine of its own now: laptop is another one" in other.stdout
    other_id = _machine_of(copy)
    assert other_id != machine_id
    assert not (copy.home / "journal").exists(), "nothing of the other's work"
    plane.machines[other_id].status = "active"
    await copy.start("run")
    await plane.connected(other_id)
    assert plane.machines[other_id].hellos[-1].journal_id != (
        plane.machines[machine_id].hellos[-1].journal_id
    )
    assert plane.machines[machine_id].session is not None, "both are there"
    assert (copy.home / "machine.toml").read_text() == (
        farhandd.home / "machine.toml"
    ).read_text(), "what its owner allows stays"


async def test_the_goodbye_says_how_to_come_back(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await farhandd.enrol(plane)
    daemon = await farhandd.start("run")
    await plane.connected(machine_id)
    plane.bye(machine_id, "quarantined", retry=False)
    ended = await farhandd.wait(daemon)
    assert ended.status == 3
    assert "farhandd enroll --rejoin" in ended.stderr
    assert "farhandd enroll --rejoin" in (await farhandd.call("status")).stdout


async def test_rejoining_needs_an_identity_and_enrolling_an_address(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    nothing = await _rejoin(plane, farhandd)
    assert nothing.status == 1
    assert "this machine is not enrolled" in nothing.stderr
    misuse = await farhandd.call("enroll")
    assert misuse.status == 2
    assert "URL" in misuse.stderr
    both = await farhandd.call("enroll", plane.url, "--rejoin", "--force")
    assert both.status == 2
