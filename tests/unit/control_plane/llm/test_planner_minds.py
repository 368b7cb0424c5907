"""The offline planner over its real interface: chat completions, streamed."""

import json
import subprocess
import sys
from typing import Any

import pytest

from farhand_control_plane.llm.blocks import render
from farhand_control_plane.llm.client import (
    Completion,
    ModelClient,
    ModelFailed,
    ModelService,
    Tool,
    parse_arguments,
)
from farhand_control_plane.llm.planner.app import MODEL_NAME, planner_app

ROUTER = "You are the Router of Farhand."
WORKER = "You are a Worker of Farhand."
TOOLS = [
    Tool(name=name, description=name, parameters={"type": "object"})
    for name in (
        "close_eval",
        "reply",
        "list_machines",
        "list_tickets",
        "start",
        "read_file",
        "list_folder",
        "report",
        "hand_back",
        "take_as_answer",
    )
]
MACHINES = render("machine", name="box", presence="online", status="active")


class Talk:
    """A conversation with the planner; results are given back as the product does."""

    def __init__(self, role: str) -> None:
        self._client = ModelClient(ModelService(model=MODEL_NAME), planner=planner_app)
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": role}]

    async def say(self, *blocks: str) -> list[tuple[str, dict[str, Any]]]:
        self.messages.append({"role": "user", "content": "\n".join(blocks)})
        return await self._ask()

    async def result(self, *contents: str) -> list[tuple[str, dict[str, Any]]]:
        calls = self.messages[-1]["tool_calls"]
        assert len(calls) == len(contents)
        for call, content in zip(calls, contents, strict=True):
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
        return await self._ask()

    async def _ask(self) -> list[tuple[str, dict[str, Any]]]:
        answer: Completion = await self._client.complete(self.messages, TOOLS)
        await self._client.close()
        calls = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in answer.calls
        ]
        if calls:
            assert answer.finish_reason == "tool_calls"
            self.messages.append({"role": "assistant", "content": answer.text, "tool_calls": calls})
        return [(call.name, parse_arguments(call)) for call in answer.calls]


def an_eval(text: str, **attrs: object) -> str:
    return render("eval", text, id="e1", thread_id="t1", **attrs)


async def test_a_request_is_accepted_with_a_title() -> None:
    calls = await Talk(ROUTER).say(an_eval("run uname -a on this machine"))
    assert calls == [("close_eval", {"eval_id": "e1", "verdict": "accept", "title": "uname -a"})]


async def test_a_title_that_is_cut_says_so() -> None:
    long = "echo " + "x" * 100
    ((_, one),) = await Talk(ROUTER).say(render("eval", f"run {long} on box", id="e1"))
    assert one["title"] == long[:79] + "…"
    two = f"on box: {long}\non box: uname"
    ((_, more),) = await Talk(ROUTER).say(render("eval", two, id="e1"))
    assert more["title"] == long[:68] + "… (and more)"


async def test_machines_are_looked_up_then_told_and_no_ticket_is_opened() -> None:
    talk = Talk(ROUTER)
    assert await talk.say(an_eval("which machines do I have?")) == [
        ("list_machines", {"for_eval": "e1"})
    ]
    calls = await talk.result(MACHINES)
    assert [name for name, _ in calls] == ["reply", "close_eval"]
    assert "box (online)" in calls[0][1]["text"]
    assert calls[1][1]["verdict"] == "answer"
    assert await talk.result("<ok/>", "<ok/>") == []


async def test_what_it_does_not_understand_it_says_and_says_what_it_is() -> None:
    calls = await Talk(ROUTER).say(an_eval("please fix the flaky test"))
    assert "not a language model" in calls[0][1]["text"]
    assert "FARHAND_MODEL_BASE_URL" in calls[0][1]["text"]
    assert len(calls[0][1]["text"].split()) <= 100


async def test_stop_needs_to_know_which_of_two() -> None:
    assert (await Talk(ROUTER).say(an_eval("stop", open_tickets="aaaa")))[0] == (
        "close_eval",
        {"eval_id": "e1", "verdict": "stop", "ticket_id": "aaaa"},
    )
    calls = await Talk(ROUTER).say(an_eval("stop", open_tickets="aaaa bbbb"))
    assert [c[0] for c in calls] == ["reply", "close_eval"]
    assert "Which one?" in calls[0][1]["text"]


async def test_a_report_is_passed_on_once() -> None:
    talk = Talk(ROUTER)
    report = render("report", "It is done.", id="r1", kind="ready", thread_id="t1")
    assert await talk.say(report) == [
        ("reply", {"thread_id": "t1", "text": "It is done.", "report_id": "r1"})
    ]
    assert await talk.result("<ok/>") == []


async def test_every_eval_of_a_batch_gets_its_own_decision() -> None:
    second = render("eval", "run b on x", id="e2", thread_id="t2")
    calls = await Talk(ROUTER).say(an_eval("run a on x"), second)
    assert [c[1]["eval_id"] for c in calls] == ["e1", "e2"]


def a_ticket(text: str) -> str:
    return render("ticket", text, id="k1", this_machine="box")


async def test_commands_run_one_after_another_and_are_reported_with_their_status() -> None:
    talk = Talk(WORKER)
    calls = await talk.say(a_ticket("run a on this machine\nrun b on box"), MACHINES)
    assert [(n, a["machine"], a["command"]) for n, a in calls] == [("start", "box", "a")]
    calls = await talk.result(_ended("c1", 0))
    assert [(n, a["command"]) for n, a in calls] == [("start", "b")]
    assert await talk.result(render("command", id="c2", state="started")) == []
    calls = await talk.say(_ended("c2", 3))
    assert calls[0][0] == "report"
    assert calls[0][1]["kind"] == "ready"
    assert calls[0][1]["command_ids"] == ["c1", "c2"]
    assert "`b` on box ended with exit status 3." in calls[0][1]["text"]


async def test_an_unknown_machine_is_asked_about_once_and_the_answer_is_used() -> None:
    talk = Talk(WORKER)
    (call,) = await talk.say(a_ticket("run a on nowhere"), MACHINES)
    assert call[1]["kind"] == "question"
    assert call[1]["options"] == ["box"]
    assert await talk.result(render("reported", question_id="q1")) == []
    (call,) = await talk.say(render("answer", "box", question_id="q1"))
    assert (call[0], call[1]["machine"]) == ("start", "box")


async def test_a_message_that_is_no_answer_goes_back() -> None:
    talk = Talk(WORKER)
    await talk.say(a_ticket("run a on box"), MACHINES)
    await talk.result(render("command", id="c1", state="started"))
    (call,) = await talk.say(render("message", "run c on box", id="m1"))
    assert (call[0], call[1]["trigger_id"]) == ("hand_back", "m1")


async def test_a_short_message_while_a_question_is_open_is_its_answer() -> None:
    talk = Talk(WORKER)
    await talk.say(a_ticket("run a on nowhere"), MACHINES)
    await talk.result(render("reported", question_id="q1"))
    (call,) = await talk.say(render("message", "box", id="m1"))
    assert call == ("take_as_answer", {"trigger_id": "m1", "question_id": "q1"})


async def test_a_command_that_cannot_start_is_a_failed_report() -> None:
    talk = Talk(WORKER)
    await talk.say(a_ticket("run a on box"), MACHINES)
    (call,) = await talk.result(render("error", "the machine is revoked", code="not_found"))
    assert (call[0], call[1]["kind"]) == ("report", "failed")
    assert "the machine is revoked" in call[1]["text"]


async def test_files_are_read_and_folders_listed_with_their_own_tools() -> None:
    talk = Talk(WORKER)
    calls = await talk.say(a_ticket("read src/a.py on box\nlist 'my folder' on box"), MACHINES)
    assert calls == [("read_file", {"machine": "box", "path": "src/a.py"})]
    calls = await talk.result(render("file", "1", id="c1", path="src/a.py", size=7, ended="yes"))
    assert calls == [("list_folder", {"machine": "box", "path": "my folder"})]
    assert await talk.result(render("command", id="c2", state="queued", waits_for="box")) == []
    calls = await talk.say(render("folder", "a", id="c2", entries=1, more="yes", ended="yes"))
    assert calls[0][1]["kind"] == "ready"
    assert calls[0][1]["command_ids"] == ["c1", "c2"]
    assert calls[0][1]["text"] == (
        "`read src/a.py` on box: 7 bytes. `list my folder` on box: 1 entries and more."
    )


async def test_a_file_that_is_asked_for_twice_is_read_twice() -> None:
    talk = Talk(WORKER)
    await talk.say(a_ticket("read a on box\nrun make on box\nread a on box"), MACHINES)
    await talk.result(render("file", "1", id="c1", path="a", size=7, ended="yes"))
    calls = await talk.result(_ended("c2", 0))
    assert calls == [("read_file", {"machine": "box", "path": "a"})]
    calls = await talk.result(render("file", "1", id="c3", path="a", size=8, ended="yes"))
    assert calls[0][1]["command_ids"] == ["c1", "c2", "c3"]


async def test_a_file_that_cannot_be_read_is_a_failed_report() -> None:
    talk = Talk(WORKER)
    await talk.say(a_ticket("read a on box"), MACHINES)
    gone = render("error", "cannot read a: it does not exist", code="not_found", id="c1",
                  ended="yes")  # fmt: skip
    (call,) = await talk.result(gone)
    assert call[1]["kind"] == "failed"
    assert call[1]["text"] == "`read a` on box failed: cannot read a: it does not exist."
    assert call[1]["command_ids"] == ["c1"]


async def test_an_unknown_machine_of_a_file_is_asked_about() -> None:
    (call,) = await Talk(WORKER).say(a_ticket("read a on nowhere"), MACHINES)
    assert call[1]["kind"] == "question"
    assert "Where shall I `read a`?" in call[1]["text"]


async def test_a_request_for_a_file_is_accepted_with_a_title() -> None:
    ((_, one),) = await Talk(ROUTER).say(an_eval("read src/a.py on box"))
    assert (one["verdict"], one["title"]) == ("accept", "read src/a.py")


async def test_a_malformed_request_is_refused_with_its_reason() -> None:
    client = ModelClient(ModelService(model=MODEL_NAME), planner=planner_app)
    with pytest.raises(ModelFailed, match="refused the request with 400"):
        await client.complete([{"role": "nobody", "content": json.dumps({})}], [])
    await client.close()


def test_the_planner_answers_without_the_sdk() -> None:
    script = """
import asyncio, sys
from farhand_control_plane.llm.client import ModelClient, ModelService
from farhand_control_plane.llm.planner.app import planner_app
client = ModelClient(ModelService(model="m"), planner=planner_app)
client.warm_up()
print(asyncio.run(client.complete([{"role": "user", "content": "hello"}], [])).finish_reason)
print("openai" in sys.modules, "httpx2" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["stop", "False", "False"], done.stderr


def _ended(command_id: str, status: int) -> str:
    return render(
        "command",
        "output",
        id=command_id,
        machine="box",
        state="exited",
        reason="exit",
        exit_status=status,
        ended="yes",
    )
