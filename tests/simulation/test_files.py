"""Files over a bad network: what breaks off goes on, and what arrives is whole."""

import hashlib
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulation.stage import Client, Stage, stage, until

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(400)]

_SIZE = 50 * 1024 * 1024


@pytest.fixture(scope="module")
def whole() -> Iterator[Stage]:
    with stage() as made:
        yield made


@pytest.fixture
def system(whole: Stage) -> Iterator[Stage]:
    yield whole
    print(whole.logs())  # shown when the test failed
    whole.link.heal()
    whole.mend()
    assert whole.exec("true", options=("--wait-offline",)).ended().status == 0


@pytest.fixture(scope="module")
def content() -> bytes:
    """What no compression makes smaller, the same in every run."""
    return random.Random(4).randbytes(_SIZE)


@pytest.fixture
def there(system: Stage, content: bytes) -> Iterator[Path]:
    """A file on the machine; its name is its path there."""
    path = system.work / "there" / f"big-{os.urandom(4).hex()}.bin"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    yield path
    path.unlink()


def _target(system: Stage, path: Path) -> str:
    return f"{system.machine.name}:{path.relative_to(system.work)}"


def _parts(folder: Path) -> list[Path]:
    return [one for one in folder.iterdir() if ".farhand-part-" in one.name]


def _has_some(folder: Path, share: float = 0.1) -> bool:
    return any(part.stat().st_size > share * _SIZE for part in _parts(folder))


def _got(client: Client, path: Path, content: bytes) -> None:
    told = client.ended()
    assert told.status == 0, told.stderr
    assert hashlib.sha256(path.read_bytes()).digest() == hashlib.sha256(content).digest()
    assert _parts(path.parent) == []


def test_a_get_goes_on_when_its_link_was_cut(system: Stage, there: Path, content: bytes) -> None:
    local = system.work / there.name
    system.link.throttle(40 << 20)
    getting = system.farhand("files", "get", _target(system, there))
    for share in (0.1, 0.4):
        until("so much is here", lambda share=share: _has_some(system.work, share))
        assert system.link.cut() >= 1
    system.link.throttle(0)
    _got(getting, local, content)
    (row,) = system.sql(
        "select count(*) as n from commands where title like %s", f"read%{there.name}"
    )
    assert row["n"] == 1, "nothing was read twice"


def test_a_get_goes_on_after_ctrl_c_when_the_line_is_run_again(
    system: Stage, there: Path, content: bytes
) -> None:
    local = system.work / there.name
    system.link.throttle(20 << 20)
    getting = system.farhand("files", "get", _target(system, there))
    until("some of it is here", lambda: _has_some(system.work))
    getting.process.send_signal(signal.SIGINT)
    assert getting.ended().status == 130
    assert not local.exists()
    (part,) = _parts(system.work)
    kept = part.stat().st_size
    system.link.throttle(0)
    again = system.farhand("files", "get", _target(system, there))
    _got(again, local, content)
    assert f"going on at {kept:,} of {_SIZE:,} bytes" in again.stderr


def test_a_get_of_a_file_that_changed_meanwhile_begins_again(
    system: Stage, there: Path, content: bytes
) -> None:
    local = system.work / there.name
    system.link.throttle(20 << 20)
    getting = system.farhand("files", "get", _target(system, there))
    until("some of it is here", lambda: _has_some(system.work))
    getting.process.send_signal(signal.SIGKILL)
    getting.ended()
    other = content[::-1]
    there.write_bytes(other)
    system.link.throttle(0)
    again = system.farhand("files", "get", _target(system, there))
    _got(again, local, other)
    assert "going on" not in again.stderr


def test_a_get_goes_on_when_the_replica_was_killed(
    system: Stage, there: Path, content: bytes
) -> None:
    system.link.throttle(20 << 20)
    getting = system.farhand("files", "get", _target(system, there))
    until("some of it is here", lambda: _has_some(system.work))
    system.kill_replica()
    system.link.throttle(0)
    system.mend()
    _got(getting, system.work / there.name, content)


def test_a_put_goes_on_when_its_link_was_cut(system: Stage, there: Path, content: bytes) -> None:
    target = system.work / "put.bin"
    system.link.throttle(40 << 20)
    putting = system.farhand(
        "files", "put", str(there), f"{system.machine.name}:put.bin", "--overwrite"
    )
    for share in (0.1, 0.4):
        until("so much is there", lambda share=share: _has_some(system.work, share))
        assert system.link.cut() >= 1
    system.link.throttle(0)
    _got(putting, target, content)
    target.unlink()


def test_a_put_goes_on_after_ctrl_c_when_the_line_is_run_again(
    system: Stage, there: Path, content: bytes
) -> None:
    line = ("files", "put", str(there), f"{system.machine.name}:put.bin")
    system.link.throttle(20 << 20)
    putting = system.farhand(*line)
    until("some of it is there", lambda: _has_some(system.work))
    putting.process.send_signal(signal.SIGINT)
    assert putting.ended().status == 130
    system.link.throttle(0)
    again = system.farhand(*line)
    _got(again, system.work / "put.bin", content)
    assert "going on at " in again.stderr
    (system.work / "put.bin").unlink()


def test_a_put_whose_client_was_killed_is_taken_over(
    system: Stage, there: Path, content: bytes
) -> None:
    line = ("files", "put", str(there), f"{system.machine.name}:put.bin")
    system.link.throttle(20 << 20)
    putting = system.farhand(*line)
    until("some of it is there", lambda: _has_some(system.work))
    putting.process.send_signal(signal.SIGKILL)
    putting.ended()
    system.link.throttle(0)
    refused = system.farhand(*line).ended()
    assert refused.status == 1
    assert "--take" in refused.stderr
    again = system.farhand(*line, "--take")
    _got(again, system.work / "put.bin", content)
    assert "going on at " in again.stderr
    (system.work / "put.bin").unlink()


def test_two_gets_of_one_file_do_not_mix(system: Stage, there: Path, content: bytes) -> None:
    system.link.throttle(20 << 20)
    first = system.farhand("files", "get", _target(system, there))
    until("some of it is here", lambda: _has_some(system.work))
    second = system.farhand("files", "get", _target(system, there)).ended()
    assert second.status == 1
    assert "another farhand is bringing it" in second.stderr
    system.link.throttle(0)
    _got(first, system.work / there.name, content)
