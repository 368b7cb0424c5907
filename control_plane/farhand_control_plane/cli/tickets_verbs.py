"""`farhand tickets`: the work, what it waits for, and what people decide about it."""

from typing import Annotated, Any, Final

import typer

from farhand_control_plane.cli.groups import Verb, group
from farhand_control_plane.cli.session import api, note, show, show_json, table, when
from farhand_control_plane.client.api import Api, segment
from farhand_control_plane.client.conversation import how_to_answer, options_of, short
from farhand_control_plane.client.events import Event, events
from farhand_control_plane.client.file_lines import for_people
from farhand_control_plane.client.output import LiveOutput, heading_of
from farhand_control_plane.client.screen import TerminalScreen
from farhand_control_plane.client.waiting import waiting
from farhand_control_plane.domain.plain_output import plain
from farhand_control_plane.domain.plain_words import end_words
from farhand_control_plane.domain.words import Stage
from farhand_control_plane.own_program import farhand
from farhand_shared.errors import InvalidInput, NotFound
from farhand_shared.file_operation import FileFault, read_report
from farhand_shared.ids import is_id

app = group("See, answer, accept and stop tickets.")

_PAGE: Final = 200
# Of each stream of each command, what `show` tells; `watch` shows all.
_SHOWN_BYTES: Final = 4 * 1024
_JSON_BYTES: Final = 16 * 1024

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Id = Annotated[str, typer.Argument(metavar="TICKET", help="Its id, or the end of it.")]


@app.command("list", cls=Verb)
def list_(
    as_json: Json = False,
    stage: Annotated[
        Stage | None,
        typer.Option(metavar="STAGE", help=f"Only these: {', '.join(Stage)}."),
    ] = None,
    limit: Annotated[
        int, typer.Option(metavar="NUMBER", min=1, max=200, help="So many of them.")
    ] = 50,
    cursor: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="Go on after an earlier page.")
    ] = None,
) -> None:
    """List tickets, those that need a person first.

    Then comes what runs, then what is closed.
    What is asked outside a ticket is shown above them; as JSON: farhand tickets questions --json.
    """
    server = api()
    page = server.get("/v1/tickets", stage=stage, limit=limit, cursor=cursor)
    if as_json:
        show_json(page)
        return
    for question in server.get("/v1/questions")["items"]:
        if question["ticket_id"] is None:
            show(f"Question {short(question['id'])} in the chat: {question['text']}")
    table(
        ("TICKET", "STAGE", "MACHINES", "SINCE", "TITLE"),
        [
            (
                short(one["id"]),
                _stage(one),
                ", ".join(one["machines"]) or "-",
                when(one["created_at"]),
                one["title"],
            )
            for one in page["items"]
        ],
        f'No ticket yet. Ask for something: {farhand()} chat "run uname -a on MACHINE"',
    )
    if page["next_cursor"]:
        note(f"More: {farhand()} tickets list --cursor {page['next_cursor']}")


def _stage(one: dict[str, Any]) -> str:  # one: JSON
    detail = one["needs"] or one["outcome"]
    if one["waiting_for"]:
        detail = f"waits for {', '.join(one['waiting_for'])}"
    return f"{one['stage']} ({detail})" if detail else str(one["stage"])


@app.command("questions", cls=Verb)
def list_questions(as_json: Json = False) -> None:
    """List what people are asked, by tickets and in the chat."""
    page = api().get("/v1/questions")
    if as_json:
        show_json(page)
        return
    for question in page["items"]:
        about = f"ticket {short(question['ticket_id'])}" if question["ticket_id"] else "the chat"
        show(f"{when(question['asked_at'])} {about}: {question['text']}")
        for line in (*options_of(question), f"  {how_to_answer(question)}"):
            show(line)
    if not page["items"]:
        show("Nothing is asked.")


@app.command("show", cls=Verb)
def show_one(ticket: Id, as_json: Json = False) -> None:
    """Show a ticket, what ran for it and what that wrote."""
    server = api()
    one = server.get(f"/v1/tickets/{resolve(server, ticket)}")
    limit = _JSON_BYTES if as_json else _SHOWN_BYTES
    one["commands"] = [
        server.get(f"/v1/commands/{segment(command['id'])}", head=limit, tail=limit)
        for command in one["commands"]
    ]
    if as_json:
        show_json(one)
        return
    why = one["why"]
    show(f"{one['title']}  [{_stage(one)}]")
    show(f"id         {one['id']}")
    show(f"asked by   {one['requester']}, {when(one['created_at'])}: {one['request']}")
    show(
        f"allowed    {why['verdict']} ({why['strength']}, rule {why['gate_rule']}, policy version "
        f"{why['policy_version']}), until {when(why['mandate']['valid_until'])}"
    )
    for command in one["commands"]:
        show(f"command    {heading_of(command)}  [{_how(command)}]")
        if command["operation"] is not None:
            _show_operation(command)
            continue
        for name in ("stdout", "stderr"):
            _show_stream(command[name], name)
    for report in one["reports"]:
        show(f"report     {report['kind']}, {when(report['created_at'])}: {report['text']}")
        if report["accept"]:
            show(f"to accept  {report['accept']}; {farhand()} tickets accept {short(one['id'])}")
    if one["needs"] in ("blocked", "failed"):
        show(f"next       {farhand()} tickets stop {short(one['id'])} closes it; to have it done")
        show("           after all, ask again in the chat")
    for question in one["questions"]:
        show(f"question   {question['text']}")
        for line in (*options_of(question), f"  {how_to_answer(question)}"):
            show(f"         {line}")


def _how(command: dict[str, Any]) -> str:  # command: JSON
    """Return how a command stands: what it waits for, its exit status, or else its state."""
    status = command["exit_status"]
    if status is not None:
        return f"exit {status}"
    return waiting(command) or str(command["state"])


def _show_operation(command: dict[str, Any]) -> None:  # command: JSON
    """Print what an operation on files gave, or its error; its facts are for programs."""
    report = read_report(command["stderr"]["head"].encode("utf-8", "replace"))
    if isinstance(report, FileFault):
        show(f"    {report.message}")
        return
    stdout = command["stdout"]
    if not stdout["omitted_bytes"]:
        whole = (stdout["head"] + stdout["tail"]).encode("utf-8", "replace")
        shown = for_people(command["operation"], whole).decode("utf-8", "replace")
        stdout = {**stdout, "head": shown, "tail": ""}
    _show_stream(stdout, "stdout")


def _show_stream(stream: dict[str, Any], name: str) -> None:  # stream: JSON
    """Print a stream's two ends, indented; nothing when it is empty."""
    if not stream["total_bytes"]:
        return
    if name != "stdout":
        show(f"  {name}:")
    for part, omitted in ((stream["head"], stream["omitted_bytes"]), (stream["tail"], 0)):
        for line in plain(part).splitlines():
            show(f"    {line}")
        if omitted:
            kept = f"{farhand()} tickets watch shows what was kept"
            show(f"    … {omitted:,} bytes not shown; {kept} …")


@app.command(cls=Verb)
def watch(
    ticket: Annotated[
        str | None, typer.Argument(metavar="TICKET", help="Its id, or the end of it.")
    ] = None,
) -> None:
    """Follow a ticket, with its output, until it closes.

    Without one, what happens to all is told. Of a closed one it shows what its commands wrote.
    """
    server, screen = api(), TerminalScreen()
    if ticket is not None:
        _watch_one(server, resolve(server, ticket), screen)
        return
    for event in events(server, None, screen.progress):
        if event is not None and (line := _line(event)):
            screen.reply(line)


def _watch_one(server: Api, ticket_id: str, screen: TerminalScreen) -> None:
    live, begun = LiveOutput(Api(server.target), screen), False
    for event in events(server, None, screen.progress):
        live.check()
        if event is None:
            # The stream is open: what happens from here on comes by it, all else is in the ticket.
            if not begun and _begin(server, ticket_id, live, screen):
                return
            begun = True
            continue
        if event["ticket_id"] != ticket_id:
            continue
        if event["kind"] == "command_ended":
            live.finish(event["subject_id"])
        if line := _line(event):
            screen.reply(line)
        if event["kind"] == "command_started":
            live.follow(event["subject_id"])
        if event["kind"] == "ticket_closed":
            return


def _begin(server: Api, ticket_id: str, live: LiveOutput, screen: TerminalScreen) -> bool:
    """Show how a ticket stands and what its commands wrote; tell whether that was all."""
    one = server.get(f"/v1/tickets/{segment(ticket_id)}")
    screen.reply(f"{one['title']}  [{_stage(one)}]")
    closed = bool(one["stage"] == "closed")
    for command in one["commands"]:
        if command["started_at"] is None:
            screen.progress(f"{heading_of(command)}  [{_how(command)}]")
            continue
        live.follow(command["id"], f"{heading_of(command)}  [{_how(command)}]")
        if closed:
            live.finish(command["id"])
    if closed and one["reports"]:
        screen.reply(one["reports"][-1]["text"])
    return closed


def _line(event: Event) -> str:
    """Return an event as a line; empty for what only programs want."""
    payload, who = event["payload"], ""
    if event["ticket_id"]:
        who = f"{short(event['ticket_id'])} "
    at = when(event["at"])
    match event["kind"]:
        case "ticket_opened":
            return f"{at} {who}opened: {payload.get('title', '')}"
        case "ticket_closed":
            return f"{at} {who}closed: {payload.get('outcome', '')}"
        case "command_started":
            return f"{at} {who}{payload['machine']}: running {payload['title']}"
        case "command_waiting":
            because = payload.get("because", "offline")
            return f"{at} {who}waits for {payload['machine']}, which is {because}"
        case "command_ended":
            status = payload.get("exit_status")
            how = end_words(payload["state"]) if status is None else f"exit {status}"
            return f"{at} {who}{payload['machine']}: {how}: {payload['title']}"
        case "reply_sent" if payload["kind"] != "acknowledgement":
            return f"{at} {who}{payload['kind']}: {payload['text']}"
        case _:
            return ""


@app.command(cls=Verb)
def answer(
    ticket: Annotated[
        str, typer.Argument(metavar="TICKET", help="Its id, or a question's, or the end of it.")
    ],
    text: Annotated[str, typer.Argument(metavar="ANSWER", help="What to answer.")],
    question: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Which question, while the ticket asks several."),
    ] = None,
) -> None:
    """Answer a question; the first answer counts."""
    server = api()
    loose = [
        one["id"]
        for one in server.get("/v1/questions")["items"]
        if one["ticket_id"] is None and one["id"].endswith(ticket.lower())
    ]
    if len(loose) == 1:
        # The same answer twice is one answer.
        server.post(f"/v1/questions/{loose[0]}/answer", {"answer": text}, repeatable=True)
    else:
        path = f"/v1/tickets/{resolve(server, ticket)}/answer"
        server.post(path, {"answer": text, "question_id": question})
    show("Answered.")


@app.command(cls=Verb)
def accept(ticket: Id) -> None:
    """Accept what a ticket delivered; it is done."""
    server = api()
    one = server.post(f"/v1/tickets/{resolve(server, ticket)}/accept")
    show(f"{one['title']}: {_stage(one)}")


@app.command(cls=Verb)
def stop(
    ticket: Id,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for the record.")] = "",
) -> None:
    """Stop a ticket with its commands."""
    server = api()
    one = server.post(f"/v1/tickets/{resolve(server, ticket)}/stop", {"reason": reason})
    show(f"{one['title']}: {_stage(one)}")


def resolve(server: Api, text: str) -> str:
    """Return the whole id of the ticket whose id ends in ``text``."""
    end = text.strip().lower()
    if is_id(end):
        return segment(end)
    if len(end) < 4:
        raise InvalidInput(f"cannot find ticket {text!r}: give at least 4 characters of its id")
    found: set[str] = set()
    cursor: str | None = None
    while True:
        page = server.get("/v1/tickets", limit=_PAGE, cursor=cursor)
        found |= {one["id"] for one in page["items"] if one["id"].endswith(end)}
        cursor = page["next_cursor"]
        if cursor is None:
            break
    if not found:
        raise NotFound(f"cannot find ticket {text!r}; see farhand tickets list")
    if len(found) > 1:
        raise InvalidInput(f"cannot tell which ticket {text!r} is: {len(found)} end so; give more")
    return found.pop()
