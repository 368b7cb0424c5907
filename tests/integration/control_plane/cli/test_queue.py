"""Work that waits for its machine is seen everywhere: for which one, since when, until when."""

import asyncio
import json
import re

from tests.fakes.fake_daemon import FakeMachine
from tests.integration.control_plane.cli.conftest import Desk

# "since 14:02, until tomorrow 14:02", also just before midnight
SPAN = r"since (yesterday )?\d\d:\d\d, until (tomorrow )?\d\d:\d\d"


async def waits(desk: Desk, machine: str) -> str:
    """Ask for work on a machine that does not take it now; return its ticket."""
    chat = await desk.start("chat", f"run work on {machine}")
    await chat.sees(f"waiting for {machine}")
    (one,) = json.loads((await desk.run("tickets", "list", "--json")).out)["items"]
    assert one["waiting_for"] == [machine]
    return str(one["id"])


async def test_the_queue_of_an_offline_machine_is_seen_on_it_and_on_the_ticket(
    desk: Desk,
) -> None:
    await desk.lab.machine(desk.replica.machines, "laptop")
    ticket = await waits(desk, "laptop")
    listed, one, shown, as_json = await asyncio.gather(
        desk.run("machines", "list"),
        desk.run("machines", "show", "laptop"),
        desk.run("tickets", "show", ticket),
        desk.run("machines", "show", "laptop", "--json"),
    )
    (line,) = [line for line in listed.out.splitlines() if line.startswith("laptop")]
    assert re.search(rf" 1 {SPAN} ", line), line
    assert re.search(rf"now +0 running, 1 {SPAN} queued", one.out), one.out
    said = rf"\[waiting for laptop, which is offline, {SPAN}\]"
    assert re.search(rf"command +work  {said}", one.out), one.out
    assert re.search(rf"command    laptop \$ work  {said}", shown.out), shown.out
    machine = json.loads(as_json.out)
    (command,) = json.loads((await desk.run("tickets", "show", ticket, "--json")).out)["commands"]
    assert machine["queued_since"] == command["queued_at"]
    assert machine["queued_until"] == command["start_expires_at"]
    assert (command["waiting"], command["waiting_because"]) == (True, "offline")


async def test_work_for_a_paused_machine_says_that_it_is_paused(desk: Desk) -> None:
    await desk.run("machines", "pause", "box")
    direct = await desk.start("exec", "--wait-offline", "box", "--", "direct")
    await direct.sees("box is paused; waiting for it to be resumed, until tomorrow ")
    ticket = await waits(desk, "box")
    shown = await desk.run("tickets", "show", ticket)
    assert re.search(rf"\[waiting for box, which is paused, {SPAN}\]", shown.out), shown.out


async def test_a_machine_that_works_shows_numbers_only(desk: Desk) -> None:
    listed, one = await asyncio.gather(
        desk.run("machines", "list"), desk.run("machines", "show", "box")
    )
    assert "since" not in listed.out
    assert "0 running, 0 queued" in one.out


async def test_what_expired_in_the_queue_says_so(desk: Desk) -> None:
    machine: FakeMachine = await desk.lab.machine(desk.replica.machines, "laptop")
    queued = await desk.lab.enqueue(machine, "late")
    await desk.lab.sql("update commands set start_expires_at = farhand_now()")
    assert (await desk.lab.ended(queued.command_id)).state == "expired"
    one = json.loads((await desk.run("machines", "show", "laptop", "--json")).out)
    assert (one["queued"], one["queued_since"], one["queued_until"]) == (0, None, None)
