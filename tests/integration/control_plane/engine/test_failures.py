"""Messages, calls and models that make steps fail."""

from farhand_control_plane.db import sessions
from farhand_control_plane.domain.words import SessionKind
from farhand_control_plane.engine.settings import EngineSettings
from farhand_shared.errors import NotFound

HASTY = EngineSettings(retry_s=0.001, retry_cap_s=0.01)


async def test_the_router_sets_a_poisoned_message_aside_and_goes_on(world, start_engine, until):
    router = world.instance.router_session_id
    for n in range(20):
        poison = {"poison": "read"} if n == 13 else {}
        await world.send(router, f"m{n}", calls=[["effect", {"what": str(n)}]], **poison)
    running = await start_engine(settings=HASTY)
    await until(lambda: _all_read(world, router))
    good = [str(n) for n in range(20) if n != 13]
    assert await world.effects(router) == good
    (parked,) = await world.rows("select dedupe_key from inbox where parked_at is not null")
    assert parked["dedupe_key"] == "m13"
    (event,) = await world.rows("select kind, payload from events where kind = 'needs_person'")
    assert event["payload"]["what"] == "message_parked"
    assert "cannot read m13" in event["payload"]["reason"]
    row = await world.session(router)
    assert (row["tombstoned_at"], row["error"], row["resumes_charged"]) == (None, None, 0)
    assert running.agent.given_up == []
    assert running.agent.set_aside_keys == ["m13"], "the agent tells a person"
    # What comes later is not affected.
    await world.send(router, "after", calls=[["effect", {"what": "after"}]])
    await until(lambda: _all_read(world, router))
    assert (await world.effects(router))[-1] == "after"


async def test_two_poisoned_messages_are_both_set_aside(world, start_engine, until):
    router = world.instance.router_session_id
    for n in range(9):
        poison = {"poison": "think"} if n in (0, 8) else {}
        await world.send(router, f"m{n}", **poison)
    await start_engine(settings=HASTY)
    await until(lambda: _all_read(world, router))
    parked = await world.rows("select dedupe_key from inbox where parked_at is not null")
    assert [row["dedupe_key"] for row in parked] == ["m0", "m8"]


async def test_a_worker_becomes_a_tombstone_after_five_charged_resumes_and_can_be_revived(
    world, start_engine, until
):
    worker = await world.worker()
    await world.send(worker, "bad", poison="think")
    running = await start_engine(settings=HASTY)
    await until(lambda: _tombstoned(world, worker))
    assert len(running.agent.batches) == 6  # the first try and five resumes
    (reason,) = running.agent.given_up
    assert "cannot think about bad" in reason
    row = await world.session(worker)
    assert row["error"] == reason
    assert await world.pending(worker) == ["bad"]
    events = await world.rows("select kind from events")
    assert [event["kind"] for event in events] == ["session_tombstoned"]
    # Messages are kept and wake nobody, until a person revives the session.
    assert await world.send(worker, "more")
    assert await world.is_idle(worker)
    await world.rows("update inbox set payload = '{}' where dedupe_key = 'bad' returning seq")
    async with world.database.transaction() as tx:
        assert await sessions.revive(tx, world.instance.instance_id, worker)
        assert not await sessions.revive(tx, world.instance.instance_id, worker)
    await until(lambda: _all_read(world, worker))
    assert running.agent.batches[-1] == ["bad", "more"]


async def test_owners_that_die_again_and_again_leave_a_tombstone(world, start_engine, until):
    from farhand_control_plane.db import leases
    from farhand_shared.ids import ReplicaId, new_id

    worker = await world.worker()
    await world.send(worker, "deadly", calls=[["effect", {"what": "a"}]])
    for charged in range(6):
        async with world.database.transaction() as tx:
            (claim,) = await leases.claim(
                tx, ReplicaId(new_id()), [SessionKind.WORKER], limit=1, lease_s=30.0
            )
        assert claim.resumes_charged == charged
        await world.shift_time(31)
    running = await start_engine()
    await until(lambda: _tombstoned(world, worker))
    assert running.agent.thoughts == 0
    assert await world.effects(worker) == []


async def test_a_call_that_fails_inside_is_answered_and_the_session_goes_on(
    world, start_engine, until
):
    worker = await world.worker()
    await start_engine(settings=HASTY)
    await world.send(worker, "m", calls=[["boom", {}], ["effect", {"what": "a"}]])
    await until(lambda: world.results(worker))
    await until(lambda: world.is_idle(worker))
    failed, did = await world.results(worker)
    assert failed == ("cannot run boom: it failed inside (ZeroDivisionError); nothing was done")
    assert did == "did a"
    assert await world.effects(worker) == ["a"]
    assert (await world.session(worker))["resumes_charged"] == 0


async def test_a_call_that_is_refused_is_answered_at_once_and_leaves_no_effect(
    world, start_engine, until
):
    worker = await world.worker()
    running = await start_engine()
    act = running.agent.act

    async def refuse(tx, ref, item_seq, intent):
        await act(tx, ref, item_seq, intent)
        raise NotFound("cannot run a: there is no machine a")

    running.agent.act = refuse
    await world.send(worker, "m", calls=[["effect", {"what": "a"}]])
    await until(lambda: world.results(worker))
    assert await world.results(worker) == ["cannot run a: there is no machine a"]
    assert await world.effects(worker) == []


async def test_two_sessions_that_write_to_each_other_do_not_wait_in_a_circle(
    world, start_engine, until
):
    pairs = [(await world.worker(), await world.worker()) for _ in range(10)]
    for one, other in pairs:
        for me, you in ((one, other), (other, one)):
            calls = [["tell", {"session_id": you, "key": f"from {me} {n}"}] for n in range(5)]
            await world.send(me, "m", calls=calls)
    first, second = await start_engine(), await start_engine()
    await until(world.all_idle)
    for one, other in pairs:
        assert await world.results(one) == ["told"] * 5
        assert await world.results(other) == ["told"] * 5
    assert first.engine.ended["put_back"] + second.engine.ended["put_back"] == 0


async def _all_read(world, session):
    return await world.is_idle(session) and not await world.pending(session)


async def _tombstoned(world, session):
    return (await world.session(session))["tombstoned_at"]
