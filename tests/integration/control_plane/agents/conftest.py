"""The whole agent in one process: chat, Router, Workers, machines (a fake daemon), replies."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from farhand_control_plane.agents.router import RouterAgent
from farhand_control_plane.agents.worker import WorkerAgent
from farhand_control_plane.channels.chat import ChatChannel
from farhand_control_plane.channels.relay import Relay
from farhand_control_plane.db import events, questions, tickets
from farhand_control_plane.db.bootstrap import CHAT_KIND, Bootstrap
from farhand_control_plane.db.listen import Listener
from farhand_control_plane.db.pool import Database
from farhand_control_plane.db.questions import QuestionView
from farhand_control_plane.db.tickets import TicketView
from farhand_control_plane.domain.words import SessionKind, Stage
from farhand_control_plane.engine.engine import Engine
from farhand_control_plane.engine.settings import EngineSettings
from farhand_control_plane.ingest.chat import Accepted, ChatMessage, accept_chat
from farhand_control_plane.ingest.tickets import reply_sent
from farhand_control_plane.llm.client import ModelClient, ModelService
from farhand_control_plane.llm.planner.app import MODEL_NAME, planner_app
from farhand_control_plane.machines.service import MachineService
from farhand_shared.ids import MachineId, ReplicaId, TicketId, new_id
from tests.fakes.fake_daemon import FakeMachine
from tests.fakes.machine_lab import Lab, Until


class Office:
    """A person's view: say something, see what comes back, look at tickets."""

    def __init__(
        self,
        database: Database,
        instance: Bootstrap,
        until: Until,
        lab: Lab,
        replica: MachineService,
    ) -> None:
        self.database = database
        self.instance = instance
        self.until = until
        self.lab = lab
        self.replica = replica

    async def say(
        self, text: str, *, here: FakeMachine | None = None, conversation: str = "main"
    ) -> Accepted:
        message = ChatMessage(
            instance_id=self.instance.instance_id,
            source_id=self.instance.chat_source_id,
            member_id=self.instance.owner_member_id,
            conversation=conversation,
            client_message_id=new_id(),
            text=text,
            this_machine_id=MachineId(here.machine_id) if here else None,
        )
        async with self.database.transaction() as tx:
            return await accept_chat(tx, message)

    async def heard(self) -> list[dict[str, Any]]:
        """What people were told so far: the payloads of ``reply_sent``."""
        async with self.database.transaction() as tx:
            found = await events.read_after(tx, self.instance.instance_id, 0)
        return [dict(e.payload) for e in found if e.kind == "reply_sent"]

    async def hears(self, fragment: str) -> dict[str, Any]:
        """Wait for a message that contains ``fragment``."""

        async def look() -> dict[str, Any] | None:
            return next((m for m in await self.heard() if fragment in m["text"]), None)

        found: dict[str, Any] = await self.until(look)
        return found

    async def tickets(self) -> list[TicketView]:
        async with self.database.transaction() as tx:
            page = await tickets.list_(tx, self.instance.instance_id)
            views = [
                await tickets.get(tx, self.instance.instance_id, row.ticket_id)
                for row in page.items
            ]
        return [view for view in views if view is not None]

    async def questions(self) -> list[QuestionView]:
        """Open questions of the whole instance."""
        async with self.database.transaction() as tx:
            return await questions.open_(tx, self.instance.instance_id)

    async def stage(self, ticket_id: TicketId, stage: Stage) -> TicketView:
        """Wait until a ticket is in a stage."""

        async def look() -> TicketView | None:
            return next(
                (
                    view
                    for view in await self.tickets()
                    if view.row.ticket_id == ticket_id and view.row.stage is stage
                ),
                None,
            )

        found: TicketView = await self.until(look)
        return found


OpenOffice = Callable[..., Any]


@pytest.fixture
async def open_office(
    database: Database, instance: Bootstrap, until: Until
) -> AsyncIterator[OpenOffice]:
    """Start the agent on a model service (None: the offline planner); return the Office."""
    stack = AsyncExitStack()

    async def start(service: ModelService | None = None, **worker: Any) -> Office:
        planner = ModelService(model=MODEL_NAME)
        client = ModelClient(service or planner, planner=planner_app)
        stack.push_async_callback(client.close)
        lab = Lab(database, instance, until)
        await stack.enter_async_context(lab.stack)
        replica = await lab.replica()
        listener = await stack.enter_async_context(Listener(database.dsn))
        engine = Engine(
            database,
            listener,
            {
                SessionKind.ROUTER: RouterAgent(client),
                SessionKind.WORKER: WorkerAgent(client, **worker),
            },
            ReplicaId(new_id()),
            settings=EngineSettings(retry_s=0.01),
        )
        relay = Relay(database, listener, {CHAT_KIND: ChatChannel()}, on_sent=reply_sent)
        for loop in (engine.run(), relay.run()):
            task = asyncio.create_task(loop)
            stack.push_async_callback(_end, task)
        return Office(database, instance, until, lab, replica)

    async with stack:
        yield start


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
