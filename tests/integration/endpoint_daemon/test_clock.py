"""Clocks that disagree: what is near works, what is far is said with how much it is off."""

import json
import re

import pytest

from tests.fakes.fake_control_plane import fake_control_plane
from tests.integration.endpoint_daemon.conftest import Farhandd, eventually


# The machine's clock against the server's, as the other way round: certificates are checked by the
# computer's own clock, in gRPC, which no test can set.
@pytest.mark.parametrize("ahead_s", [-2, -300 + 5, 300 - 5])
async def test_up_to_five_minutes_off_a_machine_enrols_and_links(
    farhandd: Farhandd, ahead_s: int
) -> None:
    # https://github.com/owenthereal/upterm/pull/475: a second of skew, and it is not yet valid
    async with fake_control_plane(clock_ahead_s=-ahead_s) as plane:
        machine_id = await farhandd.enrol(plane)
        await farhandd.start("run")
        await plane.connected(machine_id)
        assert (await plane.run(machine_id, b"true")).result is not None


async def test_farther_off_the_link_says_by_how_much(farhandd: Farhandd) -> None:
    async with fake_control_plane(clock_ahead_s=-7200) as plane:
        await farhandd.enrol(plane)
        daemon = await farhandd.start("run")
        await eventually(lambda: bool(farhandd.status()["reason"]))
        status = farhandd.status()
        assert status["bye"] == "clock_skew"
        assert status["state"] == "offline", "it goes on trying: a clock can be set"
        said = re.match(r"this machine's clock is ([0-9,]+) s ahead of", status["reason"])
        assert said is not None, status["reason"]
        assert abs(int(said[1].replace(",", "")) - 7200) < 30
        checks = json.loads((await farhandd.call("doctor", "--json")).stdout)["items"]
        (clock,) = [item for item in checks if item["check"] == "clock"]
        assert not clock["ok"]
        daemon.terminate()
        assert "set the clock" in (await farhandd.wait(daemon)).stderr


async def test_two_hours_behind_the_clock_is_what_is_named(farhandd: Farhandd) -> None:
    # Its server's certificate is not valid yet: no word of another server.
    async with fake_control_plane(clock_ahead_s=7200) as plane:
        ended = await farhandd.call(
            "enroll", plane.url, "--code-stdin", "--trust", "off", typed=plane.make_code() + "\n"
        )
    assert ended.status == 1
    assert "clock" in ended.stderr
    assert "another server" not in ended.stderr
