"""Replicas with real listeners, and machines enrolled with them; helpers of the machine tests."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from psycopg.types.json import Jsonb

from farhand_control_plane.db import (
    attempts,
    command_stops,
    command_views,
    commands,
    enrolment,
    sessions,
)
from farhand_control_plane.db.bootstrap import Bootstrap
from farhand_control_plane.db.listen import Listener
from farhand_control_plane.db.pool import Database
from farhand_control_plane.domain.words import SessionKind
from farhand_control_plane.machines.execs import ExecRequest
from farhand_control_plane.machines.following import Chunk
from farhand_control_plane.machines.service import MachineService, MachineSettings
from farhand_shared.command import TERMINAL, Argv, CommandSpec
from farhand_shared.exec_frames import Frame, FrameDecoder, FrameKind
from farhand_shared.ids import (
    AttemptId,
    CommandId,
    MachineId,
    ReplicaId,
    SessionId,
    TicketId,
    new_id,
)
from tests.fakes.fake_daemon import FakeDaemon, FakeMachine, enrol, hold

KEY = secrets.token_bytes(32)
DAY_S = 24 * 3600
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


class Running(NamedTuple):
    """A command that runs."""

    replica: MachineService
    machine: FakeMachine
    daemon: FakeDaemon
    queued: commands.Enqueued


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """The ids of a ticket that was made for a test."""

    ticket_id: TicketId
    session_id: SessionId
    mandate_id: str

    def asks(self, number: int) -> dict[str, Any]:
        """Return what makes ``Lab.enqueue`` the ticket's ``number``-th command."""
        return {
            "ticket_id": self.ticket_id,
            "session_id": self.session_id,
            "item_seq": number,
            "call_index": 0,
            "mandate_hash": _MANDATE_HASH,
        }


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
        await self.confirm(machine)
        return machine

    async def confirm(self, machine: FakeMachine) -> None:
        """Say that its six words are the ones that it shows."""
        async with self.database.transaction() as tx:
            await enrolment.confirm(
                tx,
                self.instance.instance_id,
                self.instance.owner_member_id,
                MachineId(machine.machine_id),
                machine.words,
            )

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

    def request(
        self, machine: str, *argv: str, wait_offline: bool = False, **spec: Any
    ) -> ExecRequest:
        words = tuple(word.encode("utf-8", "surrogateescape") for word in argv)
        return ExecRequest(
            instance_id=self.instance.instance_id,
            member_id=self.instance.owner_member_id,
            machine=machine,
            spec=CommandSpec(run=Argv(argv=words), **spec),
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

    async def stop(self, command_id: str, reason: str = "cancel") -> int:
        """Ask for a command's end; returns how many were open."""
        async with self.database.transaction() as tx:
            return await command_stops.request_stop(
                tx, self.instance.instance_id, command_id=CommandId(command_id), reason=reason
            )

    async def shift_clock(self, seconds: float) -> None:
        """Set the database's clock this far ahead of the real one."""
        await self.sql("update schema_record set clock_shift_ms = %s", round(seconds * 1000))

    async def ticket(self) -> Ticket:
        """Insert a ticket with its mandate and session, as an accepted Eval does."""
        return await make_ticket(self)

    @asynccontextmanager
    async def running(self, **more: Any) -> AsyncIterator[Running]:
        """Give a command that runs until it is ended or cancelled, and what it runs on."""
        replica = await self.replica()
        machine = await self.machine(replica)
        machine.behaviour = hold
        async with self.daemon(machine, replica) as daemon:
            queued = await self.enqueue(machine, "long", **more)
            await self.sees(lambda: machine.starts)
            yield Running(replica, machine, daemon, queued)

    @asynccontextmanager
    async def left_running(self) -> AsyncIterator[tuple[FakeMachine, commands.Enqueued]]:
        """Give a machine and the command that runs on it; its daemon has died."""
        async with self.running() as (_, machine, daemon, queued):
            await daemon.die()
            yield machine, queued

    async def cut(self, running: Running) -> None:
        """Lose the machine's connection; returns when its replica has noticed."""
        await running.daemon.cut()
        await self.sees(lambda: not running.replica.hub.held())

    async def given_up(self, running: Running) -> None:
        """Let a week pass in which the machine is not heard; its command is lost then."""
        await self.cut(running)
        await self.shift_clock(8 * DAY_S)
        async with self.database.transaction() as tx:
            assert await attempts.give_up_unseen(tx, after_days=7) == 1
        await self.shift_clock(0)

    async def is_in(self, state: str, command_id: str) -> None:
        """Wait until a command is in this state."""

        async def look() -> bool:
            return (await self.view(command_id)).state == state

        await self.until(look)

    @asynccontextmanager
    async def offered_to_nobody(
        self, *argv: str, **more: Any
    ) -> AsyncIterator[tuple[FakeMachine, commands.Enqueued]]:
        """Give a machine that is away and a command whose offer was lost on its way there."""
        replica = await self.replica()
        machine = await self.machine(replica)
        async with self.daemon(machine, replica) as daemon:
            daemon.deaf = True
            queued = await self.enqueue(machine, *argv, **more)
            await self.is_in("offered", queued.command_id)
            await daemon.die()
            yield machine, queued

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


_MANDATE_HASH = b"\x01"


async def make_ticket(lab: Lab) -> Ticket:
    """Insert a ticket with its mandate and session, as an accepted Eval does."""
    ids = {name: new_id() for name in ("thread", "eval", "ticket", "mandate")}
    instance = lab.instance
    await lab.sql(
        """
        insert into threads (instance_id, thread_id, source_id, external_key)
        values (%s, %s, %s, %s)
        """,
        instance.instance_id,
        ids["thread"],
        instance.chat_source_id,
        ids["thread"],
    )
    await lab.sql(
        """
        insert into evals (instance_id, eval_id, thread_id, state, strength, policy_version,
                           last_seq_seen, verdict)
        values (%s, %s, %s, 'closed', 'explicit', 1, 1, 'accept')
        """,
        instance.instance_id,
        ids["eval"],
        ids["thread"],
    )
    await lab.sql(
        """
        insert into tickets (instance_id, ticket_id, eval_id, title, request, requester_member_id)
        values (%s, %s, %s, 'T', 'do it', %s)
        """,
        instance.instance_id,
        ids["ticket"],
        ids["eval"],
        instance.owner_member_id,
    )
    await lab.sql(
        """
        insert into mandates (instance_id, mandate_id, ticket_id, eval_id, policy_version, scope,
                              mandate_hash, granted_by_member_id, valid_until)
        values (%s, %s, %s, %s, 1, %s, %s, %s, farhand_now() + interval '1 day')
        """,
        instance.instance_id,
        ids["mandate"],
        ids["ticket"],
        ids["eval"],
        Jsonb({"actions": ["run_command"], "machines": "owned", "tier_max": 5}),
        _MANDATE_HASH,
        instance.owner_member_id,
    )
    ticket_id = TicketId(ids["ticket"])
    async with lab.database.transaction() as tx:
        session_id = await sessions.create(
            tx, instance.instance_id, SessionKind.WORKER, ticket_id=ticket_id
        )
    return Ticket(ticket_id=ticket_id, session_id=session_id, mandate_id=ids["mandate"])
