"""Closing an Eval: everything that follows is one transaction, and only people's words grant."""

import asyncio
from typing import Any

import psycopg
import pytest

from farhand_control_plane.db import intake, tickets
from farhand_control_plane.domain.mandate import ScopeRequest, mandate_hash
from farhand_control_plane.domain.words import (
    EvalState,
    MemberRole,
    Stage,
    Strength,
    TicketOutcome,
    Verdict,
)
from farhand_control_plane.ingest.verdicts import (
    Accept,
    Answer,
    Attach,
    Decision,
    Ignore,
    Stop,
    close_eval,
)
from farhand_shared.errors import Conflict, InvalidInput, NotAllowed, NotFound
from farhand_shared.ids import EvalId, MachineId, TicketId, new_id

from .conftest import Desk

TABLES = ("tickets", "mandates", "assignments", "subscriptions")


async def test_accept_makes_everything_a_ticket_needs(desk: Desk) -> None:
    accepted = await desk.say("run uname on laptop")

    closed = await desk.close(accepted.eval_id, Accept(title="uname on laptop"))

    assert closed.verdict is Verdict.ACCEPT
    assert closed.ticket_id is not None
    assert [await desk.count(table) for table in TABLES] == [1, 1, 1, 1]
    ticket = await desk.ticket(closed.ticket_id)
    assert (ticket.request, ticket.row.title) == ("run uname on laptop", "uname on laptop")
    assert ticket.row.requester_member_id == desk.owner
    assert ticket.session_id == closed.session_id
    assert ticket.thread_ids == (accepted.thread_id,)
    assert ticket.row.stage is Stage.WORKING
    (message,) = await desk.inbox(ticket.last_session_id)
    assert (message["kind"], message["dedupe_key"]) == ("ticket", f"ticket:{closed.ticket_id}")
    assert message["payload"] == {"ticket_id": closed.ticket_id}
    kinds = [event["kind"] for event in await desk.events("ticket_opened", "eval_closed")]
    assert kinds == ["ticket_opened", "eval_closed"]


async def test_the_mandate_is_the_policys_template_within_the_request_and_hashed(
    desk: Desk,
) -> None:
    laptop = await desk.machine()
    accepted = await desk.say("run uname on laptop")

    closed = await desk.close(
        accepted.eval_id,
        Accept(
            title="uname",
            request=ScopeRequest(machines=frozenset({laptop}), tier_max=2, valid_for_s=60),
        ),
    )

    assert closed.ticket_id is not None
    ticket = await desk.ticket(closed.ticket_id)
    scope = ticket.mandate.scope
    assert (scope.machines, scope.tier_max) == (frozenset({laptop}), 2)
    assert scope.actions == frozenset({"run_command", "reply"})
    assert ticket.mandate.mandate_hash == mandate_hash(
        instance_id=desk.instance.instance_id,
        ticket_id=ticket.row.ticket_id,
        eval_id=ticket.eval_id,
        policy_version=1,
        granted_by_member_id=desk.owner,
        scope=scope,
        valid_until=ticket.mandate.valid_until,
    )
    (row,) = await desk.rows(
        "select extract(epoch from valid_until - created_at)::float8 as s from mandates"
    )
    assert row["s"] == pytest.approx(60, abs=1)


async def test_a_mandate_cannot_be_changed_in_the_database(desk: Desk) -> None:
    await desk.open_ticket()

    with pytest.raises(psycopg.Error):
        await desk.run("update mandates set valid_until = now() + interval '1 year'")


async def test_a_ticket_without_an_eval_cannot_exist(desk: Desk) -> None:
    with pytest.raises(psycopg.errors.NotNullViolation):
        await desk.run(
            "insert into tickets (instance_id, ticket_id, title, request, requester_member_id)"
            " values (%s, %s, 't', 'r', %s)",
            desk.instance.instance_id,
            new_id(),
            desk.owner,
        )


async def test_one_eval_has_one_ticket_also_for_who_goes_round_the_code(desk: Desk) -> None:
    ticket = await desk.open_ticket()

    with pytest.raises(psycopg.errors.UniqueViolation):
        await desk.run(
            "insert into tickets (instance_id, ticket_id, eval_id, title, request,"
            " requester_member_id) values (%s, %s, %s, 't', 'r', %s)",
            desk.instance.instance_id,
            new_id(),
            ticket.eval_id,
            desk.owner,
        )


async def test_an_explicit_request_is_acknowledged_exactly_once(desk: Desk) -> None:
    accepted = await desk.say("run uname")
    await desk.close(accepted.eval_id, Accept(title="run uname"))

    (row,) = await desk.rows("select * from outbox")
    assert row["kind"] == "acknowledgement"
    assert row["body"]["text"] == "On it: run uname"
    assert row["reply_to_trigger_id"] == accepted.trigger_id


async def test_a_request_that_came_round_by_a_hand_back_is_acknowledged_once(desk: Desk) -> None:
    ticket = await desk.open_ticket("run uname")
    other = await desk.say("run date")
    handed = await desk.hand_back(ticket, other.trigger_id)
    await desk.close(handed.eval_id, Accept(title="run date"))

    acknowledged = await desk.rows(
        "select * from outbox where kind = 'acknowledgement' and reply_to_trigger_id = %s",
        other.trigger_id,
    )
    assert [row["body"]["text"] for row in acknowledged] == ["On it: run date"]


@pytest.mark.parametrize("decision", [Answer(), Ignore(reason="chatter")])
async def test_an_answer_or_nothing_opens_no_ticket_and_says_nothing_by_itself(
    desk: Desk, decision: Decision
) -> None:
    accepted = await desk.say("which machines do I have?")

    closed = await desk.close(accepted.eval_id, decision)

    assert closed.ticket_id is None
    assert [await desk.count(table) for table in (*TABLES, "outbox")] == [0, 0, 0, 0, 0]
    (event,) = await desk.events("eval_closed")
    assert event["payload"]["verdict"] == closed.verdict.value


async def test_a_closed_eval_stays_closed_and_says_how(desk: Desk) -> None:
    ticket = await desk.open_ticket()

    for decision in (Accept(title="again"), Answer(), Ignore(reason="")):
        with pytest.raises(Conflict, match=rf"accept \(ticket {ticket.row.ticket_id}\)"):
            await desk.close(ticket.eval_id, decision)
    assert await desk.count("tickets") == 1


async def test_a_refused_verdict_leaves_nothing_in_a_transaction_that_goes_on(desk: Desk) -> None:
    viewer = await desk.member(MemberRole.VIEWER)
    accepted = await desk.say("run uname", member_id=viewer)
    eval_id = accepted.eval_id
    assert eval_id is not None

    async with desk.database.transaction() as tx:
        with pytest.raises(NotAllowed, match="a viewer may not start work"):
            await close_eval(tx, desk.instance.instance_id, eval_id, Accept(title="uname"))
        with pytest.raises(NotFound):
            await close_eval(
                tx, desk.instance.instance_id, eval_id, Attach(ticket_id=TicketId(new_id()))
            )
        await close_eval(tx, desk.instance.instance_id, eval_id, Ignore(reason="may not"))

    assert [await desk.count(table) for table in TABLES] == [0, 0, 0, 0]
    (row,) = await desk.rows("select state, verdict, reason from evals")
    assert (row["state"], row["verdict"], row["reason"]) == ("closed", "ignore", "may not")


async def test_who_lost_the_right_to_start_between_asking_and_accepting_opens_nothing(
    desk: Desk, change_policy: Any
) -> None:
    accepted = await desk.say("run uname")

    def only_nobody(rules: dict[str, Any]) -> None:
        rules["roles"]["start"] = []

    await change_policy(only_nobody)

    with pytest.raises(NotAllowed, match="an owner may not start work"):
        await desk.close(accepted.eval_id, Accept(title="uname"))
    assert await desk.count("tickets") == 0


async def test_a_mandate_is_granted_under_the_newest_policy(desk: Desk, change_policy: Any) -> None:
    accepted = await desk.say("run uname")

    def lower(rules: dict[str, Any]) -> None:
        rules["mandate"]["scope"]["tier_max"] = 1

    await change_policy(lower)
    closed = await desk.close(accepted.eval_id, Accept(title="uname"))

    assert closed.ticket_id is not None
    ticket = await desk.ticket(closed.ticket_id)
    assert (ticket.mandate.policy_version, ticket.mandate.scope.tier_max) == (2, 1)


async def test_a_request_for_more_than_the_policy_gives_opens_nothing(desk: Desk) -> None:
    accepted = await desk.say("merge it")

    with pytest.raises(InvalidInput, match="the policy grants nothing"):
        await desk.close(
            accepted.eval_id,
            Accept(title="merge", request=ScopeRequest(actions=frozenset({"merge"}))),
        )
    with pytest.raises(InvalidInput, match="title is empty"):
        await desk.close(accepted.eval_id, Accept(title=" "))
    assert await desk.count("tickets") == 0


async def test_attach_delivers_the_event_and_lets_the_ticket_hear_its_thread(desk: Desk) -> None:
    ticket = await desk.open_ticket(conversation="one")
    elsewhere = await desk.say("about that uname", conversation="two")
    await desk.read(desk.router)

    closed = await desk.close(elsewhere.eval_id, Attach(ticket_id=ticket.row.ticket_id))

    assert (closed.verdict, closed.ticket_id) == (Verdict.ATTACH, ticket.row.ticket_id)
    assert await desk.count("tickets") == 1
    assert [m["kind"] for m in await desk.inbox(ticket.last_session_id)] == ["ticket", "trigger"]
    more = await desk.say("and quickly", conversation="two")
    assert more.delivered_to == (ticket.row.ticket_id,)
    # Hearing grants nothing: the Mandate is the one it had.
    assert (await desk.ticket(ticket.row.ticket_id)).mandate == ticket.mandate


async def test_attach_to_a_closed_or_unknown_ticket_is_refused(
    desk: Desk, other_desk: Desk
) -> None:
    ticket = await desk.open_ticket(conversation="one")
    theirs = await other_desk.open_ticket()
    await desk.run(
        "update tickets set closed_at = now(), outcome = 'done' where ticket_id = %s",
        ticket.row.ticket_id,
    )
    accepted = await desk.say("more", conversation="two")

    with pytest.raises(Conflict, match="it is closed"):
        await desk.close(accepted.eval_id, Attach(ticket_id=ticket.row.ticket_id))
    for unknown in (theirs.row.ticket_id, TicketId(new_id()), TicketId("no id")):
        with pytest.raises(NotFound):
            await desk.close(accepted.eval_id, Attach(ticket_id=unknown))


async def test_a_person_who_asks_stops_a_ticket(desk: Desk) -> None:
    ticket = await desk.open_ticket()
    asked = await desk.say("stop the uname thing", conversation="elsewhere")

    closed = await desk.close(asked.eval_id, Stop(ticket_id=ticket.row.ticket_id))

    assert closed.verdict is Verdict.STOP
    stopped = await desk.ticket(ticket.row.ticket_id)
    assert (stopped.row.stage, stopped.row.outcome) == (Stage.CLOSED, TicketOutcome.STOPPED)
    assert stopped.closed_by_member_id == desk.owner
    assert stopped.session_id is None
    with pytest.raises(Conflict, match="closed before"):
        await desk.close(asked.eval_id, Stop(ticket_id=ticket.row.ticket_id))


async def test_a_viewer_stops_nothing(desk: Desk) -> None:
    ticket = await desk.open_ticket()
    viewer = await desk.member(MemberRole.VIEWER)
    asked = await desk.say("stop it", member_id=viewer, conversation="elsewhere")

    with pytest.raises(NotAllowed):
        await desk.close(asked.eval_id, Stop(ticket_id=ticket.row.ticket_id))
    assert (await desk.ticket(ticket.row.ticket_id)).row.stage is Stage.WORKING


async def inferred(desk: Desk, mode: str, *, conversation: str = "main") -> EvalId:
    """Make the Eval that a bot's candidate event of the chat would get, as the gate writes it."""
    accepted = await desk.say("the build is red", conversation=conversation)
    await desk.run(
        "update evals set strength = 'inferred', requester_member_id = null,"
        " gate = jsonb_build_object('rule', 'bot_candidate', 'may_stop', false,"
        " 'mode', %s::text, 'inferred_rule', 'chat.message') where eval_id = %s",
        mode,
        accepted.eval_id,
    )
    assert accepted.eval_id is not None
    return accepted.eval_id


def auto_by(member_id: str, mode: str = "auto") -> Any:
    def change(rules: dict[str, Any]) -> None:
        rules["inferred"]["chat.message"] = {"mode": mode, "set_by_member_id": member_id}

    return change


async def test_an_observed_accept_is_recorded_and_grants_nothing(
    desk: Desk, change_policy: Any
) -> None:
    await change_policy(auto_by(desk.owner, "observe"))
    eval_id = await inferred(desk, "observe")

    closed = await desk.close(eval_id, Accept(title="mend the build"))

    assert closed.observed
    assert [await desk.count(table) for table in (*TABLES, "outbox")] == [0, 0, 0, 0, 0]
    (row,) = await desk.rows("select verdict, reason from evals")
    assert row["verdict"] == "accept"
    assert "would have opened “mend the build”" in row["reason"]
    async with desk.database.transaction() as tx:
        view = await intake.eval_for_router(tx, desk.instance.instance_id, eval_id)
    assert view is not None
    assert view.observe_only
    assert view.state is EvalState.CLOSED


async def test_inferred_work_belongs_to_who_set_its_rule_and_is_not_acknowledged(
    desk: Desk, change_policy: Any
) -> None:
    bob = await desk.member(MemberRole.MEMBER)
    await change_policy(auto_by(bob))
    eval_id = await inferred(desk, "auto")

    closed = await desk.close(eval_id, Accept(title="mend the build"))

    assert closed.ticket_id is not None
    ticket = await desk.ticket(closed.ticket_id)
    assert ticket.row.inferred
    assert ticket.row.requester_member_id == bob
    assert await desk.count("outbox") == 0


@pytest.mark.parametrize(("gate_mode", "now"), [("auto", "observe"), ("observe", "auto")])
async def test_inferred_work_needs_auto_at_the_gate_and_at_the_verdict(
    desk: Desk, change_policy: Any, gate_mode: str, now: str
) -> None:
    await change_policy(auto_by(desk.owner, now))
    eval_id = await inferred(desk, gate_mode)

    closed = await desk.close(eval_id, Accept(title="mend the build"))

    assert closed.observed
    assert await desk.count("tickets") == 0


async def test_an_inferred_event_never_stops_a_ticket(desk: Desk, change_policy: Any) -> None:
    ticket = await desk.open_ticket(conversation="one")
    await change_policy(auto_by(desk.owner))
    eval_id = await inferred(desk, "auto", conversation="two")

    with pytest.raises(NotAllowed, match="only a person who asks for it explicitly"):
        await desk.close(eval_id, Stop(ticket_id=ticket.row.ticket_id))


# ── what arrives while an Eval runs ─────────────────────────────────────────────────────────────


async def test_what_arrives_before_the_verdict_and_unread_is_delivered_to_the_new_ticket(
    desk: Desk,
) -> None:
    first = await desk.say("run uname")
    await desk.read(desk.router)  # the Router thinks about the first message…
    second = await desk.say("on the laptop, not the server")  # …and this arrives meanwhile

    closed = await desk.close(first.eval_id, Accept(title="uname"))

    assert closed.session_id is not None
    assert [m["kind"] for m in await desk.inbox(closed.session_id)] == ["ticket", "trigger"]
    (row,) = await desk.rows("select * from evals where eval_id = %s", second.eval_id)
    assert (row["state"], row["verdict"]) == ("closed", "attach")
    assert row["attached_ticket_id"] == closed.ticket_id
    (subscription,) = await desk.rows("select from_seq from subscriptions")
    assert subscription["from_seq"] == 2
    assert await desk.count("tickets") == 1


async def test_what_the_router_has_read_it_decides_itself_and_nothing_is_handled_twice(
    desk: Desk,
) -> None:
    first = await desk.say("run uname")
    second = await desk.say("which machines do I have?")
    await desk.read(desk.router)  # both in one batch

    closed = await desk.close(first.eval_id, Accept(title="uname"))
    assert closed.session_id is not None
    assert [m["kind"] for m in await desk.inbox(closed.session_id)] == ["ticket"]

    answered = await desk.close(second.eval_id, Answer())
    assert answered.verdict is Verdict.ANSWER


async def test_every_message_around_a_verdict_is_judged_or_delivered_exactly_once(
    desk: Desk,
) -> None:
    first = await desk.say("run uname")
    await desk.read(desk.router)

    said, closed = await asyncio.gather(
        asyncio.gather(*(desk.say(f"message {n}") for n in range(20))),
        desk.close(first.eval_id, Accept(title="uname")),
    )

    assert closed.ticket_id is not None
    assert closed.session_id is not None
    delivered = {
        m["payload"]["trigger_id"]
        for m in await desk.inbox(closed.session_id)
        if m["kind"] == "trigger"
    }
    assert delivered == {one.trigger_id for one in said}
    pending = await desk.rows("select * from evals where state = 'pending'")
    assert pending == []


async def test_what_was_answered_before_the_verdict_is_not_delivered_again(desk: Desk) -> None:
    first = await desk.say("run uname")
    second = await desk.say("which machines do I have?")
    await desk.read(desk.router)
    await desk.close(second.eval_id, Answer())

    closed = await desk.close(first.eval_id, Accept(title="uname"))

    assert closed.session_id is not None
    assert [m["kind"] for m in await desk.inbox(closed.session_id)] == ["ticket"]


async def test_the_why_chain_leads_from_the_ticket_to_the_words_that_asked_for_it(
    desk: Desk,
) -> None:
    ticket = await desk.open_ticket("run uname")

    async with desk.database.transaction() as tx:
        why = await tickets.why(tx, desk.instance.instance_id, ticket.row.ticket_id)

    assert why is not None
    assert [trigger.text for trigger in why.triggers] == ["run uname"]
    assert (why.eval_id, why.strength) == (ticket.eval_id, Strength.EXPLICIT)
    assert (why.gate_rule, why.verdict) == ("person_addressed", Verdict.ACCEPT)
    assert (why.policy_version, why.mandate) == (1, ticket.mandate)


async def test_unknown_evals_are_absent_and_so_are_another_instances(
    desk: Desk, other_desk: Desk
) -> None:
    theirs = await other_desk.say("run uname")

    for eval_id in (theirs.eval_id, EvalId(new_id()), EvalId("no id")):
        with pytest.raises(NotFound, match="there is none"):
            await desk.close(eval_id, Answer())
        async with desk.database.transaction() as tx:
            assert eval_id is not None
            found = await intake.eval_for_router(tx, desk.instance.instance_id, eval_id)
        assert found is None


async def test_a_machine_scope_may_name_a_machine_that_nobody_has(desk: Desk) -> None:
    # The scope only subtracts: a name that fits no machine allows no machine.
    accepted = await desk.say("run uname")

    closed = await desk.close(
        accepted.eval_id,
        Accept(title="x", request=ScopeRequest(machines=frozenset({MachineId(new_id())}))),
    )

    assert closed.ticket_id is not None
