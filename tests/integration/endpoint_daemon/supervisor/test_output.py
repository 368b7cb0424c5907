"""Output: nothing lost while the link is up, the middle and only the middle while it is down."""

import asyncio
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from farhand_daemon.spool import BytesGone
from farhand_daemon.supervisor.handle import CommandHandle
from farhand_daemon.supervisor.records import StopReason, Stream
from tests.fakes.supervised_lab import Lab, ended, read_all, until

KIB = 1024
SMALL = {"head_bytes": 256 * KIB, "tail_bytes": 768 * KIB}
small = pytest.mark.parametrize("lab", [SMALL], indirect=True)


def numbers(count: int) -> bytes:
    return subprocess.run(["seq", "1", str(count)], stdout=subprocess.PIPE, check=True).stdout


async def drain(
    lab: Lab, handle: CommandHandle, stream: Stream, offset: int = 0
) -> tuple[str, int]:
    """Read and acknowledge as the link would, to the end; give sha256 and where that was."""
    digest = hashlib.sha256()
    while True:
        data = handle.read(stream, offset, 256 * KIB)
        digest.update(data)
        offset += len(data)
        if data:
            handle.ack(stream, offset)
        elif handle.record is not None and offset == handle.record.total_bytes[stream - 1]:
            return digest.hexdigest(), offset
        else:
            await lab.recorder.until(partial(_has_more, handle, stream, offset))


@small
async def test_100_mb_pass_a_small_spool_without_loss_when_acknowledged(lab: Lab) -> None:
    handle = await lab.start(lab.spec("sh", "-c", "seq 1 12500000"))
    sha, size = await drain(lab, handle, Stream.STDOUT)
    record = await ended(handle)
    assert size == record.total_bytes[0] > 100_000_000
    assert sha == record.sha256[0].hex()
    assert record.omitted_bytes == (0, 0)
    assert handle.spool_path.stat().st_blocks * 512 < 2 * 1024 * KIB


async def test_short_output_comes_with_the_news_and_longer_output_from_the_spool(
    lab: Lab, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    script = f"printf 12; read line <{tmp_path}/go; printf 345; echo e >&2"
    handle = await lab.start(lab.spec("sh", "-c", script))
    await lab.recorder.until(lambda: handle.produced(Stream.STDOUT) == 2)
    (tmp_path / "go").write_text("on\n")
    await ended(handle)
    assert handle.read(Stream.STDOUT, 0, 100) == b"12"  # as it was told first
    assert handle.read(Stream.STDOUT, 1, 100) == b"2"
    assert handle.read(Stream.STDOUT, 2, 100) == b"345"  # the spool has the rest
    assert handle.read(Stream.STDOUT, 5, 100) == b""
    assert handle.read(Stream.STDERR, 0, 100) == b"e\n"
    assert read_all(handle, Stream.STDOUT) == b"12345"


@small
async def test_full_spool_holds_the_command_back_while_the_link_is_up(
    lab: Lab, tmp_path: Path
) -> None:
    script = f"head -c 3000000 /dev/zero; touch {tmp_path}/over"
    handle = await lab.start(lab.shell(script))
    capacity = 1024 * KIB
    await lab.recorder.until(lambda: handle.produced(Stream.STDOUT) == capacity)
    writer = next(pid for pid in lab.processes() if _name_of(pid) == "head")
    await until(lambda: _sleeps(writer))
    assert handle.produced(Stream.STDOUT) == capacity
    assert not (tmp_path / "over").exists()
    handle.ack(Stream.STDOUT, 300 * KIB)  # the head stays, so only what is past it makes room
    await lab.recorder.until(lambda: handle.produced(Stream.STDOUT) == 1068 * KIB)
    sha, size = await drain(lab, handle, Stream.STDOUT, 300 * KIB)
    assert size == 3_000_000
    assert sha == hashlib.sha256(bytes(3_000_000 - 300 * KIB)).hexdigest()


@small
async def test_100_mb_with_the_link_down_keep_head_and_tail_and_count_the_middle(lab: Lab) -> None:
    lab.attempts.link_state(up=False)
    handle = await lab.start(lab.spec("sh", "-c", "seq 1 12500000"))
    record = await ended(handle)
    full = await asyncio.to_thread(numbers, 12_500_000)
    head, tail = SMALL["head_bytes"], SMALL["tail_bytes"]
    assert record.total_bytes == (len(full), 0)
    assert record.omitted_bytes == (len(full) - head - tail, 0)
    assert record.sha256[0] == hashlib.sha256(full).digest()
    assert handle.omitted(Stream.STDOUT) == ((head, len(full) - tail),)
    assert handle.read(Stream.STDOUT, 0, 1 << 30) == full[:head]
    with pytest.raises(BytesGone) as gone:
        handle.read(Stream.STDOUT, head, 1)
    assert gone.value.next_offset == len(full) - tail
    assert read_all(handle, Stream.STDOUT, len(full) - tail) == full[-tail:]


@small
async def test_both_streams_have_their_own_spool(lab: Lab) -> None:
    lab.attempts.link_state(up=False)
    handle = await lab.start(lab.shell("seq 1 300000; seq 1 1000 >&2"))
    record = await ended(handle)
    full = numbers(300_000)
    assert record.total_bytes == (len(full), len(numbers(1000)))
    assert record.omitted_bytes == (len(full) - 1024 * KIB, 0)
    assert read_all(handle, Stream.STDOUT, len(full) - 768 * KIB) == full[-768 * KIB :]
    assert read_all(handle, Stream.STDERR) == numbers(1000)


@small
async def test_command_that_was_held_back_goes_on_when_the_link_goes_down(lab: Lab) -> None:
    handle = await lab.start(lab.shell("head -c 5000000 /dev/zero"))
    await lab.recorder.until(lambda: handle.produced(Stream.STDOUT) == 1024 * KIB)
    handle.ack(Stream.STDOUT, 512 * KIB)
    await lab.recorder.until(lambda: handle.produced(Stream.STDOUT) == 1280 * KIB)
    lab.attempts.link_state(up=False)
    record = await ended(handle)
    assert record.total_bytes == (5_000_000, 0)
    # What was acknowledged before is not missing: the gap begins after it.
    tail_at = 5_000_000 - 768 * KIB
    assert handle.omitted(Stream.STDOUT) == ((512 * KIB, tail_at),)
    assert record.omitted_bytes == (tail_at - 512 * KIB, 0)


@small
async def test_last_bytes_can_be_read_whatever_was_acknowledged(lab: Lab) -> None:
    handle = await lab.start(lab.shell("seq 1 1000000"))
    await drain(lab, handle, Stream.STDOUT)
    await ended(handle)
    full = numbers(1_000_000)
    tail_at = len(full) - 768 * KIB
    assert read_all(handle, Stream.STDOUT, tail_at) == full[tail_at:]
    assert handle.read(Stream.STDOUT, 0, len(full)) == full[: 256 * KIB]
    assert handle.omitted(Stream.STDOUT) == ()


@small
async def test_command_held_back_by_a_full_spool_still_obeys_its_deadline(lab: Lab) -> None:
    handle = await lab.start(lab.shell("exec yes", timeout_ms=500))
    await lab.recorder.until(lambda: handle.produced(Stream.STDOUT) == 1024 * KIB)
    sha, size = await drain(lab, handle, Stream.STDOUT)
    record = await ended(handle)
    assert record.reason.value == "timeout"
    assert (sha, size) == (record.sha256[0].hex(), record.total_bytes[0])


@small
async def test_noisy_child_left_behind_does_not_hold_the_result_back(lab: Lab) -> None:
    """It fills the spool, and nobody acknowledges: the result comes once our own words are read."""
    handle = await lab.start(lab.shell("yes & echo mine; exit 0"))
    sha = asyncio.create_task(drain(lab, handle, Stream.STDOUT))
    record = await ended(handle)
    assert record.stdout_left_open
    assert (await sha)[0] == record.sha256[0].hex()
    for pid in lab.processes():
        os.kill(pid, 9)


async def test_long_line_is_just_bytes(lab: Lab) -> None:
    script = "head -c 2000000 /dev/zero | tr '\\0' x; echo; echo after"
    _, stdout, _ = await lab.run(lab.shell(script))
    assert stdout == b"x" * 2_000_000 + b"\nafter\n"


async def test_first_output_comes_while_the_command_runs(lab: Lab) -> None:
    handle = await lab.start(lab.shell("echo now; exec sleep 1000"))
    await lab.recorder.until(lambda: read_all(handle, Stream.STDOUT) == b"now\n")
    assert handle.record is None
    handle.cancel(StopReason.CANCEL)
    await ended(handle)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MiB of its own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "farhand-test", disk], check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounting is not allowed here")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


async def test_full_disk_holds_the_command_back_and_loses_nothing(tiny_disk: Path) -> None:
    lab = Lab(tiny_disk / "state", head_bytes=8 << 20, tail_bytes=8 << 20)
    await lab.open()
    filler = tiny_disk / "filler"
    filler.write_bytes(bytes(3 << 20))
    handle = await lab.start(lab.shell("seq 1 300000"))
    full = numbers(300_000)
    assert 1 << 20 < len(full) < 3 << 20
    await lab.recorder.until(lambda: handle.produced(Stream.STDOUT) > 500 * KIB)
    assert handle.record is None
    filler.unlink()
    record = await ended(handle)
    assert record.total_bytes == (len(full), 0)
    assert record.omitted_bytes == (0, 0)
    assert read_all(handle, Stream.STDOUT) == full
    await lab.close()


async def test_space_problem_names_what_is_missing(lab: Lab) -> None:
    assert lab.attempts.space_problem(free_bytes=0) is None
    assert "are free" in (lab.attempts.space_problem(free_bytes=1 << 60) or "")
    await ended(await lab.start(lab.shell("head -c 100000 /dev/zero")))
    problem = lab.attempts.space_problem(free_bytes=0, total_bytes=100_000)
    assert "has not taken yet" in (problem or "")


def _has_more(handle: CommandHandle, stream: Stream, offset: int) -> bool:
    return handle.produced(stream) > offset or handle.record is not None


def _name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def _sleeps(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "S"
