"""Has the page, and what new machines are given, built in the background in a checkout.

An installed wheel carries both. A checkout has only their sources: building them takes Node and the
network the first time, so it begins when everything runs and nothing waits for it.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from farhand_control_plane.up.children import Child

_PATIENCE_S: Final = 5.0  # it removes what it has half built


def builder() -> Path | None:
    """Return the program that builds them: only a checkout has it."""
    checkout = Path(__file__).resolve().parents[3]
    found = checkout / "scripts" / "build_served.py"
    sources = checkout / "control_plane" / "dashboard" / "package.json"
    return found if found.is_file() and sources.is_file() else None


class PageBuild:
    """One run of the builder, beside everything else; what it reports goes to ``say``."""

    def __init__(
        self,
        program: Path | None,
        *,
        log: Path,
        environ: Mapping[str, str],
        say: Callable[[str], None],
        failed: Path | None = None,
    ) -> None:
        """``failed``: where the page's own address finds why there is none."""
        self._program = program
        # What packages of the page's run while it is built has no business with our settings.
        bare = {name: text for name, text in environ.items() if not name.startswith("FARHAND_")}
        self._child = Child("page", log=log, environ=bare)
        self._say = say
        self._failed = failed
        self._heard = False

    def start(self) -> None:
        """Begin, where there is something to build from; returns at once."""
        if self._program is not None:
            self._child.start([sys.executable, str(self._program)], reports=True)

    def look(self) -> None:
        """Pass on what it has said, and that it ended without a word if it did; call it often."""
        process = self._child.process
        if process is None:
            return
        ended = process.poll()  # before hearing: what it said last is heard too
        for line in self._child.hear():
            self._heard = True
            self._say(line["message"])
        if ended is not None:
            if ended < 0 or (ended > 0 and not self._heard):  # killed: nothing it said was the end
                self._tell_that_it_broke_off()
            _kill_group(process)  # what it had started, if that is still there
            self._child.forget()
            self._child.process = None

    def stop(self) -> None:
        """End it and all that it has started; at once if it is not running."""
        process = self._child.process
        if process is None:
            return
        # Its process group is its own: npm and Vite are in it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE_S)
        _kill_group(process)  # who ignored it
        process.wait()
        self._child.forget()
        self._child.process = None

    def _tell_that_it_broke_off(self) -> None:
        how = self._child.how_it_ended()
        line = f"the page was not built ({how}: {self._child.last_words()}); see {self._child.log}"
        self._say(line)
        if self._failed is not None:
            with contextlib.suppress(OSError):  # where we cannot write, that is what was just said
                self._failed.write_text(f"{line}\n")


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
