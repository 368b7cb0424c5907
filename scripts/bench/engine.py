#!/usr/bin/env python3
"""How fast the session engine is: appends, steps and wake-ups, with an agent that does nothing.

    .venv/bin/python scripts/bench/engine.py DSN [--sessions N] [--messages N]

The database must be an empty one that this script may fill. The cost of one ``select 1`` in the
same run stands beside the figures, since absolute numbers depend on the machine.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from farhand_control_plane.db import migrate, sessions
from farhand_control_plane.db.bootstrap import ensure_instance
from farhand_control_plane.db.listen import Listener
from farhand_control_plane.db.pool import Database
from farhand_control_plane.domain.words import SessionKind
from farhand_control_plane.engine.contract import LogItem, SessionRef, Thought
from farhand_control_plane.engine.engine import Engine
from farhand_shared.ids import InstanceId, ReplicaId, SessionId, new_id
from tests.fakes.scripted_agent import ScriptedAgent

SENDERS = 8


class _Timed(ScriptedAgent):
    """Notes how long each message waited until the model was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.waits_s: list[float] = []
        self.messages = 0

    async def think(self, ref: SessionRef, items: Sequence[LogItem]) -> Thought:
        read = items[-1].payload.get("messages", ())
        self.messages += len(read)
        self.waits_s += [time.time() - message["payload"]["sent"] for message in read]
        return await super().think(ref, items)


async def main(dsn: str, session_count: int, message_count: int) -> None:
    await asyncio.to_thread(migrate.upgrade, dsn)
    async with Database(dsn) as database, Listener(dsn) as listener:
        async with database.transaction() as tx:
            instance = (await ensure_instance(tx)).instance_id
            ids = [
                await sessions.create(tx, instance, SessionKind.WORKER)
                for _ in range(session_count)
            ]
        print(f"select 1: {await _select_s(database) * 1e6:.0f} us")

        began = time.perf_counter()
        await _send_all(database, instance, ids, message_count)
        took = time.perf_counter() - began
        print(f"append: {message_count / took:.0f}/s with {SENDERS} senders")

        agent = _Timed()
        engine = Engine(database, listener, {SessionKind.WORKER: agent}, ReplicaId(new_id()))
        began, cpu = time.perf_counter(), time.process_time()
        running = asyncio.create_task(engine.run())
        await _until(lambda: agent.messages >= message_count)
        took = time.perf_counter() - began
        cpu = time.process_time() - cpu
        print(
            f"drain: {message_count / took:.0f} messages/s, {agent.thoughts / took:.0f} steps/s,"
            f" {cpu / agent.thoughts * 1e3:.1f} ms of CPU per step"
        )

        agent.waits_s.clear()
        seen = agent.messages
        for n in range(200):
            await _send(database, instance, ids[n % session_count], f"live {n}")
            await asyncio.sleep(0.02)
        await _until(lambda: agent.messages >= seen + 200)
        waits = statistics.quantiles(agent.waits_s, n=100)
        print(f"wake-up at 50/s: p50 {waits[49] * 1e3:.1f} ms, p99 {waits[98] * 1e3:.1f} ms")
        await engine.drain()
        await running


async def _send(database: Database, instance: InstanceId, session_id: SessionId, key: str) -> None:
    async with database.transaction() as tx:
        await sessions.append(
            tx,
            instance,
            session_id,
            kind="note",
            dedupe_key=key,
            payload={"sent": time.time()},
        )


async def _send_all(
    database: Database, instance: InstanceId, ids: list[SessionId], count: int
) -> None:
    numbers = iter(range(count))

    async def send_some() -> None:
        for n in numbers:
            await _send(database, instance, ids[n % len(ids)], f"m{n}")

    await asyncio.gather(*(send_some() for _ in range(SENDERS)))


async def _select_s(database: Database) -> float:
    async with database.autocommit() as connection:
        took = []
        for _ in range(200):
            began = time.perf_counter()
            await connection.execute("select 1")
            took.append(time.perf_counter() - began)
    return statistics.median(took)


async def _until(question: Callable[[], bool]) -> None:
    while not question():  # noqa: ASYNC110 - a counter changes, nobody sets an event
        await asyncio.sleep(0.005)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("dsn", help="of an empty database")
    parser.add_argument("--sessions", type=int, default=500)
    parser.add_argument("--messages", type=int, default=2000)
    options = parser.parse_args()
    asyncio.run(main(options.dsn, options.sessions, options.messages))
