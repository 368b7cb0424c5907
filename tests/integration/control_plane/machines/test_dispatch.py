"""From the queue to one result: claims, cancels, expiry, re-authorisation, reconnects."""

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from psycopg.types.json import Jsonb

from farhand_control_plane.db import (
    attempts,
    command_stops,
    command_views,
    machine_changes,
    sessions,
)
from farhand_control_plane.domain.words import SessionKind
from farhand_shared import codec
from farhand_shared.command import CommandResult, ExitReason
from farhand_shared.errors import Conflict, InvalidInput, NotAllowed, NotFound
from farhand_shared.ids import CommandId, InstanceId, MachineId, MemberId, new_id
from farhand_shared.link_events import Result
from tests.fakes.fake_daemon import FakeDaemon, echo, hold


async def test_a_queued_command_waits_for_its_machine_and_starts_when_it_comes(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    queued = await lab.enqueue(machine, "echo", "late")
    assert (await lab.view(queued.command_id)).state == "queued"
    async with FakeDaemon(machine):
        view = await lab.ended(queued.command_id)
    assert (view.state, view.result.exit_code) == ("exited", 0)
    assert machine.starts == [queued.attempt_id]


async def test_a_command_is_claimed_by_the_replica_that_holds_the_link(lab):
    holder, other = await lab.replica(), await lab.replica()
    machine = await lab.machine(holder)
    async with lab.daemon(machine, holder):
        seen = await lab.exec(other, "fake", "echo", "across")
    assert seen.bytes_of() == b"across\n"
    assert other.hub.held() == ()
    assert machine.starts == [seen.attempt_id]


async def test_output_is_followed_across_replicas_while_it_comes(lab):
    holder, other = await lab.replica(), await lab.replica()
    machine = await lab.machine(holder)
    machine.behaviour = hold
    async with lab.daemon(machine, holder):
        seen, task = await lab.start(other, "fake", "long")
        await lab.sees(lambda: machine.starts)
        job = machine.jobs[machine.starts[0]]
        job.write(b"first")
        await lab.sees(lambda: seen.bytes_of() == b"first")
        job.write(b" second")
        job.end()
        await asyncio.wait_for(task, 20)
    assert seen.bytes_of() == b"first second"


async def test_the_effect_key_makes_enqueue_idempotent(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    async with lab.database.transaction() as tx:
        session_id = await sessions.create(tx, lab.instance.instance_id, SessionKind.WORKER)
    key = {"session_id": session_id, "item_seq": 1, "call_index": 0}
    first = await lab.enqueue(machine, "echo", "once", **key)
    again = await lab.enqueue(machine, "echo", "once", **key)
    assert first.created
    assert not again.created
    assert (again.command_id, again.attempt_id) == (first.command_id, first.attempt_id)


async def test_a_session_hears_of_the_end_exactly_once(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    async with lab.database.transaction() as tx:
        session_id = await sessions.create(tx, lab.instance.instance_id, SessionKind.WORKER)
    queued = await lab.enqueue(
        machine, "echo", "x", session_id=session_id, item_seq=1, call_index=0
    )
    async with FakeDaemon(machine):
        await lab.ended(queued.command_id)
    rows = await lab.sql("select kind, dedupe_key, payload from inbox")
    assert rows == [
        {
            "kind": "command_done",
            "dedupe_key": f"command:{queued.command_id}:done",
            "payload": {
                "command_id": queued.command_id,
                "attempt_id": queued.attempt_id,
                "state": "exited",
            },
        }
    ]


async def test_bad_requests_are_refused_before_anything_is_stored(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    stranger = MemberId(new_id())
    await lab.sql(
        "insert into members (instance_id, member_id, name, role) values (%s, %s, 'x', 'member')",
        lab.instance.instance_id,
        stranger,
    )
    with pytest.raises(InvalidInput, match="start_within_ms"):
        await lab.enqueue(machine, "x", start_within_ms=8 * 24 * 3600 * 1000)
    machine_id, machine.machine_id = machine.machine_id, new_id()
    with pytest.raises(NotFound, match="no such machine"):
        await lab.enqueue(machine, "x")
    machine.machine_id = machine_id
    await lab.sql("update machines set owner_member_id = %s", stranger)
    with pytest.raises(NotAllowed, match="another member's"):
        await lab.enqueue(machine, "x")
    await lab.sql(
        "update machines set status = 'pending', owner_member_id = %s",
        lab.instance.owner_member_id,
    )
    with pytest.raises(Conflict, match="nobody has compared its six words"):
        await lab.enqueue(machine, "x")
    assert await lab.sql("select 1 from commands") == []


async def test_another_instances_ids_look_absent(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    queued = await lab.enqueue(machine, "x")
    other = InstanceId(new_id())
    async with lab.database.transaction() as tx:
        assert await command_views.get(tx, other, CommandId(queued.command_id)) is None
        assert await command_views.of_attempt(tx, other, queued.attempt_id) is None
        assert await command_stops.request_stop(tx, other, command_id=queued.command_id) == 0
    with pytest.raises(NotFound):
        await replica.execs.follow(other, lab.instance.owner_member_id, queued.attempt_id)


async def stop(lab, command_id, reason="cancel"):
    async with lab.database.transaction() as tx:
        return await command_stops.request_stop(
            tx, lab.instance.instance_id, command_id=command_id, reason=reason
        )


async def test_a_queued_command_is_cancelled_at_once_and_never_runs(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    queued = await lab.enqueue(machine, "echo", "never")
    assert await stop(lab, queued.command_id) == 1
    view = await lab.view(queued.command_id)
    assert (view.state, view.reason) == ("cancelled_before_start", "cancel")
    async with FakeDaemon(machine):
        later = await lab.enqueue(machine, "echo", "later")
        await lab.ended(later.command_id)
    assert machine.starts == [later.attempt_id]
    assert await stop(lab, queued.command_id) == 0


async def test_a_running_command_is_stopping_until_its_machine_proves_the_end(lab):
    holder, other = await lab.replica(), await lab.replica()
    machine = await lab.machine(holder)
    proven = asyncio.Event()

    async def stubborn(job):
        await job.cancelled.wait()
        await proven.wait()
        job.end(None, reason=ExitReason.CANCEL, signal=9)

    machine.behaviour = stubborn
    async with lab.daemon(machine, holder):
        seen, task = await lab.start(other, "fake", "long")
        await lab.sees(lambda: machine.starts)
        assert await stop(lab, seen.command_id) == 1
        (job,) = machine.jobs.values()
        await asyncio.wait_for(job.cancelled.wait(), 10)
        assert (await lab.view(seen.command_id)).state == "stopping"
        proven.set()
        view = await lab.ended(seen.command_id)
        await asyncio.wait_for(task, 20)
    assert (view.state, view.reason, view.stop_reason) == ("exited", "cancel", "cancel")
    assert view.result.signal == 9


async def test_a_command_stopped_while_its_machine_is_away_is_cancelled_on_return(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    async with lab.daemon(machine, replica) as daemon:
        queued = await lab.enqueue(machine, "long")
        await lab.sees(lambda: machine.starts)
        await daemon.cut()
        await lab.sees(lambda: not replica.hub.held())
        await stop(lab, queued.command_id)
        assert (await lab.view(queued.command_id)).state == "stopping"
        await daemon.connect()
        view = await lab.ended(queued.command_id)
    assert (view.state, view.reason) == ("exited", "cancel")


async def test_a_queued_command_expires_visibly(lab):
    replica = await lab.replica(expire_s=0.05)
    machine = await lab.machine(replica)
    queued = await lab.enqueue(machine, "echo", "late", start_within_ms=60_000)
    await lab.sql("update schema_record set clock_shift_ms = 61000")
    view = await lab.ended(queued.command_id)
    assert (view.state, view.reason) == ("expired", "expired")
    assert "did not come online in time" in view.error
    async with FakeDaemon(machine):
        later = await lab.enqueue(machine, "echo", "x")
        await lab.ended(later.command_id)
    assert machine.starts == [later.attempt_id]


async def test_a_claim_notices_expiry_before_the_sweep_does(lab):
    replica = await lab.replica(expire_s=3600.0)
    machine = await lab.machine(replica)
    queued = await lab.enqueue(machine, "echo", "late", start_within_ms=60_000)
    await lab.sql("update schema_record set clock_shift_ms = 61000")
    async with FakeDaemon(machine):
        view = await lab.ended(queued.command_id)
    assert view.state == "expired"
    assert machine.starts == []


async def test_a_newer_command_with_the_same_key_supersedes_and_waits_for_the_older(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    async with lab.daemon(machine, replica):
        first = await lab.enqueue(machine, "first", supersede_key="deploy")
        await lab.sees(lambda: machine.starts)
        job = machine.jobs[first.attempt_id]
        job.cancelled = asyncio.Event()  # not the one that ``hold`` waits for: it ends by itself
        second = await lab.enqueue(machine, "second", supersede_key="deploy")
        third = await lab.enqueue(machine, "third", supersede_key="deploy")
        assert (await lab.view(second.command_id)).state == "superseded"
        await asyncio.wait_for(job.cancelled.wait(), 10)
        assert job.cancel_reason == "superseded"
        assert (await lab.view(third.command_id)).state == "queued"
        assert machine.starts == [first.attempt_id]
        job.end(None, reason=ExitReason.CANCEL, signal=15)
        await lab.sees(lambda: machine.starts == [first.attempt_id, third.attempt_id])
        machine.jobs[third.attempt_id].end()
        assert (await lab.ended(third.command_id)).state == "exited"


async def test_what_may_no_longer_start_is_refused_when_claimed(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    queued = await lab.enqueue(machine, "echo", "x")
    await lab.sql("update members set role = 'viewer'")
    async with FakeDaemon(machine):
        view = await lab.ended(queued.command_id)
    assert (view.state, view.reason) == ("refused", "reauthorisation")
    assert "may no longer start work" in view.error
    assert machine.starts == []


async def make_ticket(lab, *, valid_for=timedelta(days=1)):
    """Insert a ticket with its mandate and session, as an accepted Eval does."""
    ids = {name: new_id() for name in ("thread", "eval", "ticket", "mandate")}
    instance = lab.instance
    await lab.sql(
        """
        insert into threads (instance_id, thread_id, source_id, external_key)
        values (%s, %s, %s, %s)
        """,
        instance.instance_id,
        ids["thread"],
        instance.chat_source_id,
        ids["thread"],
    )
    await lab.sql(
        """
        insert into evals (instance_id, eval_id, thread_id, state, strength, policy_version,
                           last_seq_seen, verdict)
        values (%s, %s, %s, 'closed', 'explicit', 1, 1, 'accept')
        """,
        instance.instance_id,
        ids["eval"],
        ids["thread"],
    )
    await lab.sql(
        """
        insert into tickets (instance_id, ticket_id, eval_id, title, request, requester_member_id)
        values (%s, %s, %s, 'T', 'do it', %s)
        """,
        instance.instance_id,
        ids["ticket"],
        ids["eval"],
        instance.owner_member_id,
    )
    await lab.sql(
        """
        insert into mandates (instance_id, mandate_id, ticket_id, eval_id, policy_version, scope,
                              mandate_hash, granted_by_member_id, valid_until)
        values (%s, %s, %s, %s, 1, %s, '\\x01', %s, farhand_now() + %s)
        """,
        instance.instance_id,
        ids["mandate"],
        ids["ticket"],
        ids["eval"],
        Jsonb({"actions": ["run_command"], "machines": "owned", "tier_max": 5}),
        instance.owner_member_id,
        valid_for,
    )
    async with lab.database.transaction() as tx:
        ids["session"] = await sessions.create(
            tx, instance.instance_id, SessionKind.WORKER, ticket_id=ids["ticket"]
        )
    return ids


async def test_a_tickets_commands_are_told_as_events_and_to_its_session(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    ids = await make_ticket(lab)
    queued = await lab.enqueue(
        machine,
        "echo",
        "x",
        ticket_id=ids["ticket"],
        session_id=ids["session"],
        item_seq=1,
        call_index=0,
        mandate_hash=b"\x01",
    )
    async with FakeDaemon(machine):
        assert (await lab.ended(queued.command_id)).state == "exited"
    events = await lab.sql(
        "select kind, ticket_id, payload from events where ticket_id is not null order by seq"
    )
    assert [event["kind"] for event in events] == [
        "command_waiting",
        "command_started",
        "command_ended",
    ]
    assert {event["ticket_id"] for event in events} == {ids["ticket"]}
    assert events[0]["payload"]["machine"] == "fake"
    assert events[2]["payload"] == {
        "command_id": queued.command_id,
        "machine": "fake",
        "title": "echo x",
        "state": "exited",
        "exit_status": 0,
    }
    async with lab.database.transaction() as tx:
        listed = await command_views.of_ticket(tx, lab.instance.instance_id, ids["ticket"])
    assert [view.command_id for view in listed] == [queued.command_id]


async def test_a_withdrawn_mandate_refuses_queued_work_and_asks_one_question(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    ids = await make_ticket(lab)
    queued = [
        await lab.enqueue(
            machine,
            "echo",
            str(n),
            ticket_id=ids["ticket"],
            session_id=ids["session"],
            item_seq=n,
            call_index=0,
            mandate_hash=b"\x01",
        )
        for n in (1, 2)
    ]
    await lab.sql(
        "insert into mandate_withdrawals (instance_id, mandate_id, withdrawn_by_member_id)"
        " values (%s, %s, %s)",
        lab.instance.instance_id,
        ids["mandate"],
        lab.instance.owner_member_id,
    )
    async with FakeDaemon(machine):
        for command in queued:
            view = await lab.ended(command.command_id)
            assert (view.state, view.reason) == ("refused", "reauthorisation")
    assert machine.starts == []
    questions = await lab.sql("select ticket_id, text from questions where state = 'pending'")
    assert len(questions) == 1
    assert "a person withdrew the mandate" in questions[0]["text"]
    assert len(await lab.sql("select 1 from inbox where kind = 'command_done'")) == 2


async def test_stopping_a_ticket_stops_all_its_commands(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    machine.concurrency = 1
    ids = await make_ticket(lab)
    async with lab.daemon(machine, replica):
        both = [
            await lab.enqueue(
                machine,
                str(n),
                ticket_id=ids["ticket"],
                session_id=ids["session"],
                item_seq=n,
                call_index=0,
                mandate_hash=b"\x01",
            )
            for n in (1, 2)
        ]
        await lab.sees(lambda: len(machine.starts) == 1)
        async with lab.database.transaction() as tx:
            stopped = await command_stops.request_stop(
                tx, lab.instance.instance_id, ticket_id=ids["ticket"], reason="cancel"
            )
        assert stopped == 2
        states = {(await lab.ended(command.command_id)).state for command in both}
    assert states == {"exited", "cancelled_before_start"}
    assert len(machine.starts) == 1


async def test_a_result_sent_again_and_again_is_recorded_once(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    async with lab.daemon(machine, replica) as daemon:
        seen, task = await lab.start(replica, "fake", "x")
        await lab.sees(lambda: machine.starts)
        (job,) = machine.jobs.values()
        job.end(3)
        await daemon.send([job.result, job.result])
        await asyncio.wait_for(task, 20)
        await lab.sees(lambda: job.receipted)
        # And once more from a daemon that lost the acknowledgement.
        await daemon.die()
        job.receipted = False
        async with FakeDaemon(machine):
            await lab.sees(lambda: job.receipted)
    view = await lab.view(seen.command_id)
    assert (view.state, view.result.exit_code) == ("exited", 3)
    assert len(await lab.sql("select 1 from attempts")) == 1


async def test_another_result_for_a_recorded_attempt_is_refused(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    async with lab.daemon(machine, replica) as daemon:
        seen = await lab.exec(replica, "fake", "echo", "x")
        (job,) = machine.jobs.values()
        await daemon.die()
        result = CommandResult(reason=ExitReason.EXIT, exit_code=99)
        job.result = Result(
            attempt_id=job.attempt_id, result=result, result_hash=codec.result_hash(result)
        )
        job.wrote = {stream: bytearray() for stream in job.wrote}
        job.receipted = False
        async with FakeDaemon(machine) as again:
            await lab.sees(lambda: again.conflicts == [job.attempt_id])
    assert (await lab.view(seen.command_id)).result.exit_code == 0


async def test_the_result_of_a_command_that_ended_while_the_link_was_down_arrives(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    async with lab.daemon(machine, replica) as daemon:
        queued = await lab.enqueue(machine, "long")
        await lab.sees(lambda: machine.starts)
        await daemon.cut()
        (job,) = machine.jobs.values()
        job.write(b"while away")
        job.end()
        await daemon.connect()
        view = await lab.ended(queued.command_id)
    assert (view.state, view.stdout_stored) == ("exited", 10)
    assert machine.starts == [queued.attempt_id]


async def test_an_offer_that_never_arrived_is_made_again_on_the_next_link(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    async with lab.daemon(machine, replica) as daemon:
        daemon.deaf = True
        queued = await lab.enqueue(machine, "echo", "x")

        async def offered():
            return (await lab.view(queued.command_id)).state == "offered"

        await lab.until(offered)
        await daemon.die()
        async with FakeDaemon(machine):
            assert (await lab.ended(queued.command_id)).state == "exited"
    assert machine.starts == [queued.attempt_id]


async def test_a_wiped_machine_makes_its_work_indeterminate_and_nothing_runs_twice(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    async with lab.daemon(machine, replica) as daemon:
        queued = await lab.enqueue(machine, "long")

        async def started():
            return (await lab.view(queued.command_id)).state == "started"

        await lab.until(started)
        await daemon.die()
        machine.jobs.clear()
        machine.journal_id = new_id()
        machine.journal_counter = 0
        async with FakeDaemon(machine):
            view = await lab.ended(queued.command_id)
    assert (view.state, view.reason) == ("indeterminate", "journal_replaced")
    assert machine.starts == [queued.attempt_id]


async def test_a_lost_command_is_upgraded_once_by_its_real_result(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    async with lab.database.transaction() as tx:
        session_id = await sessions.create(tx, lab.instance.instance_id, SessionKind.WORKER)
    async with lab.daemon(machine, replica) as daemon:
        queued = await lab.enqueue(machine, "long", session_id=session_id, item_seq=1, call_index=0)
        await lab.sees(lambda: machine.starts)
        await daemon.cut()
        await lab.sees(lambda: not replica.hub.held())
        await lab.sql("update schema_record set clock_shift_ms = %s", 8 * 24 * 3600 * 1000)
        async with lab.database.transaction() as tx:
            assert await attempts.give_up_unseen(tx, after_days=7) == 1
        assert (await lab.view(queued.command_id)).state == "lost"
        await lab.sql("update schema_record set clock_shift_ms = 0")
        (job,) = machine.jobs.values()
        job.write(b"late")
        job.end(4)
        await daemon.connect()

        async def upgraded():
            return (await lab.view(queued.command_id)).state == "exited"

        await lab.until(upgraded)
    view = await lab.view(queued.command_id)
    assert (view.result.exit_code, view.stdout_stored) == (4, 4)
    rows = await lab.sql("select dedupe_key, payload ->> 'state' as state from inbox order by seq")
    assert [(row["dedupe_key"].rsplit(":", 1)[1], row["state"]) for row in rows] == [
        ("done", "lost"),
        ("late", "exited"),
    ]


async def lose_supervisor(lab, machine):
    """End the machine's only job as a daemon does whose supervisor was killed."""
    await lab.sees(lambda: machine.starts)
    (job,) = machine.jobs.values()
    job.end(None, reason=ExitReason.INDETERMINATE, error_code="supervisor_lost", error="process 1")
    await lab.sees(lambda: job.receipted)
    return job


async def test_a_stop_reaches_the_machine_of_an_indeterminate_command(lab):
    holder, other = await lab.replica(), await lab.replica()
    machine = await lab.machine(holder)
    machine.behaviour = hold
    async with lab.daemon(machine, holder) as daemon:
        seen, task = await lab.start(other, "fake", "long")
        job = await lose_supervisor(lab, machine)
        await asyncio.wait_for(task, 20)
        before = await lab.view(seen.command_id)
        assert (before.state, before.stop_reason) == ("indeterminate", None)
        assert await stop(lab, seen.command_id) == 0  # nothing was open
        await asyncio.wait_for(job.cancelled.wait(), 10)
        assert daemon.conflicts == []
    after = await lab.view(seen.command_id)
    assert (after.state, after.stop_reason) == ("indeterminate", "cancel")
    assert (after.result, after.ended_at) == (before.result, before.ended_at)


async def test_stopping_a_ticket_reaches_its_indeterminate_commands(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    ids = await make_ticket(lab)
    async with lab.daemon(machine, replica):
        await lab.enqueue(
            machine,
            "long",
            ticket_id=ids["ticket"],
            session_id=ids["session"],
            item_seq=1,
            call_index=0,
            mandate_hash=b"\x01",
        )
        job = await lose_supervisor(lab, machine)
        async with lab.database.transaction() as tx:
            await command_stops.request_stop(tx, lab.instance.instance_id, ticket_id=ids["ticket"])
        await asyncio.wait_for(job.cancelled.wait(), 10)


async def test_an_indeterminate_command_stopped_while_its_machine_is_away_is_ended_on_return(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    async with lab.daemon(machine, replica) as daemon:
        queued = await lab.enqueue(machine, "long")
        job = await lose_supervisor(lab, machine)
        await daemon.cut()
        await lab.sees(lambda: not replica.hub.held())
        await stop(lab, queued.command_id)
        assert not job.cancelled.is_set()
        await daemon.connect()
        await asyncio.wait_for(job.cancelled.wait(), 10)
    assert (await lab.view(queued.command_id)).state == "indeterminate"


async def test_a_lost_command_that_its_machine_still_runs_can_be_stopped(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    async with lab.daemon(machine, replica) as daemon:
        queued = await lab.enqueue(machine, "long")
        await lab.sees(lambda: machine.starts)
        await daemon.cut()
        await lab.sees(lambda: not replica.hub.held())
        await lab.sql("update schema_record set clock_shift_ms = %s", 8 * 24 * 3600 * 1000)
        async with lab.database.transaction() as tx:
            assert await attempts.give_up_unseen(tx, after_days=7) == 1
        await lab.sql("update schema_record set clock_shift_ms = 0")
        await daemon.connect()
        assert await stop(lab, queued.command_id) == 0

        async def upgraded():
            return (await lab.view(queued.command_id)).state == "exited"

        await lab.until(upgraded)
    assert (await lab.view(queued.command_id)).reason == "cancel"


@asynccontextmanager
async def left_running(lab):
    """A command that runs on a machine whose daemon has died: the machine, what was queued."""
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    async with lab.daemon(machine, replica) as daemon:
        queued = await lab.enqueue(machine, "long")
        await lab.sees(lambda: machine.starts)
        await daemon.die()
        yield machine, queued


async def test_a_machine_that_forgot_is_not_asked_to_end_and_so_proves_nothing(lab):
    """Its tombstone would say that the command never ran."""
    async with left_running(lab) as (machine, queued):
        machine.jobs.clear()
        machine.journal_id = new_id()
        machine.journal_counter = 0
        async with FakeDaemon(machine):
            assert (await lab.ended(queued.command_id)).state == "indeterminate"
            await stop(lab, queued.command_id)
            machine.behaviour = echo
            after = await lab.enqueue(machine, "echo", "after")  # looked at behind the stop
            assert (await lab.ended(after.command_id)).state == "exited"
    assert machine.tombstones == set()
    assert (await lab.view(queued.command_id)).state == "indeterminate"


async def test_what_the_server_does_not_keep_is_gone(lab):
    async with left_running(lab) as (machine, queued):
        await lab.sql("delete from attempts")
        await lab.sql("delete from commands")
        async with FakeDaemon(machine) as again:
            await lab.sees(lambda: again.gone == [queued.attempt_id])


async def test_a_paused_machine_is_offered_nothing_until_it_is_resumed(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    instance = lab.instance
    whose = (instance.instance_id, MachineId(machine.machine_id), instance.owner_member_id)
    async with lab.daemon(machine, replica):
        async with lab.database.transaction() as tx:
            await machine_changes.pause(tx, *whose)
        queued = await lab.enqueue(machine, "echo", "x")
        with pytest.raises(Conflict, match="it is paused"):
            await lab.exec(replica, "fake", "echo", "y")
        assert (await lab.view(queued.command_id)).state == "queued"
        async with lab.database.transaction() as tx:
            await machine_changes.resume(tx, *whose)
        assert (await lab.ended(queued.command_id)).state == "exited"
