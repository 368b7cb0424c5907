"""How a person calls this very program, as it can be typed in any folder.

Whoever runs it from a checkout has no `farhand` in their shell, and a line that we tell them to
copy must work as it stands. Standard library only and nothing at import: a leaf.
"""

import os
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_NAME: Final = "farhand"


def farhand(environ: Mapping[str, str] | None = None) -> str:
    """Return ``farhand`` when a shell finds this program by it, else its full path, quoted.

    ``environ``: whose PATH counts; this process's when not given.
    """
    path = (os.environ if environ is None else environ).get("PATH", os.defpath)
    program = _program()
    if program is None:  # it runs as a module, and no script of it was installed
        return f"{shlex.quote(sys.executable)} -m farhand_control_plane"
    found = shutil.which(_NAME, path=path)
    if found is not None and _same(found, program):
        return _NAME
    return shlex.quote(str(program))


def daemon_command(verb: str, *arguments: str) -> list[str]:
    """Return the command that runs the daemon's program of this installation."""
    # -P: the working directory must not shadow a module.
    return [sys.executable, "-P", "-m", "farhand_daemon", verb, *arguments]


def for_strangers() -> str:
    """Return how this program is called in its checkout's own folder, or ``farhand``.

    It names no folder of this computer, so that pages may show it to whoever asks.
    """
    checkout = Path(__file__).parents[2]
    program = _program()
    if program is None or not (checkout / "scripts" / "up").is_file():
        return _NAME
    return str(program.relative_to(checkout)) if program.is_relative_to(checkout) else _NAME


def _program() -> Path | None:
    """Return the script that was started, else the one beside this interpreter."""
    started = Path(sys.argv[0] or ".").absolute() if sys.argv else Path()
    for candidate in (started, Path(sysconfig.get_path("scripts")) / _NAME):
        if candidate.name == _NAME and os.access(candidate, os.X_OK) and candidate.is_file():
            return candidate
    return None


def _same(one: str, other: Path) -> bool:
    try:
        return other.samefile(one)
    except OSError:
        return False
