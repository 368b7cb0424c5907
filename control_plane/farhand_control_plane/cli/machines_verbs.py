"""`farhand machines`: the computers that the agent may use."""

import time
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import typer

from farhand_control_plane.cli.groups import Verb, group
from farhand_control_plane.cli.session import api, asks_yes, note, show, show_json, table, when
from farhand_control_plane.client.api import Api, segment
from farhand_shared.errors import InvalidInput, NotAllowed, Unavailable

app = group("See, add, confirm and revoke machines.")

_ASK_EVERY_S: Final = 1.0
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Name = Annotated[str, typer.Argument(metavar="MACHINE", help="Its name or id.")]


@app.command("list", cls=Verb)
def list_(
    as_json: Json = False,
    revoked: Annotated[bool, typer.Option("--revoked", help="List revoked ones too.")] = False,
) -> None:
    """List machines, with what runs and waits."""
    page = api().get("/v1/machines", revoked=revoked or None)
    if as_json:
        show_json(page)
        return
    table(
        ("NAME", "STATUS", "PRESENCE", "TRUST", "RUNNING", "QUEUED", "SEEN", "ID"),
        [
            (
                one["name"],
                one["status"],
                one["presence"],
                one["trust_level"],
                str(one["running"]),
                str(one["queued"]),
                when(one["seen_at"]),
                one["id"],
            )
            for one in page["items"]
        ],
        "No machine yet. Add one: farhand machines add",
    )


@app.command("show", cls=Verb)
def show_one(machine: Name, as_json: Json = False) -> None:
    """Show one machine."""
    one = api().get(f"/v1/machines/{segment(machine)}")
    if as_json:
        show_json(one)
        return
    for label, text in _details(one):
        show(f"{label:13} {text}")


def _details(one: dict[str, Any]) -> list[tuple[str, str]]:  # one: JSON
    inferred = "also unasked work" if one["allow_inferred"] else "only what was asked for"
    lines = [
        ("name", one["name"]),
        ("id", one["id"]),
        ("status", one["status"]),
        ("presence", f"{one['presence']}, seen {when(one['seen_at'])}"),
        ("trust level", f"{one['trust_level']} (chosen by: {one['chosen_by'] or 'nobody'})"),
        ("runs", f"{inferred}; {one['concurrency']} commands at once"),
        ("now", f"{one['running']} running, {one['queued']} queued"),
        ("daemon", f"{one['daemon_version']} (capability {one['capability']})"),
        ("since", when(one["created_at"])),
    ]
    if one["words"]:
        lines.append(("six words", " ".join(one["words"])))
    lines += [("label", f"{name}={value}") for name, value in sorted(one["labels"].items())]
    lines += [("fact", f"{name}: {value}") for name, value in sorted(one["facts"].items())]
    return lines


@app.command(cls=Verb)
def add(
    name: Annotated[str | None, typer.Option(metavar="NAME", help="What to call it.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for it, compare the six words, confirm.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a code that lets one computer in, once, within ten minutes."""
    server = api()
    made = server.post("/v1/machines/codes", {"name": name})
    if as_json:
        show_json(made)
    else:
        show(f"Enrolment code (for one computer, until {when(made['expires_at'])}):")
        show(f"    {made['code']}")
        show("On that computer, with its own user:")
        show(f"    {made['install_line']}")
        show(f"or, where the daemon is installed already: farhandd enroll {made['url']}")
        show("It asks for the code, then shows six words.")
        if (urlsplit(made["url"]).hostname or "") in _LOOPBACK:
            note(
                "This address is for this computer only; to add another one, start the server "
                "with FARHAND_BIND=0.0.0.0 and give its name instead."
            )
    if wait:
        _wait_and_confirm(server, made["id"])
    elif not as_json:
        show("Compare them here: farhand machines confirm MACHINE")


def _wait_and_confirm(server: Api, code_id: str) -> None:
    note("Waiting for the code to be used (Ctrl-C stops waiting, the code stays good) …")
    while True:
        code = server.get(f"/v1/machines/codes/{segment(code_id)}")
        if code["used_at"] is not None:
            break
        if _is_past(code["expires_at"]):
            raise Unavailable("cannot add a machine: nobody used the code in time; make a new one")
        time.sleep(_ASK_EVERY_S)  # a person types the code somewhere else
    _confirm(server, code["machine_id"], code["machine_name"], code["words"])


def _is_past(moment: str) -> bool:
    from datetime import UTC, datetime

    return datetime.fromisoformat(moment) < datetime.now(UTC)


@app.command(cls=Verb)
def confirm(
    machine: Name,
    words: Annotated[
        str | None,
        typer.Option(
            metavar="WORDS", help="The six words that the machine shows, instead of a yes."
        ),
    ] = None,
) -> None:
    """Make a pending machine active, having compared its six words."""
    server = api()
    one = server.get(f"/v1/machines/{segment(machine)}")
    if words is not None:
        _send_words(server, one["id"], words.split())
        return
    if one["status"] != "pending":
        raise InvalidInput(f"cannot confirm {one['name']}: it is {one['status']}, not pending")
    _confirm(server, one["id"], one["name"], one["words"])


def _confirm(server: Api, machine_id: str, name: str, words: list[str]) -> None:
    show(f"{name} must show these six words:")
    show(f"    {' '.join(words)}")
    if not asks_yes("Are they the same there?"):
        raise NotAllowed(
            f"cannot confirm {name}: the answer was not yes; it stays pending; "
            f"if the words differ: farhand machines revoke {name}"
        )
    _send_words(server, machine_id, words)


def _send_words(server: Api, machine_id: str, words: list[str]) -> None:
    one = server.post(f"/v1/machines/{segment(machine_id)}/confirm", {"words": words})
    show(f"{one['name']} is {one['status']}. Next: farhandd run there, if it does not run yet.")


@app.command(cls=Verb)
def revoke(
    machine: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """End a machine for good; it would have to enrol anew."""
    server = api()
    one = server.get(f"/v1/machines/{segment(machine)}")
    if not yes and not asks_yes(
        f"{one['name']} ({one['id']}) loses its link at once and cannot come back as this machine."
    ):
        raise NotAllowed(f"cannot revoke {one['name']}: the answer was not yes")
    server.post(f"/v1/machines/{segment(one['id'])}/revoke")
    show(f"{one['name']} is revoked.")
