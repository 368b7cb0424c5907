"""What commands read, from whoever writes it to the machine: in order, once, by one at a time."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from farhand_control_plane.domain.capability import MachineTooOld
from farhand_control_plane.machines.input_buffer import InputHeld, InputRequest, InputState
from farhand_control_plane.machines.service import MachineService
from farhand_shared.command import Pty
from farhand_shared.errors import Conflict, InvalidInput, NotAllowed, NotFound, TooLarge
from farhand_shared.ids import AttemptId, InstanceId, MemberId, new_id
from farhand_shared.limits import INPUT_WINDOW_BYTES
from tests.fakes.fake_daemon import FakeDaemon, FakeMachine, Job, hold
from tests.fakes.machine_lab import Lab, Seen

AT_ONCE = 0.0


class Typing:
    """A running command on a fake machine, and writers of its input."""

    def __init__(self, lab: Lab, replica: MachineService, machine: FakeMachine) -> None:
        self.lab, self.replica, self.machine = lab, replica, machine
        self.me = new_id()
        self.seen: Seen
        self.task: asyncio.Task[Seen]

    async def start(self, **spec: Any) -> Job:
        self.machine.behaviour = hold
        self.seen, self.task = await self.lab.start(
            self.replica, "fake", "cat", **({"stdin": True} | spec)
        )
        await self.lab.sees(lambda: self.seen.attempt_id in self.machine.jobs)
        return self.machine.jobs[self.seen.attempt_id]

    def request(self, offset: int | None = None, data: bytes = b"", **more: Any) -> InputRequest:
        return InputRequest(
            **{
                "instance_id": self.lab.instance.instance_id,
                "member_id": self.lab.instance.owner_member_id,
                "attempt_id": self.seen.attempt_id,
                "writer_id": self.me,
                "offset": offset,
                "data": data,
            }
            | more
        )

    async def write(
        self, offset: int | None = None, data: bytes = b"", *, wait_s: float = 20.0, **more: Any
    ) -> InputState:
        return await self.replica.execs.inputs.write(
            self.request(offset, data, **more), wait_s=wait_s
        )

    async def end(self, job: Job) -> None:
        job.end()
        await self.task


@pytest.fixture
async def typing(lab: Lab) -> AsyncIterator[Typing]:
    replica = await lab.replica()
    machine = await lab.machine(replica)
    async with lab.daemon(machine, replica):
        yield Typing(lab, replica, machine)


async def test_input_arrives_in_order_and_its_end_is_known(lab: Lab, typing: Typing) -> None:
    job = await typing.start()
    state = await typing.write(0, b"one ")
    assert (state.accepted, state.ended, state.closed) == (4, False, False)
    assert (await typing.write(4, b"two", end=True)).ended
    await lab.sees(lambda: job.input_ended)
    assert bytes(job.read) == b"one two"
    state = await typing.write(7)  # asks, and is told when all of it is taken
    assert state == InputState(accepted=7, taken=7, ended=True, closed=True)
    await typing.end(job)


async def test_what_is_sent_again_is_taken_once_and_a_gap_is_told(lab: Lab, typing: Typing) -> None:
    job = await typing.start()
    await typing.write(0, b"abc")
    assert (await typing.write(0, b"abcd")).accepted == 4
    assert (await typing.write(9, b"x")).accepted == 4  # send on from there
    assert (await typing.write(None)).accepted == 4
    await lab.sees(lambda: bytes(job.read) == b"abcd")
    await typing.end(job)


async def test_a_command_that_does_not_read_holds_its_writer(lab: Lab, typing: Typing) -> None:
    job = await typing.start()
    job.reads = False
    window = bytes(INPUT_WINDOW_BYTES)
    assert (await typing.write(0, window)).accepted == INPUT_WINDOW_BYTES
    full = await typing.write(INPUT_WINDOW_BYTES, b"more", wait_s=AT_ONCE)
    assert (full.accepted, full.taken) == (INPUT_WINDOW_BYTES, 0)
    waiting = asyncio.create_task(typing.write(INPUT_WINDOW_BYTES, b"more"))
    await lab.sees(lambda: len(job.read) == INPUT_WINDOW_BYTES)
    assert not waiting.done()
    job.take_input()
    assert (await waiting).accepted == INPUT_WINDOW_BYTES + 4
    await lab.sees(lambda: bytes(job.read[-4:]) == b"more")
    with pytest.raises(TooLarge, match="the input is 1,048,577 bytes, the limit is 1,048,576"):
        await typing.write(0, window + b"x")
    await typing.end(job)


async def test_who_reads_no_more_and_who_has_ended_is_said(lab: Lab, typing: Typing) -> None:
    job = await typing.start()
    await typing.write(0, b"abc")
    await lab.sees(lambda: bytes(job.read) == b"abc")
    job.take_input(close=True)
    await typing.write(3, b"x")
    assert (await typing.write(4)).closed
    await typing.end(job)
    assert (await typing.write(3, b"late")).closed


async def test_a_writer_waits_for_the_start_of_its_command(lab: Lab) -> None:
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.concurrency = 1
    async with lab.daemon(machine, replica):
        first, other = Typing(lab, replica, machine), Typing(lab, replica, machine)
        job = await first.start()
        held = asyncio.create_task(_started(other))
        await lab.sees(lambda: hasattr(other, "seen") and other.seen.frames)
        state = await other.write(0, b"early", wait_s=AT_ONCE)
        assert state == InputState(accepted=0, taken=0, ended=False, closed=False)
        waiting = asyncio.create_task(other.write(0, b"early"))
        await first.end(job)
        second = await held
        assert (await waiting).accepted == 5
        await lab.sees(lambda: bytes(second.read) == b"early")
        await other.end(second)


async def _started(typing: Typing) -> Job:
    typing.seen, typing.task = typing.lab.begin(typing.replica, "fake", "cat", stdin=True)
    await typing.lab.sees(lambda: typing.seen.frames)
    await typing.lab.sees(lambda: typing.seen.attempt_id in typing.machine.jobs)
    return typing.machine.jobs[typing.seen.attempt_id]


async def test_one_writes_at_a_time_until_another_takes_over(lab: Lab, typing: Typing) -> None:
    job = await typing.start()
    other = new_id()
    await typing.write(0, b"mine ", where="desk")
    with pytest.raises(InputHeld, match=r"at desk holds its input since \d\d:\d\d:\d\d UTC; take"):
        await typing.write(5, b"theirs ", writer_id=other)
    taken = await typing.write(None, writer_id=other, take=True)
    assert taken.accepted == 5
    await typing.write(5, b"theirs", writer_id=other)
    with pytest.raises(InputHeld):
        await typing.write(5, b"mine?")
    await lab.sees(lambda: bytes(job.read) == b"mine theirs")
    await typing.end(job)


async def test_a_writer_that_waits_is_told_when_another_takes_over(
    lab: Lab, typing: Typing
) -> None:
    job = await typing.start()
    job.reads = False
    await typing.write(0, bytes(INPUT_WINDOW_BYTES))
    waiting = asyncio.create_task(typing.write(INPUT_WINDOW_BYTES, b"more"))
    await lab.sees(lambda: len(job.read) == INPUT_WINDOW_BYTES)
    await typing.write(None, writer_id=new_id(), take=True)
    async with asyncio.timeout(5):
        with pytest.raises(InputHeld):
            await waiting
    await typing.end(job)


async def test_the_size_of_its_terminal_follows_the_window(lab: Lab, typing: Typing) -> None:
    job = await typing.start(pty=Pty(rows=24, columns=80, term=b"xterm"))
    assert job.spec.pty == Pty(rows=24, columns=80, term=b"xterm")
    await typing.write(None, size=(50, 132))
    await lab.sees(lambda: job.size == (50, 132))
    with pytest.raises(InvalidInput, match="rows and columns are 1 to 65,535"):
        await typing.write(None, size=(0, 80))
    await typing.end(job)


async def test_only_who_asked_for_a_command_with_input_may_write_to_it(
    lab: Lab, typing: Typing
) -> None:
    job = await typing.start()
    with pytest.raises(NotFound):
        await typing.write(0, b"x", instance_id=InstanceId(new_id()))
    with pytest.raises(NotFound):
        await typing.write(0, b"x", attempt_id=AttemptId(new_id()))
    with pytest.raises(NotAllowed, match="another member's machine"):
        await typing.write(0, b"x", member_id=MemberId(new_id()))
    plain = Typing(lab, typing.replica, typing.machine)
    second = await plain.start(stdin=False)
    with pytest.raises(Conflict, match="started without input; start it with --stdin or --pty"):
        await plain.write(0, b"x")
    assert bytes(job.read) == b""
    await typing.end(job)
    await plain.end(second)


async def test_input_goes_on_after_a_cut_link_with_what_the_machine_lacks(
    lab: Lab, typing: Typing
) -> None:
    job = await typing.start()
    job.reads = False
    await typing.write(0, b"arrived ")
    await lab.sees(lambda: bytes(job.read) == b"arrived ")
    assert job.daemon is not None
    await job.daemon.cut()
    await typing.write(8, b"meanwhile ", wait_s=AT_ONCE)
    job.read = bytearray(b"arr")  # the daemon died with the rest of it
    await job.daemon.die()
    async with lab.daemon(typing.machine, typing.replica):
        state = await typing.write(8, b"meanwhile ")
        assert state.accepted == 18
        await lab.sees(lambda: bytes(job.read) == b"arrived meanwhile ")
        job.take_input()
        await typing.end(job)


async def test_a_replica_that_knows_nothing_asks_for_what_the_machine_lacks(
    lab: Lab, typing: Typing
) -> None:
    job = await typing.start()
    await typing.write(0, b"arrived ")
    await lab.sees(lambda: job.taken == 8)
    assert job.daemon is not None
    await job.daemon.die()
    next_replica = await lab.replica()
    async with lab.daemon(typing.machine, next_replica):
        typing.replica = next_replica
        assert (await typing.write(20, b"ahead")).accepted == 8
        assert (await typing.write(8, b"again", end=True)).accepted == 13
        await lab.sees(lambda: bytes(job.read) == b"arrived again" and job.input_closed)
        await typing.end(job)


async def test_input_reaches_a_machine_whose_link_another_replica_holds(
    lab: Lab, typing: Typing
) -> None:
    job = await typing.start(pty=Pty(rows=24, columns=80))
    await typing.write(0, b"here ")
    typing.replica = await lab.replica()
    data = bytes(range(256)) * 1000
    assert (await typing.write(5, data)).accepted == 5 + len(data)
    with pytest.raises(InputHeld, match="holds its input since"):
        await typing.write(0, b"x", writer_id=new_id())
    await typing.write(5 + len(data), size=(40, 120))
    assert job.size == (40, 120)
    job.reads = False
    full = await typing.write(5 + len(data), bytes(INPUT_WINDOW_BYTES))
    assert full.accepted - full.taken == INPUT_WINDOW_BYTES
    waiting = asyncio.create_task(typing.write(full.accepted, b"the last", end=True))
    await lab.sees(lambda: len(job.read) == full.accepted)
    assert not waiting.done()
    job.take_input()
    state = await waiting
    assert (state.accepted, state.ended) == (full.accepted + 8, True)
    await lab.sees(lambda: job.input_ended)
    assert bytes(job.read) == b"here " + data + bytes(INPUT_WINDOW_BYTES) + b"the last"
    assert await lab.sql("select 1 from input_calls") == []
    await typing.end(job)
    assert (await typing.write(0, b"late")).closed


async def test_a_caller_in_this_process_streams_a_whole_input(lab: Lab, typing: Typing) -> None:
    job = await typing.start()
    chunks = [bytes((n,)) * 100_000 for n in range(40)]

    async def source() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    pumped = await typing.replica.execs.inputs.pump(
        lab.instance.instance_id,
        lab.instance.owner_member_id,
        typing.seen.attempt_id,
        source(),
    )
    assert pumped == 4_000_000
    assert bytes(job.read) == b"".join(chunks)
    assert job.input_ended
    await typing.end(job)


async def test_an_old_daemon_is_sent_nothing_it_does_not_know(lab: Lab) -> None:
    replica = await lab.replica()
    machine = await lab.machine(replica)
    async with lab.daemon(machine, replica) as daemon:
        await make_old(lab, replica, daemon)
        for spec, what in (({"stdin": True}, "input"), ({"pty": Pty(rows=1, columns=1)}, "term")):
            with pytest.raises(MachineTooOld, match=rf"cannot give a command .*{what}.*update it"):
                await lab.exec(replica, "fake", "cat", **spec)
        assert machine.starts == []


async def make_old(lab: Lab, replica: MachineService, daemon: FakeDaemon) -> None:
    (link,) = replica.hub.links()
    link.hello = type(link.hello)(
        **{
            name: getattr(link.hello, name)
            for name in type(link.hello).__slots__
            if name != "capability"
        },
        capability=2,
    )
    await lab.sql("update machines set capability = 2")
