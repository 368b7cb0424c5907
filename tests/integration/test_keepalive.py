"""Keepalive of both ends fits together, as they are shipped: one that drifts fails here."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import grpc
import grpc.aio
import pytest

from farhand_control_plane.machines.service import LISTENER_OPTIONS
from farhand_daemon.channels import channel_options
from farhand_daemon.network.ways import way_to
from farhand_shared.limits import PING_INTERVAL_S, PONG_DUE_S

Options = dict[str, str | int]

_QUICKER: Final = 500  # all times of keepalive are divided by this
_CLIENTS: Final = ("grpc.keepalive_time_ms",)
_SERVERS: Final = ("grpc.http2.min_recv_ping_interval_without_data_ms",)
_IDLE_S: Final = 1.5  # as long as 12 minutes; gRPC hangs up at the third ping that is too early


def shipped() -> tuple[Options, Options]:
    """Return the options of the daemon's channels and of the replica's listeners."""
    return dict(channel_options(way_to("127.0.0.1:1", {}))), dict(LISTENER_OPTIONS)


def test_the_client_pings_less_often_than_the_server_forbids() -> None:
    # https://github.com/llm-d/llm-d-kv-cache/issues/359: pings every 10 s, one per 300 s is allowed
    client, server = shipped()
    assert client["grpc.keepalive_time_ms"] == 30_000
    assert client["grpc.keepalive_timeout_ms"] == 10_000
    assert server["grpc.http2.min_recv_ping_interval_without_data_ms"] == 10_000
    assert server["grpc.keepalive_permit_without_calls"] == 1
    assert client["grpc.http2.max_pings_without_data"] == 0, "an idle link is kept alive too"
    # Liveness proper is the ping on the work stream; it comes before gRPC's own.
    assert PING_INTERVAL_S + PONG_DUE_S < 30 + 10


@asynccontextmanager
async def idle_link(client: Options, server: Options) -> AsyncIterator["asyncio.Task[str]"]:
    """Hold a stream on which nobody says anything; the task returns why it ended."""

    async def hold(_: object, context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        await context.write(b"here")
        await asyncio.Event().wait()

    listener = grpc.aio.server(options=list(server.items()))
    handler = {"Hold": grpc.stream_stream_rpc_method_handler(hold)}
    listener.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.T", handler),))
    port = listener.add_insecure_port("127.0.0.1:0")
    await listener.start()
    ours = {name: value for name, value in client.items() if "ssl" not in name}
    async with grpc.aio.insecure_channel(
        f"127.0.0.1:{port}", options=list(ours.items())
    ) as channel:
        call: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream("/t.T/Hold")()
        assert await call.read() == b"here"

        async def ended() -> str:
            try:
                return repr(await call.read())
            except grpc.aio.AioRpcError as error:
                return f"{error.code()} {error.details()}"

        ending = asyncio.create_task(ended())
        yield ending
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)
    await listener.stop(0)


def quicker(options: Options, names: tuple[str, ...]) -> Options:
    return {**options, **{name: int(options[name]) // _QUICKER for name in names}}


async def test_an_idle_link_is_not_thrown_off_for_its_pings() -> None:
    client, server = shipped()
    async with idle_link(quicker(client, _CLIENTS), quicker(server, _SERVERS)) as ending:
        done, _ = await asyncio.wait((ending,), timeout=_IDLE_S)  # that nothing happens takes time
        assert not done, ending.result()


async def test_a_server_that_forbids_more_than_the_client_does_would_be_noticed() -> None:
    client, server = shipped()
    server["grpc.http2.min_recv_ping_interval_without_data_ms"] = 300_000
    begun = time.monotonic()
    async with idle_link(quicker(client, _CLIENTS), server) as ending:
        async with asyncio.timeout(20):
            assert "RESOURCE_EXHAUSTED" in await ending or "UNAVAILABLE" in await ending
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize("name", _CLIENTS + _SERVERS)
def test_what_is_made_quicker_is_shipped(name: str) -> None:
    client, server = shipped()
    assert name in client or name in server
