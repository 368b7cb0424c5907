"""Jobs through the whole agent: trigger → eval → ticket → worker → machine → report → reply."""

import asyncio
import json
from typing import Any

from farhand_control_plane.db import intake
from farhand_control_plane.domain.words import Needs, Stage, TicketOutcome, Verdict
from farhand_control_plane.ingest import tickets as ticket_life
from farhand_control_plane.llm.blocks import parse
from farhand_control_plane.llm.client import ModelService
from farhand_shared.command import ExitReason, Limits, Note
from tests.fakes.fake_daemon import FakeMachine, Job, enrol, hold
from tests.fakes.fake_model import Reply, fake_model
from tests.integration.control_plane.agents.conftest import OpenOffice


async def test_a_request_is_done_on_the_machine_and_answered_with_its_output(
    open_office: OpenOffice,
) -> None:
    office = await open_office()
    machine = await office.lab.machine(office.replica, "box")
    async with office.lab.daemon(machine, office.replica):
        accepted = await office.say("run echo hello on box")
        reply = await office.hears("ended with exit status 0")
    assert accepted.eval_id is not None
    (ticket,) = await office.tickets()
    assert (ticket.row.stage, ticket.row.outcome) == (Stage.CLOSED, TicketOutcome.DONE)
    (command_id,) = reply["command_ids"]
    view = await office.lab.view(command_id)
    assert view.result is not None
    assert view.result.exit_code == 0
    assert machine.starts == [view.attempt_id]
    assert [m["text"] for m in await office.heard()] == ["On it: echo hello", reply["text"]]


async def test_this_machine_is_the_senders_own(open_office: OpenOffice) -> None:
    office = await open_office()
    box = await office.lab.machine(office.replica, "box")
    other = await office.lab.machine(office.replica, "other")
    async with office.lab.daemon(box, office.replica), office.lab.daemon(other, office.replica):
        await office.say("run true on this machine", here=other)
        await office.hears("on other ended")
    assert len(other.starts) == 1
    assert not box.starts


async def test_a_machines_name_may_be_written_in_another_case(open_office: OpenOffice) -> None:
    office = await open_office()
    machine = await office.lab.machine(office.replica, "vm-2")
    async with office.lab.daemon(machine, office.replica):
        await office.say("on VM-2: true")
        await office.hears("on vm-2 ended with exit status 0")
    assert len(machine.starts) == 1


async def test_an_unknown_machine_is_one_question_and_its_answer_runs_the_work(
    open_office: OpenOffice,
) -> None:
    office = await open_office()
    machine = await office.lab.machine(office.replica, "box")
    async with office.lab.daemon(machine, office.replica):
        await office.say("run true on nowhere")
        await office.hears("I know no machine named nowhere")
        (ticket,) = await office.tickets()
        assert (ticket.row.stage, ticket.row.needs) == (Stage.NEEDS_PERSON, Needs.ANSWER)
        (question,) = ticket.questions
        assert question.options == ("box",)
        assert not machine.starts, "never a guess"
        async with office.database.transaction() as tx:
            await ticket_life.answer_question(
                tx,
                office.instance.instance_id,
                question.question_id,
                office.instance.owner_member_id,
                "box",
            )
        await office.hears("on box ended with exit status 0")
    assert len(machine.starts) == 1
    texts = [m["text"] for m in await office.heard()]
    assert sum("I know no machine" in text for text in texts) == 1


async def test_a_question_can_be_answered_in_the_conversation(open_office: OpenOffice) -> None:
    office = await open_office()
    machine = await office.lab.machine(office.replica, "box")
    async with office.lab.daemon(machine, office.replica):
        await office.say("run true on nowhere")
        await office.hears("I know no machine")
        answer = await office.say("box")
        assert answer.eval_id is None, "a subscribed ticket gets it by code"
        await office.hears("on box ended with exit status 0")
    (ticket,) = await office.tickets()
    assert ticket.row.outcome is TicketOutcome.DONE


async def test_an_answer_to_the_only_question_is_not_talked_about(open_office: OpenOffice) -> None:
    office = await open_office()
    machine = await office.lab.machine(office.replica, "box")
    async with office.lab.daemon(machine, office.replica):
        await office.say("run true on nowhere", conversation="main")
        await office.hears("Which one")
        await office.say("box", conversation="main")
        await office.hears("on box ended")
    assert not [m for m in await office.heard() if "Taken as the answer" in m["text"]]


async def test_a_plain_question_is_answered_and_opens_no_ticket(open_office: OpenOffice) -> None:
    office = await open_office()
    await office.lab.machine(office.replica, "box")
    accepted = await office.say("which machines do I have?")
    reply = await office.hears("You have 1")
    assert "box (offline)" in reply["text"]
    assert not await office.tickets()
    async with office.database.transaction() as tx:
        view = await intake.eval_for_router(tx, office.instance.instance_id, accepted.eval_id)
    assert view is not None
    assert view.verdict is Verdict.ANSWER


async def test_a_second_request_in_a_conversation_is_handed_back_and_done_beside_the_first(
    open_office: OpenOffice,
) -> None:
    office = await open_office(inline_wait_s=0.05)
    machine = await office.lab.machine(office.replica, "box")
    release = asyncio.Event()

    async def behave(job: Job) -> None:
        if "slow" in job.words[-1]:
            await release.wait()
        job.end()

    machine.behaviour = behave
    async with office.lab.daemon(machine, office.replica):
        await office.say("run slow on box")
        await office.until(lambda: _count(machine.starts, 1))
        second = await office.say("run quick on box")
        assert second.eval_id is None, "first the subscribed ticket has a look"
        await office.hears("`quick` on box ended")
        release.set()
        await office.hears("`slow` on box ended")
    assert {t.row.outcome for t in await office.tickets()} == {TicketOutcome.DONE}


async def test_a_person_stops_a_ticket_and_its_command_ends(open_office: OpenOffice) -> None:
    office = await open_office(inline_wait_s=0.05)
    machine = await office.lab.machine(office.replica, "box")
    machine.behaviour = hold
    async with office.lab.daemon(machine, office.replica):
        await office.say("run forever on box")
        await office.until(lambda: _count(machine.starts, 1))
        await office.say("stop")
        await office.hears("Stopped: forever.")
        (ticket,) = await office.tickets()
        closed = await office.stage(ticket.row.ticket_id, Stage.CLOSED)
        assert closed.row.outcome is TicketOutcome.STOPPED
        (job,) = machine.jobs.values()
        await asyncio.wait_for(job.cancelled.wait(), 30)


async def test_an_answer_in_the_conversation_goes_to_the_latest_question_only(
    open_office: OpenOffice,
) -> None:
    office = await open_office()
    machine = await office.lab.machine(office.replica, "box")
    async with office.lab.daemon(machine, office.replica):
        await office.say("run first on nowhere", conversation="main")
        await office.hears("shall run `first`")
        await office.say("run second on nowhere", conversation="main")
        await office.hears("shall run `second`")
        await office.say("box", conversation="main")
        taken = await office.hears("Taken as the answer to")
        await office.hears("`second` on box ended")
        first = next(t for t in await office.tickets() if t.row.title == "first")
        await office.stage(first.row.ticket_id, Stage.NEEDS_PERSON)
    assert len(machine.starts) == 1, "what nobody meant did not run"
    (question,) = await office.questions()
    assert question.ticket_id == first.row.ticket_id
    assert "shall run `second`" in taken["text"], "which question it took is said"
    assert taken["text"].endswith("; another question waits still.")


async def test_status_is_answered_however_many_tickets_listen(open_office: OpenOffice) -> None:
    office = await open_office()
    await office.lab.machine(office.replica, "box")
    for number in range(4):
        await office.say(f"run job{number} on nowhere")
        await office.hears(f"shall run `job{number}`")
    said = await office.say("status")
    reply = await office.hears("4 open: ")
    assert reply["reply_to_trigger_id"] == said.trigger_id
    assert len(await office.questions()) == 4, "the tickets' own, and no other"


async def test_a_machine_that_was_added_after_the_question_can_be_its_answer(
    open_office: OpenOffice,
) -> None:
    office = await open_office()
    await office.lab.machine(office.replica, "box")
    await office.say("run true on laptop")
    await office.hears("I know no machine named laptop")
    laptop = await office.lab.machine(office.replica, "laptop")
    async with office.lab.daemon(laptop, office.replica):
        await office.say("laptop")
        await office.hears("on laptop ended with exit status 0")


async def test_a_machine_that_is_not_confirmed_is_named_as_such(open_office: OpenOffice) -> None:
    office = await open_office()
    pending = FakeMachine(office.replica.root_pem)
    made = await office.lab.code("laptop")
    await enrol(pending, f"127.0.0.1:{office.replica.enrol_port}", made.text)
    await office.say("run true on laptop")
    told = await office.hears("I cannot run `true`")
    assert "confirm" in told["text"]
    (ticket,) = await office.tickets()
    assert (ticket.row.stage, ticket.row.needs) == (Stage.NEEDS_PERSON, Needs.FAILED)


async def test_a_command_that_was_ended_from_outside_is_not_called_done(
    open_office: OpenOffice,
) -> None:
    office = await open_office(inline_wait_s=0.05)
    machine = await office.lab.machine(office.replica, "box")

    async def shut_down(job: Job) -> None:
        job.end(None, reason=ExitReason.SHUTDOWN, signal=15)

    machine.behaviour = shut_down
    async with office.lab.daemon(machine, office.replica):
        await office.say("run long on box")
        await office.hears("was ended because the machine's daemon was stopped")
    (ticket,) = await office.tickets()
    assert (ticket.row.stage, ticket.row.needs) == (Stage.NEEDS_PERSON, Needs.FAILED)


async def test_work_for_an_offline_machine_waits_and_starts_by_itself(
    open_office: OpenOffice,
) -> None:
    office = await open_office(inline_wait_s=0.05)
    machine = await office.lab.machine(office.replica, "box")
    await office.say("run true on box")
    await office.hears("On it")

    async def waiting() -> bool:
        return any(m.waiting for t in await office.tickets() for m in t.row.machines)

    await office.until(waiting)
    (ticket,) = await office.tickets()
    assert ticket.row.stage is Stage.QUEUED
    assert [m.name for m in ticket.row.machines if m.waiting] == ["box"]
    async with office.lab.daemon(machine, office.replica):
        await office.hears("on box ended with exit status 0")
    assert len(machine.starts) == 1


async def test_a_model_service_drives_the_same_job(open_office: OpenOffice) -> None:
    """Router and Worker on a scripted service over a socket: streaming, tools, our ids."""
    async with fake_model([_WorkOnIt()]) as model:
        office = await open_office(ModelService(model="scripted", base_url=model.base_url))
        machine = await office.lab.machine(office.replica, "box")
        async with office.lab.daemon(machine, office.replica):
            await office.say("compute the answer on box")
            await office.hears("the answer is 42")
    (ticket,) = await office.tickets()
    assert ticket.row.outcome is TicketOutcome.DONE
    assert ticket.row.title == "compute the answer"
    shown = json.dumps(model.requests)
    assert "not a JSON object" in shown, "the malformed call came back to the model as an error"
    assert "no machine named 'elsewhere'" in shown
    assert len(machine.starts) == 1


async def test_a_worker_limits_a_command_and_reads_what_was_reached(
    open_office: OpenOffice,
) -> None:
    worker = _WorkOnIt(
        ("start", json.dumps({"machine": "box", "command": "make", "memory_mb": 1})),
        (
            "start",
            json.dumps({"machine": "box", "command": "make", "memory_mb": 64, "processes": 9}),
        ),
        ("report", json.dumps({"kind": "failed", "text": "It needs more memory."})),
    )

    async def greedy(job: Job) -> None:
        job.end(137, notes=(Note(code="out_of_memory", text="the limit of 64 MiB was reached"),))

    async with fake_model([worker]) as model:
        office = await open_office(ModelService(model="scripted", base_url=model.base_url))
        box = await office.lab.machine(office.replica, "box")
        box.behaviour = greedy
        async with office.lab.daemon(box, office.replica):
            await office.say("make it on box")
            await office.until(lambda: _count(box.starts, 1))
            await office.hears("the answer is 42")  # what this Router says of every report
    (job,) = box.jobs.values()
    assert job.spec.limits == Limits(memory_bytes=64 << 20, processes=9)
    shown = json.dumps(model.requests)
    assert "cannot limit memory to 1,048,576" in shown
    assert "[note] the limit of 64 MiB was reached" in shown


async def test_work_that_only_an_offline_machine_fits_waits_for_it_and_starts_by_itself(
    open_office: OpenOffice,
) -> None:
    worker = _WorkOnIt(
        ("start", json.dumps({"machine": "label=fast", "command": "x"})),
        ("start", json.dumps({"machine": "label=build os=linux", "command": "echo 42"})),
        ("report", json.dumps({"kind": "ready", "text": "It is 42."})),
    )
    async with fake_model([worker]) as model:
        office = await open_office(
            ModelService(model="scripted", base_url=model.base_url), inline_wait_s=0.2
        )
        box = await office.lab.machine(office.replica, "box")
        other = await office.lab.machine(office.replica, "other")
        box.labels = (("build", ""),)
        async with office.lab.daemon(box, office.replica):
            pass  # it told what it has, and went
        async with office.lab.daemon(other, office.replica):
            await office.say("compute the answer")

            async def waiting() -> bool:
                return [
                    m.name
                    for view in await office.tickets()
                    for m in view.row.machines
                    if m.waiting
                ] == ["box"]

            await office.until(waiting)
            assert not other.starts
            async with office.lab.daemon(box, office.replica):
                await office.hears("the answer is 42")
        assert len(box.starts) == 1
        assert not other.starts, "the work never moves"
    shown = json.dumps(model.requests)
    assert "it has no label fast" in shown
    rows = await office.lab.sql("select 1 from events where kind = 'command_waiting'")
    assert len(rows) == 1, "the person is told once"


async def test_a_message_that_the_service_refuses_is_parked_and_the_others_go_on(
    open_office: OpenOffice,
) -> None:
    def picky(request: dict[str, Any]) -> Reply:
        if "poison" in json.dumps(request["messages"]):
            return Reply(status=400)
        last = request["messages"][-1]
        ids = [b.attrs["id"] for b in parse(last["content"]) if b.tag == "eval"]
        calls = [
            ("close_eval", json.dumps({"eval_id": i, "verdict": "ignore", "reason": "noise"}))
            for i in ids
        ]
        return Reply(calls=calls if last["role"] == "user" else ())

    async with fake_model([picky]) as model:
        office = await open_office(ModelService(model="scripted", base_url=model.base_url))
        said = [await office.say(text) for text in ("one", "poison", "two")]

        async def settled() -> bool:
            rows = await office.lab.sql("select state from evals order by created_at")
            parked = await office.lab.sql("select 1 from inbox where parked_at is not null")
            return [r["state"] for r in rows] == ["closed", "pending", "closed"] and bool(parked)

        await office.until(settled)
        asked = await office.hears("refused this message: poison")
        (question,) = await office.questions()
        assert question.question_id == asked["question_id"], "a person sees what waits"
    assert len({a.eval_id for a in said}) == 3


class _WorkOnIt:
    """A model that answers by what it is shown; as a Worker it errs twice before it is right."""

    def __init__(self, *worker_calls: tuple[str, str]) -> None:
        """``worker_calls``: other calls than those."""
        self._worker_calls = list(worker_calls) or [
            ("start", "{not json"),
            ("start", json.dumps({"machine": "elsewhere", "command": "x"})),
            ("start", json.dumps({"machine": "box", "command": "echo 42"})),
            ("report", json.dumps({"kind": "ready", "text": "It is 42."})),
        ]

    def __call__(self, request: dict[str, Any]) -> Reply:
        role = request["messages"][0]["content"].splitlines()[0]
        last = request["messages"][-1]
        if "Worker" in role:
            if 'state="queued"' in last["content"]:
                return Reply()  # its end will come
            return Reply(calls=[self._worker_calls.pop(0)]) if self._worker_calls else Reply()
        for block in parse(last["content"]) if last["role"] == "user" else ():
            if block.tag == "eval":
                return _call(
                    "close_eval",
                    eval_id=block.attrs["id"],
                    verdict="accept",
                    title="compute the answer",
                )
            if block.tag == "report":
                return _call(
                    "reply",
                    thread_id=block.attrs["thread_id"],
                    text="Done: the answer is 42.",
                    report_id=block.attrs["id"],
                )
        return Reply(text="nothing more")


def _call(name: str, **arguments: str) -> Reply:
    return Reply(calls=[(name, json.dumps(arguments))])


async def _count(items: list[str], wanted: int) -> bool:
    return len(items) >= wanted
