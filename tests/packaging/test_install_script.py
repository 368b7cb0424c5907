"""deploy/install.sh where something is missing or wrong: each failure is one line."""

import hashlib
import http.server
import io
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

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = (ROOT / "deploy" / "install.sh").read_text()
TOOLS = (
    *("cat", "cut", "grep", "head", "id", "ln", "mkdir", "ps", "rm", "sed", "setsid", "sh"),
    *("sleep", "tail", "uname"),
)
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

        return Offer(template=TEMPLATE, daemon=wheel(DAEMON), pip=wheel(PIP)).script(self.url)

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
