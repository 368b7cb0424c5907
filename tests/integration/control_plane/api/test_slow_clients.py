"""Clients that begin a request and do not finish it, over a real server."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from socket import create_connection
from types import SimpleNamespace
from typing import Any

import pytest

from farhand_control_plane.api.body_limit import BodyLimit
from farhand_control_plane.api.connections import Connection
from farhand_control_plane.ports import listening_socket
from farhand_control_plane.serve import http_server
from tests.fakes import slow_clients_server

POST = b"POST /x HTTP/1.1\r\nHost: x\r\n"
TOKEN = b"Authorization: Bearer good\r\n"
HALF = b'Content-Length: 100000\r\n\r\n{"a'
WHOLE = b"Content-Length: 3\r\n\r\nabc"

Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


@asynccontextmanager
async def serving(
    app: Any = slow_clients_server.echo, *, body_s: float = 60.0, limit: int | None = None
) -> AsyncIterator[Connect]:
    limited = BodyLimit(app, authenticate=slow_clients_server.authenticate, within_s=body_s)
    server = http_server(SimpleNamespace(app=limited))
    if limit is not None:
        server.config.limit_concurrency = limit
    listening = listening_socket("127.0.0.1", 0)
    port = listening.getsockname()[1]
    running = asyncio.create_task(server.serve(sockets=[listening]))
    writers = []

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writers.append(writer)
        return reader, writer

    try:
        yield connect
    finally:
        for writer in writers:
            writer.transport.abort()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)
        server.should_exit = True
        await running


async def to_its_end(reader: asyncio.StreamReader) -> bytes:
    """Return what comes until the connection is closed, however that is done."""
    received = b""
    async with asyncio.timeout(20):
        while True:
            try:
                part = await reader.read(4096)
            except ConnectionResetError:
                return received
            if not part:
                return received
            received += part


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    async with asyncio.timeout(20):
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return int(head.split()[1]), await reader.readexactly(size)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "within_s", dict.fromkeys(Connection.within_s, 0.3))


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("sent", [b"", b"POST /x HT", POST, POST + TOKEN + HALF, b"\r\n"])
async def test_who_does_not_finish_a_request_is_dropped(sent: bytes) -> None:
    async with serving() as connect:
        reader, writer = await connect()
        writer.write(sent)
        assert await to_its_end(reader) == b""


@pytest.mark.usefixtures("hasty")
async def test_a_byte_now_and_then_does_not_put_the_end_off() -> None:
    async with serving() as connect:
        reader, writer = await connect()
        writer.write(POST)
        ending = asyncio.create_task(to_its_end(reader))
        while not ending.done():
            writer.write(b"x")
            await asyncio.wait([ending], timeout=0.05)  # the trickle is what is tried
        assert ending.result() == b""


async def test_who_has_no_token_is_told_so_before_the_body_and_then_dropped() -> None:
    async with serving() as connect:
        reader, writer = await connect()
        began = time.monotonic()
        writer.write(POST + HALF)
        status, body = await answer(reader)
        assert status == 401
        assert json.loads(body)["error"]["code"] == "not_authenticated"
        assert await to_its_end(reader) == b""
        assert time.monotonic() - began < 20  # far from every other deadline here


async def test_who_sends_the_whole_of_a_large_body_with_a_wrong_token_reads_the_answer() -> None:
    """Closing at once would reset the connection while the client still sends."""
    async with serving() as connect:
        reader, writer = await connect()
        writer.write(POST + b"Content-Length: 3000000\r\n\r\n" + b"x" * 3_000_000)
        await writer.drain()
        assert (await answer(reader))[0] == 401
        writer.write(POST + TOKEN + WHOLE)  # and the connection is as good as before
        assert await answer(reader) == (200, b"abc")


async def test_a_body_that_does_not_come_in_time_is_told_of_and_the_connection_closed() -> None:
    async with serving(body_s=0.2) as connect:
        reader, writer = await connect()
        writer.write(POST + TOKEN + HALF)
        status, body = await answer(reader)
        assert status == 408
        error = json.loads(body)["error"]
        assert error["code"] == "request_timeout"
        assert "0.2 s" in error["message"]
        assert await to_its_end(reader) == b""


@pytest.mark.usefixtures("hasty")
async def test_a_long_answer_and_an_idle_connection_between_requests_are_left_alone() -> None:
    go_on = asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await go_on.wait()
        await slow_clients_server.echo(scope, receive, send)

    async with serving(slow) as connect:
        reader, writer = await connect()
        # The second is in hand meanwhile, its body cut by our not reading on: no fault of theirs.
        writer.write((POST + TOKEN + WHOLE) + (POST + TOKEN + WHOLE)[:-1])
        await asyncio.sleep(1.0)  # three deadlines pass
        go_on.set()
        assert await answer(reader) == (200, b"abc")
        writer.write(b"c")
        assert await answer(reader) == (200, b"abc")
        await asyncio.sleep(1.0)  # three deadlines pass
        writer.write(POST + TOKEN + WHOLE)
        assert await answer(reader) == (200, b"abc")


async def test_past_the_cap_the_one_that_was_silent_for_longest_makes_room() -> None:
    async with serving(limit=5) as connect:
        held = [await connect() for _ in range(4)]
        reader, writer = await connect()
        writer.write(POST + TOKEN + WHOLE)
        assert await answer(reader) == (200, b"abc")
        assert await to_its_end(held[0][0]) == b""
        held[1][1].write(POST + TOKEN + b"Connection: close\r\n" + WHOLE)
        assert await answer(held[1][0]) == (200, b"abc")


async def test_past_the_cap_of_requests_in_hand_the_answer_is_503() -> None:
    async with serving(limit=5) as connect:
        for _ in range(4):
            _, writer = await connect()
            writer.write(POST + TOKEN + HALF)
        async with asyncio.timeout(20):
            status = 0
            while status != 503:  # once the server has read what the others sent
                reader, writer = await connect()
                writer.write(POST + TOKEN + b"Connection: close\r\n" + WHOLE)
                status, _ = await answer(reader)
        assert await to_its_end(reader) == b""


@contextmanager
def small_server(soft: int, hard: int, log: Path) -> Iterator[dict[str, int]]:
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, slow_clients_server.__file__, str(soft), str(hard), "600"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.stdin.close()
            process.wait(30)
            process.stdout.close()


@pytest.mark.parametrize("sent", [b"", POST + HALF])
def test_hundreds_of_idle_strangers_neither_stop_a_server_nor_fill_its_log(
    tmp_path: Path, sent: bytes
) -> None:
    log = tmp_path / "log"
    with small_server(100, 200, log) as server, ExitStack() as held:
        assert server["soft"] == 200  # raised to what it may have
        for _ in range(400):
            stranger = held.enter_context(create_connection(("127.0.0.1", server["port"]), 20))
            try:
                stranger.sendall(sent)
            except OSError:
                continue  # dropped already
        deadline = time.monotonic() + 60
        while True:
            try:
                with create_connection(("127.0.0.1", server["port"]), 20) as client:
                    client.sendall(POST + TOKEN + b"Connection: close\r\n" + WHOLE)
                    got = client.recv(4096)
            except OSError:
                got = b""
            if got.startswith(b"HTTP/1.1 200"):
                break
            assert time.monotonic() < deadline, got
            time.sleep(0.05)  # between two tries, not for timing
    # asyncio accepts so fast that the limit may be met for a moment; then that is one line.
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert sum("out of system resource" in event for event in events) <= 1
    assert len(events) < 20, events[:20]
