"""What `farhand exec` says beside the command's own output."""

import json
from asyncio.subprocess import PIPE

from farhand_control_plane.db.enrolment import MadeCode
from farhand_shared.command import ExitReason
from tests.fakes.fake_daemon import FakeMachine, Job, enrol
from tests.integration.control_plane.cli.conftest import Desk


async def test_an_offline_machine_is_not_waited_for_and_the_hint_names_the_option(
    desk: Desk,
) -> None:
    await desk.lab.machine(desk.replica.machines, "away")
    done = await desk.run("exec", "away", "--", "true")
    assert done.status == 125
    assert done.err.startswith("farhand: cannot run on away: it is offline")
    assert "--wait-offline" in done.err


async def test_waiting_says_for_what_and_until_when(desk: Desk) -> None:
    machine = await desk.lab.machine(desk.replica.machines, "away")
    waiting = await desk.start("exec", "--wait-offline", "away", "--", "echo", "back")
    await waiting.sees("away is offline")
    assert "waiting for it until tomorrow " in waiting.text
    async with desk.lab.daemon(machine, desk.replica.machines):
        done = await waiting.ended()
    assert (done.status, done.out) == (0, "back\n")
    assert done.err.count("\n") == 1


async def test_a_pending_machine_is_refused_with_the_command_that_confirms_it(desk: Desk) -> None:
    made: MadeCode = await desk.lab.code("new")
    machine = FakeMachine(desk.replica.machines.root_pem)
    await enrol(machine, f"127.0.0.1:{desk.replica.machines.enrol_port}", made.text)
    done = await desk.run("exec", "new", "--", "true")
    assert done.status == 125
    assert done.err.endswith("farhand machines confirm new\n")


async def test_a_time_limit_that_strikes_is_one_line(desk: Desk) -> None:
    async def behave(job: Job) -> None:
        job.write(b"so far\n")
        job.end(None, reason=ExitReason.TIMEOUT, signal=15)

    desk.machine.behaviour = behave
    done = await desk.run("exec", "--timeout", "1.5", "box", "--", "sleep", "9")
    assert done.status == 124
    assert done.out == "so far\n"
    assert done.err == "farhand: ended after 1.5 s, the limit that --timeout sets\n"


async def test_doctor_speaks_the_keys_of_the_daemons_doctor_and_marks_what_to_look_at(
    desk: Desk,
) -> None:
    assert (await desk.run("chat", "run hostname on the-moon")).status == 3
    looked = await desk.run("doctor")
    assert "see  tickets: 1 need a person\n     → farhand tickets list" in looked.out
    items = json.loads((await desk.run("doctor", "--json")).out)["items"]
    assert all(set(one) == {"check", "ok", "result", "next_step"} for one in items)


async def test_machines_add_waits_past_a_quiet_time_and_confirms(desk: Desk) -> None:
    add = await desk.start("machines", "add", "--wait", "--name", "slow", stdin=PIPE)
    await add.sees("Waiting for the code")
    code = next(line for line in add.out.decode().split() if line.startswith("FH1-"))
    machine = FakeMachine(desk.replica.machines.root_pem)
    await enrol(machine, f"127.0.0.1:{desk.replica.machines.enrol_port}", code)
    await add.sees("Are they the same there?")
    add.type("yes")
    done = await add.ended()
    assert done.status == 0, done.err
    assert "slow is active." in done.out
