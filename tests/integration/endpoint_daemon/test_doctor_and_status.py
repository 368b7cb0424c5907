"""What the daemon's own checks and status say, in health and in trouble."""

import json
import time

from tests.fakes.fake_control_plane import FakeControlPlane
from tests.integration.endpoint_daemon.conftest import Ended, Farhandd


def _failed(ended: Ended) -> dict[str, str]:
    """Return the failed checks and their next steps; every check says something."""
    items = json.loads(ended.stdout)["items"]
    assert all(item["check"] and item["result"] for item in items)
    failed = {item["check"]: item["next_step"] for item in items if not item["ok"]}
    assert all(failed.values())
    assert ended.status == (1 if failed else 0)
    return failed


async def test_a_healthy_machine_passes_every_check(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await farhandd.enrol(plane)
    await farhandd.start("run")
    await plane.connected(machine_id)
    ended = await farhandd.call("doctor", "--json")
    assert _failed(ended) == {}, ended.stdout
    plain = await farhandd.call("doctor")
    assert plain.status == 0
    assert all(line.startswith("ok ") for line in plain.stdout.splitlines())


async def test_doctor_names_the_fault_and_the_fix(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    assert "enroll" in _failed(await farhandd.call("doctor", "--json"))["identity"]
    machine_id = await farhandd.enrol(plane, active=False)
    failed = _failed(await farhandd.call("doctor", "--json"))
    assert set(failed) == {"enrolment", "daemon"}
    assert "six words" in failed["enrolment"]
    assert "farhandd run" in failed["daemon"]

    plane.machines[machine_id].status = "revoked"
    farhandd.narrow('trust_level = "workspace"\n')
    path = farhandd.home / "identity.json"
    identity = json.loads(path.read_text())
    path.write_text(
        json.dumps(
            {
                **identity,
                "link_address": "127.0.0.1:1",
                "not_after_ms": int(time.time() * 1000) - 3_600_000,
            }
        )
    )
    failed = _failed(await farhandd.call("doctor", "--json"))
    assert set(failed) == {"machine file", "certificate", "link", "enrolment", "daemon"}
    assert "enroll URL --force" in failed["enrolment"]
    assert "'off'" in failed["machine file"]


async def test_status_tells_before_during_and_after(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    async def status() -> dict[str, object]:
        ended = await farhandd.call("status", "--json")
        assert ended.status == 0, ended.stderr
        return dict(json.loads(ended.stdout))

    machine_id = await farhandd.enrol(plane)
    before = await status()
    assert (before["state"], before["pid"], before["name"]) == ("stopped", None, "laptop")
    daemon = await farhandd.start("run")
    await plane.connected(machine_id)
    during = await status()
    assert (during["state"], during["pid"]) == ("connected", daemon.pid)
    daemon.terminate()
    await daemon.wait()
    assert (await status())["state"] == "stopped"
    plain = await farhandd.call("status")
    assert "not running" in plain.stdout
    assert "trusted (chosen by up)" in plain.stdout


async def test_misuse_is_two_and_help_hides_the_inner_verbs(farhandd: Farhandd) -> None:
    assert (await farhandd.call("enroll")).status == 2
    assert (await farhandd.call("fly")).status == 2
    shown = await farhandd.call("run", "--help")
    assert "--lifeline" not in shown.stdout
    version = await farhandd.call("status", "--version")
    assert version.status == 2
