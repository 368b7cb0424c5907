"""Inboxes, event numbers, and setting an instance up."""

import asyncio
from contextlib import suppress

import psycopg
import pytest

from farhand_control_plane.db import events, replicas, sessions
from farhand_control_plane.db.bootstrap import ensure_instance
from farhand_control_plane.db.listen import EVENTS, SESSIONS
from farhand_control_plane.db.migrate import upgrade
from farhand_control_plane.db.pool import Database
from farhand_control_plane.domain.words import SessionKind
from farhand_shared.errors import NotFound
from farhand_shared.ids import InstanceId, ReplicaId, SessionId, new_id


@pytest.fixture
async def database(every_database_url):
    """On each server: the statements must suit the oldest one."""
    upgrade(every_database_url)
    async with Database(every_database_url) as pool:
        yield pool


@pytest.fixture
async def session(database, instance):
    async with database.transaction() as tx:
        return await sessions.create(tx, instance.instance_id, SessionKind.WORKER)


async def _append(database, instance, session, key, **options):
    async with database.transaction() as tx:
        return await sessions.append(
            tx,
            instance.instance_id,
            session,
            kind="note",
            dedupe_key=key,
            payload={"key": key},
            **options,
        )


async def test_a_message_is_kept_once_whoever_repeats_it(database, instance, session):
    kept = await asyncio.gather(*(_append(database, instance, session, "m") for _ in range(5)))
    assert sorted(kept) == [False] * 4 + [True]
    async with database.transaction() as tx:
        view = await sessions.get(tx, instance.instance_id, session)
    assert view.pending == 1
    assert view.ready_at is not None


async def test_only_the_first_message_notifies_and_digest_entries_never_do(
    database, instance, session
):
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute(f"listen {SESSIONS}")
        await _append(database, instance, session, "digest", wakes=False)
        await _append(database, instance, session, "first")
        await _append(database, instance, session, "second")
        async with database.transaction() as tx:
            await tx.execute("select pg_notify(%s, 'end')", (SESSIONS,))
        heard = []
        for notification in connection.notifies(timeout=20):
            heard.append(notification.payload)
            if heard[-1] == "end":
                break
    assert heard == ["", "end"]


async def test_messages_are_numbered_in_the_order_of_their_commits(database, instance, session):
    """The second writer waits for the first one's commit, because the session's row is locked."""
    async with database.transaction() as first:
        await sessions.append(
            first, instance.instance_id, session, kind="note", dedupe_key="1", payload={}
        )
        second = asyncio.create_task(_append(database, instance, session, "2"))
        async with database.autocommit() as connection:
            while True:
                cursor = await connection.execute(
                    "select 1 from pg_stat_activity where wait_event_type = 'Lock'"
                    " and datname = current_database()"
                )
                if await cursor.fetchone():
                    break
        assert not second.done()
    assert await second
    async with database.autocommit() as connection:
        rows = await (
            await connection.execute("select dedupe_key from inbox order by seq")
        ).fetchall()
    assert [row["dedupe_key"] for row in rows] == ["1", "2"]


async def test_another_instances_session_looks_like_an_absent_one(database, instance, session):
    for instance_id, session_id in (
        (InstanceId(new_id()), session),
        (instance.instance_id, SessionId(new_id())),
    ):
        with pytest.raises(NotFound, match="there is no such session"):
            async with database.transaction() as tx:
                await sessions.append(
                    tx, instance_id, session_id, kind="note", dedupe_key="m", payload={}
                )
        async with database.transaction() as tx:
            assert await sessions.get(tx, instance_id, session_id) is None
            assert not await sessions.end(tx, instance_id, session_id)


async def test_events_are_numbered_in_the_order_of_commit_without_gaps(database, instance):
    async def emit(n: int) -> None:
        async with database.transaction() as tx:
            await events.emit(tx, instance.instance_id, "ticket_opened", payload={"n": n})

    async def fail() -> None:
        with suppress(ZeroDivisionError):
            async with database.transaction() as tx:
                await events.emit(tx, instance.instance_id, "ticket_closed")
                raise ZeroDivisionError

    seen: list[int] = []

    async def watch() -> None:
        """Reads on from the newest it saw: an event that appeared behind it would be missed."""
        while len(seen) < 30:
            async with database.transaction() as tx:
                new = await events.read_after(tx, instance.instance_id, seen[-1] if seen else 0)
            seen.extend(event.seq for event in new)

    async with asyncio.timeout(60):
        await asyncio.gather(watch(), *(emit(n) for n in range(30)), *(fail() for _ in range(5)))
    assert seen == [*range(1, 31)]
    async with database.transaction() as tx:
        assert await events.last_seq(tx, instance.instance_id) == 30


async def test_events_wake_the_watchers_of_their_instance(database, instance):
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute(f"listen {EVENTS}")
        async with database.transaction() as tx:
            await events.emit(tx, instance.instance_id, "ticket_opened")
        (notification,) = connection.notifies(timeout=20, stop_after=1)
    assert notification.payload == instance.instance_id


async def test_events_of_a_thread_or_a_ticket_are_read_alone(database, instance):
    thread, ticket = new_id(), new_id()
    async with database.transaction() as tx:
        await events.emit(tx, instance.instance_id, "trigger_received", thread_id=thread)
        await events.emit(tx, instance.instance_id, "ticket_opened", ticket_id=ticket)
        await events.emit(tx, instance.instance_id, "question_asked", subject_id=new_id())

        async def kinds(**which):
            found = await events.read_after(tx, instance.instance_id, 0, **which)
            return [event.kind for event in found]

        heard, opened, asked = "trigger_received", "ticket_opened", "question_asked"
        assert await kinds() == [heard, opened, asked]
        assert await kinds(thread_id=thread) == [heard]
        assert await kinds(ticket_id=ticket) == [opened]
        assert await kinds(thread_id=thread, ticket_id=ticket) == [heard, opened]
        assert await events.read_after(tx, InstanceId(new_id()), 0) == []


async def test_an_event_of_a_kind_that_nobody_knows_is_refused(database, instance):
    async with database.transaction() as tx:
        with pytest.raises(ValueError, match="a_new_word"):
            await events.emit(tx, instance.instance_id, "a_new_word")


async def test_an_instance_is_set_up_once_by_replicas_that_start_together(database):
    async def set_up():
        async with database.transaction() as tx:
            return await ensure_instance(tx)

    first, *others = await asyncio.gather(*(set_up() for _ in range(4)))
    assert all(other == first for other in others)
    assert first.policy_version == 1
    async with database.transaction() as tx:
        router = await sessions.router_of(tx, first.instance_id)
        assert router == first.router_session_id
        with pytest.raises(NotFound):
            await sessions.router_of(tx, InstanceId(new_id()))


async def test_replicas_are_known_while_they_are_seen(database):
    ours, dead = ReplicaId(new_id()), ReplicaId(new_id())
    async with database.transaction() as tx:
        await replicas.register(tx, dead, "10.0.0.2:1", "0.1.0")
        await tx.execute("update schema_record set clock_shift_ms = 61000")
        await replicas.register(tx, ours, "10.0.0.1:1", "0.1.0")
    async with database.transaction() as tx:
        assert [view.replica_id for view in await replicas.alive(tx)] == [ours]
        await tx.execute("update schema_record set clock_shift_ms = 700000")
        await replicas.seen(tx, ours)
        assert await replicas.forget_dead(tx) == 1
        await replicas.remove(tx, ours)
        assert await replicas.alive(tx) == []
