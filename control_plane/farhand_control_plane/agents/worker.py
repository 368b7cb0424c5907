"""A Worker: one ticket, its commands on machines, its reports; it never talks to people."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from farhand_control_plane.agents import show, starting
from farhand_control_plane.agents.file_tools import FileTools
from farhand_control_plane.agents.model_agent import ModelAgent, prompt
from farhand_control_plane.agents.starting import ticket_of, usable_machines
from farhand_control_plane.agents.toolbox import (
    Arguments,
    CallSite,
    Outcome,
    Toolbox,
    failed,
)
from farhand_control_plane.db import (
    command_stops,
    command_views,
    intake,
    outbox,
    output,
    questions,
    tickets,
)
from farhand_control_plane.db.intake import TriggerView
from farhand_control_plane.db.questions import QuestionView
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.environments import Offer
from farhand_control_plane.domain.plain_output import plain
from farhand_control_plane.domain.words import QuestionState, ReportKind
from farhand_control_plane.engine.contract import (
    InboxMessage,
    Json,
    LogItem,
    SessionRef,
    ToolDone,
    ToolIntent,
)
from farhand_control_plane.ingest import handback
from farhand_control_plane.ingest import tickets as ticket_life
from farhand_control_plane.llm.blocks import render
from farhand_control_plane.llm.client import ModelClient
from farhand_shared.command import CommandSpec, Limits, Shell
from farhand_shared.ids import CommandId, QuestionId, TicketId, TriggerId
from farhand_shared.limits import EXECUTION_TIMEOUT_DEFAULT_MS
from farhand_shared.link_events import Stream

INLINE_WAIT_S = 5.0  # a command that ends sooner answers its own call
_READ_BYTES = 8_000
_QUOTED_CHARS = 200


class ListMachines(Arguments):
    """List the machines that this ticket's requester may use."""


class Start(Arguments):
    """Run a shell command on a machine. Answers with its result when it ends within seconds;
    otherwise it goes on in the background and its end arrives later."""

    machine: str = Field(
        description="the machine's name; or what it must have, all of it, such as: os=linux gpu "
        "repo:acme/web tool:docker>=24 label=build cpu>=8 memory>=16G; kind=on-demand is a fresh "
        "environment of this ticket's own, destroyed after it"
    )
    command: str = Field(description="given to /bin/sh -c as it is")
    cwd: str | None = Field(default=None, description="absolute; default: the owner's home")
    timeout_s: int = Field(default=EXECUTION_TIMEOUT_DEFAULT_MS // 1000, ge=1, le=7 * 86_400)
    memory_mb: int = Field(default=0, ge=0, description="of all its processes; 0: no limit")
    processes: int = Field(default=0, ge=0, description="at once; 0: no limit")
    note: str = Field(default="", description="your own label for this call")


class StopCommand(Arguments):
    """Stop a command that was started for this ticket."""

    command_id: str


class ReadOutput(Arguments):
    """Read more of what a command wrote, from a byte offset."""

    command_id: str
    stream: Literal["stdout", "stderr"] = "stdout"
    offset: int = Field(default=0, ge=0)


class Report(Arguments):
    """Report on the ticket: progress, question, ready, blocked or failed. The Router tells people.
    A question needs text and, where there are, options."""

    kind: Literal["progress", "question", "ready", "blocked", "failed"]
    text: str
    command_ids: list[str] = Field(default_factory=list, description="whose output is shown")
    accept: str = Field(default="", description="what a person must accept; usually empty")
    options: list[str] = Field(default_factory=list)
    if_unanswered: str = ""
    note: str = Field(default="", description="your own label for this call")


class TakeAsAnswer(Arguments):
    """Take a message as the answer to your open question."""

    trigger_id: str
    question_id: str


class HandBack(Arguments):
    """Give a message back that is not about this ticket; it goes to somebody else."""

    trigger_id: str
    reason: str


class WorkerAgent(ModelAgent):
    """Does one ticket. See prompts/worker.md."""

    def __init__(
        self,
        client: ModelClient,
        *,
        inline_wait_s: float = INLINE_WAIT_S,
        offer: Offer | None = None,
    ) -> None:
        """``offer``: what makes environments on demand here; None: nothing does."""
        self._inline_wait_s = inline_wait_s
        tools = Toolbox(offer)
        tools.add("list_machines", ListMachines, _list_machines)
        tools.add("start", Start, self._start)
        tools.add("stop", StopCommand, _stop)
        tools.add("read_output", ReadOutput, _read_output)
        FileTools(inline_wait_s).add_to(tools)
        tools.add("report", Report, _report)
        tools.add("take_as_answer", TakeAsAnswer, _take_as_answer)
        tools.add("hand_back", HandBack, _hand_back)
        super().__init__(client, system_prompt=prompt("worker"), tools=tools)

    async def read(self, tx: Tx, ref: SessionRef, batch: Sequence[InboxMessage]) -> Json:
        """Return the batch as blocks, one per message, in the order of arrival."""
        blocks = [await _block(tx, ref, message) for message in batch]
        return {"text": "\n".join(blocks)}

    async def act(self, tx: Tx, ref: SessionRef, item_seq: int, intent: ToolIntent) -> Outcome:
        return await self._tools.act(tx, ref, item_seq, intent)

    async def resolve(self, tx: Tx, ref: SessionRef, message: InboxMessage) -> str:
        """Return the result of a ``start`` whose command has ended."""
        return await _command_block(tx, ref, CommandId(message.payload["command_id"]))

    async def settle(self, tx: Tx, ref: SessionRef, items: Sequence[LogItem]) -> None:
        """Nothing to do: a Worker that calls nothing waits for events."""

    async def set_aside(self, tx: Tx, ref: SessionRef, message: InboxMessage, reason: str) -> None:
        """A Worker's messages are never parked: failures count toward its tombstone."""

    async def give_up(self, tx: Tx, ref: SessionRef, reason: str) -> None:
        """Report the ticket as failed, so that a person sees why it stands still."""
        if ref.ticket_id is None:
            return
        await ticket_life.report(
            tx,
            ref.instance_id,
            ref.session_id,
            ref.ticket_id,
            ReportKind.FAILED,
            f"I was interrupted too often and gave up: {reason}",
            effect_key=f"{ref.session_id}:give_up:{ref.generation}",
        )

    async def _start(self, site: CallSite, args: Start) -> Outcome:
        limits = Limits(memory_bytes=args.memory_mb << 20, processes=args.processes)
        limits.check()
        spec = CommandSpec(
            run=Shell(script=args.command.encode()),
            cwd=args.cwd.encode() if args.cwd is not None else None,
            execution_timeout_ms=args.timeout_s * 1000,
            limits=limits,
        )
        return await starting.start(
            site,
            machine=args.machine,
            spec=spec,
            title=args.command,
            inline_wait_s=self._inline_wait_s,
        )


async def _block(tx: Tx, ref: SessionRef, message: InboxMessage) -> str:
    payload = message.payload
    match message.kind:
        case "ticket":
            return await _ticket_block(tx, ref, TicketId(payload["ticket_id"]))
        case "trigger":
            view = await intake.trigger(tx, ref.instance_id, TriggerId(payload["trigger_id"]))
            if view is None:
                return _gone(message)
            return render("message", view.text, id=view.trigger_id, sender=view.sender_name)
        case "answer":
            answer = str(payload.get("answer") or "")
            shown = render(
                "answer", answer, question_id=payload["question_id"], state=payload.get("state")
            )
            return "\n".join([shown, *await _machine_blocks(tx, ref)])
        case "command_done":
            return await _command_block(tx, ref, CommandId(payload["command_id"]))
        case _:
            return render("note", str(payload.get("text", "")), kind=message.kind)


async def _machine_blocks(tx: Tx, ref: SessionRef) -> list[str]:
    """Return the machines as they are now: others may have come since the ticket began."""
    view = await tickets.get(tx, ref.instance_id, ref.ticket_id) if ref.ticket_id else None
    return [show.machine(m) for m in await usable_machines(tx, ref, view)] if view else []


def _gone(message: InboxMessage) -> str:
    return render("note", "this message is gone", id=message.dedupe_key)


async def _ticket_block(tx: Tx, ref: SessionRef, ticket_id: TicketId) -> str:
    view = await tickets.get(tx, ref.instance_id, ticket_id)
    if view is None:
        return render("note", "this ticket is gone", id=ticket_id)
    usable = await usable_machines(tx, ref, view)
    here = next((m.name for m in usable if m.machine_id == view.this_machine_id), None)
    ticket = render(
        "ticket",
        view.request,
        id=view.row.ticket_id,
        title=view.row.title,
        requester=view.row.requester_name,
        this_machine=here,
    )
    return "\n".join([ticket, *map(show.machine, usable)])


async def _command_block(tx: Tx, ref: SessionRef, command_id: CommandId) -> str:
    view = await command_views.get(tx, ref.instance_id, command_id)
    if view is None:
        return render("note", "this command is gone", id=command_id)
    return await show.command(tx, ref.instance_id, view)


async def _list_machines(site: CallSite, args: ListMachines) -> Outcome:
    usable = await usable_machines(site.tx, site.ref, await ticket_of(site))
    return ToolDone(content="\n".join(map(show.machine, usable)) or render("machines", count=0))


async def _own_command(site: CallSite, command_id: str) -> command_views.CommandView | None:
    view = await command_views.get(site.tx, site.ref.instance_id, CommandId(command_id))
    return view if view is not None and view.ticket_id == site.ref.ticket_id else None


async def _stop(site: CallSite, args: StopCommand) -> Outcome:
    if await _own_command(site, args.command_id) is None:
        return failed("not_found", f"this ticket has no command {args.command_id}")
    await command_stops.request_stop(
        site.tx, site.ref.instance_id, command_id=CommandId(args.command_id), reason="cancel"
    )
    return ToolDone(content=render("stopping", command_id=args.command_id))


async def _read_output(site: CallSite, args: ReadOutput) -> Outcome:
    view = await _own_command(site, args.command_id)
    if view is None:
        return failed("not_found", f"this ticket has no command {args.command_id}")
    data = await output.read(
        site.tx,
        site.ref.instance_id,
        view.attempt_id,
        Stream(args.stream),
        args.offset,
        _READ_BYTES,
    )
    return ToolDone(
        content=render(
            "output",
            plain(data.decode("utf-8", "replace")),
            command_id=args.command_id,
            stream=args.stream,
            offset=args.offset,
            next_offset=args.offset + len(data),
        )
    )


async def _report(site: CallSite, args: Report) -> Outcome:
    ticket_id = site.ref.ticket_id
    if ticket_id is None:
        return failed("conflict", "this session has no ticket")
    for command_id in args.command_ids:
        if await _own_command(site, command_id) is None:
            return failed("not_found", f"this ticket has no command {command_id!r}")
    question = None
    if args.kind == "question":
        question = ticket_life.NewQuestion(
            text=args.text, options=tuple(args.options), if_unanswered=args.if_unanswered
        )
    report_id = await ticket_life.report(
        site.tx,
        site.ref.instance_id,
        site.ref.session_id,
        ticket_id,
        ReportKind(args.kind),
        args.text,
        [CommandId(c) for c in args.command_ids],
        accept=args.accept,
        question=question,
        effect_key=site.effect_key,
    )
    view = await tickets.report_view(site.tx, site.ref.instance_id, report_id)
    asked = view.question.question_id if view is not None and view.question else None
    return ToolDone(content=render("reported", report_id=report_id, question_id=asked))


async def _open_questions(site: CallSite, trigger: TriggerView) -> list[QuestionView]:
    """Return the questions that were open in a message's thread when it came, latest first.

    A message without a name of what it answers can only mean the latest: two Workers that listen to
    the same conversation must not both take it, not even one after the other has.
    """
    thread_id, received_at = trigger.thread_id, trigger.received_at
    heard = []
    for question in reversed(await questions.open_at(site.tx, site.ref.instance_id, received_at)):
        if question.thread_id == thread_id:
            heard.append(question)
        elif question.ticket_id is not None:
            view = await tickets.get(site.tx, site.ref.instance_id, question.ticket_id)
            if view is not None and thread_id in view.thread_ids:
                heard.append(question)
    return heard


async def _take_as_answer(site: CallSite, args: TakeAsAnswer) -> Outcome:
    trigger = await intake.trigger(site.tx, site.ref.instance_id, TriggerId(args.trigger_id))
    if trigger is None:
        return failed("not_found", f"there is no message {args.trigger_id}")
    if trigger.sender_member_id is None:
        return failed("not_allowed", "only a member's message can answer a question")
    ticket = await ticket_of(site)
    if args.question_id not in {q.question_id for q in ticket.questions}:
        return failed("conflict", f"question {args.question_id} is not open on this ticket")
    if trigger.thread_id not in ticket.thread_ids:
        return failed("not_allowed", "that message is not from a conversation of this ticket")
    asked = await _open_questions(site, trigger)
    if asked and asked[0].question_id != args.question_id:
        return failed(
            "conflict", "another question was asked later in that conversation; hand it back"
        )
    await ticket_life.answer_question(
        site.tx,
        site.ref.instance_id,
        QuestionId(args.question_id),
        trigger.sender_member_id,
        trigger.text,
        trigger_id=trigger.trigger_id,
    )
    if len(asked) > 1:  # who wrote it may have meant another one
        await outbox.enqueue(
            site.tx,
            site.ref.instance_id,
            trigger.thread_id,
            kind="reply",
            text=_taken(asked),
            ticket_id=ticket.row.ticket_id,
            reply_to_trigger_id=trigger.trigger_id,
            idempotency_key=f"taken:{trigger.trigger_id}",
        )
    return ToolDone(content=render("answered", question_id=args.question_id))


def _taken(asked: Sequence[QuestionView]) -> str:
    """Return what is told when a message was taken as the answer to the first of these."""
    question = " ".join(asked[0].text.split())
    if len(question) > _QUOTED_CHARS:
        question = question[: _QUOTED_CHARS - 1].rstrip() + "…"
    said = f"Taken as the answer to “{question}”"
    waiting = sum(other.state is QuestionState.PENDING for other in asked[1:])
    if waiting == 0:
        return f"{said}."
    return (
        f"{said}; {'another question waits' if waiting == 1 else f'{waiting} others wait'} still."
    )


async def _hand_back(site: CallSite, args: HandBack) -> Outcome:
    if site.ref.ticket_id is None:
        return failed("conflict", "this session has no ticket")
    await handback.hand_back(
        site.tx,
        site.ref.instance_id,
        site.ref.ticket_id,
        TriggerId(args.trigger_id),
        args.reason,
    )
    return ToolDone(content=render("handed_back", trigger_id=args.trigger_id))
