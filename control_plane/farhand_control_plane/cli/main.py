"""Where `farhand` begins: hot verbs at once, every other after the parser has been imported."""

import os
import sys
from collections.abc import Sequence

from farhand_shared.version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    match argv:
        case ["--version"]:
            print(f"farhand {__version__}")
            return 0
        case ["exec", *rest]:
            from farhand_control_plane.cli import exec_verb

            return exec_verb.main(rest, os.environ)
        case ["up", *rest]:
            # Not hot, but its start is what people wait for most often.
            from farhand_control_plane.up import up_verb

            return up_verb.main(rest, os.environ)
        case ["serve", *rest]:
            from farhand_control_plane.cli import serve_verb

            return serve_verb.main(rest, os.environ)
        case _:
            from farhand_control_plane.cli import verbs

            return verbs.main(argv)
