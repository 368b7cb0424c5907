"""Output: stored and relayed exactly, past the head too, and nobody slow holds the link."""

import asyncio
import random

from farhand_control_plane.db import output
from farhand_control_plane.machines.limits import OutputLimits
from farhand_shared.exec_frames import FrameDecoder, FrameKind
from farhand_shared.limits import KIB, MIB
from farhand_shared.link_events import Stream
from tests.fakes.fake_daemon import FakeDaemon, hold
from tests.fakes.machine_lab import Seen, collect

SMALL = OutputLimits(
    head_bytes=2 * MIB,
    tail_bytes=3 * MIB,
    row_bytes=64 * KIB,
    flush_s=0.02,
    live_bytes=256 * KIB,
    write_bytes=512 * KIB,
)
DATA = random.Random(5).randbytes(40 * MIB)


def writes(data, stderr=b""):
    async def behaviour(job):
        job.write(data)
        if stderr:
            job.write(stderr, Stream.STDERR)
        job.end()

    return behaviour


async def stored(lab, attempt_id, stream=Stream.STDOUT):
    """Return the stored ranges of a stream and their bytes, read as pages read them."""
    async with lab.database.transaction() as tx:
        ranges = await output.extents(tx, lab.instance.instance_id, attempt_id, stream)
        parts = []
        for extent in ranges:
            position, got = extent.start, bytearray()
            while position < extent.end:
                data = await output.read(
                    tx, lab.instance.instance_id, attempt_id, stream, position, 300_000
                )
                assert data
                got += data
                position += len(data)
            parts.append(bytes(got))
    return [(extent.start, part) for extent, part in zip(ranges, parts, strict=True)]


async def test_forty_megabytes_reach_the_client_whole_and_head_and_tail_are_stored(lab):
    replica = await lab.replica(output=SMALL)
    machine = await lab.machine(replica)
    machine.behaviour = writes(DATA, b"e" * 100)
    async with lab.daemon(machine, replica):
        seen = await lab.exec(replica, "fake", "big")
    assert seen.bytes_of() == DATA
    assert seen.bytes_of(FrameKind.STDERR) == b"e" * 100
    assert FrameKind.OMITTED not in seen.kinds
    parts = await stored(lab, seen.attempt_id)
    head, tail = 2 * MIB, len(DATA) - 3 * MIB
    assert parts == [(0, DATA[:head]), (tail, DATA[tail:])]
    rows = await lab.sql("select omitted, stdout_stored from attempts")
    assert rows == [{"omitted": [["stdout", head, tail - head]], "stdout_stored": len(DATA)}]
    async with lab.database.transaction() as tx:
        view = await output.head_tail(
            tx, lab.instance.instance_id, seen.attempt_id, Stream.STDOUT, 100, 200
        )
    assert (view.head, view.tail) == (DATA[:100], DATA[-200:])
    assert (view.total, view.omitted) == (len(DATA), len(DATA) - 300)


async def test_a_later_reader_gets_head_and_tail_with_the_gap_named(lab):
    replica = await lab.replica(output=SMALL)
    machine = await lab.machine(replica)
    machine.behaviour = writes(DATA[: 12 * MIB])
    async with lab.daemon(machine, replica):
        queued = await lab.enqueue(machine, "big")
        view = await lab.ended(queued.command_id)
    seen = await collect(
        await replica.execs.follow(
            lab.instance.instance_id, lab.instance.owner_member_id, view.attempt_id
        )
    )
    assert seen.bytes_of() == DATA[: 2 * MIB] + DATA[9 * MIB : 12 * MIB]
    assert seen.one(FrameKind.OMITTED) == {
        "stream": "stdout",
        "offset": 2 * MIB,
        "length": 7 * MIB,
    }


async def test_many_small_writes_on_both_streams_are_stored_exactly(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)

    async def chatter(job):
        for n in range(300):
            job.write(b"out %d\n" % n)
            job.write(b"err %d\n" % n, Stream.STDERR)
            await asyncio.sleep(0)
        job.end()

    machine.behaviour = chatter
    async with lab.daemon(machine, replica):
        seen = await lab.exec(replica, "fake", "chatter")
    out = b"".join(b"out %d\n" % n for n in range(300))
    err = b"".join(b"err %d\n" % n for n in range(300))
    assert (seen.bytes_of(), seen.bytes_of(FrameKind.STDERR)) == (out, err)
    assert await stored(lab, seen.attempt_id) == [(0, out)]
    assert await stored(lab, seen.attempt_id, Stream.STDERR) == [(0, err)]


async def test_output_goes_on_exactly_after_the_link_was_lost(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    async with lab.daemon(machine, replica) as daemon:
        seen, task = await lab.start(replica, "fake", "long")
        await lab.sees(lambda: machine.starts)
        (job,) = machine.jobs.values()
        for n in range(6):
            job.write(DATA[n * 100_000 : (n + 1) * 100_000])
            if n % 2:
                await lab.sees(lambda: len(seen.bytes_of()) > 50_000)
                await daemon.cut()
                await daemon.connect()
        job.end()
        await asyncio.wait_for(task, 30)
    assert seen.bytes_of() == DATA[:600_000]
    assert await stored(lab, seen.attempt_id) == [(0, DATA[:600_000])]


async def test_output_goes_on_exactly_over_another_replica(lab):
    first, second = await lab.replica(), await lab.replica()
    machine = await lab.machine(first)
    machine.behaviour = hold
    async with lab.daemon(machine, first) as daemon:
        seen, task = await lab.start(first, "fake", "long")
        await lab.sees(lambda: machine.starts)
        (job,) = machine.jobs.values()
        job.write(DATA[:700_000])
        await lab.sees(lambda: len(seen.bytes_of()) == 700_000)
        await daemon.cut()
        daemon.address = f"127.0.0.1:{second.link_port}"
        await daemon.connect()
        job.write(DATA[700_000:900_000])
        job.end()
        await asyncio.wait_for(task, 30)
    assert seen.bytes_of() == DATA[:900_000]
    assert await stored(lab, seen.attempt_id) == [(0, DATA[:900_000])]


async def test_past_the_head_a_reconnect_to_the_same_replica_loses_nothing(lab):
    replica = await lab.replica(output=SMALL)
    machine = await lab.machine(replica)
    machine.behaviour = hold
    async with lab.daemon(machine, replica) as daemon:
        queued = await lab.enqueue(machine, "long")
        await lab.sees(lambda: machine.starts)
        (job,) = machine.jobs.values()
        job.write(DATA[: 4 * MIB])
        await lab.sees(
            lambda: (
                (held := replica.hub.run(queued.attempt_id)) is not None
                and held[1].streams[Stream.STDOUT].acked == 4 * MIB
            )
        )
        await daemon.cut()
        await daemon.connect()
        job.write(DATA[4 * MIB : 5 * MIB])
        job.end()
        view = await lab.ended(queued.command_id)
    assert await stored(lab, view.attempt_id) == [(0, DATA[: 5 * MIB])]
    assert await lab.sql("select omitted from attempts") == [{"omitted": []}]


async def test_a_slow_client_holds_neither_the_link_nor_memory(lab):
    replica = await lab.replica(output=SMALL)
    machine = await lab.machine(replica)
    machine.behaviour = writes(DATA)
    async with lab.daemon(machine, replica):
        frames = await replica.execs.run(lab.request("fake", "big"))
        decoder, seen = FrameDecoder(), Seen()
        while FrameKind.STDOUT not in seen.kinds:
            seen.frames += decoder.feed((await anext(frames)).frames)
        # It reads no more. The machine's other commands are not held up by that.
        (big,) = machine.jobs.values()
        machine.behaviour = writes(b"quick\n")
        for _ in range(3):
            assert (await lab.exec(replica, "fake", "quick")).bytes_of() == b"quick\n"

        def window():
            held = replica.hub.run(seen.attempt_id)
            return None if held is None else held[1]

        # What is not read stays on the machine: the head and one window of 4 MiB came.
        await lab.sees(lambda: window().streams[Stream.STDOUT].received >= 5 * MIB)
        run = window()
        assert run.streams[Stream.STDOUT].received <= 2 * MIB + 4 * MIB + 256 * KIB
        assert sum(len(piece.data) for piece in run.window) <= 5 * MIB
        # It was moved to reading from the store, and gets everything once it reads again.
        async for chunk, _ in frames:
            seen.frames += decoder.feed(chunk)
        assert seen.bytes_of() == DATA
        await lab.sees(lambda: big.receipted)


async def test_a_client_that_leaves_past_the_head_does_not_block_the_command(lab):
    replica = await lab.replica(output=SMALL)
    machine = await lab.machine(replica)
    machine.behaviour = writes(DATA)
    async with lab.daemon(machine, replica):
        frames = await replica.execs.run(lab.request("fake", "big"))
        seen = Seen()
        seen.frames += FrameDecoder().feed((await anext(frames)).frames)
        await frames.aclose()
        view = await lab.ended(seen.command_id)
    assert view.result.stdout.produced == len(DATA)
    assert (await stored(lab, seen.attempt_id))[-1] == (len(DATA) - 3 * MIB, DATA[-3 * MIB :])


async def test_a_daemon_restart_keeps_the_story_exact(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    async with lab.daemon(machine, replica) as daemon:
        seen, task = await lab.start(replica, "fake", "long")
        await lab.sees(lambda: machine.starts)
        (job,) = machine.jobs.values()
        job.write(b"before ")
        await lab.sees(lambda: seen.bytes_of() == b"before ")
        await daemon.die()
        job.write(b"meanwhile ")
        async with FakeDaemon(machine):
            job.write(b"after")
            job.end()
            await asyncio.wait_for(task, 30)
    assert seen.bytes_of() == b"before meanwhile after"
    assert machine.starts == [seen.attempt_id]


async def test_another_instance_reads_nothing(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    async with lab.daemon(machine, replica):
        seen = await lab.exec(replica, "fake", "echo", "secret")
    async with lab.database.transaction() as tx:
        other = lab.instance.chat_source_id
        assert await output.read(tx, other, seen.attempt_id, Stream.STDOUT, 0, 100) == b""
        view = await output.head_tail(tx, other, seen.attempt_id, Stream.STDOUT, 10, 10)
    assert (view.head, view.tail, view.total) == (b"", b"", 0)


async def test_the_ends_of_output_of_any_length_can_be_read(lab):
    """Also where the sum of two small numbers is not small any more."""
    replica = await lab.replica()
    machine = await lab.machine(replica)
    async with lab.daemon(machine, replica):
        for length in (16_383, 32_767, 32_768, 40_000, 49_152, 70_000):
            machine.behaviour = writes(DATA[:length])
            seen = await lab.exec(replica, "fake", "some")
            async with lab.database.transaction() as tx:
                view = await output.head_tail(
                    tx, lab.instance.instance_id, seen.attempt_id, Stream.STDOUT, 16_384, 16_384
                )
            shown = view.head + view.tail
            assert (view.total, view.omitted) == (length, length - len(shown))
            assert DATA[:length].startswith(view.head)
            assert DATA[:length].endswith(view.tail)
            assert len(shown) == min(length, 32_768)
