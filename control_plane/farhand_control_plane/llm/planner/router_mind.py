"""How the offline planner acts as the Router: it closes each Eval and passes reports on."""

from collections.abc import Callable, Iterator

from farhand_control_plane.domain.feedback import clean_title
from farhand_control_plane.domain.plain_words import machine_words, stage_words
from farhand_control_plane.llm.blocks import Block, parse
from farhand_control_plane.llm.planner.conversation import Conversation, Wanted
from farhand_control_plane.llm.planner.language import (
    AskMachines,
    AskStatus,
    NotUnderstood,
    Stop,
    Work,
    understand,
)

WHAT_I_AM = (
    "I am Farhand's offline planner, not a language model. I understand: "
    "`run CMD on MACHINE` (several lines too; `on a fresh environment` where there are such), "
    "`on MACHINE: CMD`, `read FILE on MACHINE`, "
    "`list FOLDER on MACHINE`, `stop`, `status`, `which machines do I have?`. For more, set "
    "FARHAND_MODEL_BASE_URL, FARHAND_MODEL_API_KEY and FARHAND_MODEL to any OpenAI-compatible "
    "service and start again."
)


def decide(conversation: Conversation) -> list[Wanted]:
    """Return the next calls for everything in the conversation that is not answered yet."""
    wanted: list[Wanted] = []
    for block in conversation.blocks:
        if block.tag == "eval":
            wanted.extend(_for_eval(conversation, block))
        elif block.tag == "report":
            wanted.extend(_for_report(conversation, block))
        elif block.tag == "notice" and block.attrs.get("thread_id"):
            wanted.extend(
                _once(conversation, _reply(block, block.text, notice_id=block.attrs["id"]))
            )
    return _distinct(wanted)


def _for_eval(conversation: Conversation, block: Block) -> Iterator[Wanted]:
    eval_id = block.attrs["id"]
    closings = conversation.calls("close_eval", eval_id=eval_id)
    if closings:
        if len(closings) == 1 and closings[0].failed:  # not entitled, say: tell, and close
            yield _reply(block, f"I cannot do that: {closings[0].error()}.", eval_id=eval_id)
            yield Wanted(name="close_eval", arguments={"eval_id": eval_id, "verdict": "answer"})
        elif closings[0].arguments["verdict"] == "stop" and not conversation.calls(
            "reply", eval_id=eval_id
        ):
            title = next((b.text for b in parse(closings[0].result) if b.tag == "closed"), "")
            yield _reply(block, f"Stopped: {title}.", eval_id=eval_id)
        return
    match understand(block.text):
        case Work(runs=runs):
            more = "" if len(runs) == 1 else " (and more)"
            title = clean_title(runs[0].words, room_for=more) + more
            yield _close(eval_id, "accept", title=title)
        case Stop(ticket=ticket):
            yield from _stop(conversation, block, ticket)
        case AskMachines():
            yield from _answer_from(conversation, block, "list_machines", _machines_text)
        case AskStatus():
            yield from _answer_from(conversation, block, "list_tickets", _tickets_text)
        case NotUnderstood():
            yield _reply(block, WHAT_I_AM, eval_id=eval_id)
            yield _close(eval_id, "answer")


def _stop(conversation: Conversation, block: Block, ticket: str | None) -> Iterator[Wanted]:
    eval_id = block.attrs["id"]
    running = [t for t in block.attrs.get("open_tickets", "").split() if t]
    chosen = [t for t in running if ticket is None or t.startswith(ticket)]
    if len(chosen) == 1:
        yield _close(eval_id, "stop", ticket_id=chosen[0])
        return
    if not running:
        text = "Nothing of this conversation is running."
    elif not chosen:
        text = f"No open ticket here starts with {ticket}. Open: {', '.join(running)}."
    else:
        text = f"Which one? Say `stop` and one of: {', '.join(running)}."
    yield _reply(block, text, eval_id=eval_id)
    yield _close(eval_id, "answer")


def _answer_from(
    conversation: Conversation, block: Block, tool: str, text_of: Callable[[list[Block]], str]
) -> Iterator[Wanted]:
    eval_id = block.attrs["id"]
    looked = conversation.calls(tool, for_eval=eval_id)
    if not looked:
        yield Wanted(name=tool, arguments={"for_eval": eval_id})
        return
    yield _reply(block, text_of(list(parse(looked[0].result))), eval_id=eval_id)
    yield _close(eval_id, "answer")


def _machines_text(blocks: list[Block]) -> str:
    machines = [b.attrs for b in blocks if b.tag == "machine"]
    if not machines:
        return "You have no machines yet. `farhand machines add` shows how to add one."
    listed = "; ".join(
        f"{m['name']} ({machine_words(m['presence'], m['status'])})" for m in machines
    )
    return f"You have {len(machines)}: {listed}."


def _tickets_text(blocks: list[Block]) -> str:
    tickets = [b for b in blocks if b.tag == "ticket"]
    if not tickets:
        return "Nothing is open."
    listed = "; ".join(f"{t.text.strip()} ({_stands(t)})" for t in tickets[:10])
    more = f" And {len(tickets) - 10} more." if len(tickets) > 10 else ""
    return f"{len(tickets)} open: {listed}.{more}"


def _stands(ticket: Block) -> str:
    attrs = ticket.attrs
    return stage_words(
        attrs["stage"], needs=attrs.get("needs", ""), waits_for=attrs.get("waits_for", "")
    )


def _for_report(conversation: Conversation, block: Block) -> Iterator[Wanted]:
    if block.attrs.get("kind") == "progress" or not block.attrs.get("thread_id"):
        return
    report_id = block.attrs["id"]
    if not conversation.calls("reply", report_id=report_id):
        yield _reply(block, block.text, report_id=report_id)


def _reply(block: Block, text: str, **about: str) -> Wanted:
    words = text.split()
    short = text if len(words) <= 100 else " ".join([*words[:99], "…"])
    return Wanted(
        name="reply", arguments={"thread_id": block.attrs["thread_id"], "text": short, **about}
    )


def _close(eval_id: str, verdict: str, **more: str) -> Wanted:
    return Wanted(name="close_eval", arguments={"eval_id": eval_id, "verdict": verdict, **more})


def _once(conversation: Conversation, wanted: Wanted) -> Iterator[Wanted]:
    if not conversation.calls(wanted.name, **wanted.arguments):
        yield wanted


def _distinct(wanted: list[Wanted]) -> list[Wanted]:
    seen: list[Wanted] = []
    for one in wanted:
        if one not in seen:
            seen.append(one)
    return seen
