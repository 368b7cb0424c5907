"""A computer that has nothing of ours, as a person sits in front of it: a terminal and a shell."""

import contextlib
import fcntl
import os
import pty
import shutil
import signal
import subprocess
import termios
import threading
import time
from pathlib import Path

from tests.e2e.conftest import _python_for as python_for
from tests.e2e.system import PATIENCE_S, System, User, until
from tests.fakes.fake_service_manager import FakeServiceManager

NEEDED = ("cffi", "cryptography", "grpcio", "platformdirs", "protobuf", "pycparser", "typing_ext")


class Terminal:
    """A program on a terminal of its own; what it shows is read as it comes."""

    def __init__(self, command: str, *, user: User, folder: Path, environ: dict[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        self.shown = ""
        self.process = subprocess.Popen(
            ["sh", "-c", command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env=environ,
            start_new_session=True,
            # A controlling terminal, or there is no /dev/tty to ask on and no Ctrl-C.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            **user.options(),
        )
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # how a terminal says that nobody is left
            while data := os.read(self._ours, 65536):
                self.shown += data.decode("utf-8", "replace")

    def waits_for(self, part: str) -> str:
        """Return the line that holds this."""
        deadline = time.monotonic() + PATIENCE_S
        while part not in self.shown:
            assert self._reader.is_alive(), f"ended without {part!r}:\n{self.shown}"
            assert time.monotonic() < deadline, f"no {part!r}:\n{self.shown}"
            time.sleep(0.05)  # between two looks, not for timing
        return next(line for line in self.shown.splitlines() if part in line)

    def types(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def ended(self) -> int:
        status = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return status

    def close(self) -> None:
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        os.close(self._ours)


class Computer:
    """A computer of this user's without anything of ours, next to one where `farhand up` runs."""

    def __init__(self, system: System, url: str, folder: Path, wheels: Path) -> None:
        self.system, self.url, self.folder, self.user = system, url, folder, system.user
        # Nothing here may become a service of the computer that runs the tests.
        self.services = FakeServiceManager.make(
            folder / "services", python=python_for(system.user.name)
        )
        self.services.say(system=False, session=False)
        for path in (self.services.folder, *self.services.folder.rglob("*")):
            os.chown(path, system.user.uid, system.user.gid)
        self._environ = {
            "PATH": f"{self.services.tools}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "PYTHON": python_for(system.user.name),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(wheels),
        }
        self._terminals: list[Terminal] = []

    @property
    def programs(self) -> Path:
        return self.folder / ".local" / "share" / "farhandd-program"

    def line(self, line: str) -> Terminal:
        """Type a line into a shell here."""
        self._terminals.append(
            Terminal(line, user=self.user, folder=self.folder, environ=self._environ)
        )
        return self._terminals[-1]

    def enrols(self, terminal: Terminal, code: str) -> str:
        """Answer what is asked, compare the words, confirm them; return the machine's name."""
        terminal.waits_for("Enrolment code")
        terminal.types(f"{code}\n")
        return self.confirms(terminal)

    def confirms(self, terminal: Terminal) -> str:
        def asks() -> bool:  # not where the machine's own file says it already
            return "Type yes" in terminal.shown or "Six words" in terminal.shown

        until("it asks for trust, or goes on", asks)
        if "Six words" not in terminal.shown:
            terminal.types("yes\n")
        words = terminal.waits_for("Six words").partition(": ")[2].strip()
        (pending,) = [one for one in self.machines() if one["status"] == "pending"]
        assert " ".join(pending["words"]) == words
        done = self.system.farhand("machines", "confirm", pending["name"], "--words", words)
        assert done.status == 0, done.err
        return str(pending["name"])

    def machines(self) -> list[dict[str, object]]:
        return list(self.system.farhand("machines", "list", "--json").json()["items"])

    def presence(self, name: str) -> str:
        return str(self.system.farhand("machines", "show", name, "--json").json()["presence"])

    def code(self) -> dict[str, str]:
        return dict(self.system.farhand("machines", "add", "--json").json())

    def close(self) -> None:
        for terminal in self._terminals:
            terminal.close()


def dependencies_in(folder: Path, wheelhouse: Path) -> Path:
    """Return a folder with what the daemon depends on, made once."""
    wheels = folder / "dependencies"
    if not wheels.exists():
        wheels.mkdir()
        for wheel in wheelhouse.glob("*.whl"):
            if wheel.name.lower().startswith(NEEDED):
                shutil.copy(wheel, wheels)
    return wheels
