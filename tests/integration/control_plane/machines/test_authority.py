"""Queued work is authorised again when it is claimed."""

from tests.fakes.fake_daemon import FakeDaemon


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


async def test_a_withdrawn_mandate_refuses_queued_work_and_asks_one_question(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    ticket = await lab.ticket()
    queued = [await lab.enqueue(machine, "echo", str(n), **ticket.asks(n)) for n in (1, 2)]
    await lab.sql(
        "insert into mandate_withdrawals (instance_id, mandate_id, withdrawn_by_member_id)"
        " values (%s, %s, %s)",
        lab.instance.instance_id,
        ticket.mandate_id,
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
