"""`farhand machines`: choosing among machines and changing one, as a person types it."""

import asyncio
import json

from farhand_control_plane.db.enrolment import MadeCode
from tests.fakes.fake_daemon import FakeMachine, Job, enrol
from tests.integration.control_plane.cli.conftest import Desk


async def test_a_selector_is_explained_and_a_wrong_one_is_pointed_at(desk: Desk) -> None:
    labelled = await desk.run("machines", "label", "box", "build", "team=infra")
    assert labelled.out == "box has the labels: build, team=infra.\n"
    explained = await desk.run("machines", "explain", "label=build cpu>=1")
    assert explained.out.startswith(
        "box: the only one that fits and is online\n  -> box (online)\n       it has the label"
    ), explained.err
    as_json = json.loads((await desk.run("machines", "explain", "label=fast", "--json")).out)
    assert (as_json["selector"], as_json["chosen"]) == ("label=fast", None)
    wrong = await desk.run("machines", "explain", "os=linux fast")
    assert (wrong.status, wrong.out) == (1, "")
    assert wrong.err.startswith("farhand: cannot read the selector at character 10: ")
    assert wrong.err.endswith("\n    os=linux fast\n             ^\n")
    removed = await desk.run("machines", "label", "box", "--remove", "build", "--remove", "team")
    assert removed.out == "box has the labels: none.\n"
    nothing = await desk.run("machines", "label", "box")
    assert nothing.err.startswith("farhand: cannot label box: no label is given")


async def test_a_paused_machine_keeps_its_queue_and_starts_it_when_resumed(desk: Desk) -> None:
    async def behave(job: Job) -> None:
        job.write(b"ran\n")
        job.end()

    desk.machine.behaviour = behave
    assert (await desk.run("machines", "pause", "box")).out == (
        "box is paused: 0 running, 0 wait.\n"
    )
    waiting = await desk.start("exec", "--wait-offline", "box", "--", "work")

    async def queued() -> int:
        return int(json.loads((await desk.run("machines", "show", "box", "--json")).out)["queued"])

    async with asyncio.timeout(60):
        while await queued() != 1:
            pass  # asking takes its time
    resumed = await desk.run("machines", "resume", "box")
    assert resumed.out.startswith("box takes work again: ")
    ended = await waiting.ended()
    assert (ended.status, ended.out) == (0, "ran\n"), ended.err


async def test_a_renamed_machine_is_found_by_its_new_name_only(desk: Desk) -> None:
    async def behave(job: Job) -> None:
        job.write(b"ran\n")
        job.end()

    desk.machine.behaviour = behave
    assert (await desk.run("machines", "rename", "box", "crate")).out == "box is crate now.\n"
    assert (await desk.run("exec", "crate", "--", "work")).out == "ran\n"
    gone = await desk.run("exec", "box", "--", "work")
    assert "no machine has this name" in gone.err


async def test_a_quarantined_machine_shows_its_way_back(desk: Desk) -> None:
    await desk.lab.sql("update machines set status = 'quarantined'")
    shown = (await desk.run("machines", "show", "box")).out
    assert "two computers used its identity" in shown
    assert "farhandd enroll --rejoin there: first on the computer that stays box" in shown
    refused = await desk.run("exec", "box", "--", "work")
    assert "farhandd enroll --rejoin" in refused.err


async def test_a_machine_without_a_battery_has_no_charge_to_show(desk: Desk) -> None:
    set_to = 'update machines set facts = facts || \'{"has_battery": %s, "battery_percent": 0}\''
    await desk.lab.sql(set_to % "false")
    shown = (await desk.run("machines", "show", "box")).out
    assert "has_battery: no" in shown
    assert "battery_percent" not in shown
    await desk.lab.sql(set_to % "true")
    assert "battery_percent: 0" in (await desk.run("machines", "show", "box")).out


async def test_who_does_not_type_yes_is_told_both_ways_on(desk: Desk) -> None:
    made: MadeCode = await desk.lab.code("new")
    machine = FakeMachine(desk.replica.machines.root_pem)
    await enrol(machine, f"127.0.0.1:{desk.replica.machines.enrol_port}", made.text)
    refused = await desk.run("machines", "confirm", "new")
    assert refused.status == 1
    assert "it stays pending" in refused.err
    assert "the same: farhand machines confirm new" in refused.err
    assert "differ: farhand machines revoke new" in refused.err
