"""The Router: one resident session per instance that talks to people and never executes."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from farhand_control_plane.agents import show
from farhand_control_plane.agents.model_agent import ModelAgent, prompt
from farhand_control_plane.agents.toolbox import (
    Arguments,
    CallSite,
    Outcome,
    Toolbox,
    failed,
)
from farhand_control_plane.channels import relay
from farhand_control_plane.db import intake, machines, sessions, tickets
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import EvalState, ReportKind, Stage
from farhand_control_plane.engine.contract import (
    InboxMessage,
    Json,
    LogItem,
    SessionRef,
    ToolDone,
    ToolIntent,
)
from farhand_control_plane.ingest import tickets as ticket_life
from farhand_control_plane.ingest import verdicts
from farhand_control_plane.llm.blocks import render
from farhand_control_plane.llm.client import ModelClient
from farhand_shared.ids import EvalId, ReportId, ThreadId, TicketId, TriggerId

# An Eval that the model left open is shown again this often; then a person is told.
_SHOWN_AGAIN = 2
_QUOTED_CHARS = 120


class CloseEval(Arguments):
    """Close one pending eval. accept opens a ticket with a Worker; attach gives it to an open
    ticket; answer: you replied yourself; stop ends an open ticket; ignore: nothing is wanted."""

    eval_id: str
    verdict: Literal["accept", "attach", "answer", "stop", "ignore"]
    title: str = Field(default="", description="for accept: a short name of the work")
    ticket_id: str = Field(default="", description="for attach and stop")
    reason: str = Field(default="", description="for ignore")


class Reply(Arguments):
    """Say something to the people of a thread, at most 100 words. With report_id the output of the
    report's commands is attached by itself."""

    thread_id: str
    text: str
    report_id: str | None = None
    eval_id: str | None = None
    notice_id: str | None = None


class AskPerson(Arguments):
    """Ask the people of a thread one concrete question, with the options there are."""

    thread_id: str
    text: str
    options: list[str] = Field(default_factory=list)
    if_unanswered: str = ""


class SendToWorker(Arguments):
    """Tell the Worker of an open ticket something it should know."""

    ticket_id: str
    text: str


class ListMachines(Arguments):
    """List the machines of this instance: name, presence, status, trust level."""

    for_eval: str | None = None


class ListTickets(Arguments):
    """List the open tickets, those that need a person first."""

    for_eval: str | None = None


class RouterAgent(ModelAgent):
    """Reads Evals and reports, decides, and speaks. See prompts/router.md."""

    def __init__(self, client: ModelClient) -> None:
        tools = Toolbox()
        tools.add("close_eval", CloseEval, _close_eval)
        tools.add("reply", Reply, _reply)
        tools.add("ask_person", AskPerson, _ask_person)
        tools.add("send_to_worker", SendToWorker, _send_to_worker)
        tools.add("list_machines", ListMachines, _list_machines)
        tools.add("list_tickets", ListTickets, _list_tickets)
        super().__init__(client, system_prompt=prompt("router"), tools=tools)

    async def read(self, tx: Tx, ref: SessionRef, batch: Sequence[InboxMessage]) -> Json:
        """Return the batch as blocks, one per message, in the order of arrival."""
        blocks = [await self._block(tx, ref, message) for message in batch]
        eval_ids = [m.payload["eval_id"] for m in batch if m.kind == "eval"]
        return {"text": "\n".join(blocks), "eval_ids": eval_ids}

    async def act(self, tx: Tx, ref: SessionRef, item_seq: int, intent: ToolIntent) -> Outcome:
        return await self._tools.act(tx, ref, item_seq, intent)

    async def resolve(self, tx: Tx, ref: SessionRef, message: InboxMessage) -> str:
        """The Router has no call that waits."""
        raise AssertionError(f"nothing waits for {message.kind}")

    async def settle(self, tx: Tx, ref: SessionRef, items: Sequence[LogItem]) -> None:
        """Show an Eval that the model left open again; in the end tell a person."""
        shown: dict[str, int] = {}
        for item in items:
            for eval_id in item.payload.get("eval_ids", ()):
                shown[eval_id] = shown.get(eval_id, 0) + 1
        latest = next((i for i in reversed(items) if i.kind == "input"), None)
        for eval_id in latest.payload.get("eval_ids", ()) if latest else ():
            view = await intake.eval_for_router(tx, ref.instance_id, EvalId(eval_id))
            if view is None or view.state is EvalState.CLOSED:
                continue
            times = shown[eval_id]
            if times <= _SHOWN_AGAIN:
                await sessions.append(
                    tx,
                    ref.instance_id,
                    ref.session_id,
                    kind="eval",
                    dedupe_key=f"eval:{eval_id}:again:{times}",
                    payload={"eval_id": eval_id},
                )
            else:
                await _tell_of(
                    tx, ref, view, f"eval:{eval_id}:left_open", "The model did not decide about"
                )

    async def set_aside(self, tx: Tx, ref: SessionRef, message: InboxMessage, reason: str) -> None:
        """Ask a person about a message that the model cannot take."""
        if message.kind != "eval":
            return
        view = await intake.eval_for_router(tx, ref.instance_id, EvalId(message.payload["eval_id"]))
        if view is not None and view.state is not EvalState.CLOSED:
            await _tell_of(tx, ref, view, f"inbox:{message.seq}:set_aside", "The model refused")

    async def give_up(self, tx: Tx, ref: SessionRef, reason: str) -> None:
        """The Router never becomes a tombstone; the engine backs off instead."""

    async def _block(self, tx: Tx, ref: SessionRef, message: InboxMessage) -> str:
        payload = message.payload
        match message.kind:
            case "eval":
                return await _eval_block(tx, ref, EvalId(payload["eval_id"]))
            case "report":
                return await _report_block(tx, ref, ReportId(payload["report_id"]))
            case "answer":
                return render(
                    "answer", str(payload.get("answer", "")), question_id=payload["question_id"]
                )
            case _:
                text = payload.get("text")
                shown = {k: v for k, v in payload.items() if k != "text" and isinstance(v, str)}
                if "trigger_id" in shown and text is None:
                    text = await _trigger_text(tx, ref, shown["trigger_id"])
                tag = "notice" if message.kind == "notice" else "digest"
                return render(tag, text or "", id=message.dedupe_key, kind=message.kind, **shown)


async def _trigger_text(tx: Tx, ref: SessionRef, trigger_id: str) -> str:
    view = await intake.trigger(tx, ref.instance_id, TriggerId(trigger_id))
    return view.text[:200] if view else ""


async def _tell_of(
    tx: Tx, ref: SessionRef, view: intake.EvalView, effect_key: str, what: str
) -> None:
    """Ask, in the message's own thread, what is to become of it; it stays pending."""
    words = " ".join(trigger.text for trigger in view.triggers).split()
    text = f"{what} this message: {' '.join(words)[:_QUOTED_CHARS]} … Please say it differently."
    question = ticket_life.NewQuestion(
        text=text, if_unanswered="the message is kept, and nothing is done"
    )
    question_id = await ticket_life.ask(
        tx, ref.instance_id, view.thread_id, question, effect_key=effect_key
    )
    await relay.send(
        tx,
        ref.instance_id,
        view.thread_id,
        kind="question",
        text=text,
        question_id=question_id,
        idempotency_key=effect_key,
    )


async def _eval_block(tx: Tx, ref: SessionRef, eval_id: EvalId) -> str:
    view = await intake.eval_for_router(tx, ref.instance_id, eval_id)
    if view is None or view.state is EvalState.CLOSED:
        return render("digest", id=eval_id, kind="eval", state="closed")
    return render(
        "eval",
        "\n".join(trigger.text for trigger in view.triggers),
        id=view.eval_id,
        thread_id=view.thread_id,
        source=view.source_kind,
        strength=view.strength.value,
        sender=view.requester_name,
        open_tickets=" ".join(t.ticket_id for t in view.open_tickets) or None,
        handed_back_by=" ".join(view.handed_back_by) or None,
    )


async def _report_block(tx: Tx, ref: SessionRef, report_id: ReportId) -> str:
    view = await tickets.report_view(tx, ref.instance_id, report_id)
    if view is None or view.delivered_at is not None:
        return render("digest", id=report_id, kind="report", state="delivered")
    return render(
        "report",
        view.text,
        id=view.report_id,
        kind=view.kind.value,
        ticket_id=view.ticket_id,
        title=view.ticket_title,
        thread_id=view.thread_ids[0] if view.thread_ids else None,
        options=", ".join(view.question.options) if view.question else None,
        accept=view.accept or None,
    )


async def _close_eval(site: CallSite, args: CloseEval) -> Outcome:
    decision: verdicts.Decision
    match args.verdict:
        case "accept":
            if not args.title.strip():
                return failed("invalid_arguments", "title: accept needs a short title")
            decision = verdicts.Accept(title=args.title)
        case "attach" | "stop" if not args.ticket_id:
            return failed("invalid_arguments", f"ticket_id: {args.verdict} needs one")
        case "attach":
            decision = verdicts.Attach(ticket_id=TicketId(args.ticket_id))
        case "stop":
            decision = verdicts.Stop(ticket_id=TicketId(args.ticket_id))
        case "answer":
            decision = verdicts.Answer()
        case "ignore":
            decision = verdicts.Ignore(reason=args.reason)
    closed = await verdicts.close_eval(
        site.tx, site.ref.instance_id, EvalId(args.eval_id), decision
    )
    ticket = None
    if closed.ticket_id is not None:
        ticket = await tickets.get(site.tx, site.ref.instance_id, closed.ticket_id)
    title = ticket.row.title if ticket is not None else ""
    return ToolDone(
        content=render("closed", title, verdict=closed.verdict.value, ticket_id=closed.ticket_id)
    )


async def _reply(site: CallSite, args: Reply) -> Outcome:
    report = None
    if args.report_id:
        report = await tickets.report_view(site.tx, site.ref.instance_id, ReportId(args.report_id))
        if report is None:
            return failed("not_found", f"there is no report {args.report_id}")
    asks = report is not None and report.kind is ReportKind.QUESTION
    answered = None
    if args.eval_id:
        answered = await intake.eval_for_router(site.tx, site.ref.instance_id, EvalId(args.eval_id))
    await relay.send(
        site.tx,
        site.ref.instance_id,
        ThreadId(args.thread_id),
        kind="question" if asks else "reply",
        text=args.text,
        command_ids=report.command_ids if report else (),
        ticket_id=report.ticket_id if report else None,
        reply_to_trigger_id=answered.triggers[-1].trigger_id if answered else None,
        report_id=report.report_id if report else None,
        question_id=report.question.question_id if report and report.question else None,
        idempotency_key=site.effect_key,
    )
    return ToolDone(content=render("sent", ok="yes"))


async def _ask_person(site: CallSite, args: AskPerson) -> Outcome:
    question = ticket_life.NewQuestion(
        text=args.text, options=tuple(args.options), if_unanswered=args.if_unanswered
    )
    thread_id = ThreadId(args.thread_id)
    question_id = await ticket_life.ask(
        site.tx, site.ref.instance_id, thread_id, question, effect_key=site.effect_key
    )
    await relay.send(
        site.tx,
        site.ref.instance_id,
        thread_id,
        kind="question",
        text=args.text,
        question_id=question_id,
        idempotency_key=site.effect_key,
    )
    return ToolDone(content=render("asked", question_id=question_id))


async def _send_to_worker(site: CallSite, args: SendToWorker) -> Outcome:
    view = await tickets.get(site.tx, site.ref.instance_id, TicketId(args.ticket_id))
    if view is None:
        return failed("not_found", f"there is no ticket {args.ticket_id}")
    if view.session_id is None:
        return failed("conflict", f"ticket {args.ticket_id} has no Worker any more")
    await sessions.append(
        site.tx,
        site.ref.instance_id,
        view.session_id,
        kind="note",
        dedupe_key=f"note:{site.effect_key}",
        payload={"text": args.text},
    )
    return ToolDone(content=render("sent", ok="yes"))


async def _list_machines(site: CallSite, args: ListMachines) -> Outcome:
    views = await machines.list_all(site.tx, site.ref.instance_id)
    views = [view for view in views if not view.is_coming]
    return ToolDone(content="\n".join(map(show.machine, views)) or render("machines", count=0))


async def _list_tickets(site: CallSite, args: ListTickets) -> Outcome:
    page = await tickets.list_(site.tx, site.ref.instance_id, limit=50)
    shown = [
        render(
            "ticket",
            row.title,
            id=row.ticket_id,
            stage=row.stage.value,
            needs=row.needs.value if row.needs else None,
            waits_for=", ".join(m.name for m in row.machines if m.waiting) or None,
        )
        for row in page.items
        if row.stage is not Stage.CLOSED
    ]
    return ToolDone(content="\n".join(shown) or render("tickets", count=0))
