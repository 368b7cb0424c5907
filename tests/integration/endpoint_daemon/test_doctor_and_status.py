"""What the daemon's own checks and status say, in health and in trouble."""

import json
import re
import time
from pathlib import Path

import pytest

from tests.fakes.fake_control_plane import FakeControlPlane
from tests.integration.endpoint_daemon.conftest import Ended, Farhandd


def _failed(ended: Ended) -> dict[str, str]:
    """Return the failed checks and their next steps; every check says something."""
    items = json.loads(ended.stdout)["items"]
    # As farhand doctor --json has them: one reader for both.
    assert all(list(item) == ["check", "ok", "result", "next_step"] for item in items)
    assert all(item["check"] and item["result"] for item in items)
    failed = {item["check"]: item["next_step"] for item in items if not item["ok"]}
    assert all(failed.values())
    assert ended.status == (1 if failed else 0)
    # The login shell is that of whoever runs the tests: a slow profile is no fault of ours.
    failed.pop("environment", None)
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
    lines = [line for line in plain.stdout.splitlines() if "environment" not in line]
    assert sum(line.startswith("ok ") for line in lines) == 19


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
    assert set(failed) == {"machine file", "certificate", "route", "enrolment", "daemon"}
    assert "enroll URL --force" in failed["enrolment"]
    assert "'off'" in failed["machine file"]
    assert "enroll URL --force" in failed["daemon"]


async def test_nobody_is_told_to_run_a_revoked_machine(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await farhandd.enrol(plane)
    daemon = await farhandd.start("run")
    await plane.connected(machine_id)
    plane.machines[machine_id].status = "revoked"
    plane.bye(machine_id, "revoked", retry=False)
    assert "enroll URL --force" in (await farhandd.wait(daemon)).stderr
    plane.enrolment_answers = False  # then it knows from the daemon's last words
    for answers in (False, True):
        plane.enrolment_answers = answers
        shown = await farhandd.call("doctor")
        assert "farhandd run" not in shown.stdout
        assert shown.stdout.count("enroll URL --force") == (2 if answers else 1)
    shown = await farhandd.call("status")
    assert "farhandd run" not in shown.stdout
    assert "enroll URL --force" in shown.stdout

    ended = await farhandd.call(
        "enroll", plane.url, "--force", "--no-wait", typed=plane.make_code()
    )
    assert ended.status == 0, ended.stderr
    assert "start it with farhandd run" in (await farhandd.call("status")).stdout


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


_MISUSE = [
    (),
    ("fly",),
    ("--fly",),
    ("--home",),
    ("enroll",),
    ("enroll", "http://x", "--trust", "much"),
    ("run", "--lifeline", "x"),
    ("status", "--version"),
    ("doctor", "too", "much"),
    ("logs", "-n", "many"),
    ("logs", "-n", "-1"),
    ("service",),
    ("service", "fly"),
    ("uninstall", "now"),
]


@pytest.mark.parametrize("arguments", _MISUSE, ids=" ".join)
async def test_misuse_is_one_line_and_two(farhandd: Farhandd, arguments: tuple[str, ...]) -> None:
    ended = await farhandd.call_bare(*arguments)
    assert ended.status == 2
    assert not ended.stdout
    assert re.fullmatch(r"farhandd: cannot .+: .+; see farhandd.* --help\n", ended.stderr)
    assert "renew" not in ended.stderr


async def test_help_says_what_a_verb_does_and_hides_what_is_not_for_people(
    farhandd: Farhandd,
) -> None:
    shown = await farhandd.call_bare("--help")
    assert shown.status == 0
    assert "renew" not in shown.stdout
    for verb in ("enroll", "run", "status", "doctor", "logs", "service", "uninstall"):
        assert f"  {verb} " in shown.stdout
        help_of = await farhandd.call_bare(verb, "--help")
        assert help_of.status == 0
        says = help_of.stdout.split("\n\n")[1]
        assert re.fullmatch(r"[A-Z].+\.", says, re.DOTALL), says
    run = (await farhandd.call_bare("run", "--help")).stdout
    assert "Ctrl-C ends running commands" in run
    assert "TERM leaves" in run
    assert "--lifeline" not in run


async def test_the_home_may_stand_before_and_after_the_verb(
    farhandd: Farhandd, tmp_path: Path
) -> None:
    home = str(tmp_path / "a home")
    for arguments in (
        ("--home", home, "status"),
        (f"--home={home}", "status"),
        ("status", "--home", home),
        ("--home", "/elsewhere", "status", "--home", home),
    ):
        ended = await farhandd.call_bare(*arguments)
        assert ended.status == 1
        assert f"cannot find an identity in {home}: " in ended.stderr
