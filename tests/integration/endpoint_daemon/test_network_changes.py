"""Another network is noticed as it comes: in a network of the test's own, made by unshare."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

# On a computer whose only network is the loopback: addresses and routes come, as from a router.
_PROGRAM = """
import asyncio, json, subprocess, sys, time
from pathlib import Path

sys.path.insert(0, sys.argv[2])
from tests.fakes.fake_control_plane import fake_control_plane
from tests.integration.endpoint_daemon.conftest import Farhandd, eventually

def ip(command):
    subprocess.run(["ip", *command.split()], check=True)

async def main(home):
    farhandd = Farhandd(home)
    def logged(event):
        return (home / "daemon.log").read_text().count(f'"event": "{event}"')
    async with fake_control_plane() as plane:
        try:
            machine_id = await farhandd.enrol(plane)
            await farhandd.start("run")
            await plane.connected(machine_id)

            # A container's address: the link is not touched.
            ip("address add 10.9.0.1/32 dev lo")
            # Another network: a new stream, without ever being away.
            ip("address add 10.7.0.1/24 dev lo")
            ip("route add default dev lo")
            await plane.connected(machine_id, after_epoch=1)
            assert plane.times_away == 0, plane.times_away
            assert logged("network_changed") == 1

            # While it waits to dial again, by now for up to 8 s: within 3 s.
            plane.accept_links = False
            plane.cut(machine_id)
            await eventually(lambda: logged("stream_ended") > 5, deadline_s=30)
            plane.accept_links = True
            before = plane.machines[machine_id].epoch
            ip("address delete 10.9.0.1/32 dev lo")  # ours so far
            begun = time.monotonic()
            await plane.connected(machine_id, after_epoch=before)
            assert time.monotonic() - begun < 5
        finally:
            await farhandd.end_all()

subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="networks of one's own are Linux's")
def test_another_network_is_answered_at_once_and_a_containers_address_not(tmp_path: Path) -> None:
    command = ["unshare", "--user", "--map-root-user", "--net"]
    if shutil.which("ip") is None or subprocess.run([*command, "true"], check=False).returncode:
        pytest.skip("no network of one's own can be made here (needs unshare and ip)")
    done = subprocess.run(
        [*command, sys.executable, "-c", _PROGRAM, str(tmp_path / "machine"), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
