"""A stream takes over from another one: no gap, no command and no byte of output is disturbed."""

import hashlib
import json
from pathlib import Path

from tests.fakes.fake_control_plane import FakeAttempt, FakeControlPlane
from tests.fakes.supervised_lab import until
from tests.integration.endpoint_daemon.conftest import Farhandd

# Writes without a pause until it is told to stop, then says what it wrote.
_TALKER = """
import hashlib, os, sys
sent, block = hashlib.sha256(), os.urandom(1 << 16)
while not os.path.exists(sys.argv[1]):
    sys.stdout.buffer.write(block)
    sent.update(block)
sys.stderr.write(sent.hexdigest())
"""


def _talker(stop: Path) -> bytes:
    return f"exec python3 -c '{_TALKER}' {stop}".encode()


async def _grows(plane: FakeControlPlane, attempt: FakeAttempt) -> None:
    have = len(attempt.stdout)
    await plane.until(lambda: len(attempt.stdout) > have)


async def _is_exact(plane: FakeControlPlane, attempt: FakeAttempt) -> None:
    await plane.result(attempt)
    assert attempt.result is not None
    assert attempt.result.exit_code == 0
    assert not attempt.omitted
    assert hashlib.sha256(attempt.stdout).hexdigest() == attempt.stderr.decode()
    assert len(attempt.started) == 1


async def test_a_certificate_is_renewed_under_running_output_and_nobody_notices(
    plane: FakeControlPlane, farhandd: Farhandd, tmp_path: Path
) -> None:
    machine_id = await farhandd.enrol(plane)
    await farhandd.start_hurried(0.05)  # it looks around four times a second
    machine = await plane.connected(machine_id)
    attempt = plane.offer(machine_id, _talker(tmp_path / "stop"))
    await _grows(plane, attempt)
    (farhandd.home / "renew-now").touch()
    await plane.connected(machine_id, after_epoch=1)  # the new certificate is shown
    assert plane.renewals == 1
    await _grows(plane, attempt)
    (tmp_path / "stop").touch()
    await _is_exact(plane, attempt)
    assert plane.times_away == 0, "the new stream was there before the old one went"
    assert machine.epoch == 2
    # A hurried daemon on a busy computer may lose its link meanwhile: then it comes back.
    status = farhandd.home / "status.json"
    await until(lambda: json.loads(status.read_bytes())["state"] == "connected")


async def test_a_drain_is_followed_without_a_gap(
    plane: FakeControlPlane, farhandd: Farhandd, tmp_path: Path
) -> None:
    machine_id = await farhandd.enrol(plane)
    await farhandd.start("run")
    await plane.connected(machine_id)
    attempt = plane.offer(machine_id, _talker(tmp_path / "stop"))
    for epoch in range(1, 4):
        await _grows(plane, attempt)
        plane.drain(machine_id)
        await plane.connected(machine_id, after_epoch=epoch)
    (tmp_path / "stop").touch()
    await _is_exact(plane, attempt)
    assert plane.times_away == 0


async def test_after_a_goodbye_for_a_restart_it_is_back_soon(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await farhandd.enrol(plane)
    daemon = await farhandd.start("run")
    await plane.connected(machine_id)
    for epoch in range(1, 4):  # restarted three times in a row, not long after each other
        plane.bye(machine_id, "going_away", retry=True)
        await plane.connected(machine_id, after_epoch=epoch)
    daemon.terminate()
    ended = await farhandd.wait(daemon)
    assert "grpc" not in ended.stderr.lower()
    assert "farhandd: cannot connect: told going_away; trying again until it works" in ended.stderr
