"""How a stream ends for the machine: with a status, whatever was being written."""

import asyncio

import grpc
import grpc.aio
import pytest

from farhand_control_plane.machines.link_service import LinkService
from farhand_shared import codec
from tests.fakes.fake_daemon import FakeDaemon, link_channel


async def _leave_at_once(*_: object) -> None:
    """Read the end of the stream while the first write is on its way."""
    await asyncio.sleep(0)  # one turn of the loop: the writer has begun


async def test_a_stream_that_ends_in_mid_write_ends_with_a_status(
    lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = await lab.replica()
    machine = await lab.machine(replica)
    monkeypatch.setattr(LinkService, "_read", _leave_at_once)
    async with link_channel(machine) as channel:
        call = channel.stream_stream(codec.CONNECT_METHOD)()
        await call.write(codec.encode_up([FakeDaemon(machine).hello()]))
        async with asyncio.timeout(10):
            # What was on its way arrives whole; then the machine is told that it is over.
            assert isinstance(await call.read(), bytes)
            assert await call.read() is grpc.aio.EOF
            assert await call.code() is grpc.StatusCode.OK
    await lab.sees(lambda: not replica.hub.held())
