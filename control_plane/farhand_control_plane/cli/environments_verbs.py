"""`farhand provisioners`, and `farhand machines create` and `destroy`: environments on demand."""

import time
from typing import Annotated, Any, Final

import typer

from farhand_control_plane.cli.groups import Verb, group
from farhand_control_plane.cli.machines_verbs import Json, Name
from farhand_control_plane.cli.machines_verbs import app as machines_app
from farhand_control_plane.cli.session import api, asks_yes, note, show, show_json, table, when
from farhand_control_plane.client.api import Api, segment
from farhand_shared.errors import NotAllowed, Unavailable

app = group("See what makes environments on demand.")

_ASK_EVERY_S: Final = 0.5
_UNLIMITED: Final = "-"


@app.command("list", cls=Verb)
def list_(as_json: Json = False) -> None:
    """List what can make environments and which of them does, then the environments there are."""
    server = api()
    page = server.get("/v1/provisioners")
    if as_json:
        show_json(page)
        return
    table(
        ("NAME", "IN USE", "ENVIRONMENTS", "PER MEMBER", "LIFETIME", "PACKAGE", "ABOUT"),
        [
            (
                one["name"],
                "yes" if one["in_use"] else "no",
                _of_limit(one["environments"], one["limits"], "per_instance"),
                _limit(one["limits"], "per_member"),
                _UNLIMITED if one["limits"] is None else f"{one['limits']['lifetime_s']} s",
                one["package"],
                one["about"],
            )
            for one in page["items"]
        ],
        "None is installed.",
    )
    if not any(one["in_use"] for one in page["items"]):
        note("None is in use. To use one, start the server with FARHAND_PROVISIONER=NAME.")
    made = server.get("/v1/environments")["items"]
    if made:
        show()
        table(
            ("ENVIRONMENT", "STATE", "PROVISIONER", "TICKET", "UNTIL", "NOTE"),
            [
                (
                    one["name"],
                    one["state"],
                    one["provisioner"],
                    one["ticket_id"] or "none",
                    when(one["expires_at"]),
                    one["error"] or one["reason"],
                )
                for one in made
            ],
            "",
        )


def _of_limit(count: int, limits: dict[str, Any] | None, name: str) -> str:  # limits: JSON
    return str(count) if limits is None else f"{count} of {limits[name]}"


def _limit(limits: dict[str, Any] | None, name: str) -> str:  # limits: JSON
    return _UNLIMITED if limits is None else str(limits[name])


@machines_app.command("create", cls=Verb)
def create(
    wait: Annotated[bool, typer.Option("--wait", help="Return when it is online.")] = False,
    as_json: Json = False,
) -> None:
    """Make an environment on demand for yourself; it lives until it is destroyed or too old."""
    server = api()
    made = server.post("/v1/environments")
    if wait:
        _wait_until_online(server, made)
    if as_json:
        show_json(server.get(f"/v1/machines/{segment(made['machine_id'])}"))
        return
    state = "is online" if wait else "is being made"
    show(f"{made['name']} {state}; it lives until {when(made['expires_at'])} at most.")
    show(f"End it with: farhand machines destroy {made['name']}")


def _wait_until_online(server: Api, made: dict[str, Any]) -> None:  # made: JSON
    note(f"Waiting for {made['name']} (Ctrl-C stops waiting, it is made all the same) …")
    while server.get(f"/v1/machines/{segment(made['machine_id'])}")["presence"] != "online":
        one = _environment(server, made["machine_id"])
        if one is None or one["state"] in ("destroying", "destroyed"):
            reason = "it is gone" if one is None else one["reason"]
            raise Unavailable(f"cannot make {made['name']}: {reason}")
        time.sleep(_ASK_EVERY_S)  # the API tells presence only when asked


@machines_app.command("destroy", cls=Verb)
def destroy(
    machine: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Return when nothing is left.")] = False,
) -> None:
    """Destroy an environment on demand, with everything in it."""
    server = api()
    one = server.get(f"/v1/machines/{segment(machine)}")
    if (
        not yes
        and one["kind"] == "on_demand"
        and not asks_yes(f"{one['name']} goes with all its files; what runs there is ended.")
    ):
        raise NotAllowed(f"cannot destroy {one['name']}: the answer was not yes")
    server.post(f"/v1/environments/{segment(one['id'])}/destroy")
    if wait:
        while _environment(server, one["id"]) is not None:
            time.sleep(_ASK_EVERY_S)  # no event says that nothing is left
    show(f"{one['name']} is {'gone' if wait else 'being destroyed'}.")


def _environment(server: Api, machine_id: str) -> dict[str, Any] | None:  # JSON
    found: list[dict[str, Any]] = server.get("/v1/environments")["items"]
    return next((one for one in found if one["machine_id"] == machine_id), None)
