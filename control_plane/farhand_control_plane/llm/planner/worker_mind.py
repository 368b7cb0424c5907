"""How the offline planner acts as a Worker: it runs the commands asked for, one after another."""

from dataclasses import dataclass

from farhand_control_plane.domain.machine_names import the_one_named
from farhand_control_plane.domain.plain_words import end_words
from farhand_control_plane.llm.blocks import Block, parse
from farhand_control_plane.llm.planner.conversation import Conversation, Made, Wanted
from farhand_control_plane.llm.planner.language import (
    NO_MACHINE,
    THIS_MACHINE,
    NotUnderstood,
    Run,
    Work,
    machine_named,
    understand,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tried:
    """One command of the request: the call that started it and what is known of its end."""

    run: Run
    made: Made | None
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


def _work(conversation: Conversation, ticket: Block, runs: tuple[Run, ...]) -> list[Wanted]:
    tried: list[_Tried] = []
    for index, run in enumerate(runs):
        machine, question = _machine(conversation, ticket, run, index)
        if question is not None:
            return question
        if machine is None:
            return []  # asked, not answered yet
        tag = f"{index + 1}:{machine}"
        made = next(iter(conversation.calls("start", note=tag)), None)
        if made is None:
            return [
                Wanted(
                    name="start",
                    arguments={"machine": machine, "command": run.command, "note": tag},
                )
            ]
        if made.failed:
            return _report_once(
                conversation, "failed", f"I cannot run `{_short(run.command)}`: {made.error()}."
            )
        one = _outcome(conversation, Run(command=run.command, machine=machine), made)
        if one.ended is None:
            return []  # running; its end comes as an event
        tried.append(one)
    return _final_report(conversation, tried)


def _machine(
    conversation: Conversation, ticket: Block, run: Run, index: int
) -> tuple[str | None, list[Wanted] | None]:
    """Return the machine's name, or the calls that ask which one is meant."""
    # Shown with the ticket and again with every answer: the newest word on a name counts.
    known = list(dict.fromkeys(b.attrs["name"] for b in conversation.blocks if b.tag == "machine"))
    name = run.machine
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
        text = f"{problem} Which one shall run `{_short(run.command)}`?"
    arguments = {"kind": "question", "text": text, "options": known, "note": key}
    return None, [Wanted(name="report", arguments=arguments)]


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


def _outcome(conversation: Conversation, run: Run, made: Made) -> _Tried:
    shown = next((b for b in parse(made.result) if b.tag == "command"), None)
    if shown is None:
        return _Tried(run=run, made=made)
    command_id = shown.attrs["id"]
    blocks = [shown, *(b for b in conversation.blocks if b.tag == "command")]
    ended = next(
        (b for b in blocks if b.attrs.get("id") == command_id and b.attrs.get("ended") == "yes"),
        None,
    )
    return _Tried(run=run, made=made, command_id=command_id, ended=ended)


def _final_report(conversation: Conversation, tried: list[_Tried]) -> list[Wanted]:
    lines = [_line(one) for one in tried]
    ran = all(one.ended is not None and _ran_to_its_end(one.ended) for one in tried)
    command_ids = [one.command_id for one in tried if one.command_id]
    return _report_once(
        conversation, "ready" if ran else "failed", " ".join(lines), command_ids=command_ids
    )


def _ran_to_its_end(ended: Block) -> bool:
    """Its own exit or signal is what was asked for; ended from outside, somebody should know."""
    return ended.attrs["state"] == "exited" and ended.attrs.get("reason") in ("exit", "signal")


def _line(one: _Tried) -> str:
    assert one.ended is not None  # noqa: S101  # only ended ones are reported
    facts = one.ended.attrs
    what = f"`{_short(one.run.command)}` on {one.run.machine}"
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
