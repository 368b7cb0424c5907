"""Files over a bad network: what breaks off goes on, and what arrives is whole."""

import os
import random
import signal
from pathlib import Path

import pytest

from tests.simulation.stage import Client, Stage, until

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(400)]

# What breaks off in the middle is large; for the others several windows are enough.
LARGE, SMALL = 50 * 1024 * 1024, 12 * 1024 * 1024
SLOW = 12 << 20  # bytes a second: there is time to break something


class Transfer:
    """A file on one side, and its way to the other; both sides are folders of this computer."""

    def __init__(self, system: Stage, verb: str, size: int) -> None:
        self.content = random.Random(size).randbytes(size)  # no compression makes it smaller
        folder = system.work / os.urandom(4).hex()
        self.source, self.target = folder / "source" / "a.bin", folder / "target" / "a.bin"
        for path in (self.source, self.target):
            path.parent.mkdir(parents=True)
        self.source.write_bytes(self.content)
        away = self.source if verb == "get" else self.target
        there = f"{system.machine.name}:{away.relative_to(system.work)}"
        ends = [there, str(self.target)] if verb == "get" else [str(self.source), there]
        self.line = ("files", verb, *ends)
        self._system = system

    def start(self, *options: str) -> Client:
        return self._system.farhand(*self.line, *options)

    @property
    def parts(self) -> list[Path]:
        folder = self.target.parent
        return [one for one in folder.iterdir() if ".farhand-part-" in one.name]

    def arrives(self, share: float) -> None:
        """Wait until so much of it has gone over."""
        size = share * len(self.content)
        until("so much is there", lambda: any(one.stat().st_size > size for one in self.parts))

    def is_whole(self, client: Client) -> None:
        told = client.ended()
        assert told.status == 0, told.stderr
        assert self.target.read_bytes() == self.content
        assert self.parts == []


@pytest.mark.parametrize("verb", ["get", "put"])
def test_a_transfer_goes_on_when_its_link_is_cut(system: Stage, verb: str) -> None:
    transfer = Transfer(system, verb, LARGE)
    system.link.throttle(3 * SLOW)
    client = transfer.start()
    transfer.arrives(0.3)
    assert system.link.cut() >= 1
    system.link.throttle(0)
    transfer.is_whole(client)
    (row,) = system.sql(
        "select count(*) as n from commands where title like %s and title not like 'stat %%'",
        f"%{transfer.target.parent.parent.name}%",
    )
    assert row["n"] == 1, "nothing was begun again"


@pytest.mark.parametrize("verb", ["get", "put"])
def test_the_same_line_goes_on_after_ctrl_c(system: Stage, verb: str) -> None:
    transfer = Transfer(system, verb, SMALL)
    system.link.throttle(SLOW)
    client = transfer.start()
    transfer.arrives(0.1)
    client.process.send_signal(signal.SIGINT)
    assert client.ended().status == 130
    assert not transfer.target.exists()
    system.link.throttle(0)
    again = transfer.start()
    transfer.is_whole(again)
    assert f"of {SMALL:,} bytes" in again.stderr
    assert "going on at " in again.stderr


def test_a_put_whose_client_was_killed_is_taken_over(system: Stage) -> None:
    transfer = Transfer(system, "put", SMALL)
    system.link.throttle(SLOW)
    client = transfer.start()
    transfer.arrives(0.1)
    client.process.kill()
    client.process.wait()
    system.link.throttle(0)
    refused = transfer.start().ended()
    assert refused.status == 1
    assert "--take" in refused.stderr
    again = transfer.start("--take")
    transfer.is_whole(again)
    assert "going on at " in again.stderr


def test_a_get_of_a_file_that_changed_meanwhile_begins_again(system: Stage) -> None:
    transfer = Transfer(system, "get", SMALL)
    system.link.throttle(SLOW)
    client = transfer.start()
    transfer.arrives(0.1)
    client.process.kill()
    client.process.wait()
    transfer.content = transfer.content[::-1]
    transfer.source.write_bytes(transfer.content)
    system.link.throttle(0)
    again = transfer.start()
    transfer.is_whole(again)
    assert "going on" not in again.stderr


def test_a_put_goes_on_when_the_replica_is_killed(system: Stage) -> None:
    transfer = Transfer(system, "put", SMALL)
    system.link.throttle(SLOW)
    client = transfer.start()
    transfer.arrives(0.1)
    system.kill_replica()
    system.link.throttle(0)
    system.mend()
    transfer.is_whole(client)
