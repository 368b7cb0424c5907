"""scripts/up and its helpers on machines that lack something; each failure is one line."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from scripts import environment

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("cat", "cmp", "dirname", "find", "head", "id", "readlink", "sh")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """As much of a checkout as scripts/up looks at, in a path with a space."""
    copy = tmp_path / "a checkout"
    for name in ("scripts", *environment.SOURCES):
        (copy / name).mkdir(parents=True, exist_ok=True)
    scripts = ("up", "lib.sh", "environment.py", "building.py")
    for name in (*(f"scripts/{script}" for script in scripts), *environment.INPUTS):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    return copy


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder of programs without any Python."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return folder


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def run_up(script: Path, tools: Path, *arguments: str, **variables: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [script, *arguments],
        env={"PATH": str(tools), **variables},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def pretend_installed(checkout: Path) -> None:
    """An environment that is current by its stamp, whose Python must not be needed."""
    venv = checkout / ".venv"
    program(venv / "bin" / "python", "exit 1")
    program(venv / "bin" / "farhand", 'printf "%s|" "$@"')
    (venv / "compiled").touch()
    head = f"{checkout}\n{venv / 'bin' / 'python'}\n".encode()
    inputs = b"".join((checkout / name).read_bytes() for name in environment.INPUTS)
    (venv / "installed-up").write_bytes(head + inputs)


def test_without_python_it_says_so(checkout: Path, tools: Path) -> None:
    code, _, error = run_up(checkout / "scripts" / "up", tools)
    assert code == 1
    assert error == (
        "scripts/up: cannot find Python 3.11 or newer: no python3 on PATH; "
        "install one or set PYTHON to its path\n"
    )


@pytest.mark.parametrize("version", ["2.7.18", "3.9.2", "3.10.14"])
def test_an_old_python_is_named_with_its_version(checkout: Path, tools: Path, version: str) -> None:
    program(tools / "python3", f"echo {version}")
    code, _, error = run_up(checkout / "scripts" / "up", tools)
    assert code == 1
    assert error.count("\n") == 1
    assert f"python3 is {version}" in error


@pytest.mark.parametrize("version", ["3.11.0", "3.12.1", "3.20.0"])
def test_a_newer_python_is_taken_even_if_it_is_not_called_python3(
    checkout: Path, tools: Path, version: str
) -> None:
    program(tools / "python3", "echo 3.9.2")
    chosen = tools / "my python"
    program(chosen, f'case $1 in -c) echo {version} ;; *) echo "asked: $2 $3"; exit 1 ;; esac')
    code, output, _ = run_up(checkout / "scripts" / "up", tools, PYTHON=str(chosen))
    assert (code, output) == (1, "asked: up scripts/up\n")


def test_a_warm_start_needs_no_python_and_keeps_the_arguments(checkout: Path, tools: Path) -> None:
    pretend_installed(checkout)
    code, output, error = run_up(checkout / "scripts" / "up", tools, "--once", "two words", "")
    assert (code, output, error) == (0, "up|--once|two words||", "")


def test_it_works_through_a_symbolic_link(checkout: Path, tools: Path, tmp_path: Path) -> None:
    pretend_installed(checkout)
    link = tmp_path / "go"
    link.symlink_to(checkout / "scripts" / "up")
    assert run_up(link, tools, "x") == (0, "up|x|", "")


@pytest.mark.parametrize("changed", environment.INPUTS)
def test_a_changed_project_file_asks_for_a_new_installation(
    checkout: Path, tools: Path, changed: str
) -> None:
    pretend_installed(checkout)
    with (checkout / changed).open("a") as file:
        file.write("# changed\n")
    code, _, error = run_up(checkout / "scripts" / "up", tools)
    assert code == 1
    assert "cannot find Python" in error


def test_a_moved_checkout_asks_for_a_new_installation(checkout: Path, tools: Path) -> None:
    pretend_installed(checkout)
    moved = checkout.rename(checkout.with_name("moved"))
    code, _, error = run_up(moved / "scripts" / "up", tools)
    assert code == 1
    assert "cannot find Python" in error


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_checkout_is_one_line(checkout: Path, tools: Path) -> None:
    (tools / "python3").symlink_to(sys.executable)
    checkout.chmod(0o500)
    try:
        code, _, error = run_up(checkout / "scripts" / "up", tools)
    finally:
        checkout.chmod(0o700)
    assert code == 1
    assert "make" in error.splitlines()[-1]
    assert "writable" in error.splitlines()[-1]


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("WARNING: Retrying: Failed to establish a new connection", "index was not reached"),
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        ("ERROR: No matching distribution found for x\nERROR: y", "No matching distribution"),
        ("", "pip failed"),
    ],
)
def test_what_pip_could_not_do_is_told_in_one_line(log: str, told: str) -> None:
    line = environment.explain(log)
    assert told in line
    assert "\n" not in line


def test_the_environment_stamp_is_the_one_the_shell_compares() -> None:
    text = environment.stamp().decode()
    assert text.startswith(f"{ROOT}\n")
    script = (ROOT / "scripts" / "lib.sh").read_text()
    for name in environment.INPUTS:
        assert f'"$root/{name}"' in script


def test_up_installs_the_build_backend_and_no_node() -> None:
    # With isolation pip would ask the build hook what it needs, and fetch Node for nothing.
    backend = environment.build_backend()
    assert [re.split(r"[<>=]", line)[0] for line in backend] == ["hatchling"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not [line for line in project["dependencies"] if "node" in line]
    assert '"--no-build-isolation"' in (ROOT / "scripts" / "environment.py").read_text()


def test_a_long_installation_says_how_far_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "COUNTED_EVERY_S", 0.0)
    environment.report(
        "scripts/up",
        [
            "Collecting typer<1,>=0.20\n",
            "  Downloading typer-0.29.2-py3-none-any.whl\n",
            "Collecting click\n",
            "Installing collected packages: click, typer, farhand\n",
        ],
    )
    first, second, third = capsys.readouterr().err.splitlines()
    assert first == "scripts/up: downloading, 1 package so far"
    assert second == "scripts/up: downloading, 2 packages so far"
    assert third.startswith("scripts/up: downloaded 3 packages (")
