"""Everything at once: no message is lost, none is handled twice, nobody waits in a circle."""

import asyncio
import random

import psycopg
import pytest

from farhand_control_plane.domain.words import ReportKind
from farhand_control_plane.ingest.due import DueLoop
from farhand_control_plane.ingest.tickets import answer_question, stop_ticket
from farhand_control_plane.ingest.verdicts import Accept, Answer, Ignore
from farhand_shared.errors import Conflict, NotFound
from farhand_shared.ids import EvalId, QuestionId, TicketId, TriggerId

from .conftest import Desk, Until

LOST = """
    select tr.text from triggers tr
     where not exists (select from eval_triggers et where et.trigger_id = tr.trigger_id)
       and not exists (select from deliveries d where d.trigger_id = tr.trigger_id
                                                  and d.state <> 'handed_back')
"""
# Handed back by everybody, or brought to a ticket that closed before its executor read it, and
# nobody asked since.
ABANDONED = """
    select tr.text from triggers tr
     where exists (select from deliveries d where d.trigger_id = tr.trigger_id)
       and not exists (select from eval_triggers et where et.trigger_id = tr.trigger_id)
       and not exists (
             select from deliveries d join tickets t using (instance_id, ticket_id)
              where d.trigger_id = tr.trigger_id and d.state = 'delivered'
                and (t.closed_at is null
                     or exists (select from inbox i where i.consumed_by_seq is not null
                                 and i.dedupe_key = 'trigger:' || tr.trigger_id)))
"""
TWICE = """
    select tr.text from triggers tr
     where (select count(*) from eval_triggers et join evals e using (instance_id, eval_id)
             where et.trigger_id = tr.trigger_id and e.state = 'pending')
         + (select count(*) from deliveries d join tickets t using (instance_id, ticket_id)
             where d.trigger_id = tr.trigger_id and d.state = 'delivered'
               and t.closed_at is null) > 1
       and (select count(*) from subscriptions s where s.thread_id = tr.thread_id) < 2
"""


@pytest.mark.parametrize("seed", range(3))
async def test_people_routers_workers_and_relays_at_once_lose_nothing(
    desk: Desk, seed: int
) -> None:
    chance = random.Random(seed)
    over = asyncio.Event()
    broken = 0

    async def people() -> None:
        for n in range(25):
            await desk.say(f"{seed}.{n}", conversation=f"c{chance.randrange(3)}")
            await asyncio.sleep(0)

    async def router() -> None:
        nonlocal broken
        while not over.is_set():
            pending = await desk.rows("select eval_id from evals where state = 'pending'")
            if chance.random() < 0.5:
                await desk.read(desk.router)
            for row in pending:
                decision = chance.choice(
                    [Accept(title="work"), Accept(title="more"), Answer(), Ignore(reason="no")]
                )
                try:
                    await desk.close(EvalId(row["eval_id"]), decision)
                except Conflict:  # it found its ticket meanwhile
                    pass
                except psycopg.errors.DeadlockDetected:
                    broken += 1
            await asyncio.sleep(0)

    async def workers() -> None:
        nonlocal broken
        while not over.is_set():
            for row in await desk.rows("select ticket_id from tickets where closed_at is null"):
                ticket = await desk.ticket(TicketId(row["ticket_id"]))
                try:
                    for message in await desk.read(ticket.last_session_id):
                        if message["kind"] == "trigger" and chance.random() < 0.5:
                            trigger_id = TriggerId(message["payload"]["trigger_id"])
                            await desk.hand_back(ticket, trigger_id)
                    kind = chance.choice(
                        [ReportKind.PROGRESS, ReportKind.READY, ReportKind.QUESTION]
                    )
                    await desk.report(ticket, kind)
                except (Conflict, NotFound):  # it was closed meanwhile
                    pass
                except psycopg.errors.DeadlockDetected:
                    broken += 1
            await asyncio.sleep(0)

    async def impatient() -> None:
        nonlocal broken
        while not over.is_set():
            for row in await desk.rows("select ticket_id from tickets where closed_at is null"):
                if chance.random() < 0.3:
                    try:
                        async with desk.database.transaction() as tx:
                            await stop_ticket(
                                tx, desk.instance.instance_id, row["ticket_id"], desk.owner, ""
                            )
                    except Conflict:
                        pass
                    except psycopg.errors.DeadlockDetected:
                        broken += 1
            for row in await desk.rows("select question_id from questions where state = 'pending'"):
                try:
                    async with desk.database.transaction() as tx:
                        await answer_question(
                            tx,
                            desk.instance.instance_id,
                            QuestionId(row["question_id"]),
                            desk.owner,
                            "yes",
                        )
                except Conflict:
                    pass
                except psycopg.errors.DeadlockDetected:
                    broken += 1
            await asyncio.sleep(0)

    async def relays() -> None:
        while not over.is_set():
            await desk.relay()
            await asyncio.sleep(0)

    others = [asyncio.create_task(part()) for part in (router, workers, impatient, relays, relays)]
    await asyncio.gather(people(), people())
    over.set()
    await asyncio.gather(*others)

    assert await desk.count("triggers") == 50
    assert await desk.rows(LOST) == []
    assert await desk.rows(ABANDONED) == []
    assert await desk.rows(TWICE) == []
    assert broken == 0


async def test_the_loop_closes_what_expires_and_outlives_a_lost_connection(
    desk: Desk, until: Until
) -> None:
    ticket = await desk.open_ticket()
    running = asyncio.create_task(DueLoop(desk.database).run())
    try:
        await desk.rows(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )

        async def shifted() -> bool:
            try:
                await desk.shift_clock(8 * 24 * 3600)
            except Exception:  # the pool may hand out one more connection that was cut
                return False
            return True

        await until(shifted)

        async def closed() -> bool:
            rows = await desk.rows(
                "select 1 from tickets where ticket_id = %s and outcome = 'expired'",
                ticket.row.ticket_id,
            )
            return bool(rows)

        await until(closed)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
