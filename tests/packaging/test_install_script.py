"""deploy/install.sh where something is missing or wrong: each failure is one line."""

import hashlib
import http.server
import io
import json
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from farhand_control_plane.api.install import Offer, Wheel
from farhand_shared.requirements_lock import LockedWheel, render_lock
from tests.fakes.carried_release import wheel_of

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = (ROOT / "deploy" / "install.sh").read_text()
TOOLS = (
    *("cat", "cut", "grep", "head", "id", "ln", "mkdir", "ps", "rm", "sed", "setsid", "sh"),
    *("sleep", "tail", "uname"),
)
LOCK = "requirements.lock"
DAEMON, PIP = "farhand_daemon-0.1.0-py3-none-any.whl", "pip-26.3-py3-none-any.whl"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@dataclass
class Computer:
    """A computer with a home of its own and only the programs that it is given."""

    folder: Path
    url: str
    dist: Path
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return self.folder / "a home"

    @property
    def programs(self) -> Path:
        return self.home / ".local" / "share" / "farhandd-program"

    @property
    def tools(self) -> Path:
        return self.folder / "tools"

    def has(self, name: str, text: str) -> Path:
        path = self.tools / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    def script(self) -> str:
        """Return the script as the server of this test gives it."""

        def wheel(name: str) -> Wheel:
            content = (self.dist / name).read_bytes()
            return Wheel(name=name, content=content, sha256=hashlib.sha256(content).hexdigest())

        return Offer(
            template=TEMPLATE,
            daemon=wheel(DAEMON),
            pip=wheel(PIP),
            requirements=wheel(LOCK) if (self.dist / LOCK).exists() else None,
        ).script(self.url)

    def install(self, *options: str, script: str | None = None) -> tuple[int, str, list[str]]:
        """Run it as `curl … | sh` does; return its status, what it said, and its error's lines."""
        done = subprocess.run(
            # Without a terminal, whoever runs these tests.
            ["setsid", "--wait", "sh", "-s", "--", *options],
            input=script or self.script(),
            env={"PATH": str(self.tools), "HOME": str(self.home), **self.environ},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr.splitlines()


@pytest.fixture
def computer(tmp_path: Path) -> Iterator[Computer]:
    dist = tmp_path / "served" / "dist"
    dist.mkdir(parents=True)
    (dist / DAEMON).write_bytes(b"no wheel at all")
    (pip,) = (ROOT / "scripts").glob("pip-*.whl")
    shutil.copy(pip, dist / PIP)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in TOOLS:
        if (found := shutil.which(name)) is not None:
            (tools / name).symlink_to(found)
    (tools / "python3").symlink_to(os.path.realpath(sys.executable))
    handler = partial(Quiet, directory=str(dist.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield Computer(tmp_path, f"http://127.0.0.1:{server.server_address[1]}", dist)
        server.shutdown()
        thread.join()


def refused(computer: Computer, *options: str, status: int = 1, script: str | None = None) -> str:
    """Return the one line that it says when it fails."""
    code, _, lines = computer.install(*options, script=script)
    assert code == status, lines
    assert len(lines) == 1, lines
    assert lines[0].startswith("farhand: cannot ")
    return lines[0]


@pytest.mark.parametrize("options", [("--frob",), ("--home",), ("--home=",), ("x",)])
def test_what_it_does_not_understand_is_misuse(
    computer: Computer, options: tuple[str, ...]
) -> None:
    assert "--home" in refused(computer, *options, status=2)
    assert not computer.home.exists()


def test_without_a_python_it_says_how_to_get_one(computer: Computer) -> None:
    (computer.tools / "python3").unlink()
    line = refused(computer)
    assert "cannot find Python 3.11 or newer: no python3 on PATH; " in line
    assert "set PYTHON" in line


def test_a_python_that_is_too_old_is_named(computer: Computer) -> None:
    computer.has("python3", "echo 3.9.2")
    assert "python3 is 3.9.2" in refused(computer)


def test_a_python_of_ones_own_can_be_named(computer: Computer) -> None:
    python = (computer.tools / "python3").rename(computer.folder / "my python")
    computer.environ["PYTHON"] = str(python)
    assert "farhand_daemon-0.1.0" in refused(computer)  # it is no wheel, but that is found by pip


def test_half_a_script_does_nothing(computer: Computer) -> None:
    whole = computer.script()
    for share in (0.2, 0.5, 0.9):
        half = whole[: int(len(whole) * share)].rpartition("\n")[0] + "\n"
        computer.install(script=half)
    assert not computer.home.exists()


@pytest.mark.parametrize("tool", ["curl", "wget", None])
def test_a_wheel_that_is_not_the_announced_one_is_not_used(
    computer: Computer, tool: str | None
) -> None:
    if tool is not None:
        if (found := shutil.which(tool)) is None:
            pytest.skip(f"{tool} is not installed")
        (computer.tools / tool).symlink_to(found)
    script = computer.script()
    (computer.dist / DAEMON).write_bytes(b"another")
    assert "not what the server announced" in refused(computer, script=script)
    (computer.dist / DAEMON).unlink()
    assert f"cannot download {DAEMON} from {computer.url}" in refused(computer, script=script)
    assert not list(computer.programs.glob("*/bin"))
    assert not (computer.programs / "installing").exists()


def test_a_folder_that_cannot_be_written_is_named(computer: Computer) -> None:
    computer.home.write_text("a file where the home should be")
    line = refused(computer)
    assert f"cannot write {computer.programs}" in line
    assert "XDG_DATA_HOME" in line


def test_an_index_that_is_not_reached_is_said(computer: Computer) -> None:
    (computer.dist / DAEMON).write_bytes(a_wheel("nothing-like-this>=1"))
    computer.environ |= {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "1"}
    line = refused(computer)
    assert "the package index was not reached" in line
    assert str(computer.programs / "install.log") in line


def test_a_dependency_that_does_not_exist_for_this_computer_is_named(computer: Computer) -> None:
    (computer.dist / DAEMON).write_bytes(a_wheel("nothing-like-this>=1"))
    computer.environ |= {"PIP_NO_INDEX": "1"}
    assert "cannot install nothing-like-this: the package index has none that fits" in refused(
        computer
    )
    # Begun anew the next time: nothing that was not finished counts.
    assert "cannot install nothing-like-this" in refused(computer)


def test_dependencies_come_from_the_server_by_their_hashes(computer: Computer) -> None:
    needed = "farhand_needs_this-1.0-py3-none-any.whl"
    content = wheel_of("farhand_needs_this", "1.0", {"farhand_needs_this.py": b""})
    locked = LockedWheel(name=needed, sha256=hashlib.sha256(content).hexdigest())
    (computer.dist / LOCK).write_text(render_lock([locked]))
    program = b"#!/bin/sh\n[ $1 = --version ] && echo 'farhandd 0.1.0'\n"
    scripts = {"farhand_daemon-0.1.0.data/scripts/farhandd": program}
    (computer.dist / DAEMON).write_bytes(wheel_of("farhand_daemon", "0.1.0", scripts))
    index = computer.dist.parent / "updates" / "index" / "farhand-needs-this"
    index.mkdir(parents=True)
    (index / needed).write_bytes(b"not what was locked")
    # The computer's own index is asked for the same file, and has none either.
    computer.environ["PIP_CONFIG_FILE"] = str(computer.folder / "pip.conf")
    (computer.folder / "pip.conf").write_text(
        "[global]\nindex-url = http://127.0.0.1:9/simple\nretries = 0\n"
    )
    assert "cannot install farhand-needs-this" in refused(computer)
    (index / needed).write_bytes(content)
    assert "there is no terminal to type the code on" in refused(computer)
    (package,) = computer.programs.glob("current/lib/*/site-packages/farhand_needs_this.py")
    assert package.exists()


def test_the_version_before_stays_as_the_way_back_and_older_ones_go(computer: Computer) -> None:
    computer.has("ps", "echo nothing of ours runs")
    versions = []
    for n in range(3):
        (computer.dist / DAEMON).write_bytes(f"version {n}".encode())
        installed(computer, install="echo fine")
        assert computer.install()[0] == 0
        versions.append((computer.programs / "current").readlink().name)
    assert (computer.programs / "previous").readlink().name == versions[1]
    left = {path.parent.name for path in computer.programs.glob("*/complete")}
    assert left == {"current", "previous", *versions[1:]}


def test_a_machine_that_was_refused_meanwhile_is_enrolled_anew_at_once(computer: Computer) -> None:
    calls = installed(computer, install="echo fine")
    status = json.loads((computer.folder / "status").read_text())
    (computer.folder / "status").write_text(json.dumps({**status, "server_says": "revoked"}))
    line = refused(computer)
    assert "there is no terminal to type the code on" in line
    assert "status --json --ask" in calls.read_text()


def test_one_installation_at_a_time(computer: Computer) -> None:
    busy = computer.programs / "installing"
    busy.mkdir(parents=True)
    (busy / "pid").write_text(f"{os.getpid()}\n")
    assert f"another installation (pid {os.getpid()})" in refused(computer)
    (busy / "pid").write_text("99999999\n")  # nobody's: it was killed
    assert "farhand_daemon-0.1.0" in refused(computer)


def a_wheel(requirement: str) -> bytes:
    """Return a wheel that holds nothing and requires this."""
    content = io.BytesIO()
    info = "farhand_daemon-0.1.0.dist-info"
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: farhand-daemon\nVersion: 0.1.0\n"
            f"Requires-Dist: {requirement}\n",
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return content.getvalue()


FARHANDD = """\
echo "$*" >>'{folder}/calls'
case "$*" in
*'status --json'*) cat '{folder}/status' ;;
*'service status'*) exit {service} ;;
*'service install'*) {install} ;;
*run) echo 'it runs' ;;
esac
"""


def installed(
    computer: Computer, *, install: str, service: int = 1, pid: int | None = None
) -> Path:
    """Give it a program that is there already, and a machine; return what records its calls.

    The program is a stand-in that answers like the daemon's; what is tried is what is asked of it.
    """
    wheel = hashlib.sha256((computer.dist / DAEMON).read_bytes()).hexdigest()
    programs = computer.programs / wheel[:16] / "bin"
    programs.mkdir(parents=True)
    (programs.parent / "complete").touch()
    (programs / "python").symlink_to(os.path.realpath(sys.executable))
    text = FARHANDD.format(folder=computer.folder, service=service, install=install)
    computer.has("farhandd", text).rename(programs / "farhandd")
    status = {"url": computer.url, "name": "box", "bye": "", "pid": pid, "home": "/some home"}
    (computer.folder / "status").write_text(json.dumps(status))
    return computer.folder / "calls"


def test_with_the_code_on_standard_input_nobody_is_asked_and_nothing_is_run(
    computer: Computer,
) -> None:
    calls = installed(computer, install="exit 1")
    nobodys = {"url": "", "name": "", "bye": "", "pid": None, "home": "/h"}
    (computer.folder / "status").write_text(json.dumps(nobodys))
    status, said, wrong = computer.install("--code-stdin", "--no-run", "--home", "/h")
    assert (status, wrong) == (0, [])
    assert said.endswith("farhand: the daemon is installed and enrolled; nothing runs it yet\n")
    asked = calls.read_text().splitlines()
    (enrolled,) = [line for line in asked if "enroll" in line]
    assert enrolled == (f"--home /h enroll --code-stdin --no-wait --by-installer {computer.url}")
    assert not any("service" in line or line.endswith(" run") for line in asked)


def test_a_service_is_the_default_and_ends_the_script(computer: Computer) -> None:
    calls = installed(computer, install="echo 'The daemon runs as a service of systemd'")
    status, said, wrong = computer.install()
    assert (status, wrong) == (0, [])
    assert "farhand: The daemon runs as a service of systemd\n" in said
    assert "uninstall" in said
    assert calls.read_text().splitlines()[-1] == "service install"
    assert (computer.programs / "homes").read_text() == "/some home\n"
    assert computer.install()[0] == 0
    assert (computer.programs / "homes").read_text() == "/some home\n"


def test_without_a_service_manager_it_says_why_in_one_line_and_stays(computer: Computer) -> None:
    told = (
        "farhandd: cannot make a service: systemd does not run on this computer, as in most "
        "containers; run the daemon in the foreground with farhandd run"
    )
    installed(computer, install=f"echo '{told}' >&2; exit 4")
    status, said, wrong = computer.install()
    assert (status, wrong) == (0, [])
    (line,) = [line for line in said.splitlines() if "no service is made" in line]
    assert line.startswith(
        "farhand: no service is made: systemd does not run on this computer, as in most "
        "containers; the daemon runs until Ctrl-C; to start it again: "
    )
    assert said.endswith("it runs\n")


def test_a_service_can_be_declined(computer: Computer) -> None:
    calls = installed(computer, install="echo never; exit 1")
    status, said, wrong = computer.install("--no-service", "--home", "else where")
    assert (status, wrong) == (0, [])
    assert said.endswith("it runs\n")
    assert "service install" not in calls.read_text()
    home = computer.folder / "else where"
    assert calls.read_text().splitlines()[-1] == f"--home {home} run"


def test_what_keeps_a_service_from_starting_is_said_with_the_other_way(computer: Computer) -> None:
    installed(computer, install="echo 'farhandd: cannot make a service: x; see y' >&2; exit 1")
    line = refused(computer)
    assert line.startswith("farhand: cannot make a service: x; see y; or ")
    assert line.endswith("| sh -s -- --no-service")


def test_a_daemon_that_was_started_by_hand_is_left_alone(computer: Computer) -> None:
    calls = installed(computer, install="exit 1", pid=4711)
    status, said, wrong = computer.install()
    assert (status, wrong) == (0, [])
    assert "its daemon runs (pid 4711)" in said
    assert "service install" not in calls.read_text()


def test_a_service_that_runs_is_looked_after_by_the_same_line(computer: Computer) -> None:
    calls = installed(computer, install="echo fine", service=0, pid=4711)
    status, said, wrong = computer.install()
    assert (status, wrong) == (0, [])
    assert "farhand: fine" in said
    assert calls.read_text().splitlines()[-1] == "service install"


def test_a_link_on_the_path_is_made_once_and_takes_nobodys_place(computer: Computer) -> None:
    installed(computer, install="echo fine")
    link = computer.home / ".local" / "bin" / "farhandd"
    link.parent.mkdir(parents=True)
    link.write_text("somebody's")
    assert computer.install()[0] == 0
    assert link.read_text() == "somebody's"
    link.unlink()
    assert computer.install()[0] == 0
    assert link.readlink() == computer.programs / "current" / "bin" / "farhandd"
    assert computer.install()[0] == 0
