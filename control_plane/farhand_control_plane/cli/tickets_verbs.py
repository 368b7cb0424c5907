"""`farhand tickets`: the work, what it waits for, and what people decide about it."""

from typing import Annotated, Any, Final

import typer

from farhand_control_plane.cli.session import api, note, show, show_json, table, when
from farhand_control_plane.client import conversation
from farhand_control_plane.client.api import Api, segment
from farhand_control_plane.client.screen import TerminalScreen
from farhand_shared.errors import InvalidInput, NotFound
from farhand_shared.ids import is_id

app = typer.Typer(no_args_is_help=True, help="See, answer, accept and stop tickets.")

_PAGE: Final = 200

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Id = Annotated[str, typer.Argument(metavar="TICKET", help="Its id, or the end of it.")]


@app.command("list")
def list_(
    as_json: Json = False,
    stage: Annotated[
        str | None,
        typer.Option(help="Only these: needs_person, queued, idle, working, closed."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="So many of them.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Go on after an earlier page.")] = None,
) -> None:
    """List tickets: those that need a person first, then what runs, then closed ones."""
    server = api()
    page = server.get("/v1/tickets", stage=stage, limit=limit, cursor=cursor)
    if as_json:
        show_json(page)
        return
    loose = [one for one in server.get("/v1/questions")["items"] if one["ticket_id"] is None]
    for question in loose:
        show(f"Question {conversation.short(question['id'])} in the chat: {question['text']}")
    table(
        ("TICKET", "STAGE", "MACHINES", "SINCE", "TITLE"),
        [
            (
                conversation.short(one["id"]),
                _stage(one),
                ", ".join(one["machines"]) or "-",
                when(one["created_at"]),
                one["title"],
            )
            for one in page["items"]
        ],
        'No ticket yet. Ask for something: farhand chat "run uname -a on MACHINE"',
    )
    if page["next_cursor"]:
        note(f"More: farhand tickets list --cursor {page['next_cursor']}")


def _stage(one: dict[str, Any]) -> str:  # one: JSON
    detail = one["needs"] or one["outcome"]
    if one["waiting_for"]:
        detail = f"waits for {', '.join(one['waiting_for'])}"
    return f"{one['stage']} ({detail})" if detail else str(one["stage"])


@app.command("show")
def show_one(ticket: Id, as_json: Json = False) -> None:
    """Show a ticket: why it exists, what it asks, what ran, what was reported."""
    server = api()
    one = server.get(f"/v1/tickets/{resolve(server, ticket)}")
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
    for question in one["questions"]:
        show(f"question   {question['text']}")
        if question["options"]:
            show(f"           options: {', '.join(question['options'])}")
        if question["if_unanswered"]:
            show(f"           unanswered: {question['if_unanswered']}")
        show(f'           farhand tickets answer {conversation.short(one["id"])} "…"')
    for command in one["commands"]:
        status = command["exit_status"]
        how = command["state"] if status is None else f"exit {status}"
        show(f"command    {command['machine']} $ {command['title']}  [{how}]")
    for report in one["reports"]:
        show(f"report     {report['kind']}, {when(report['created_at'])}: {report['text']}")
        if report["accept"]:
            show(f"to accept  {report['accept']}")


@app.command()
def watch(ticket: Annotated[str | None, typer.Argument(metavar="[TICKET]")] = None) -> None:
    """Follow a ticket until it closes; every ticket without one."""
    server = api()
    ticket_id = None
    if ticket is not None:
        ticket_id = resolve(server, ticket)
        one = server.get(f"/v1/tickets/{ticket_id}")
        show(f"{one['title']}  [{_stage(one)}]")
        if one["stage"] == "closed":
            return
    screen = TerminalScreen()
    for event in conversation.events(server, None, screen):
        if ticket_id is not None and event["ticket_id"] != ticket_id:
            continue
        line = _line(event)
        if line:
            show(line)
        if ticket_id is not None and event["kind"] == "ticket_closed":
            return


def _line(event: dict[str, Any]) -> str:  # event: JSON
    payload, who = event["payload"], ""
    if event["ticket_id"]:
        who = f"{conversation.short(event['ticket_id'])} "
    at = when(event["at"])
    match event["kind"]:
        case "ticket_opened":
            return f"{at} {who}opened: {payload.get('title', '')}"
        case "ticket_closed":
            return f"{at} {who}closed: {payload.get('outcome', '')}"
        case "command_started":
            return f"{at} {who}{payload['machine']}: running {payload['title']}"
        case "command_waiting":
            return f"{at} {who}waits for {payload['machine']}, which is offline"
        case "command_ended":
            status = payload.get("exit_status")
            how = payload["state"] if status is None else f"exit {status}"
            return f"{at} {who}{payload['machine']}: {how}: {payload['title']}"
        case "reply_sent":
            return f"{at} {who}{payload['kind']}: {payload['text']}"
        case _:
            return ""


@app.command()
def answer(
    ticket: Id,
    text: Annotated[str, typer.Argument(metavar="ANSWER")],
    question: Annotated[
        str | None, typer.Option(help="Id of the question, while several are open.")
    ] = None,
) -> None:
    """Answer what a ticket asks, or a question in the chat; the first answer counts."""
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


@app.command()
def accept(ticket: Id) -> None:
    """Accept what its latest report names; the ticket is done."""
    server = api()
    one = server.post(f"/v1/tickets/{resolve(server, ticket)}/accept")
    show(f"{one['title']}: {_stage(one)}")


@app.command()
def stop(
    ticket: Id,
    reason: Annotated[str, typer.Option(help="Why, for the record.")] = "",
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
