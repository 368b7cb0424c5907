"""`farhand tokens`: who and what may talk to the server."""

from typing import Annotated

import typer

from farhand_control_plane.cli.groups import Verb, group
from farhand_control_plane.cli.session import api, note, settings, show, show_json, table, when
from farhand_control_plane.client.api import segment
from farhand_control_plane.domain.access import Scope
from farhand_control_plane.own_program import farhand

app = group("See, make and revoke API tokens.")

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@app.command("list", cls=Verb)
def list_(as_json: Json = False) -> None:
    """List live tokens; the tokens themselves are not kept."""
    page = api().get("/v1/tokens", limit=200)
    if as_json:
        show_json(page)
        return
    table(
        ("NAME", "SCOPES", "CREATED", "USED", "EXPIRES", "ID"),
        [
            (
                one["name"],
                " ".join(one["scopes"]),
                when(one["created_at"]),
                when(one["used_at"]),
                when(one["expires_at"]),
                one["id"],
            )
            for one in page["items"]
        ],
        f"No token. Make one: {farhand()} tokens create NAME --scope read",
    )


@app.command(cls=Verb)
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is for.")],
    scope: Annotated[
        list[Scope],
        typer.Option(metavar="SCOPE", help=f"What it may do: {', '.join(Scope)}; repeat."),
    ],
    machine: Annotated[
        str | None,
        typer.Option(metavar="MACHINE", help="What 'this machine' means to its user."),
    ] = None,
    days: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", min=1, max=3650, help="Expire after so many."),
    ] = None,
    direct: Annotated[
        bool,
        typer.Option(
            "--direct",
            help="Write to FARHAND_DATABASE_URL without a server: the way to a first token.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a token; it is shown once."""
    if direct:
        from farhand_control_plane.cli.direct_token import create_directly

        made = create_directly(settings(), name=name, scopes=scope, days=days)
    else:
        made = api().post(
            "/v1/tokens",
            {"name": name, "scopes": scope, "machine": machine, "expires_in_days": days},
        )
    if as_json:
        show_json(made)
        return
    note("Keep it: it is not shown again. Use it as FARHAND_TOKEN, with FARHAND_URL.")
    show(made["token"])


@app.command(cls=Verb)
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="As farhand tokens list shows it.")],
) -> None:
    """Revoke a token, at once and everywhere."""
    api().delete(f"/v1/tokens/{segment(token_id)}")
    show("Revoked.")
