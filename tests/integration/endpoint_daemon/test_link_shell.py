"""The link's shell against servers that misbehave, and what the TLS of both ends agrees on."""

import asyncio
import os
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import grpc
import grpc.aio
import pytest

from farhand_daemon import boot_clock
from farhand_daemon import stream as stream_module
from farhand_daemon.boot_clock import SleepWatch, boot_seconds
from farhand_daemon.channels import channel_options, clean_grpc_environment, mutual_tls
from farhand_daemon.network.ways import way_to
from farhand_daemon.stream import LinkStream, StreamEnded
from farhand_shared import codec, pki
from farhand_shared.ids import new_id
from farhand_shared.link_daemon import DaemonLink
from farhand_shared.link_events import Hello, Ping, Welcome
from tests.fakes.hellos import a_hello

Serve = Callable[["grpc.aio.ServicerContext[bytes, bytes]"], Awaitable[None]]


class _Keys:
    """A root, a replica's leaf and a machine's certificate."""

    def __init__(self) -> None:
        now = datetime.now(UTC)
        self.instance_id = new_id()
        self.root = pki.create_root(self.instance_id, now=now)
        self.leaf = pki.issue_server_leaf(
            self.root,
            pki.ReplicaIdentity(instance_id=self.instance_id, replica_id=new_id()),
            now=now,
        )
        self.key = pki.new_private_key()
        self.certificate = pki.certificate_pem(
            pki.issue_machine_certificate(
                self.root,
                pki.create_csr(self.key),
                pki.MachineIdentity(instance_id=self.instance_id, machine_id=new_id()),
                now=now,
            )
        )


def _hello() -> Hello:
    return a_hello(
        daemon_instance_id=new_id(),
        journal_id=new_id(),
        journal_counter=0,
        local_time_ms=time.time_ns() // 1_000_000,
        trust_level="off",
    )


@asynccontextmanager
async def _server(keys: _Keys, serve: Serve) -> AsyncIterator[int]:
    server = grpc.aio.server()

    async def connect(_: object, context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        await serve(context)

    handler = grpc.stream_stream_rpc_method_handler(connect)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("farhand_proto.v1.Link", {"Connect": handler}),)
    )
    port = server.add_secure_port(
        "127.0.0.1:0",
        grpc.ssl_server_credentials(
            [(keys.leaf.key_pem, keys.leaf.certificate_pem)],
            root_certificates=keys.root.certificate_pem,
            require_client_auth=True,
        ),
    )
    await server.start()
    try:
        yield port
    finally:
        await server.stop(0)


async def _ending(
    keys: _Keys,
    port: int,
    *,
    root: bytes | None = None,
    slept: Callable[[], bool] = lambda: False,
) -> str:
    """Serve one stream and return why it ended."""
    way = way_to(f"127.0.0.1:{port}", {})
    link_stream = LinkStream(
        DaemonLink(),
        way=way,
        read=lambda *_: b"",
        perform=lambda _: None,
        on_welcome=lambda _: None,
        on_drain=lambda _: None,
        slept=slept,
    )
    credentials = mutual_tls(root or keys.root.certificate_pem, keys.key, keys.certificate)
    async with grpc.aio.secure_channel(
        way.target, credentials, options=channel_options(way)
    ) as channel:
        with pytest.raises(StreamEnded) as ended:
            await link_stream.run(channel, _hello())
    return str(ended.value)


async def test_a_server_that_never_welcomes_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "WELCOME_DUE_S", 0.3)
    keys = _Keys()

    async def serve(context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        await context.read()
        await asyncio.Event().wait()

    async with _server(keys, serve) as port:
        assert "nothing was heard" in await _ending(keys, port)


async def test_a_server_that_falls_silent_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "SILENT_AFTER_S", 0.3)
    monkeypatch.setattr(stream_module, "WELCOME_DUE_S", 0.5)
    keys = _Keys()
    pongs = []

    async def serve(context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        await context.read()
        welcome = Welcome(
            server_time_ms=1, stream_epoch=1, capability=1, min_capability=1, machine_name="m"
        )
        await context.write(codec.encode_down([welcome, Ping(nonce=7)]))
        pongs.append(codec.decode_up(await context.read()))
        await asyncio.Event().wait()

    async with _server(keys, serve) as port:
        assert "nothing was heard" in await _ending(keys, port)
    assert [event.nonce for event in pongs[0]] == [7]


async def test_nonsense_ends_the_stream_with_its_reason() -> None:
    keys = _Keys()

    async def serve(context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        await context.read()
        await context.write(b"\xff\xff\xff")
        await asyncio.Event().wait()

    async with _server(keys, serve) as port:
        assert "broke the protocol" in await _ending(keys, port)


async def test_the_task_that_served_a_stream_can_wait_with_a_timeout_afterwards() -> None:
    keys = _Keys()

    async def serve(context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        await context.abort(grpc.StatusCode.UNAVAILABLE, "cannot serve: not now")

    async with _server(keys, serve) as port:
        assert await _ending(keys, port) == "cannot serve: not now"
    task = asyncio.current_task()
    assert task is not None
    # Before Python 3.11.3 a timeout in a task that counts as cancelled raises CancelledError.
    assert task.cancelling() == 0
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()


async def test_only_the_pinned_root_is_trusted() -> None:
    keys, other = _Keys(), _Keys()

    async def serve(context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        await context.read()

    async with _server(keys, serve) as port:
        assert await _ending(keys, port) == "the control plane closed the stream"
        reason = await _ending(keys, port, root=other.root.certificate_pem)
        assert "not under the root that this machine pinned" in reason


async def test_the_link_speaks_tls_1_3(tmp_path: Path) -> None:
    keys = _Keys()
    pair, root = tmp_path / "pair.pem", tmp_path / "root.pem"
    pair.write_bytes(keys.leaf.key_pem + keys.leaf.certificate_pem)
    root.write_bytes(keys.root.certificate_pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(root))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(pair)
    context.set_alpn_protocols(["h2"])
    spoken: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not spoken.done():
            spoken.set_result(writer.get_extra_info("ssl_object").version())
        writer.transport.abort()  # no HTTP/2 follows

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    async with server:
        dialling = asyncio.create_task(_ending(keys, server.sockets[0].getsockname()[1]))
        assert await spoken == "TLSv1.3"
        dialling.cancel()
        await asyncio.gather(dialling, return_exceptions=True)


def test_variables_that_steer_grpc_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "/evil")
    monkeypatch.setenv("GRPC_SSL_CIPHER_SUITES", "NULL")
    monkeypatch.setenv("GRPC_TRACE", "http")
    clean_grpc_environment()
    assert {name for name in os.environ if name.startswith("GRPC_")} == {
        "GRPC_TRACE",
        "GRPC_VERBOSITY",
    }


async def test_what_was_said_before_a_sleep_is_not_acted_on() -> None:
    # Queued in the socket while the machine slept, an offer may be withdrawn when it is read.
    keys = _Keys()

    async def serve(context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        await context.read()
        welcome = Welcome(
            server_time_ms=1, stream_epoch=1, capability=1, min_capability=1, machine_name="m"
        )
        await context.write(codec.encode_down([welcome]))
        await asyncio.Event().wait()

    async with _server(keys, serve) as port:
        reason = await _ending(keys, port, slept=lambda: True)
        assert reason == "this machine slept, or its clock was set"


def test_a_sleep_is_noticed_once_and_a_drift_never(monkeypatch: pytest.MonkeyPatch) -> None:
    wall, boot = time.time(), 100.0
    monkeypatch.setattr(time, "time", lambda: wall)
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    monkeypatch.setattr(boot_clock, "boot_seconds", lambda: boot)
    watch = SleepWatch(late_s=9, tolerance_s=10)
    assert not watch.slept()
    for _ in range(100):
        wall += 1  # a second per look: a clock that is being corrected
        boot += 5
        assert not watch.slept()
    wall += 3600
    assert watch.slept()
    assert not watch.slept()
    wall -= 3600
    assert watch.slept()


def test_a_process_that_stood_still_has_slept_too(monkeypatch: pytest.MonkeyPatch) -> None:
    # Stopped by a signal or with its virtual machine, both clocks have gone on beside each other.
    boot = 100.0
    monkeypatch.setattr(boot_clock, "boot_seconds", lambda: boot)
    watch = SleepWatch(late_s=9, tolerance_s=10)
    boot += 8  # a busy computer
    assert not watch.slept()
    boot += 200
    assert watch.slept()
    assert not watch.slept()


def test_boot_seconds_never_go_back() -> None:
    first = boot_seconds()
    assert boot_seconds() >= first > 0
