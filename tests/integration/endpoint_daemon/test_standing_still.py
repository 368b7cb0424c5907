"""Sleep and silence: what is stopped, frozen or cut off without a word is back by itself.

The times of the link are made small (``fakes/hurried_daemon.py``, and the replica's own here); with
the true ones, which take minutes, ``scripts/long_faults.py`` does the same.
"""

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from farhand_daemon.doctor.network import enrolment
from farhand_daemon.identity import load_identity
from farhand_daemon.paths import Home
from farhand_shared import link_replica
from tests.fakes.bad_link import BadLink
from tests.fakes.fake_control_plane import FakeControlPlane
from tests.integration.endpoint_daemon.conftest import Farhandd, eventually

FACTOR = 0.05  # silence is suffered for 1.25 s, a look around comes every 0.25 s


@pytest.fixture(autouse=True)
def _quick_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_replica, "PING_INTERVAL_S", 0.5)
    monkeypatch.setattr(link_replica, "PONG_DUE_S", 0.5)


def logged(farhandd: Farhandd, event: str) -> list[dict[str, object]]:
    log = farhandd.home / "daemon.log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [one for one in map(json.loads, lines) if one["event"] == event]


@pytest.fixture
async def frozen_or_not(
    plane: FakeControlPlane, farhandd: Farhandd
) -> AsyncIterator[tuple[str, BadLink]]:
    """A linked machine whose link goes over a bad network; its id."""
    with BadLink(plane.link_port) as network:
        plane.told_address = network.address
        machine_id = await farhandd.enrol(plane)
        await farhandd.start_hurried(FACTOR)
        await plane.connected(machine_id)
        yield machine_id, network
        network.heal()


async def test_after_a_long_stop_it_is_back_at_once_and_does_what_waited_once(
    plane: FakeControlPlane, farhandd: Farhandd, tmp_path: Path
) -> None:
    # https://github.com/actions/runner/issues/3448: after hours of sleep the process works, and the
    # service shows it offline until it is started again
    machine_id = await farhandd.enrol(plane)
    daemon = await farhandd.start_hurried(FACTOR)
    machine = await plane.connected(machine_id)
    daemon.send_signal(signal.SIGSTOP)
    await plane.until(lambda: machine.session is None)  # it missed a ping
    waiting = plane.offer(machine_id, f"echo x >> {tmp_path}/starts; printf awake".encode())
    daemon.send_signal(signal.SIGCONT)
    woken_at = time.monotonic()
    await plane.result(waiting)
    assert time.monotonic() - woken_at < 10
    assert bytes(waiting.stdout) == b"awake"
    assert (tmp_path / "starts").read_text() == "x\n"
    assert machine.session is not None


async def test_what_was_offered_before_a_stop_and_withdrawn_meanwhile_is_not_started(
    plane: FakeControlPlane, farhandd: Farhandd, tmp_path: Path
) -> None:
    machine_id = await farhandd.enrol(plane)
    daemon = await farhandd.start_hurried(FACTOR)
    machine = await plane.connected(machine_id)
    daemon.send_signal(signal.SIGSTOP)
    offered = plane.offer(machine_id, f"touch {tmp_path}/started".encode())  # into its socket
    await plane.until(lambda: machine.session is None)
    plane.cancel(offered.offer.attempt_id, machine_id)  # a person withdraws it; the link is gone
    daemon.send_signal(signal.SIGCONT)
    await plane.connected(machine_id, after_epoch=1)
    plane.cancel(offered.offer.attempt_id, machine_id)  # as a replica says again after a Hello
    await plane.result(offered)
    assert not (tmp_path / "started").exists()
    assert not offered.started


async def test_a_way_that_swallows_everything_is_left_and_found_again(
    plane: FakeControlPlane, farhandd: Farhandd, frozen_or_not: tuple[str, BadLink]
) -> None:
    # https://github.com/Ylianst/MeshCentral/issues/7972: the socket stands, nothing passes
    machine_id, network = frozen_or_not
    machine = plane.machines[machine_id]
    network.freeze()
    await eventually(
        lambda: any(
            "nothing was heard" in str(one["reason"]) for one in logged(farhandd, "stream_ended")
        )
    )
    await plane.until(lambda: machine.session is None)
    taken = network.taken
    await eventually(lambda: network.taken > taken)  # it goes on trying
    network.thaw()
    await plane.connected(machine_id, after_epoch=1)
    assert (await plane.run(machine_id, b"true")).result is not None


async def test_stopped_and_cut_off_it_opens_a_new_connection_by_itself(
    plane: FakeControlPlane, farhandd: Farhandd, frozen_or_not: tuple[str, BadLink]
) -> None:
    # https://github.com/grpc/grpc/issues/27772: after a sleep the stream hangs, past its deadline
    machine_id, network = frozen_or_not
    daemon = farhandd.started[-1]
    daemon.send_signal(signal.SIGSTOP)
    network.freeze()
    await plane.until(lambda: plane.machines[machine_id].session is None)
    taken = network.taken
    daemon.send_signal(signal.SIGCONT)
    woken_at = time.monotonic()
    await eventually(lambda: network.taken > taken)
    assert time.monotonic() - woken_at < 15
    network.thaw()
    await plane.connected(machine_id, after_epoch=1)


async def test_other_calls_that_work_prove_nothing_of_the_work_stream(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    # https://github.com/saltstack/salt/issues/41578: requests work, what carries jobs is dead
    machine_id = await farhandd.enrol(plane)
    await farhandd.start_hurried(FACTOR)
    machine = await plane.connected(machine_id)
    plane.mute = True
    waiting = plane.offer(machine_id, b"id")
    await plane.until(lambda: len(machine.hellos) > 1)  # torn down and opened anew, while …
    identity = load_identity(Home(farhandd.home))
    status, _ = await asyncio.to_thread(enrolment, identity)
    assert status == "active", "the other listener answers all the time"
    plane.mute = False
    await plane.result(waiting)
    assert bytes(waiting.stdout).startswith(b"uid=")


async def test_a_healthy_idle_link_is_never_touched(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await farhandd.enrol(plane)
    await farhandd.start_hurried(FACTOR)
    machine = await plane.connected(machine_id)
    assert machine.session is not None
    # Many pings, and several times as long as silence would be suffered.
    nonce = machine.session.link.pong_nonce
    await plane.until(
        lambda: machine.session is not None and machine.session.link.pong_nonce >= nonce + 3
    )
    assert machine.epoch == 1
