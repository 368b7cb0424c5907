"""A session's log as the model gets it, and what the Router may call."""

from farhand_control_plane.agents.model_agent import conversation, prompt
from farhand_control_plane.agents.router import RouterAgent
from farhand_control_plane.agents.worker import WorkerAgent
from farhand_control_plane.engine.contract import LogItem
from farhand_control_plane.llm.client import ModelClient, ModelService

CLIENT = ModelClient(ModelService(model="m"))


def item(seq: int, kind: str, **payload: object) -> LogItem:
    return LogItem(item_seq=seq, kind=kind, payload=dict(payload))


def assistant(seq: int, *names: str) -> LogItem:
    calls = [
        {"call_id": f"call_{i}", "name": name, "arguments": {}} for i, name in enumerate(names)
    ]
    return item(seq, "assistant", text="", calls=calls)


def results(seq: int, **contents: str) -> LogItem:
    return item(
        seq, "tool_results", results=[{"call_id": k, "content": v} for k, v in contents.items()]
    )


def test_every_call_is_answered_right_after_the_message_that_made_it() -> None:
    log = [
        item(1, "input", text="a"),
        assistant(2, "start", "start"),
        results(3, call_1="second", call_0="first"),
        item(4, "input", text="b"),
        assistant(5, "start"),
        results(6, call_0="third"),
    ]
    messages = conversation("system", log)
    assert [m["role"] for m in messages] == (
        ["system", "user", "assistant", "tool", "tool", "user", "assistant", "tool"]
    )
    assert [m["content"] for m in messages if m["role"] == "tool"] == ["first", "second", "third"]
    ids = [c["id"] for m in messages for c in m.get("tool_calls", ())]
    assert ids == [m["tool_call_id"] for m in messages if m["role"] == "tool"]
    assert len(set(ids)) == 3


def test_a_call_without_a_result_never_bricks_the_conversation() -> None:
    messages = conversation("system", [item(1, "input", text="a"), assistant(2, "start")])
    assert messages[-1]["content"] == "interrupted, outcome unknown"


def test_the_conversation_only_grows_so_its_prefix_stays_cached() -> None:
    log = [item(1, "input", text="a"), assistant(2, "start"), results(3, call_0="r")]
    before = conversation("system", log)
    after = conversation("system", [*log, item(4, "input", text="b")])
    assert after[: len(before)] == before


def test_the_router_has_no_tool_that_executes() -> None:
    tools = RouterAgent(CLIENT)._tools.names
    assert set(tools) == {
        "close_eval",
        "reply",
        "ask_person",
        "send_to_worker",
        "list_machines",
        "list_tickets",
    }


def test_a_worker_has_no_tool_that_speaks_to_people() -> None:
    tools = set(WorkerAgent(CLIENT)._tools.names)
    assert not tools & {"reply", "ask_person", "close_eval"}


def test_prompts_name_the_role_in_their_first_line() -> None:
    assert "Router" in prompt("router").splitlines()[0]
    assert "Worker" in prompt("worker").splitlines()[0]
    for agent in (RouterAgent(CLIENT), WorkerAgent(CLIENT)):
        for tool in agent._tools.described():
            assert len(tool.description) > 20, tool.name
