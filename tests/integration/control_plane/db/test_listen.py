"""Notifications, and the rescan after a gap."""

import asyncio

import psycopg
import pytest

from farhand_control_plane.db.connect import DatabaseUnreachable
from farhand_control_plane.db.listen import CHANNELS, EVENTS, SESSIONS, Listener


async def test_each_subscriber_hears_its_channel(migrated_url, database):
    async with Listener(migrated_url) as listener:
        heard: asyncio.Queue[str] = asyncio.Queue()
        unsubscribe = listener.subscribe(EVENTS, heard.put_nowait)
        listener.subscribe(SESSIONS, lambda payload: heard.put_nowait(f"sessions {payload}"))
        async with database.transaction() as tx:
            await tx.execute("select pg_notify('farhand_events', 'a')")
            await tx.execute("select pg_notify('farhand_sessions', 'b')")
        got = {await _next(heard) for _ in range(4)}
        assert got == {"", "a", "sessions ", "sessions b"}  # "": the first look after connecting
        unsubscribe()
        async with database.transaction() as tx:
            await tx.execute("select pg_notify('farhand_events', 'unheard')")
            await tx.execute("select pg_notify('farhand_sessions', 'c')")
        assert await _next(heard) == "sessions c"


async def test_a_lost_connection_is_made_again_and_everybody_looks_for_himself(
    migrated_url, database
):
    async with Listener(migrated_url) as listener:
        heard: dict[str, asyncio.Queue[str]] = {channel: asyncio.Queue() for channel in CHANNELS}
        for channel, queue in heard.items():
            listener.subscribe(channel, queue.put_nowait)
        for queue in heard.values():
            assert await _next(queue) == ""
        with psycopg.connect(migrated_url, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
                " where application_name = 'farhand listen' and datname = current_database()"
            )
        for queue in heard.values():
            assert await _next(queue) == ""
        async with database.transaction() as tx:
            await tx.execute("select pg_notify('farhand_events', 'again')")
        assert await _next(heard[EVENTS]) == "again"


async def test_a_database_that_is_not_there_is_said_at_once(tmp_path):
    with pytest.raises(DatabaseUnreachable):
        await Listener(f"host={tmp_path} dbname=d").open()


async def _next(queue: asyncio.Queue[str]) -> str:
    async with asyncio.timeout(20):
        return await queue.get()
