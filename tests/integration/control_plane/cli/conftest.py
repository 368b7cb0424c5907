"""A whole replica with the offline planner and a machine, and `farhand` as a process against it."""

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from farhand_control_plane import wiring
from farhand_control_plane.config import load
from farhand_control_plane.db import tokens
from farhand_control_plane.domain.access import ALL_SCOPES, Scope, new_token, token_hash
from farhand_control_plane.ports import listening_socket
from farhand_control_plane.serve import http_server
from farhand_control_plane.wiring import Replica
from farhand_shared.redact import Secret
from tests.fakes.fake_daemon import FakeMachine
from tests.fakes.machine_lab import Lab, Until

PATIENCE_S = 60.0


@dataclass(slots=True)
class Ended:
    status: int
    stdout: bytes
    stderr: bytes

    @property
    def out(self) -> str:
        return self.stdout.decode()

    @property
    def err(self) -> str:
        return self.stderr.decode()


@dataclass(slots=True, eq=False)
class Running:
    """A `farhand` that runs; what it wrote so far is in ``out`` and ``err``."""

    process: Process
    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _reading: list[asyncio.Task[None]] = field(default_factory=list)

    def begin(self) -> None:
        for stream, into in ((self.process.stdout, self.out), (self.process.stderr, self.err)):
            self._reading.append(asyncio.create_task(self._read(stream, into)))

    async def _read(self, stream: Any, into: bytearray) -> None:
        while chunk := await stream.read(1 << 16):
            into += chunk
            self._news.set()

    async def sees(self, part: str) -> None:
        """Wait until either stream holds ``part``."""
        async with asyncio.timeout(PATIENCE_S):
            while part.encode() not in self.out + self.err:
                assert not all(task.done() for task in self._reading), self.text
                self._news.clear()
                waiting = asyncio.create_task(self._news.wait())
                await asyncio.wait(
                    {waiting, *(t for t in self._reading if not t.done())},
                    return_when=asyncio.FIRST_COMPLETED,
                )
                waiting.cancel()

    @property
    def text(self) -> str:
        return f"{self.out.decode()}\n--- stderr\n{self.err.decode()}"

    def type(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())

    async def ended(self) -> Ended:
        if self.process.stdin is not None:
            self.process.stdin.close()
        async with asyncio.timeout(PATIENCE_S):
            status = await self.process.wait()
            await asyncio.gather(*self._reading)
        return Ended(status, bytes(self.out), bytes(self.err))


@dataclass(slots=True, kw_only=True)
class Desk:
    """A person at a shell, with a token and one machine, ``box``."""

    replica: Replica
    lab: Lab
    machine: FakeMachine
    url: str
    token: str
    home: Path
    started: list[Running] = field(default_factory=list)

    def environment(self, token: str | None = None) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "FARHAND_HOME": str(self.home),
            "FARHAND_URL": self.url,
            "FARHAND_TOKEN": token or self.token,
        }

    async def start(self, *arguments: str, stdin: int = DEVNULL, token: str = "") -> Running:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "farhand_control_plane",
            *arguments,
            stdin=stdin,
            stdout=PIPE,
            stderr=PIPE,
            env=self.environment(token or None),
        )
        running = Running(process)
        running.begin()
        self.started.append(running)
        return running

    async def run(self, *arguments: str, token: str = "") -> Ended:
        return await (await self.start(*arguments, token=token)).ended()


async def make_token(replica: Replica, *scopes: Scope) -> str:
    token = new_token()
    async with replica.database.transaction() as tx:
        await tokens.create(
            tx,
            replica.bootstrap.instance_id,
            replica.bootstrap.owner_member_id,
            name="test",
            token_sha256=token_hash(token),
            scopes=scopes or ALL_SCOPES,
        )
    return token


OpenDesk = Callable[[], Any]


@pytest.fixture
async def desk(migrated_url: str, tmp_path: Path, until: Until) -> AsyncIterator[Desk]:
    """The system with its machine online; the machine's behaviour is the test's to set."""
    home = tmp_path / "home"
    prepared = await wiring.prepare(migrated_url)
    replica = wiring.join(load({"FARHAND_HOME": str(home)}), prepared, Secret(b"k" * 32), (0, 0))
    await replica.listener.open()
    await replica.machines.open()
    replica.serving = True
    listening = listening_socket("127.0.0.1", 0)
    server = http_server(replica)
    loops = [
        asyncio.create_task(loop)
        for loop in (replica.engine.run(), replica.relay.run(), replica.due.run())
    ]
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    lab = Lab(replica.database, replica.bootstrap, until)
    async with AsyncExitStack() as stack:
        machine = await lab.machine(replica.machines, "box")
        await stack.enter_async_context(lab.daemon(machine, replica.machines))
        desk = Desk(
            replica=replica,
            lab=lab,
            machine=machine,
            url=f"http://127.0.0.1:{listening.getsockname()[1]}",
            token=await make_token(replica),
            home=home,
        )
        yield desk
        for running in desk.started:
            if running.process.returncode is None:
                running.process.kill()
                await running.ended()
    replica.event_streams.close()
    server.should_exit = True
    await serving
    for task in loops:
        task.cancel()
    await asyncio.gather(*loops, return_exceptions=True)
    await replica.machines.close()
    await replica.close()
