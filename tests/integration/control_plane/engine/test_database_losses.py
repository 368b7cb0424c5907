"""Connections that break under a running engine."""

import asyncio

import psycopg

from farhand_control_plane.db import sessions
from farhand_control_plane.engine.settings import EngineSettings

PATIENT = EngineSettings(poll_s=600.0)


def _cut(dsn: str, *, only: str = "%") -> int:
    """Have the server end all other connections; returns how many there were."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        ended = connection.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
            " and application_name like %s",
            (only,),
        ).fetchall()
    return len(ended)


async def test_a_message_that_arrives_while_nobody_listens_is_found_at_the_reconnect(
    world, start_engine, until
):
    session = await world.worker()
    other = await world.worker()
    await start_engine(settings=PATIENT)
    await world.send(other, "m")
    await until(lambda: world.kinds(other))
    await until(lambda: world.is_idle(other))
    assert _cut(world.dsn, only="farhand listen") == 1
    await world.send(session, "m")  # its NOTIFY is heard by nobody
    await until(lambda: world.kinds(session))


async def test_a_step_whose_connection_broke_goes_on_uncharged_and_soon(world, start_engine, until):
    session = await world.worker()
    thinking, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(ref):
        thinking.set()
        await go_on.wait()

    running = await start_engine(settings=PATIENT)
    running.agent.before_thinking = slowly
    act = running.agent.act

    async def cut_off_once(tx, ref, item_seq, intent):
        done = await act(tx, ref, item_seq, intent)
        if running.agent.act is cut_off_once:
            running.agent.act = act
            _cut(world.dsn)
        return done

    running.agent.act = cut_off_once
    await world.send(session, "m", calls=[["effect", {"what": "a"}]])
    await thinking.wait()
    go_on.set()
    # Long before the lease lapses, since database time stands still at most as long as this test.
    await until(lambda: _results(world, session), within_s=20.0)
    await until(lambda: _idle(world, session))
    assert await world.effects(session) == ["a"]
    row = await world.session(session)
    assert row["resumes_charged"] == 0
    assert running.engine.ended["unreachable"] == 1


async def test_a_session_that_was_locked_at_the_moment_of_a_claim_is_claimed_right_after(
    world, start_engine, until
):
    """Its first message's NOTIFY is spent on a look that skips the locked row."""
    session = await world.worker()
    other = await world.worker()
    await world.send(session, "first")
    async with world.database.transaction() as tx:
        await sessions.append(
            tx, world.instance.instance_id, session, kind="note", dedupe_key="second", payload={}
        )
        await start_engine(settings=PATIENT)
        await world.send(other, "m")
        await until(lambda: world.kinds(other))
        assert await world.kinds(session) == []
    await until(lambda: world.kinds(session))


async def _results(world, session):
    try:
        return await world.results(session)
    except Exception:  # the test's own connections were cut as well
        return None


async def _idle(world, session):
    try:
        return await world.is_idle(session)
    except Exception:  # the test's own connections were cut as well
        return None
