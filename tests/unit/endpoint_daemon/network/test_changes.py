"""A change of network is told by the kernel, and told from the noise of a busy computer."""

import asyncio
import shutil
import socket
import subprocess
import sys

import pytest

from farhand_daemon.network import changes
from farhand_daemon.network.changes import NetworkWatch, sources
from farhand_daemon.network.names import Address


def test_where_we_would_send_from_is_known_without_sending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes, "_ANYWHERE", ())  # tests know this computer only
    assert sources([Address(socket.AF_INET, "127.0.0.1", 9)]) == ("127.0.0.1",)
    assert sources([Address(socket.AF_INET6, "not an address", 9)]) == ("",)
    assert sources() == ()


async def test_a_watch_leaves_nothing_behind() -> None:
    watch = NetworkWatch(lambda: None)
    with watch:
        pass
    with watch:
        await asyncio.sleep(0)


# In a network of its own, made by unshare: an address and a route come and go.
_PROGRAM = """
import asyncio, subprocess, sys
from farhand_daemon.network.changes import NetworkWatch, sources

async def main():
    news = asyncio.Event()
    told = [sources()]
    with NetworkWatch(news.set):
        for change in (
            "link set lo up",
            "address add 10.7.0.1/24 dev lo",
            "route add default dev lo",
            "address add 10.9.0.1/32 dev lo",
            "address delete 10.7.0.1/24 dev lo",
        ):
            news.clear()
            subprocess.run(["ip", *change.split()], check=True)
            async with asyncio.timeout(10):
                await news.wait()
            told.append(sources())
    print(*("|".join(one) for one in told), sep="\\n")

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="networks of one's own are Linux's")
def test_the_kernel_tells_of_addresses_and_routes_and_only_another_source_counts() -> None:
    command = ["unshare", "--user", "--map-root-user", "--net"]
    if shutil.which("ip") is None or subprocess.run([*command, "true"], check=False).returncode:
        pytest.skip("no network of one's own can be made here (needs unshare and ip)")
    done = subprocess.run(
        [*command, sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, up, addressed, routed, more, moved = done.stdout.splitlines()
    assert first == up == "|", "nothing leads anywhere"
    assert addressed == "|"
    assert routed == "10.7.0.1|"
    assert more == routed, "one more address is no other network"
    assert moved != routed
