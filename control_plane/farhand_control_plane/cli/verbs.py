"""All verbs but the hot ones, on typer; and the one place where errors become words and codes."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from farhand_control_plane.cli import (
    environments_verbs,
    files_verbs,
    machines_verbs,
    tickets_verbs,
    tokens_verbs,
)
from farhand_control_plane.cli.groups import Verb, group
from farhand_control_plane.cli.session import Misuse
from farhand_control_plane.client.api import complaint
from farhand_shared.errors import FarhandError
from farhand_shared.version import __version__

MISUSE = 2

app = group("An always-online agent that works on your own machines.", name="farhand")
app.add_typer(machines_verbs.app, name="machines")
app.add_typer(environments_verbs.app, name="provisioners")
app.add_typer(files_verbs.app, name="files")
app.add_typer(tickets_verbs.app, name="tickets")
app.add_typer(tokens_verbs.app, name="tokens")

# `up`, `serve` and `exec` have parsers of their own, so that they start without this module
# (`cli.main`); here they only have their line of help.


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(f"farhand {__version__}")
        raise typer.Exit


@app.command(cls=Verb)
def up() -> None:
    """Run the whole system on this computer."""


@app.command(cls=Verb)
def serve() -> None:
    """Run one replica on the database that FARHAND_DATABASE_URL names."""


@app.command(cls=Verb)
def migrate() -> None:
    """Bring the schema of FARHAND_DATABASE_URL up to date."""
    from farhand_control_plane.cli.session import settings, show
    from farhand_control_plane.db.migrate import SCHEMA_VERSION, upgrade
    from farhand_shared.errors import InvalidInput

    address = settings().database_url
    if address is None:
        raise InvalidInput(
            "cannot migrate: FARHAND_DATABASE_URL is not set; farhand up migrates its own database"
        )
    upgrade(address.reveal().decode())
    show(f"The schema is at version {SCHEMA_VERSION}.")


@app.command("exec", cls=Verb)
def exec_() -> None:
    """Run a command on a machine, with its output and exit code."""


@app.command(cls=Verb)
def chat(
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="What to say; lines are read when it is absent."),
    ] = None,
    conversation: Annotated[
        str, typer.Option(metavar="NAME", help="Which conversation it belongs to.")
    ] = "main",
    machine: Annotated[
        str | None,
        typer.Option(
            metavar="MACHINE",
            help="What 'this machine' means in it; the local one by default.",
        ),
    ] = None,
) -> None:
    """Say something to the agent, or talk with it.

    TEXT is sent and followed to its end; without it lines are read, from a person or a pipe.
    They are taken while earlier ones are followed; those of a pipe or file are sent once the one
    before is under way or over. Ctrl-C stops following, the work goes on.

    Exit codes: the command's own when one ran; 0 answered or delivered, 3 waits for a person, 1
    failed, 130 Ctrl-C. With several lines, the last one's.
    """
    from farhand_control_plane.cli import chat_verb

    status = chat_verb.chat(text, conversation_name=conversation, machine=machine)
    raise typer.Exit(status)


@app.command("sign-in", cls=Verb)
def sign_in(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Print a link that opens the page in a browser, signed in.

    It works once, within 15 minutes, and for whoever has it: give it to nobody else. The browser
    stays signed in for 30 days, until it signs out, or until farhand tokens revoke ends it.
    """
    from farhand_control_plane.cli.session import api, note, show, show_json, when

    made = api().post("/v1/sign-in/links")
    if as_json:
        show_json(made)
        return
    note(f"Open it in a browser; it works once, until {when(made['expires_at'])}.")
    show(made["url"])


@app.command(cls=Verb)
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Find what is wrong and what to do about it."""
    from farhand_control_plane.cli import doctor_verb

    raise typer.Exit(doctor_verb.doctor(as_json=as_json))


def main(arguments: Sequence[str]) -> int:
    """Run a verb and return its exit code: 1 for an error, 2 for misuse."""
    try:
        status = app(list(arguments), prog_name="farhand", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except FarhandError as error:
        return _fail(str(error), MISUSE if isinstance(error, Misuse) else 1)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read our output has gone
        sys.stdout = None  # or the interpreter complains at its end
        return 141
    except Exception as error:
        # typer's own exceptions moved between its releases; what they can do has not.
        if type(error).__name__ == "Abort":
            return 130
        describe = getattr(error, "format_message", None)
        if describe is None:
            raise
        words = str(describe())
        if type(error).__name__ == "NoArgsIsHelpError":  # a group alone: these are its help
            sys.stderr.write(f"{words}\n" if words else "")
            return MISUSE
        words = " ".join(words.split()).rstrip(".").replace("Value error, ", "")
        context = getattr(error, "ctx", None)
        path = getattr(context, "command_path", "farhand")
        return _fail(f"cannot do this: {words[:1].lower()}{words[1:]}; see {path} --help", MISUSE)


def _fail(text: str, status: int) -> int:
    sys.stdout.flush()
    sys.stderr.write(f"farhand: {complaint(text, 'do this')}\n")
    return status
