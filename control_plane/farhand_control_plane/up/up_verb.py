"""The arguments of `farhand up`."""

import sys
from collections.abc import Mapping, Sequence
from typing import Final

from farhand_control_plane.config import load
from farhand_shared.errors import FarhandError, InvalidInput

HELP: Final = """\
Usage: farhand up [--once TEXT]

Run the whole system on this computer: database, server, and the daemon that lets the agent run
commands here as you, without a sandbox. Ctrl-C stops all of it; starting again finds everything as
it was.

Options:
  --once TEXT  say TEXT to the agent, show what comes of it, stop again; the exit status is the
               command's own when it ran one, 0 when it answered or delivered, 3 when it waits for
               a person, else 1
  --help       show this

Settings come from the environment: FARHAND_HOME, FARHAND_DATABASE_URL, FARHAND_BIND,
FARHAND_MODEL_BASE_URL, FARHAND_MODEL, …: see control_plane/README.md.
"""


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run the verb and return the exit code."""
    try:
        once = _parse(list(arguments))
        if once is not None and not once:
            sys.stdout.write(HELP)
            return 0
    except InvalidInput as error:
        sys.stderr.write(f"farhand: {error}\n")
        return 2
    try:
        from farhand_control_plane.up.parent import Parent

        return Parent(load(environ), environ, once=once[0] if once else None).run()
    except FarhandError as error:
        from farhand_control_plane.client.api import complaint

        sys.stderr.write(f"farhand: {complaint(str(error), 'run this')}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def _parse(arguments: list[str]) -> list[str] | None:
    """Return None to stay up, [text] for --once, [] for --help."""
    match arguments:
        case []:
            return None
        case ["--help" | "-h", *_]:
            return []
        case ["--once"]:
            raise InvalidInput('cannot start: --once needs a text; farhand up --once "TEXT"')
        case ["--once", text]:
            pass
        case [option] if option.startswith("--once="):
            text = option.removeprefix("--once=")
        case ["--once", _, extra, *_]:
            raise InvalidInput(f"cannot start: {extra!r} is too much; quote the text of --once")
        case [unknown, *_]:
            raise InvalidInput(f"cannot start: {unknown!r} is unknown; see farhand up --help")
    if not text.strip():
        raise InvalidInput('cannot start: the text of --once is empty; farhand up --once "TEXT"')
    return [text]
