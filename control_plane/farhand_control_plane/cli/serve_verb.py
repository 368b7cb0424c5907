"""The arguments of `farhand serve`."""

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from farhand_control_plane.config import load
from farhand_control_plane.logs import configure
from farhand_shared.errors import FarhandError, InvalidInput

HELP: Final = """\
Usage: farhand serve

Run one replica of the control plane in the foreground, on the database that FARHAND_DATABASE_URL
names. It brings the database's schema up to date. SIGTERM ends it after handing over what it holds.
Settings come from the environment; see control_plane/README.md. `farhand up` does all of it for one
computer.
"""


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run the verb and return the exit code."""
    local, descriptors = False, {"--lifeline": -1, "--report": -1}
    rest = list(arguments)
    try:
        while rest:
            word = rest.pop(0)
            if word in ("--help", "-h"):
                sys.stdout.write(HELP)
                return 0
            if word == "--local":
                local = True
            elif word in descriptors and rest and rest[0].isdecimal():
                descriptors[word] = int(rest.pop(0))
            else:
                raise InvalidInput(f"cannot serve: {word!r} is unknown; see farhand serve --help")
    except InvalidInput as error:
        sys.stderr.write(f"farhand: {error}\n")
        return 2
    try:
        settings = load(environ)
        configure(json_lines=settings.log_format == "json", level=settings.log_level)
        from farhand_control_plane.serve import ServeOptions, serve

        code = serve(
            settings,
            ServeOptions(
                lifeline=None if descriptors["--lifeline"] < 0 else descriptors["--lifeline"],
                report=None if descriptors["--report"] < 0 else descriptors["--report"],
                local=local,
            ),
        )
    except FarhandError as error:
        sys.stderr.write(f"farhand: {error}\n")
        return 1
    # All is closed. Taking the interpreter apart, module by module, would cost 0.4 s for nothing.
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
