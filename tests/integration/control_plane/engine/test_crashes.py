"""An engine that dies, anywhere: nothing is lost, and no effect happens twice."""

import asyncio
import itertools
import signal
import subprocess

import pytest

from farhand_control_plane.db import leases, session_log, sessions
from farhand_control_plane.db.leases import FenceLost
from farhand_control_plane.domain.words import SessionKind
from farhand_control_plane.engine.points import COMMITS, POINTS
from farhand_control_plane.engine.settings import EngineSettings
from farhand_shared.ids import ReplicaId, new_id

PATIENT = EngineSettings(poll_s=60.0)
LAPSED_S = 31.0  # a lease is 30 s long
PLAIN = [p for p in POINTS if not p.startswith(("put_back", "park", "tombstone"))]


@pytest.mark.parametrize("point", PLAIN)
async def test_an_engine_killed_at_a_point_is_finished_by_another(
    world, start_engine, engine_process, until, point
):
    session = await world.worker()
    await world.send(
        session,
        "m",
        calls=[
            ["effect", {"what": "a"}],
            ["wait_and_tell", {"for": "soon", "wait_s": 60}],
            ["effect", {"what": "b"}],
        ],
    )
    await _dies(engine_process(point))
    await world.send(session, "later", calls=[["effect", {"what": "c"}]])
    await world.shift_time(LAPSED_S)
    await start_engine()
    await until(lambda: _finished(world, session))

    assert await world.effects(session) == ["a", "b", "c"]
    assert await world.pending(session) == []
    # Every item with calls is followed by its results, whatever was read together with what.
    log = await world.log(session)
    for (kind, payload), (next_kind, _) in itertools.pairwise([*log, ("", None)]):
        has_calls = kind == "assistant" and payload["calls"]
        assert (next_kind == "tool_results") == bool(has_calls)
    calls = await world.rows("select state, result from tool_calls order by item_seq, call_index")
    assert [call["state"] for call in calls] == ["done"] * 4
    # Killed with the wait open, the new message may end it before the result is looked at.
    assert calls[1]["result"]["content"] in ("inline soon", "started soon")
    told = await world.rows("select seq from inbox where dedupe_key = 'soon'")
    assert len(told) == 1


def test_the_points_name_every_commit_of_a_step():
    assert {point.split(".")[0] for point in POINTS} == {"claimed", "thought", *COMMITS}


async def test_a_session_whose_owner_died_right_after_the_claim_is_picked_up(
    world, start_engine, until
):
    """The queue prototype cleared ready_at at the claim and lost this work."""
    session = await world.worker()
    await world.send(session, "m", calls=[["effect", {"what": "a"}]])
    async with world.database.transaction() as tx:
        (claim,) = await leases.claim(
            tx, ReplicaId(new_id()), [SessionKind.WORKER], limit=1, lease_s=30.0
        )
    assert claim.session_id == session
    assert (await world.session(session))["ready_at"] is not None
    await start_engine(settings=EngineSettings(poll_s=0.05))
    other = await world.worker()
    await world.send(other, "m")
    await until(lambda: world.kinds(other))  # the engine has looked, and the lease holds
    assert await world.effects(session) == []
    await world.shift_time(LAPSED_S)
    await until(lambda: world.effects(session))
    assert (await world.session(session))["generation"] == claim.generation + 1


async def test_a_paused_replica_is_fenced_on_every_write(world):
    session = await world.worker()
    await world.send(session, "m")
    paused = await _claim(world)
    await world.shift_time(LAPSED_S)
    successor = await _claim(world)
    assert successor.generation == paused.generation + 1
    assert successor.resumes_charged == 1

    writes = {
        "fence": lambda tx: leases.fence(tx, paused),
        "lock": lambda tx: leases.lock(tx, paused),
        "progress": lambda tx: leases.progressed(tx, paused, next_item_seq=9),
        "release": lambda tx: leases.release(tx, paused, wake=False),
        "put back": lambda tx: leases.put_back(tx, paused, in_s=0.0),
        "tombstone": lambda tx: leases.tombstone(tx, paused, "no"),
    }
    before = await world.session(session)
    for name, write in writes.items():
        with pytest.raises(FenceLost):
            async with world.database.transaction() as tx:
                await write(tx)
        assert await world.session(session) == before, name
    async with world.database.transaction() as tx:
        assert await leases.renew(tx, paused.owner, [paused], lease_s=30.0) == set()
        assert await leases.renew(tx, successor.owner, [successor], lease_s=30.0) == {session}


async def test_a_paused_engine_that_wakes_up_writes_nothing(world, start_engine, until):
    session = await world.worker()
    thinking, go_on = asyncio.Event(), asyncio.Event()

    async def paused(ref):
        thinking.set()
        await go_on.wait()

    first = await start_engine(settings=EngineSettings(renew_s=3600))
    first.agent.before_thinking = paused
    await world.send(session, "m", calls=[["effect", {"what": "a"}]])
    await thinking.wait()
    await world.shift_time(LAPSED_S)
    await start_engine(settings=EngineSettings(poll_s=0.05))
    await until(lambda: world.effects(session))
    await until(lambda: world.is_idle(session))
    log = await world.log(session)
    go_on.set()
    await until(lambda: _ended(first, "fenced"))
    assert await world.log(session) == log
    assert await world.effects(session) == ["a"]


async def test_nobody_can_claim_while_a_fenced_transaction_is_open(world):
    session = await world.worker()
    await world.send(session, "m")
    ours = await _claim(world)
    async with world.database.transaction() as tx:
        await leases.fence(tx, ours)
        await world.shift_time(LAPSED_S)
        async with world.database.transaction() as other:
            assert not await leases.claim(
                other, ReplicaId(new_id()), [SessionKind.WORKER], limit=1, lease_s=30.0
            )
        # Messages come in meanwhile: the fence is no obstacle to them.
        assert await world.send(session, "n")
        await session_log.has_waking(tx, ours)
    assert (await _claim(world)).session_id == session


async def test_draining_hands_a_thinking_session_over_at_once_and_uncharged(
    world, start_engine, engine_process, until
):
    session = await world.worker()
    thinking = asyncio.Event()

    async def for_ever(ref):
        thinking.set()
        await asyncio.Event().wait()

    first = await start_engine(settings=PATIENT)
    first.agent.before_thinking = for_ever
    second = await start_engine(settings=PATIENT, slots=1)
    second.agent.before_thinking = for_ever
    await world.send(session, "m", calls=[["effect", {"what": "a"}]])
    await thinking.wait()
    owner = (await world.session(session))["lease_owner"]
    owning, other = (first, second) if first.engine._replica_id == owner else (second, first)
    other.agent.before_thinking = _at_once
    await owning.engine.drain()
    await until(lambda: world.effects(session))
    await until(lambda: world.is_idle(session))
    assert (await world.session(session))["resumes_charged"] == 0


async def test_sigterm_drains_a_process_and_leaves_no_lease(world, engine_process, until):
    session = await world.worker()
    process = engine_process()
    await asyncio.to_thread(process.stdout.readline)
    await world.send(session, "m", calls=[["effect", {"what": "a"}]])
    await until(lambda: world.effects(session))
    process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(process.wait, 20) == 0
    rows = await world.rows("select 1 from sessions where lease_owner is not null")
    assert rows == []


async def test_an_ended_session_is_fenced_and_never_claimed_again(world, start_engine, until):
    session = await world.worker()
    thinking, go_on = asyncio.Event(), asyncio.Event()

    async def paused(ref):
        thinking.set()
        await go_on.wait()

    running = await start_engine(settings=PATIENT)
    running.agent.before_thinking = paused
    await world.send(session, "m", calls=[["effect", {"what": "a"}]])
    await thinking.wait()
    async with world.database.transaction() as tx:
        assert await sessions.end(tx, world.instance.instance_id, session)
        assert not await sessions.end(tx, world.instance.instance_id, session)
    go_on.set()
    await until(lambda: _ended(running, "fenced"))
    assert await world.send(session, "late")  # kept, wakes nobody
    assert await world.effects(session) == []
    assert await world.is_idle(session)


async def _at_once(ref):
    return None


async def _claim(world):
    async with world.database.transaction() as tx:
        (claim,) = await leases.claim(
            tx, ReplicaId(new_id()), [SessionKind.WORKER], limit=1, lease_s=30.0
        )
    return claim


async def _dies(process: subprocess.Popen[str]) -> None:
    assert await asyncio.to_thread(process.wait, 60) == -signal.SIGKILL


async def _finished(world, session):
    return await world.is_idle(session) and not await world.pending(session)


async def _ended(running, how):
    return running.engine.ended[how]
