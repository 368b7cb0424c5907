"""How the offline planner acts as a Worker: it does what is asked for, one thing after another."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from farhand_control_plane.domain.machine_names import the_one_named
from farhand_control_plane.domain.plain_words import end_words
from farhand_control_plane.llm.blocks import Block, parse
from farhand_control_plane.llm.planner.conversation import Conversation, Made, Wanted
from farhand_control_plane.llm.planner.language import (
    FRESH_ENVIRONMENT,
    NO_MACHINE,
    THIS_MACHINE,
    Look,
    NotUnderstood,
    Run,
    Work,
    machine_named,
    understand,
)

_LOOK_TOOLS: Final = {"read": "read_file", "list": "list_folder"}
# What a command is shown as: running, then in the way that fits what it gave.
_SHOWN_AS: Final = ("command", "file", "folder", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tried:
    """One thing of the request: the call that started it and what is known of its end."""

    what: str  # for people
    command_id: str | None = None
    ended: Block | None = None


def decide(conversation: Conversation) -> list[Wanted]:
    """Return the next calls: start the next command, ask, hand back, or report."""
    ticket = next((b for b in conversation.blocks if b.tag == "ticket"), None)
    if ticket is None:
        return []
    wanted = _follow_ups(conversation)
    sentence = understand(ticket.text)
    if not isinstance(sentence, Work):
        return wanted + _report_once(
            conversation, "blocked", "I am the offline planner and do not understand this request."
        )
    return wanted + _work(conversation, ticket, sentence.runs)


def _work(conversation: Conversation, ticket: Block, runs: tuple[Run | Look, ...]) -> list[Wanted]:
    tried: list[_Tried] = []
    looked: Counter[tuple[str, str, str]] = Counter()
    for index, run in enumerate(runs):
        machine, question = _machine(conversation, ticket, run, index)
        if question is not None:
            return question
        if machine is None:
            return []  # asked, not answered yet
        if isinstance(run, Run):
            tag = f"{index + 1}:{machine}"
            call = Wanted(
                name="start", arguments={"machine": machine, "command": run.command, "note": tag}
            )
            made = next(iter(conversation.calls("start", note=tag)), None)
        else:
            call = Wanted(
                name=_LOOK_TOOLS[run.verb], arguments={"machine": machine, "path": run.path}
            )
            same = (call.name, machine, run.path)  # asked for again, it is looked at again
            before = conversation.calls(call.name, **call.arguments)
            made = before[looked[same]] if len(before) > looked[same] else None
            looked[same] += 1
        if made is None:
            return [call]
        where = "a fresh environment" if machine == FRESH_ENVIRONMENT else machine
        one = _outcome(conversation, f"`{_short(run.words)}` on {where}", made)
        if made.failed and one.ended is None:  # it was not begun
            doing = "run" if isinstance(run, Run) else "do"
            return _report_once(
                conversation, "failed", f"I cannot {doing} `{_short(run.words)}`: {made.error()}."
            )
        if one.ended is None:
            return []  # running; its end comes as an event
        tried.append(one)
    return _final_report(conversation, tried)


def _machine(
    conversation: Conversation, ticket: Block, run: Run | Look, index: int
) -> tuple[str | None, list[Wanted] | None]:
    """Return the machine's name, or the calls that ask which one is meant."""
    # Shown with the ticket and again with every answer: the newest word on a name counts.
    known = list(dict.fromkeys(b.attrs["name"] for b in conversation.blocks if b.tag == "machine"))
    name = run.machine
    if name == FRESH_ENVIRONMENT:
        return name, None
    if name == THIS_MACHINE:
        name = ticket.attrs.get("this_machine", "")
        problem = "I cannot tell which machine `this machine` is."
    elif name == NO_MACHINE:
        problem = "You named no machine."
    else:
        problem = f"I know no machine named {name}."
    if meant := the_one_named(name, known):
        return meant, None
    key = f"machine {index + 1}"
    answer = _answer(conversation, key)
    if meant := the_one_named(answer or "", known):
        return meant, None
    if answer is not None:
        key, problem = f"{key} again", f"I know no machine named {answer}."
        answer = _answer(conversation, key)
        if meant := the_one_named(answer or "", known):
            return meant, None
    if conversation.calls("report", note=key):
        return None, None
    if not known:
        text = f"{problem} No machine is enrolled; add one with `farhand machines add`."
    else:
        text = f"{problem} {_which(run)}"
    arguments = {"kind": "question", "text": text, "options": known, "note": key}
    return None, [Wanted(name="report", arguments=arguments)]


def _which(run: Run | Look) -> str:
    words = f"`{_short(run.words)}`"
    return f"Which one shall run {words}?" if isinstance(run, Run) else f"Where shall I {words}?"


def _answer(conversation: Conversation, key: str) -> str | None:
    """Return the machine that a person named in answer to our question ``key``, if any."""
    for asked in conversation.calls("report", note=key):
        ids = {b.attrs.get("question_id") for b in parse(asked.result)}
        for block in conversation.blocks:
            if block.tag == "answer" and block.attrs.get("question_id") in ids:
                return machine_named(block.text) or block.text.strip()
    return None


def _follow_ups(conversation: Conversation) -> list[Wanted]:
    """An answer to an open question is taken as one; any other message goes back."""
    wanted: list[Wanted] = []
    open_ids = [
        b.attrs["question_id"]
        for asked in conversation.calls("report", kind="question")
        for b in parse(asked.result)
        if b.attrs.get("question_id")
    ]
    answered = {b.attrs.get("question_id") for b in conversation.blocks if b.tag == "answer"}
    waiting = [q for q in open_ids if q not in answered]
    for block in conversation.blocks:
        if block.tag != "message":
            continue
        trigger_id = block.attrs["id"]
        taken = conversation.calls("take_as_answer", trigger_id=trigger_id)
        if conversation.calls("hand_back", trigger_id=trigger_id) or (
            taken and not taken[0].failed
        ):
            continue
        if waiting and not taken and _names_a_machine(block.text):
            question_id = waiting.pop(0)
            arguments = {"trigger_id": trigger_id, "question_id": question_id}
            wanted.append(Wanted(name="take_as_answer", arguments=arguments))
        else:
            reason = "not about this ticket, as far as the offline planner can tell"
            arguments = {"trigger_id": trigger_id, "reason": reason}
            wanted.append(Wanted(name="hand_back", arguments=arguments))
    return wanted


def _names_a_machine(text: str) -> bool:
    return isinstance(understand(text), NotUnderstood) and machine_named(text) is not None


def _outcome(conversation: Conversation, what: str, made: Made) -> _Tried:
    shown = next((b for b in parse(made.result) if b.tag in _SHOWN_AS), None)
    if shown is None:
        return _Tried(what=what)
    command_id = shown.attrs.get("id")
    blocks = [shown, *(b for b in conversation.blocks if b.tag in _SHOWN_AS)]
    ended = next(
        (b for b in blocks if b.attrs.get("id") == command_id and b.attrs.get("ended") == "yes"),
        None,
    )
    return _Tried(what=what, command_id=command_id, ended=ended)


def _final_report(conversation: Conversation, tried: list[_Tried]) -> list[Wanted]:
    lines = [_line(one) for one in tried]
    ran = all(one.ended is not None and _ran_to_its_end(one.ended) for one in tried)
    command_ids = [one.command_id for one in tried if one.command_id]
    return _report_once(
        conversation, "ready" if ran else "failed", " ".join(lines), command_ids=command_ids
    )


def _ran_to_its_end(ended: Block) -> bool:
    """Its own exit or signal is what was asked for; ended from outside, somebody should know."""
    if ended.tag != "command":  # a file's or folder's: it is shown, or there is an error
        return ended.tag != "error"
    return ended.attrs["state"] == "exited" and ended.attrs.get("reason") in ("exit", "signal")


def _line(one: _Tried) -> str:
    assert one.ended is not None  # noqa: S101  # only ended ones are reported
    facts, what = one.ended.attrs, one.what
    match one.ended.tag:
        case "file":
            return f"{what}: {facts['size']} bytes."
        case "folder":
            more = " and more" if facts.get("more") else ""
            return f"{what}: {facts['entries']} entries{more}."
        case "error":
            return f"{what} failed: {one.ended.text}."
    if facts["state"] == "exited":
        how = facts.get("reason", "exit")
        if how == "exit":
            return f"{what} ended with exit status {facts['exit_status']}."
        return f"{what} {end_words(how)} (exit status {facts['exit_status']})."
    error = f": {facts['error']}" if facts.get("error") else ""
    return f"{what} {end_words(facts['state'])}{error}."


def _report_once(
    conversation: Conversation, kind: str, text: str, *, command_ids: list[str] | None = None
) -> list[Wanted]:
    if any(made.arguments.get("kind") == kind for made in conversation.calls("report")):
        return []
    arguments = {"kind": kind, "text": text, "command_ids": command_ids or []}
    return [Wanted(name="report", arguments=arguments)]


def _short(command: str) -> str:
    line = command.splitlines()[0]
    return line if len(line) <= 60 else line[:59] + "…"
