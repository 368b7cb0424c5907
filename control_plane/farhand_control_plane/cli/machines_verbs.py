"""`farhand machines`: the computers that the agent may use."""

import time
from collections.abc import Sequence
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import typer

from farhand_control_plane.cli.groups import Verb, group
from farhand_control_plane.cli.session import api, asks_yes, note, show, show_json, table, when
from farhand_control_plane.client.api import Api, segment
from farhand_control_plane.client.moments import span
from farhand_control_plane.client.waiting import waiting
from farhand_shared.errors import InvalidInput, NotAllowed, Unavailable
from farhand_shared.labels import parse_labels

app = group("See, add, choose, change and revoke machines.")

_ASK_EVERY_S: Final = 1.0
_COMMANDS_SHOWN: Final = 20  # of a machine, the newest ones that have not ended
_OF_A_BATTERY: Final = ("battery_percent", "on_battery")  # of none they would say: 0, and no
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Name = Annotated[str, typer.Argument(metavar="MACHINE", help="Its name or id.")]


@app.command("list", cls=Verb)
def list_(
    as_json: Json = False,
    revoked: Annotated[bool, typer.Option("--revoked", help="List revoked ones too.")] = False,
) -> None:
    """List machines, with what runs and waits."""
    page = api().get("/v1/machines", revoked=revoked or None, coming=True)
    if as_json:
        show_json(page)
        return
    table(
        ("NAME", "KIND", "STATUS", "PRESENCE", "TRUST", "RUNNING", "QUEUED", "SEEN", "ID"),
        [
            (
                one["name"],
                _kind(one),
                one["status"],
                one["presence"],
                one["trust_level"],
                str(one["running"]),
                _queued(one),
                when(one["seen_at"]),
                one["id"],
            )
            for one in page["items"]
        ],
        "No machine yet. Add one: farhand machines add",
    )


def _kind(one: dict[str, Any]) -> str:  # one: JSON
    """Return a kind as people and selectors write it."""
    return str(one["kind"]).replace("_", "-")


@app.command("show", cls=Verb)
def show_one(machine: Name, as_json: Json = False) -> None:
    """Show one machine."""
    server = api()
    one = server.get(f"/v1/machines/{segment(machine)}")
    if as_json:
        show_json(one)
        return
    for label, text in _details(one):
        show(f"{label:13} {text}")
    page = server.get("/v1/commands", machine_id=one["id"], open=True, limit=_COMMANDS_SHOWN)
    for command in reversed(page["items"]):  # the oldest first: in this order they start
        show(f"{'command':13} {command['title']}  [{waiting(command) or command['state']}]")
    if page["next_cursor"]:
        show(f"{'':13} and older ones")


def _queued(one: dict[str, Any]) -> str:  # one: JSON
    """Return how many commands wait there; of a machine that takes none, also how long."""
    takes_work = one["presence"] == "online" and one["status"] == "active"
    if not one["queued"] or takes_work:
        return str(one["queued"])
    return f"{one['queued']} {span(one['queued_since'], one['queued_until'])}"


def _details(one: dict[str, Any]) -> list[tuple[str, str]]:  # one: JSON
    inferred = "also unasked work" if one["allow_inferred"] else "only what was asked for"
    lines = [
        ("name", one["name"]),
        ("id", one["id"]),
        ("kind", _kind(one) + (f", for ticket {one['ticket_id']}" if one["ticket_id"] else "")),
        ("status", one["status"]),
        ("presence", f"{one['presence']}, seen {when(one['seen_at'])}"),
        ("trust level", f"{one['trust_level']} (chosen by: {one['chosen_by'] or 'nobody'})"),
        ("runs", f"{inferred}; {one['concurrency']} commands at once"),
        ("now", f"{one['running']} running, {_queued(one)} queued"),
        ("daemon", f"{one['daemon_version']} (capability {one['capability']})"),
        ("since", when(one["created_at"])),
    ]
    if one["words"]:
        lines.append(("six words", " ".join(one["words"])))
    if one["status"] == "quarantined":
        lines.append(("why", "two computers used its identity, as after copying a disk"))
        lines.append(
            (
                "way back",
                "farhand machines add --wait here and farhandd enroll --rejoin there: first on the "
                f"computer that stays {one['name']}, then on the other, a machine of its own then",
            )
        )
    lines += [("label", label_text(*pair)) for pair in sorted(one["labels"].items())]
    unasked = () if one["facts"].get("has_battery") else _OF_A_BATTERY
    lines += [
        ("fact", f"{name}: {fact}")
        for name, value in sorted(one["facts"].items())
        if name not in unasked and (fact := _fact_text(value))
    ]
    return lines


def label_text(name: str, value: str) -> str:
    """Return a label as it is written."""
    return f"{name}={value}" if value else name


def _fact_text(value: Any) -> str:  # JSON
    """Return a fact for people; of several things the names."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {one}".strip() for name, one in sorted(value.items()))
    if isinstance(value, list):
        return ", ".join(
            str(one.get("remote", one)) if isinstance(one, dict) else str(one) for one in value
        )
    return "yes" if value is True else "no" if value is False else str(value)


@app.command(cls=Verb)
def add(
    name: Annotated[str | None, typer.Option(metavar="NAME", help="What to call it.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for it, compare the six words, confirm.")
    ] = False,
    managed: Annotated[
        bool,
        typer.Option(
            "--managed", help="Nobody sits there: print the script that root runs on it, once."
        ),
    ] = False,
    cloud_init: Annotated[
        bool, typer.Option("--cloud-init", help="With --managed: as user-data of cloud-init.")
    ] = False,
    labels: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="LABEL", help="With --managed: of it; may be repeated."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a code that lets one computer in, once, within ten minutes."""
    if (cloud_init or labels) and not managed:
        given = "--cloud-init" if cloud_init else "--label"
        raise InvalidInput(f"cannot use {given}: that is for machines that are --managed")
    parse_labels(labels or ())
    server = api()
    kind = "managed" if managed else "personal"
    made = server.post("/v1/machines/codes", {"name": name, "kind": kind})
    if as_json:
        show_json(made)
    elif managed:
        _show_set_up(made, cloud_init=cloud_init, labels=labels or ())
    else:
        show(f"Enrolment code (for one computer, until {when(made['expires_at'])}):")
        show(f"    {made['code']}")
        show("On that computer, with its own user:")
        show(f"    {made['install_line']}")
        show(f"or, where the daemon is installed already: farhandd enroll {made['url']}")
        show("It asks for the code, then shows six words.")
        _warn_of_loopback(made)
    if wait:
        _wait_and_confirm(server, made["id"])
    elif managed and not as_json:
        note("It prints six words (to the console). Compare them: farhand machines confirm MACHINE")
    elif not as_json:
        show("Compare them here: farhand machines confirm MACHINE")


def _warn_of_loopback(made: dict[str, Any]) -> None:  # made: JSON
    if (urlsplit(made["url"]).hostname or "") in _LOOPBACK:
        note(
            "This address is for this computer only; to add another one, start the server "
            "with FARHAND_BIND=0.0.0.0 and give its name instead."
        )


def _show_set_up(
    made: dict[str, Any],  # JSON
    *,
    cloud_init: bool,
    labels: Sequence[str],
) -> None:
    """Print what sets up a managed machine; standard output holds nothing else."""
    from datetime import UTC, datetime

    from farhand_control_plane.provisioning.cloud_init import (
        ManagedMachine,
        render_set_up,
        render_user_data,
    )

    machine = ManagedMachine(
        url=made["url"],
        code=made["code"],
        expires_at=datetime.fromisoformat(made["expires_at"]).astimezone(UTC),
        labels=labels,
    )
    show((render_user_data if cloud_init else render_set_up)(machine).rstrip("\n"))
    _warn_of_loopback(made)


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
            f"cannot confirm {name}: the answer was not the whole word yes, so it stays pending; "
            f"if the words are the same: farhand machines confirm {name}; "
            f"if they differ: farhand machines revoke {name}"
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


@app.command(cls=Verb)
def explain(
    selector: Annotated[
        str,
        typer.Argument(
            metavar="SELECTOR",
            help="machine=NAME, or terms such as 'os=linux gpu repo:acme/web tool:docker>=24 "
            "label=build cpu>=8 memory>=16G'.",
        ),
    ],
    as_json: Json = False,
) -> None:
    """Say which machine work goes to, and for each of the others why not."""
    answer = api().get("/v1/machines/explain", selector=selector)
    if as_json:
        show_json(answer)
        return
    show(answer["summary"])
    for one in answer["machines"]:
        mark = "->" if one["id"] == answer["chosen"] else "ok" if one["fits"] else "no"
        show(f"  {mark} {one['name']} ({one['presence']})")
        for reason in one["reasons"]:
            show(f"       {reason}")


@app.command(cls=Verb)
def label(
    machine: Name,
    labels: Annotated[
        list[str] | None,
        typer.Argument(metavar="LABEL...", help="Such as build, or team=infra."),
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option("--remove", metavar="NAME", help="Take this one away; may be repeated."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Give a machine labels, by which selectors find it."""
    if not labels and not remove:
        raise InvalidInput(f"cannot label {machine}: no label is given; name one, or --remove one")
    _changed(machine, "labels", as_json, {"add": labels or [], "remove": remove or []})


@app.command(cls=Verb)
def rename(
    machine: Name,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call it from now on.")],
    as_json: Json = False,
) -> None:
    """Give a machine another name."""
    _changed(machine, "rename", as_json, {"name": name})


@app.command(cls=Verb)
def pause(machine: Name, as_json: Json = False) -> None:
    """Start nothing more on a machine; what runs goes on, its queue waits."""
    _changed(machine, "pause", as_json)


@app.command(cls=Verb)
def resume(machine: Name, as_json: Json = False) -> None:
    """Let a paused machine take work again, its queue first."""
    _changed(machine, "resume", as_json)


def _changed(
    machine: str,
    change: str,
    as_json: bool,
    asked: dict[str, Any] | None = None,  # JSON
) -> None:
    """Ask for a change, which may be asked for twice, and show how the machine stands then."""
    one = api().post(f"/v1/machines/{segment(machine)}/{change}", asked, repeatable=True)
    if as_json:
        show_json(one)
        return
    match change:
        case "labels":
            shown = ", ".join(label_text(*pair) for pair in sorted(one["labels"].items()))
            show(f"{one['name']} has the labels: {shown or 'none'}.")
        case "pause":
            show(f"{one['name']} is paused: {one['running']} running, {one['queued']} wait.")
        case "resume":
            show(f"{one['name']} takes work again: {one['queued']} queued, {one['presence']}.")
        case _:
            show(f"{machine} is {one['name']} now.")
