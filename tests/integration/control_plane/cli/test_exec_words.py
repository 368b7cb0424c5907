"""What `farhand exec` says beside the command's own output."""

import json
import signal
from asyncio.subprocess import PIPE

from farhand_control_plane.db.enrolment import MadeCode
from farhand_shared.command import ExitReason, Limits, Note
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


async def test_a_command_that_waits_for_input_is_said_to_have_none(desk: Desk) -> None:
    async def behave(job: Job) -> None:
        job.write(b"Password: ")
        job.wait_for_input()
        await job.cancelled.wait()
        job.end(None, reason=ExitReason.CANCEL, signal=15)

    desk.machine.behaviour = behave
    asking = await desk.start("exec", "box", "--", "ask")
    await asking.sees("it seems to wait for input; it has none")
    asking.process.send_signal(signal.SIGINT)
    done = await asking.ended()
    assert (done.status, done.out) == (130, "Password: ")
    assert done.err.count("wait for input") == 1


async def test_output_that_a_process_left_behind_still_holds_is_said(desk: Desk) -> None:
    async def behave(job: Job) -> None:
        job.write(b"started\n")
        job.end(0, left_open=True)

    desk.machine.behaviour = behave
    done = await desk.run("exec", "--shell", "box", "--", "server & echo started")
    assert (done.status, done.out) == (0, "started\n")
    assert done.err.startswith("farhand: a process that it left running still holds its output")
    assert done.err.count("\n") == 1


async def test_a_command_that_takes_its_time_to_end_is_said_to(desk: Desk) -> None:
    async def behave(job: Job) -> None:
        job.write(b"deaf\n")
        await job.cancelled.wait()

    desk.machine.behaviour = behave
    waiting = await desk.start("exec", "box", "--", "deaf")
    await waiting.sees("deaf")
    waiting.process.send_signal(signal.SIGINT)
    await waiting.sees("told to end and has not yet; the machine kills it 10 s after that")
    waiting.process.send_signal(signal.SIGINT)
    assert (await waiting.ended()).status == 130


async def test_what_explains_an_end_is_one_line_each_and_the_code_stays(desk: Desk) -> None:
    async def behave(job: Job) -> None:
        job.end(137, notes=(Note(code="out_of_memory", text="the limit of 64 MiB was reached"),))

    desk.machine.behaviour = behave
    done = await desk.run("exec", "--memory", "64M", "--processes=9", "box", "--", "greedy")
    assert (done.status, done.err) == (137, "farhand: the limit of 64 MiB was reached\n")
    (job,) = desk.machine.jobs.values()
    assert job.spec.limits == Limits(memory_bytes=64 << 20, processes=9)


async def test_limits_are_not_sent_to_a_daemon_that_does_not_know_them(desk: Desk) -> None:
    old = await desk.lab.machine(desk.replica.machines, "old")
    old.capability = 2
    async with desk.lab.daemon(old, desk.replica.machines):
        done = await desk.run("exec", "--memory", "64M", "old", "--", "true")
    assert done.status == 125
    assert "cannot limit a command: old runs daemon" in done.err
    assert not old.jobs


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
