"""Replicas with real listeners, and machines enrolled with them; helpers of the machine tests."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from farhand_control_plane.db import command_views, commands, enrolment
from farhand_control_plane.db.bootstrap import Bootstrap
from farhand_control_plane.db.listen import Listener
from farhand_control_plane.db.pool import Database
from farhand_control_plane.machines.execs import ExecRequest
from farhand_control_plane.machines.following import Chunk
from farhand_control_plane.machines.service import MachineService, MachineSettings
from farhand_shared.command import TERMINAL, Argv, CommandSpec
from farhand_shared.exec_frames import Frame, FrameDecoder, FrameKind
from farhand_shared.ids import AttemptId, CommandId, MachineId, ReplicaId, new_id
from tests.fakes.fake_daemon import FakeDaemon, FakeMachine, enrol

KEY = secrets.token_bytes(32)
Until = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]


@dataclass(eq=False)
class Seen:
    """The frames of one exec so far."""

    frames: list[Frame] = field(default_factory=list)

    def bytes_of(self, kind: FrameKind = FrameKind.STDOUT) -> bytes:
        return b"".join(frame.payload for frame in self.frames if frame.kind is kind)

    def one(self, kind: FrameKind) -> dict[str, Any]:
        return next(frame.json() for frame in self.frames if frame.kind is kind)

    @property
    def kinds(self) -> list[FrameKind]:
        return [frame.kind for frame in self.frames]

    @property
    def attempt_id(self) -> AttemptId:
        return AttemptId(self.one(FrameKind.ACCEPTED)["attempt_id"])

    @property
    def command_id(self) -> CommandId:
        return CommandId(self.one(FrameKind.ACCEPTED)["command_id"])


async def collect(frames: AsyncIterator[Chunk], seen: Seen | None = None) -> Seen:
    """Read a body to its end."""
    seen = seen or Seen()
    decoder = FrameDecoder()
    async for chunk, _ in frames:
        seen.frames += decoder.feed(chunk)
    decoder.close()
    return seen


class Lab:
    """One database, replicas on it, machines of its owner."""

    def __init__(self, database: Database, instance: Bootstrap, until: Until) -> None:
        self.database = database
        self.instance = instance
        self.until = until
        self.stack = AsyncExitStack()

    async def replica(self, **settings: Any) -> MachineService:
        """Start another replica."""
        listener = await self.stack.enter_async_context(Listener(self.database.dsn))
        service = MachineService(
            database=self.database,
            listener=listener,
            dsn=self.database.dsn,
            replica_id=ReplicaId(new_id()),
            instance_id=self.instance.instance_id,
            instance_key=KEY,
            settings=MachineSettings(**settings),
        )
        self.stack.push_async_callback(service.close)
        await service.open()
        return service

    async def code(self, name: str | None = None) -> enrolment.MadeCode:
        async with self.database.transaction() as tx:
            return await enrolment.make_code(
                tx, self.instance.instance_id, self.instance.owner_member_id, name
            )

    async def machine(self, replica: MachineService, name: str = "fake") -> FakeMachine:
        """Enrol and confirm a machine."""
        machine = FakeMachine(replica.root_pem)
        made = await self.code(name)
        await enrol(machine, f"127.0.0.1:{replica.enrol_port}", made.text)
        async with self.database.transaction() as tx:
            await enrolment.confirm(
                tx,
                self.instance.instance_id,
                self.instance.owner_member_id,
                MachineId(machine.machine_id),
                machine.words,
            )
        return machine

    @asynccontextmanager
    async def daemon(
        self, machine: FakeMachine, replica: MachineService | None = None
    ) -> AsyncIterator[FakeDaemon]:
        """Run a daemon; with ``replica``: linked there, and its queue was looked at."""
        address = None if replica is None else f"127.0.0.1:{replica.link_port}"
        async with FakeDaemon(machine, address) as daemon:
            if replica is not None:
                await self.idle(replica, machine)
            yield daemon

    async def sees(self, predicate: Callable[[], Any]) -> Any:
        """Wait until something in memory is true."""

        async def look() -> Any:
            return predicate()

        return await self.until(look)

    async def idle(self, replica: MachineService, machine: FakeMachine) -> None:
        """Wait until the machine's link is here and its queue was looked at."""

        async def look() -> bool:
            link = replica.hub.link(MachineId(machine.machine_id))
            return link is not None and not link.dispatching

        await self.until(look)

    def request(self, machine: str, *argv: str, wait_offline: bool = False) -> ExecRequest:
        words = tuple(word.encode("utf-8", "surrogateescape") for word in argv)
        return ExecRequest(
            instance_id=self.instance.instance_id,
            member_id=self.instance.owner_member_id,
            machine=machine,
            spec=CommandSpec(run=Argv(argv=words)),
            wait_offline=wait_offline,
        )

    async def exec(self, replica: MachineService, machine: str, *argv: str, **how: Any) -> Seen:
        async with asyncio.timeout(60):
            return await collect(await replica.execs.run(self.request(machine, *argv, **how)))

    async def start(
        self, replica: MachineService, machine: str, *argv: str, **how: Any
    ) -> tuple[Seen, "asyncio.Task[Seen]"]:
        """Start an exec in the background; returns when it was accepted."""
        seen, task = self.begin(replica, machine, *argv, **how)
        await self.sees(lambda: seen.frames or task.done())
        return seen, task

    def begin(
        self, replica: MachineService, machine: str, *argv: str, **how: Any
    ) -> tuple[Seen, "asyncio.Task[Seen]"]:
        """Start an exec in the background."""
        seen, request = Seen(), self.request(machine, *argv, **how)

        async def run() -> Seen:
            return await collect(await replica.execs.run(request), seen)

        return seen, asyncio.create_task(run())

    async def enqueue(self, machine: FakeMachine, *argv: str, **more: Any) -> commands.Enqueued:
        words = tuple(word.encode() for word in argv)
        async with self.database.transaction() as tx:
            return await commands.enqueue(
                tx,
                commands.NewCommand(
                    instance_id=self.instance.instance_id,
                    machine_id=MachineId(machine.machine_id),
                    requester_member_id=self.instance.owner_member_id,
                    spec=CommandSpec(run=Argv(argv=words)),
                    title=" ".join(argv),
                    **more,
                ),
            )

    async def view(self, command_id: str) -> command_views.CommandView:
        async with self.database.transaction() as tx:
            view = await command_views.get(tx, self.instance.instance_id, CommandId(command_id))
        assert view is not None
        return view

    async def ended(self, command_id: str) -> command_views.CommandView:
        """Wait for a command's terminal state."""

        async def look() -> command_views.CommandView | None:
            view = await self.view(command_id)
            return view if view.state in TERMINAL else None

        view: command_views.CommandView = await self.until(look)
        return view

    async def sql(self, statement: str, *arguments: Any) -> list[dict[str, Any]]:
        async with self.database.transaction() as tx:
            cursor = await tx.execute(statement, arguments)
            return await cursor.fetchall() if cursor.description else []
