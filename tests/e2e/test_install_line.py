"""The one line of the page: a computer that has nothing of ours becomes a machine that works.

It is run as people run it: in a shell on a terminal, in a fresh home. The server is a real one; the
daemon's dependencies come from the wheelhouse instead of the package index.
"""

import contextlib
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import _python_for as python_for
from tests.e2e.system import PATIENCE_S, System, User, until
from tests.fakes.fake_service_manager import FakeServiceManager

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

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


@pytest.fixture(scope="module")
def computer(system: System, url: str, e2e_folder: Path, wheelhouse: Path) -> Iterator[Computer]:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed, and the line is for it")
    wheels = e2e_folder / "dependencies"
    if not wheels.exists():
        wheels.mkdir()
        for wheel in wheelhouse.glob("*.whl"):
            if wheel.name.lower().startswith(NEEDED):
                shutil.copy(wheel, wheels)
    folder = e2e_folder / f"a computer of {system.user.name}"
    folder.mkdir(mode=0o700)
    os.chown(folder, system.user.uid, system.user.gid)
    computer = Computer(system, url, folder, wheels)
    yield computer
    computer.close()


@pytest.fixture(scope="module")
def added(computer: Computer) -> tuple[Terminal, str]:
    """The computer, added by the line of the page; its terminal and its name."""
    made = computer.code()
    terminal = computer.line(made["install_line"])
    name = computer.enrols(terminal, made["code"])
    terminal.waits_for("the daemon runs until Ctrl-C")
    until("it is online", lambda: computer.presence(name) == "online")
    return terminal, name


def test_the_line_takes_a_computer_to_its_first_output(
    computer: Computer, added: tuple[Terminal, str]
) -> None:
    terminal, name = added
    done = computer.system.farhand("exec", "--shell", name, "--", "pwd; id -u")
    assert done.status == 0, done.err
    assert done.out == f"{computer.folder}\n{computer.user.uid}\n"
    # Nothing was asked that could be known, and nothing of pip's is on the screen.
    questions = [line for line in terminal.shown.splitlines() if line.rstrip().endswith("?")]
    assert questions == []
    assert "WARNING" not in terminal.shown
    # No service manager runs here: it noticed by itself, and said so in one line.
    (why,) = [line for line in terminal.shown.splitlines() if "no service is made: " in line]
    assert "; the daemon runs until Ctrl-C; to start it again: " in why
    link = computer.folder / ".local" / "bin" / "farhandd"
    assert link.readlink() == computer.programs / "current" / "bin" / "farhandd"


def test_the_line_again_leaves_a_running_machine_as_it_is(
    computer: Computer, added: tuple[Terminal, str]
) -> None:
    first, name = added
    again = computer.line(computer.code()["install_line"])
    assert again.ended() == 0, again.shown
    assert "installed already" in again.shown
    assert f"this computer is {name} already" in again.shown
    assert re.search(r"its daemon runs \(pid \d+\)", again.shown)
    assert computer.presence(name) == "online"
    assert first.process.poll() is None


def test_another_home_is_another_machine(computer: Computer, added: tuple[Terminal, str]) -> None:
    made = computer.code()
    terminal = computer.line(f"{made['install_line']} -s -- --home 'another home'")
    name = computer.enrols(terminal, made["code"])
    assert name != added[1]
    home = computer.folder / "another home"
    assert f"run --home '{home}'" in terminal.waits_for("to start it again")
    until("it is online", lambda: computer.presence(name) == "online")
    assert (home / "identity.json").exists()
    terminal.types("\x03")
    terminal.ended()
    until("it is offline", lambda: computer.presence(name) == "offline")
    assert computer.presence(added[1]) == "online"


def test_what_it_said_starts_the_daemon_again_and_so_does_the_line(
    computer: Computer, added: tuple[Terminal, str]
) -> None:
    first, name = added
    said = first.waits_for("to start it again: ").partition("to start it again: ")[2].strip()
    first.types("\x03")
    first.ended()
    until("it is offline", lambda: computer.presence(name) == "offline")
    for line in (said, computer.code()["install_line"]):
        terminal = computer.line(line)
        until("it is online", lambda: computer.presence(name) == "online")
        terminal.types("\x03")
        terminal.ended()
        until("it is offline", lambda: computer.presence(name) == "offline")


def test_an_installation_that_was_broken_off_is_done_again_and_old_versions_go(
    computer: Computer, added: tuple[Terminal, str]
) -> None:
    current = (computer.programs / "current").resolve()
    (current / "complete").unlink()
    shutil.rmtree(current / "lib")
    old = computer.programs / "0123456789abcdef"
    old.mkdir()
    terminal = computer.line(computer.code()["install_line"])
    terminal.waits_for("connected as")
    assert "installing the daemon" in terminal.shown
    assert (current / "complete").exists()
    assert not old.exists() or shutil.which("ps") is None
    terminal.types("\x03")
    terminal.ended()


def test_a_computer_of_another_server_is_told_how_to_be_both(
    computer: Computer, added: tuple[Terminal, str]
) -> None:
    identity = computer.folder / ".local" / "share" / "farhandd" / "identity.json"
    kept = identity.read_text()
    identity.write_text(json.dumps(json.loads(kept) | {"server_url": "http://other.example"}))
    terminal = computer.line(computer.code()["install_line"])
    assert terminal.ended() != 0 or "cannot" in terminal.shown
    assert f"this computer is {added[1]} of http://other.example already" in terminal.shown
    assert "sh -s -- --home DIR" in terminal.shown
    identity.write_text(kept)


def test_without_a_terminal_it_installs_and_says_how_to_go_on(computer: Computer) -> None:
    folder = computer.folder / "elsewhere"
    done = subprocess.run(
        [
            "setsid",
            "--wait",
            "sh",
            "-c",
            f"curl -fsSL {computer.url}/install.sh | sh -s -- --home '{folder}'",
        ],
        env=computer._environ,
        cwd=computer.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        **computer.user.options(),
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("farhand: cannot enrol: there is no terminal to type the code on")
    assert line.endswith(f"/current/bin/farhandd' enroll {computer.url} --home '{folder}'")


def test_a_revoked_machine_is_enrolled_anew_by_the_same_line(
    computer: Computer, added: tuple[Terminal, str]
) -> None:
    name = added[1]
    running = computer.line(computer.code()["install_line"])
    until("it is online", lambda: computer.presence(name) == "online")
    done = computer.system.farhand("machines", "revoke", name, stdin=b"yes\n")
    assert done.status == 0, done.err
    running.ended()
    made = computer.code()
    terminal = computer.line(made["install_line"])
    terminal.waits_for(f"{name} was revoked: it is enrolled anew")
    again = computer.enrols(terminal, made["code"])
    until("it is online", lambda: computer.presence(again) == "online")
    terminal.types("\x03")
    terminal.ended()


def test_where_systemd_runs_a_service_is_made_and_the_line_ends(
    computer: Computer, added: tuple[Terminal, str]
) -> None:
    if computer.user.uid == 0:
        pytest.skip("as root it would be a unit of the computer that runs the tests")
    computer.services.say(system=True, session=True)
    made = computer.code()
    terminal = computer.line(f"{made['install_line']} -s -- --home 'a served home'")
    name = computer.enrols(terminal, made["code"])
    assert terminal.ended() == 0, terminal.shown
    assert "The daemon runs as a service of systemd --user, farhandd-" in terminal.shown
    (unit,) = (computer.folder / ".config" / "systemd" / "user").glob("farhandd-*.service")
    assert ["systemctl", "--user", "restart", unit.name] in computer.services.calls()
    # The fake starts nothing: its command line does, read as systemd reads it.
    words = re.search(r"^ExecStart=/bin/sh -c '.*?' (.*)$", unit.read_text(), re.MULTILINE)
    assert words is not None
    daemon = computer.line(words[1])
    until("it is online", lambda: computer.presence(name) == "online")
    done = computer.line(
        f"'{computer.programs}/current/bin/farhandd' uninstall --yes --home 'a served home'"
    )
    assert done.ended() == 0, done.shown
    daemon.ended()
    assert not unit.exists()
    assert not (computer.folder / "a served home").exists()
    computer.services.say(system=False, session=False)


def test_uninstall_asks_and_leaves_nothing_of_the_last_machine(computer: Computer) -> None:
    def uninstall(home: Path) -> Terminal:
        program = f"'{computer.programs}/current/bin/farhandd'"
        terminal = computer.line(f"{program} uninstall --home '{home}'")
        terminal.waits_for("Type yes to go on")
        terminal.types("yes\n")
        assert terminal.ended() == 0, terminal.shown
        assert "farhand machines revoke" in terminal.shown
        return terminal

    default = computer.folder / ".local" / "share" / "farhandd"
    another = computer.folder / "another home"
    assert f"The program stays for {default}" in uninstall(another).shown
    assert not another.exists()
    uninstall(default)
    left = [path for path in computer.folder.rglob("*") if "farhand" in path.name]
    assert left == []
