"""The planner's answers are sentences for people."""

import pytest

from farhand_control_plane.llm.blocks import parse, render
from farhand_control_plane.llm.planner import router_mind
from farhand_control_plane.llm.planner.conversation import Conversation, Made


def _answer(asked: str, tool: str, *found: str) -> str:
    """Return what the Router replies to ``asked`` after it has looked."""
    block = render("eval", asked, id="e1", thread_id="t1")
    made = Made(name=tool, arguments={"for_eval": "e1"}, result="\n".join(found))
    conversation = Conversation(
        system="Router",
        blocks=tuple(parse(block)),
        made=(made,),
        tools=frozenset(),
    )
    (reply, _closing) = router_mind.decide(conversation)
    return str(reply.arguments["text"])


def test_status_says_what_is_waited_for() -> None:
    said = _answer(
        "status",
        "list_tickets",
        render("ticket", "whoami", id="1", stage="needs_person", needs="answer"),
        render("ticket", "make", id="2", stage="queued", waits_for="laptop"),
        render("ticket", "ls", id="3", stage="working"),
    )
    assert said == (
        "3 open: whoami (needs your answer); make (waits for laptop); ls (is being worked on)."
    )


@pytest.mark.parametrize("asked", ["which machines do I have?", "machines"])
def test_machines_are_there_or_not(asked: str) -> None:
    said = _answer(
        asked,
        "list_machines",
        render("machine", name="vm", presence="online", status="active"),
        render("machine", name="box", presence="offline", status="pending"),
    )
    assert said == "You have 2: vm (online); box (waits to be confirmed)."
