"""`farhandd logs --follow` beside a daemon that writes."""

import asyncio
import json
import signal

from tests.fakes.fake_control_plane import FakeControlPlane
from tests.integration.endpoint_daemon.conftest import Farhandd


async def test_following_shows_what_comes_and_ends_by_ctrl_c(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await farhandd.enrol(plane)
    following = await farhandd.start("logs", "--follow", "--json")
    await farhandd.start("run")
    await plane.connected(machine_id)
    assert following.stdout is not None
    events: list[str] = []
    async with asyncio.timeout(30):
        while "connected" not in events:
            events.append(json.loads(await following.stdout.readline())["event"])
    assert events[0] == "daemon_started"
    following.send_signal(signal.SIGINT)
    ended = await farhandd.wait(following)
    assert (ended.status, ended.stderr) == (0, "")
    shown = await farhandd.call("logs", "-n", "1")
    assert "connected" in shown.stdout
    assert shown.stdout.count("\n") == 1
