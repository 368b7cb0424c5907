"""`farhand chat`: one message followed to its end, whatever else is said beside it."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE

from farhand_shared.command import ExitReason
from farhand_shared.link_events import Stream
from tests.fakes.fake_daemon import Job, hold
from tests.integration.control_plane.cli.conftest import Desk


async def test_the_answer_and_the_output_go_to_stdout_and_progress_does_not(desk: Desk) -> None:
    done = await desk.run("chat", "run echo hello on box")
    assert done.status == 0
    assert done.out.splitlines() == [
        "-c echo hello",
        "`echo hello` on box ended with exit status 0.",
    ]
    lines = done.err.splitlines()
    assert lines[0].startswith("· ticket ")
    assert lines[1:] == ["· box: running echo hello", "· box: exit 0"]


async def test_the_exit_code_is_the_commands(desk: Desk) -> None:
    async def behave(job: Job) -> None:
        job.write(b"no\n", Stream.STDERR)
        job.end(7)

    desk.machine.behaviour = behave
    done = await desk.run("chat", "run false on box")
    assert done.status == 7
    assert b"no\n" in done.stdout


async def test_output_is_shown_as_it_comes_and_once(desk: Desk) -> None:
    release = asyncio.Event()

    async def behave(job: Job) -> None:
        job.write(b"first\n")
        await release.wait()
        job.write(b"second\n")
        job.end()

    desk.machine.behaviour = behave
    chat = await desk.start("chat", "run work on box")
    await chat.sees("first\n")  # while it runs
    assert "second" not in chat.text
    release.set()
    done = await chat.ended()
    assert done.status == 0
    assert done.stdout.count(b"first\n") == 1
    assert done.stdout.count(b"second\n") == 1
    assert done.stdout.index(b"second") < done.stdout.index(b"ended with exit status 0")


async def test_bytes_pass_unchanged_into_a_pipe(desk: Desk) -> None:
    data = bytes(range(256)) * 1000

    async def behave(job: Job) -> None:
        job.write(data)
        job.end()

    desk.machine.behaviour = behave
    done = await desk.run("chat", "run work on box")
    assert done.stdout.startswith(data)


async def test_a_message_beside_running_work_gets_its_own_answer_and_the_work_goes_on(
    desk: Desk,
) -> None:
    release = asyncio.Event()

    async def behave(job: Job) -> None:
        await release.wait()
        job.end(5)

    desk.machine.behaviour = behave
    first = await desk.start("chat", "run sleep 300 on box")
    await first.sees("running sleep 300")
    beside = await desk.run("chat", "status")
    assert beside.status == 0, beside.err
    assert "1 open: sleep 300" in beside.out
    assert beside.err == ""
    assert first.process.returncode is None
    release.set()
    done = await first.ended()
    assert done.status == 5
    assert "open:" not in done.out, "somebody else's answer"


async def test_a_second_command_beside_the_first_ends_as_its_own(desk: Desk) -> None:
    release = asyncio.Event()

    async def behave(job: Job) -> None:
        if "slow" in job.words[-1]:
            await release.wait()
            job.end(1)
        job.end(2)

    desk.machine.behaviour = behave
    slow = await desk.start("chat", "run slow on box")
    await slow.sees("running slow")
    quick = await desk.run("chat", "run quick on box")
    assert quick.status == 2
    assert "slow" not in quick.out + quick.err
    release.set()
    assert (await slow.ended()).status == 1


async def test_stop_says_what_it_stopped_and_the_stopped_one_says_so_too(desk: Desk) -> None:
    async def behave(job: Job) -> None:
        await job.cancelled.wait()
        job.write(b"last words\n")
        job.end(None, reason=ExitReason.CANCEL, signal=15)

    desk.machine.behaviour = behave
    running = await desk.start("chat", "run sleep 300 on box")
    await running.sees("running sleep 300")
    stop = await desk.run("chat", "stop")
    assert stop.status == 0, stop.err
    assert "Stopped: sleep 300" in stop.out
    stopped = await running.ended()
    assert stopped.status == 143
    assert "· stopped: a person asked for it" in stopped.err
    assert "last words" in stopped.out


async def test_a_question_shows_its_options_and_how_to_answer(desk: Desk) -> None:
    asked = await desk.run("chat", "--conversation", "a room", "run hostname on the-moon")
    assert asked.status == 3, asked.err
    assert "I know no machine named the-moon." in asked.out
    assert "options: box" in asked.out
    assert "farhand chat --conversation 'a room' \"box\"" in asked.err
    answered = await desk.run("chat", "--conversation", "a room", "box")
    assert answered.status == 0, answered.err
    assert "· box: running hostname" in answered.err
    assert "on box ended with exit status 0" in answered.out


async def test_lines_are_taken_while_earlier_ones_are_followed(desk: Desk) -> None:
    desk.machine.behaviour = hold
    talk = await desk.start("chat", stdin=PIPE)
    talk.type("run sleep 300 on box")
    await talk.sees("running sleep 300")
    talk.type("status")
    await talk.sees("1 open: sleep 300")
    talk.type("stop")
    await talk.sees("Stopped: sleep 300")
    done = await talk.ended()
    assert done.status == 0
    assert "· stopped: a person asked for it" in done.err


async def test_an_answer_typed_into_the_talk_is_shown_once(desk: Desk) -> None:
    talk = await desk.start("chat", stdin=PIPE)
    talk.type("run hostname on the-moon")
    await talk.sees('to answer: type "box"')
    talk.type("box")
    done = await talk.ended()
    assert done.status == 0
    assert done.out.count("on box ended with exit status 0") == 1
    assert done.err.count("running hostname") == 1


async def test_a_message_that_is_refused_is_one_line_and_exits_1(desk: Desk) -> None:
    talk = await desk.start("chat", stdin=PIPE)
    talk.type("x" * 100_000)
    done = await talk.ended()
    assert done.status == 1
    assert "65,536 bytes" in done.err
    assert done.err.count("\n") == 1


async def test_what_somebody_is_typing_stays_whole_below_what_happens(desk: Desk) -> None:
    release = asyncio.Event()

    async def behave(job: Job) -> None:
        await release.wait()
        job.write(b"\x1b[31mred\n")
        job.end()

    desk.machine.behaviour = behave
    ours, theirs = os.openpty()
    shown = bytearray()

    async def sees(part: bytes) -> None:
        while part not in shown:
            shown.extend(await asyncio.to_thread(os.read, ours, 1 << 16))

    talk = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "farhand_control_plane", "chat"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**desk.environment(), "TERM": "xterm"},
    )
    os.close(theirs)
    try:
        async with asyncio.timeout(60):
            await sees(b"> ")
            os.write(ours, b"run work on box\n")
            await sees(b"running work")
            os.write(ours, b"sta")
            await sees(b"> sta")
            release.set()
            await sees(b"\x1b[K\\x1b[31mred\r\n> sta")  # nor does a command drive the terminal
            await sees(b"exit status 0.\r\n> sta")
            os.write(ours, b"\x15\x04")  # take it back, and leave
            assert await talk.wait() == 0
    finally:
        os.close(ours)
