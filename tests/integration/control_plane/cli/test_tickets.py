"""`farhand tickets`: what ran and what it wrote can be seen, live and afterwards."""

import asyncio
import json

from farhand_control_plane.domain.access import Scope
from farhand_shared.link_events import Stream
from tests.fakes.fake_daemon import Job
from tests.integration.control_plane.cli.conftest import Desk, make_token


async def only_ticket(desk: Desk) -> str:
    (one,) = json.loads((await desk.run("tickets", "list", "--json")).out)["items"]
    return str(one["id"])


async def test_a_finished_tickets_output_can_be_seen_again(desk: Desk) -> None:
    async def behave(job: Job) -> None:
        job.write(b"out of it\n")
        job.write(b"err of it\n", Stream.STDERR)
        job.end(4)

    desk.machine.behaviour = behave
    assert (await desk.run("chat", "run work on box")).status == 4
    ticket = await only_ticket(desk)
    shown = await desk.run("tickets", "show", ticket[-8:])
    assert shown.status == 0, shown.err
    assert "command    box $ work  [exit 4]\n    out of it\n  stderr:\n    err of it\n" in shown.out
    (command,) = json.loads((await desk.run("tickets", "show", ticket, "--json")).out)["commands"]
    assert (command["state"], command["exit_status"]) == ("exited", 4)
    assert command["stdout"] == {
        "head": "out of it\n",
        "tail": "",
        "total_bytes": 10,
        "omitted_bytes": 0,
    }
    watched = await desk.run("tickets", "watch", ticket)
    assert watched.status == 0
    assert b"out of it\n" in watched.stdout
    assert b"err of it\n" in watched.stdout


async def test_long_output_is_cut_in_the_middle_and_says_so(desk: Desk) -> None:
    async def behave(job: Job) -> None:
        job.write(b"begin\n" + b"x" * 100_000 + b"\nend\n")
        job.end()

    desk.machine.behaviour = behave
    await desk.run("chat", "run work on box")
    shown = (await desk.run("tickets", "show", await only_ticket(desk))).out
    assert "    begin\n" in shown
    assert "    end\n" in shown
    assert "bytes not shown" in shown
    assert len(shown) < 12_000


async def test_watch_shows_output_as_it_comes_even_into_a_pipe(desk: Desk) -> None:
    release = asyncio.Event()

    async def behave(job: Job) -> None:
        job.write(b"before\n")
        await release.wait()
        job.write(b"after\n")
        job.end()

    desk.machine.behaviour = behave
    chat = await desk.start("chat", "run work on box")
    await chat.sees("before")
    everything = await desk.start("tickets", "watch")
    watch = await desk.start("tickets", "watch", await only_ticket(desk))
    await watch.sees("before\n")
    assert "after" not in watch.text
    release.set()
    done = await watch.ended()
    assert done.status == 0
    assert done.stdout.count(b"before\n") == 1
    assert done.stdout.count(b"after\n") == 1
    assert b"closed: done" in done.stdout
    await everything.sees("closed: done")


async def test_questions_are_listed_with_their_options(desk: Desk) -> None:
    assert (await desk.run("tickets", "questions")).out == "Nothing is asked.\n"
    assert (await desk.run("chat", "run hostname on the-moon")).status == 3
    page = json.loads((await desk.run("tickets", "questions", "--json")).out)
    assert set(page) == {"items", "next_cursor"}
    assert page["items"][0]["options"] == ["box"]
    listed = await desk.run("tickets", "questions")
    assert "options: box" in listed.out
    assert f"farhand tickets answer {page['items'][0]['ticket_id'][-8:]}" in listed.out


async def test_a_token_that_may_only_talk_and_read_sees_the_output(desk: Desk) -> None:
    token = await make_token(desk.replica, Scope.CHAT, Scope.READ)
    done = await desk.run("chat", "run echo hello on box", token=token)
    assert done.status == 0, done.err
    assert done.out.startswith("-c echo hello\n")
