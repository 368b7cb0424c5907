"""What a command reads: handed over byte for byte, only as fast as it reads, across restarts."""

import hashlib
import os
from functools import partial
from pathlib import Path

from farhand_daemon.supervisor.handle import CommandHandle
from farhand_daemon.supervisor.records import Reason, StopReason, Stream
from tests.fakes.supervised_lab import Lab, ended, read_all, supervisor_of

WINDOW = 1 << 20  # what the link lets through before anything is taken


async def feed(lab: Lab, handle: CommandHandle, data: bytes) -> None:
    """Give a whole input as the link does: never more than the window beyond what was taken."""
    sent = 0
    while sent < len(data):
        await lab.recorder.until(partial(has_room, handle, sent))
        if handle.input_closed:
            return
        part = data[sent : min(sent + 256 * 1024, handle.input_taken + WINDOW)]
        handle.give_input(sent, part, end=False)
        sent += len(part)
    handle.give_input(sent, b"", end=True)


def has_room(handle: CommandHandle, sent: int) -> bool:
    return handle.input_closed or handle.input_taken + WINDOW > sent


def resident_bytes(pid: int) -> int:
    pages = Path(f"/proc/{pid}/statm").read_bytes().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


async def test_input_arrives_byte_for_byte_and_its_end_is_seen(lab: Lab) -> None:
    data = bytes(range(256)) * 20_000
    handle = await lab.start(lab.spec("sha256sum", stdin=True))
    await feed(lab, handle, data)
    record = await ended(handle)
    assert (record.reason, record.exit_code) == (Reason.EXIT, 0)
    said = read_all(handle, Stream.STDOUT)
    assert said == f"{hashlib.sha256(data).hexdigest()}  -\n".encode()
    assert (handle.input_taken, handle.input_closed) == (len(data), True)


async def test_without_it_a_command_reads_the_null_device(lab: Lab) -> None:
    _, stdout, _ = await lab.run(lab.shell("readlink /proc/self/fd/0; cat"))
    assert stdout == b"/dev/null\n"


async def test_input_given_before_the_start_is_there_at_the_start(lab: Lab) -> None:
    handle = await lab.start(lab.spec("cat", stdin=True))
    handle.give_input(0, b"early", end=True)  # its supervisor has not even been asked to start it
    await ended(handle)
    assert read_all(handle, Stream.STDOUT) == b"early"


async def test_what_comes_again_is_read_once(lab: Lab) -> None:
    handle = await lab.start(lab.spec("cat", stdin=True))
    for offset, data in ((0, b"abc"), (0, b"abc"), (2, b"cde"), (5, b"f")):
        handle.give_input(offset, data, end=False)
    handle.give_input(5, b"f", end=True)
    handle.give_input(0, b"abcdef", end=True)
    await ended(handle)
    assert read_all(handle, Stream.STDOUT) == b"abcdef"


async def test_a_command_that_does_not_read_holds_its_input_and_can_still_be_cancelled(
    lab: Lab,
) -> None:
    handle = await lab.start(lab.shell("echo up; exec sleep 1000", stdin=True))
    await lab.recorder.until(lambda: bool(handle.produced(Stream.STDOUT)))
    before = resident_bytes(supervisor_of(handle))
    handle.give_input(0, b"x" * WINDOW, end=True)
    await lab.recorder.until(lambda: handle.input_taken > 0)
    assert handle.input_taken < WINDOW // 4  # a pipe's worth
    assert not handle.input_closed
    assert resident_bytes(supervisor_of(handle)) - before < 8 * WINDOW
    lab.attempts.cancel(handle.attempt_id, StopReason.CANCEL)
    assert (await ended(handle)).reason is Reason.CANCEL


async def test_a_command_that_ends_without_reading_leaves_nothing_hanging(lab: Lab) -> None:
    handle = await lab.start(lab.shell("exit 3", stdin=True))
    handle.give_input(0, b"x" * WINDOW, end=True)
    record = await ended(handle)
    assert (record.exit_code, record.signal) == (3, None)


async def test_who_closes_its_input_is_given_no_more_and_goes_on(lab: Lab) -> None:
    script = "head -c 3; exec <&-; echo closed; sleep 1000"
    handle = await lab.start(lab.shell(script, stdin=True))
    handle.give_input(0, b"abc", end=False)
    await lab.recorder.until(lambda: read_all(handle, Stream.STDOUT) == b"abcclosed\n")
    handle.give_input(3, b"nobody reads this", end=False)
    await lab.recorder.until(lambda: handle.input_closed)
    assert handle.input_taken == 3
    lab.attempts.cancel(handle.attempt_id, StopReason.CANCEL)
    await ended(handle)


async def test_the_end_of_the_daemon_is_not_the_end_of_the_input(lab: Lab) -> None:
    handle = await lab.start(lab.shell("head -c 6; sleep 0.2; cat", stdin=True))
    handle.give_input(0, b"first ", end=False)
    await lab.recorder.until(lambda: handle.input_taken == 6)
    attempt_id = handle.attempt_id
    await lab.close(quit_leftovers=False)
    await lab.open()
    handle = lab.attempts.live[attempt_id]
    assert (handle.input_received, handle.input_taken, handle.input_closed) == (6, 6, False)
    handle.give_input(3, b"st second ", end=False)
    handle.give_input(13, b"third", end=True)
    await ended(handle)
    assert read_all(handle, Stream.STDOUT) == b"first second third"


async def test_what_was_on_its_way_to_a_supervisor_is_asked_for_again(
    lab: Lab, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    data = os.urandom(WINDOW)
    handle = await lab.start(lab.shell(f"read line < {go}; sha256sum", stdin=True))
    handle.give_input(0, data, end=True)
    await lab.recorder.until(lambda: handle.input_taken > 0)
    attempt_id = handle.attempt_id
    await lab.close(quit_leftovers=False)  # with most of it still in the daemon
    go.write_text("\n")
    await lab.open()
    handle = lab.attempts.live[attempt_id]
    received = handle.input_received or 0
    assert handle.input_taken <= received
    assert received
    handle.give_input(received, data[received:], end=True)
    await ended(handle)
    assert read_all(handle, Stream.STDOUT) == f"{hashlib.sha256(data).hexdigest()}  -\n".encode()


async def test_no_descriptor_of_an_input_is_left_with_the_supervisor(lab: Lab) -> None:
    most: dict[int, int] = {}
    for program in ("cat", "/nonexistent") * 10:
        handle = await lab.start(lab.spec(program, stdin=True))
        handle.give_input(0, b"x", end=True)
        await ended(handle)
        pid = supervisor_of(handle)
        # The pipes of the next command are made at some moment after the end of this one.
        count = len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - names, not paths
        assert count <= most.setdefault(pid, count + 6)
