"""Many sessions, several engines, and messages at the worst moments."""

import asyncio
import random
from collections import Counter

from farhand_control_plane.db.connect import connect
from farhand_control_plane.engine.settings import EngineSettings

PATIENT = EngineSettings(poll_s=600.0)  # no net: what wakes a session is its NOTIFY


async def test_two_engines_step_200_sessions_with_2000_messages_in_order_and_once(
    world, start_engine, until
):
    sessions = [await world.worker() for _ in range(200)]
    to_send = [(session, n) for session in sessions for n in range(10)]
    random.Random(1).shuffle(to_send)
    sent: dict[str, list[str]] = {session: [] for session in sessions}
    engines = [await start_engine(settings=PATIENT) for _ in range(2)]

    async def send_some(share: list[tuple[str, int]]) -> None:
        for session, n in share:
            # Half of them twice, as a sender does that got no answer.
            for _ in range(1 + n % 2):
                await world.send(session, f"m{n}", calls=[["effect", {"what": f"m{n}"}]])
            sent[session].append(f"m{n}")

    # One sender per session, so that the order of sending is known.
    shares: list[list[tuple[str, int]]] = [[] for _ in range(8)]
    for session, n in to_send:
        shares[sessions.index(session) % 8].append((session, n))
    await asyncio.gather(*(send_some(share) for share in shares))
    await until(world.all_idle, within_s=90.0)

    rows = await world.rows("select session_id, what from test_effects order by id")
    done: dict[str, list[str]] = {session: [] for session in sessions}
    for row in rows:
        done[row["session_id"]].append(row["what"])
    assert done == sent
    assert len(rows) == 2000
    (left,) = await world.rows("select count(*) as n from inbox where consumed_by_seq is null")
    assert left["n"] == 0
    assert all(engine.engine.ended["released"] > 10 for engine in engines)  # both took part
    assert sum(engine.engine.ended["fenced"] for engine in engines) == 0


async def test_a_message_at_the_moment_of_release_is_never_lost(world, start_engine, until):
    """Each sender sends its next message when the last one is consumed: just as the step ends."""
    sessions = [await world.worker() for _ in range(8)]
    for _ in range(2):
        await start_engine(settings=PATIENT)

    async def ping(session: str) -> None:
        connection = await connect(world.dsn, "sender")
        try:
            for n in range(40):
                await world.send(session, f"m{n}")
                deadline = asyncio.get_running_loop().time() + 20
                while True:
                    cursor = await connection.execute(
                        "select 1 from inbox where session_id = %s and dedupe_key = %s"
                        " and consumed_by_seq is not null",
                        (session, f"m{n}"),
                    )
                    if await cursor.fetchone():
                        break
                    assert asyncio.get_running_loop().time() < deadline, f"m{n} was lost"
        finally:
            await connection.close()

    await asyncio.gather(*map(ping, sessions))
    await until(world.all_idle)
    rows = await world.rows("select session_id from inbox where consumed_by_seq is not null")
    assert Counter(row["session_id"] for row in rows) == dict.fromkeys(sessions, 40)


async def test_a_claim_reads_few_rows_among_many_idle_sessions(world):
    from farhand_control_plane.db import leases
    from farhand_control_plane.domain.words import SessionKind
    from farhand_shared.ids import ReplicaId, new_id

    await world.rows(
        """
        insert into sessions (instance_id, session_id, kind)
        select %s, gen_random_uuid(), 'worker' from generate_series(1, 20000)
        returning session_id
        """,
        world.instance.instance_id,
    )
    await world.rows("select count(*) from sessions")
    async with world.database.autocommit() as connection:
        await connection.execute("analyze sessions")
    session = await world.worker()
    await world.send(session, "m")
    async with world.database.transaction() as tx:
        await tx.execute("set local track_counts = on")
        (before,) = await (
            await tx.execute(
                "select seq_tup_read from pg_stat_xact_user_tables where relname = 'sessions'"
            )
        ).fetchall()
        (claim,) = await leases.claim(
            tx, ReplicaId(new_id()), [SessionKind.WORKER], limit=16, lease_s=30.0
        )
        await leases.due_in(tx, [SessionKind.WORKER])
        (after,) = await (
            await tx.execute(
                "select seq_tup_read from pg_stat_xact_user_tables where relname = 'sessions'"
            )
        ).fetchall()
    assert claim.session_id == session
    assert after["seq_tup_read"] == before["seq_tup_read"]  # by index, not by reading them all
