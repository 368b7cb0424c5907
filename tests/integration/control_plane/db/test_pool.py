"""Transactions, and what happens when the database goes away."""

import asyncio
import uuid

import psycopg
import pytest
from psycopg.types.json import Jsonb

from farhand_control_plane.db.connect import DatabaseUnreachable
from farhand_control_plane.db.pool import Database


async def _names(database: Database) -> list[str]:
    async with database.autocommit() as connection:
        rows = await (await connection.execute("select name from instances")).fetchall()
    return sorted(row["name"] for row in rows)


async def _add(tx, name: str) -> None:
    await tx.execute(
        "insert into instances (instance_id, name) values (%s, %s)", (str(uuid.uuid4()), name)
    )


async def test_a_transaction_commits_at_its_end_and_rolls_back_on_an_error(database):
    async with database.transaction() as tx:
        await _add(tx, "kept")

    async def fails() -> None:
        async with database.transaction() as tx:
            await _add(tx, "dropped")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fails()
    assert await _names(database) == ["kept"]


async def test_a_savepoint_at_the_very_start_of_a_transaction_commits_nothing(database):
    async def fails() -> None:
        async with database.transaction() as tx:
            async with tx.transaction():
                await _add(tx, "inner")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fails()
    assert await _names(database) == []


async def test_a_cancelled_transaction_is_rolled_back_and_its_connection_is_good_again(database):
    inside = asyncio.Event()

    async def never_ends() -> None:
        async with database.transaction() as tx:
            await _add(tx, "dropped")
            inside.set()
            await tx.execute("select pg_sleep(60)")

    task = asyncio.create_task(never_ends())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await _names(database) == []


async def test_more_callers_than_connections_wait_for_their_turn(migrated_url):
    async with Database(migrated_url, max_connections=2) as database:

        async def backend() -> int:
            async with database.transaction() as tx:
                row = await (await tx.execute("select pg_backend_pid() as pid")).fetchone()
                return row["pid"]

        pids = await asyncio.gather(*(backend() for _ in range(20)))
        assert len(set(pids)) == 2


async def test_connections_that_the_server_closed_are_not_handed_out(database, migrated_url):
    await asyncio.gather(*(_names(database) for _ in range(4)))
    with psycopg.connect(migrated_url, autocommit=True) as connection:
        connection.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
    assert await _names(database) == []  # no error: each idle one was looked at first


async def test_a_connection_lost_inside_a_transaction_is_said_plainly(database, migrated_url):
    async def is_cut_off() -> None:
        async with database.transaction() as tx:
            row = await (await tx.execute("select pg_backend_pid() as pid")).fetchone()
            with psycopg.connect(migrated_url, autocommit=True) as connection:
                connection.execute("select pg_terminate_backend(%s, 5000)", (row["pid"],))
            await tx.execute("select 1")

    with pytest.raises(DatabaseUnreachable, match="the connection was lost"):
        await is_cut_off()
    assert await _names(database) == []


async def test_an_unreachable_database_is_refused_when_it_is_opened(tmp_path):
    with pytest.raises(DatabaseUnreachable, match="cannot reach the database at"):
        await Database(f"host={tmp_path} dbname=d").open()


async def test_ids_are_text_and_json_keeps_every_character(database):
    ours = str(uuid.uuid4())
    text = "\x00 \x01 \udcff"
    async with database.transaction() as tx:
        for binary in (False, True):
            cursor = await tx.execute(
                "select %s::uuid as id, array[%s::uuid] as ids, %s as body",
                (ours, ours, Jsonb({"text": text})),
                binary=binary,
            )
            row = await cursor.fetchone()
            assert row == {"id": ours, "ids": [ours], "body": {"text": text}}
