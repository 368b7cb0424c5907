"""How long a command waits for its machine, and how long it may run: two clocks."""

from functools import partial

from farhand_control_plane.db import attempts
from farhand_control_plane.machines.sweeper import sweep
from farhand_shared.limits import EXECUTION_TIMEOUT_DEFAULT_MS, START_WITHIN_MAX_MS
from tests.fakes.fake_daemon import FakeDaemon
from tests.fakes.machine_lab import DAY_S


async def test_a_queued_command_expires_visibly(lab):
    replica = await lab.replica(expire_s=0.05)
    machine = await lab.machine(replica)
    queued = await lab.enqueue(machine, "echo", "late", start_within_ms=60_000)
    await lab.shift_clock(61)
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
    await lab.shift_clock(61)
    async with FakeDaemon(machine):
        view = await lab.ended(queued.command_id)
    assert view.state == "expired"
    assert machine.starts == []


async def test_a_day_of_waiting_takes_nothing_from_the_time_a_command_may_run(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    queued = await lab.enqueue(machine, "echo", "x")
    await lab.shift_clock(23 * 3600)
    async with FakeDaemon(machine):
        await lab.ended(queued.command_id)
    (job,) = machine.jobs.values()
    assert 0 < job.offer.start_within_ms <= 3600 * 1000
    assert job.spec.execution_timeout_ms == EXECUTION_TIMEOUT_DEFAULT_MS


async def test_a_command_waits_a_week_when_it_is_asked_to(lab):
    replica = await lab.replica(expire_s=0.05)
    machine = await lab.machine(replica)
    queued = await lab.enqueue(machine, "echo", "x", start_within_ms=START_WITHIN_MAX_MS)
    await lab.shift_clock(7 * DAY_S - 3600)
    async with FakeDaemon(machine):
        assert (await lab.ended(queued.command_id)).state == "exited"


async def test_an_offer_that_never_arrived_expires_like_what_is_queued(lab):
    async with lab.offered_to_nobody("echo", "late", start_within_ms=60_000) as (machine, queued):
        await lab.shift_clock(61)
        async with FakeDaemon(machine):
            view = await lab.ended(queued.command_id)
            assert (view.state, view.reason) == ("expired", "expired")
            # Were the offer on its way after all, it would find this.
            await lab.sees(lambda: machine.tombstones == {queued.attempt_id})
    assert machine.starts == []


async def test_an_expired_command_is_told_to_its_session_and_to_watchers(lab):
    replica = await lab.replica(expire_s=0.05)
    machine = await lab.machine(replica)
    ticket = await lab.ticket()
    queued = await lab.enqueue(machine, "x", start_within_ms=60_000, **ticket.asks(1))
    await lab.shift_clock(61)
    await lab.ended(queued.command_id)
    (message,) = await lab.sql("select session_id, dedupe_key, payload from inbox")
    assert message["session_id"] == ticket.session_id
    assert message["dedupe_key"] == f"command:{queued.command_id}:done"
    assert message["payload"]["state"] == "expired"
    events = await lab.sql("select kind, payload from events where ticket_id is not null")
    assert [(event["kind"], event["payload"].get("state")) for event in events] == [
        ("command_waiting", None),
        ("command_ended", "expired"),
    ]


async def test_all_that_ran_on_a_machine_unheard_for_a_week_is_given_up_at_once(lab, monkeypatch):
    """Batch after batch, not one a day."""
    replica = await lab.replica(expire_s=3600.0)
    machine = await lab.machine(replica)
    for _ in range(7):
        await lab.enqueue(machine, "x")
    await lab.sql("update attempts set state = 'started'")
    await lab.sql("update machines set seen_at = farhand_now() - interval '8 days'")
    monkeypatch.setattr(attempts, "give_up_unseen", partial(attempts.give_up_unseen, limit=3))
    await sweep(lab.database, daily=True)
    assert await lab.sql("select state, reason, count(*) from attempts group by 1, 2") == [
        {"state": "lost", "reason": "machine_unseen", "count": 7}
    ]
