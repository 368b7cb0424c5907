"""The daemon as the installer leaves it: versions in folders of their own, and ``current``.

Every version is a real environment whose ``farhandd`` is this checkout's daemon, which calls itself
as it is told and may be sabotaged. Not modelled: wheels, pip; all versions run the same sources.
"""

import hashlib
import os
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

from farhand_daemon.update.slots import Slot, Slots
from farhand_daemon.update.state import Candidate, UpdateState, change_state, load_state

_SOURCES = Path(__file__).resolve().parents[2]
_PROGRAM = """\
{first_line}
import sys
import farhand_shared.version
farhand_shared.version.__version__ = {version!r}
import farhand_daemon.update.schedule
farhand_daemon.update.schedule._LOOK_S = 0.2  # nobody waits here for battery
{sabotage}
from farhand_daemon.__main__ import main
sys.exit(main())
"""

ENDS_AT_ONCE = "print('broken', file=sys.stderr); sys.exit(1)"
# It does not even read what it is told: neither a signal nor the end of its lifeline.
HANGS = """\
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True: time.sleep(1)
"""
NEVER_CONNECTS = """\
import farhand_daemon.stream
async def run(self, channel, hello):
    raise farhand_daemon.stream.StreamEnded("nobody answers")
farhand_daemon.stream.LinkStream.run = run
"""
CONNECTS_ONCE = """\
import asyncio, farhand_daemon.stream
of_old = farhand_daemon.stream.LinkStream.run
times = []
async def run(self, channel, hello):
    times.append(1)
    if len(times) > 1:
        raise farhand_daemon.stream.StreamEnded("nobody answers any more")
    try:
        async with asyncio.timeout(0.5):
            await of_old(self, channel, hello)
    except TimeoutError:
        raise farhand_daemon.stream.StreamEnded("it went away") from None
farhand_daemon.stream.LinkStream.run = run
"""


@dataclass(frozen=True)
class InstalledProgram:
    """One installation, in ``folder``."""

    folder: Path

    @classmethod
    def make(cls, data: Path, *, version: str = "0.1.0", sabotage: str = "") -> "InstalledProgram":
        """Install one version and make it current."""
        program = cls(data / "farhandd-program")
        program.folder.mkdir(parents=True)
        program.slots.make_current(program.add(version, sabotage))
        return program

    @property
    def slots(self) -> Slots:
        return Slots(self.folder)

    @property
    def farhandd(self) -> Path:
        return self.folder / "current" / "bin" / "farhandd"

    @property
    def state(self) -> UpdateState:
        return load_state(self.folder)

    def add(self, version: str, sabotage: str = "") -> Slot:
        slot = self.slots.named(hashlib.sha256(f"{version}{sabotage}".encode()).hexdigest())
        venv.create(slot.folder, symlinks=True)
        packages = Path(sysconfig.get_path("purelib", vars={"base": str(slot.folder)}))
        (packages / "checkout.pth").write_text(checkout_paths())
        (packages / f"farhand_daemon-{version}.dist-info").mkdir()
        slot.program.write_text(program_text(f"#!{slot.python}", version, sabotage))
        slot.program.chmod(0o755)
        (slot.folder / "complete").touch()
        return slot

    def offer(self, slot: Slot, *, asked: bool = True) -> None:
        """Have a version tried, as the process that installs one does at its end."""
        ready = Candidate(slot=slot.name, version=slot.version(), asked=asked)
        change_state(self.folder, lambda state: UpdateState(ready=ready, bad=state.bad))


def checkout_paths() -> str:
    """Return the lines of a .pth file by which an environment finds this checkout's daemon."""
    ours = [_SOURCES / name for name in ("endpoint_daemon", "shared")]
    paths = [*ours, *(path for path in sys.path if path.endswith("site-packages"))]
    return "".join(f"{path}\n" for path in paths)


def program_text(first_line: str, version: str, sabotage: str) -> str:
    return _PROGRAM.format(first_line=first_line, version=version, sabotage=sabotage)


def trusting(keys: Path) -> str:
    """Return what makes a version trust the release keys in a file, as one built with them does."""
    return f"import farhand_daemon.update.told as told; told._KEYS = {str(keys)!r}"


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
