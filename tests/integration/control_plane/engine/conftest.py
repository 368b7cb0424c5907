"""Engines over a real database, with scripted agents."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from farhand_control_plane.db import sessions
from farhand_control_plane.db.bootstrap import Bootstrap
from farhand_control_plane.db.listen import Listener
from farhand_control_plane.db.pool import Database
from farhand_control_plane.domain.words import SessionKind
from farhand_control_plane.engine.engine import Engine
from farhand_control_plane.engine.points import Points, unobserved
from farhand_control_plane.engine.settings import EngineSettings
from farhand_shared.ids import ReplicaId, SessionId, new_id
from tests.fakes.scripted_agent import ScriptedAgent, make_effects_table

ROOT = Path(__file__).resolve().parents[4]


@dataclass
class World:
    """One instance in one database: messages in, questions about what came of them."""

    dsn: str
    database: Database
    instance: Bootstrap

    async def worker(self) -> SessionId:
        async with self.database.transaction() as tx:
            return await sessions.create(tx, self.instance.instance_id, SessionKind.WORKER)

    async def send(
        self, session_id: SessionId, key: str, *, wakes: bool = True, **payload: Any
    ) -> bool:
        async with self.database.transaction() as tx:
            return await sessions.append(
                tx,
                self.instance.instance_id,
                session_id,
                kind="note",
                dedupe_key=key,
                payload=payload,
                wakes=wakes,
            )

    async def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        async with self.database.autocommit() as connection:
            return await (await connection.execute(query, values)).fetchall()

    async def session(self, session_id: SessionId) -> dict[str, Any]:
        (row,) = await self.rows("select * from sessions where session_id = %s", session_id)
        return row

    async def is_idle(self, session_id: SessionId) -> bool:
        """Whether the session is released with nothing to do and nothing waited for."""
        row = await self.session(session_id)
        return row["lease_owner"] is None and row["ready_at"] is None and row["wake_at"] is None

    async def all_idle(self) -> bool:
        (row,) = await self.rows(
            "select count(*) as busy from sessions"
            " where lease_owner is not null or ready_at is not null or wake_at is not null"
        )
        return bool(row["busy"] == 0)

    async def log(self, session_id: SessionId) -> list[tuple[str, Any]]:
        rows = await self.rows(
            "select kind, payload from items where session_id = %s order by item_seq", session_id
        )
        return [(row["kind"], row["payload"]) for row in rows]

    async def kinds(self, session_id: SessionId) -> list[str]:
        return [kind for kind, _ in await self.log(session_id)]

    async def results(self, session_id: SessionId) -> list[str]:
        """What the model was told of its calls, in order."""
        return [
            result["content"]
            for kind, payload in await self.log(session_id)
            if kind == "tool_results"
            for result in payload["results"]
        ]

    async def effects(self, session_id: SessionId) -> list[str]:
        rows = await self.rows(
            "select what from test_effects where session_id = %s order by id", session_id
        )
        return [row["what"] for row in rows]

    async def pending(self, session_id: SessionId) -> list[str]:
        rows = await self.rows(
            "select dedupe_key from inbox where session_id = %s"
            " and consumed_by_seq is null and parked_at is null order by seq",
            session_id,
        )
        return [row["dedupe_key"] for row in rows]

    async def shift_time(self, seconds: float) -> None:
        """Move database time forward for everybody."""
        await self.rows(
            "update schema_record set clock_shift_ms = clock_shift_ms + %s returning one",
            round(seconds * 1000),
        )


@pytest.fixture
async def world(migrated_url: str, database: Database, instance: Bootstrap) -> World:
    make_effects_table(migrated_url)
    return World(migrated_url, database, instance)


@dataclass
class Running:
    engine: Engine
    agent: ScriptedAgent
    task: asyncio.Task[None]

    async def kill(self) -> None:
        """Stop without any farewell, as far as that is possible inside one process."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


StartEngine = Callable[..., Any]


@pytest.fixture
async def start_engine(world: World) -> AsyncIterator[StartEngine]:
    """Start an engine with a pool and a listener of its own; drained at the end of the test."""
    started: list[tuple[Running, Database, Listener]] = []

    async def start(
        agent: ScriptedAgent | None = None,
        *,
        slots: int = 16,
        settings: EngineSettings | None = None,
        points: Points = unobserved,
    ) -> Running:
        agent = agent or ScriptedAgent()
        database, listener = Database(world.dsn), Listener(world.dsn)
        await database.open()
        await listener.open()
        engine = Engine(
            database,
            listener,
            dict.fromkeys((SessionKind.ROUTER, SessionKind.WORKER), agent),
            ReplicaId(new_id()),
            slots,
            settings=settings,
            points=points,
        )
        running = Running(engine, agent, asyncio.create_task(engine.run()))
        started.append((running, database, listener))
        return running

    yield start
    for running, database, listener in started:
        if not running.task.done():
            await running.engine.drain()
        await asyncio.gather(running.task, return_exceptions=True)
        await listener.close()
        await database.close()


@pytest.fixture
def engine_process(world: World) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start an engine in a process of its own that kills itself at a point."""
    processes: list[subprocess.Popen[str]] = []

    def start(point: str = "", nth: int = 1) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.fakes.engine_process", world.dsn, point, str(nth)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
