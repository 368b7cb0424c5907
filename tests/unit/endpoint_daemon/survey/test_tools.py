"""Which tools a machine has: those that run, within their time."""

import os
import time
from pathlib import Path

import pytest

from farhand_daemon.survey.tools import TOOLS, ask, find_tools, version_of, which


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


def a_tool(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("git version 2.39.5 (Apple Git-154)", "2.39.5"),
        ("Docker version 24.0.7, build afdd53b", "24.0.7"),
        ("go version go1.22.3 linux/amd64", "1.22.3"),
        ('openjdk version "17.0.15" 2025-04-15', "17.0.15"),
        ("GNU Make 4.3", "4.3"),
        ("gcc (Debian 12.2.0-14) 12.2.0", "12.2.0"),
        ("v20.20.2", "20.20.2"),
        ("tmux 3.3a", "3.3"),
        ("master", ""),
    ],
)
def test_the_version_is_the_first_that_is_named(said: str, version: str) -> None:
    assert version_of(said) == version


def test_only_tools_that_run_are_told(bin_folder: Path) -> None:
    a_tool(bin_folder, "git", "echo git version 2.39.5")
    a_tool(bin_folder, "java", "echo 'openjdk version \"17.0.1\"' >&2")
    a_tool(bin_folder, "node", "echo not installed; exit 127")
    a_tool(bin_folder, "docker", "exec /absent/docker")
    a_tool(bin_folder, "jq", "echo jq-master")
    (bin_folder / "make").write_text("not a program")
    assert find_tools({"PATH": str(bin_folder)}) == {"git": "2.39.5", "java": "17.0.1", "jq": ""}


def _runs(pid: int) -> bool:
    """Tell whether a process is there and no zombie; without /proc, whether it is there."""
    try:
        if Path("/proc/self").exists():
            state = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0]
            return state not in "ZX"
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def test_a_tool_that_hangs_with_children_is_ended_within_its_time(
    bin_folder: Path, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    a_tool(bin_folder, "slow", f"sleep 600 & echo $! > {pid_file}; echo 1.2; wait")
    assert ask((str(bin_folder / "slow"),), {"PATH": os.defpath}, timeout_s=0.5) is None
    child = int(pid_file.read_text())
    deadline = time.monotonic() + 30
    while _runs(child):  # killed with its parent; nobody of ours waits for it
        assert time.monotonic() < deadline, "the tool's child still runs"
        time.sleep(0.02)  # between two looks


def test_a_tool_that_never_stops_talking_is_ended(bin_folder: Path) -> None:
    a_tool(bin_folder, "loud", "exec yes 1.2.3")
    assert ask((str(bin_folder / "loud"),), {"PATH": os.defpath}, timeout_s=1.0) is None


def test_a_tool_that_is_no_program_is_absent(bin_folder: Path) -> None:
    broken = bin_folder / "git"
    broken.write_bytes(b"\x7fELF broken")
    broken.chmod(0o755)
    assert ask((str(broken),), {}) is None
    assert find_tools({"PATH": ""}) == {}


def test_the_path_is_searched_in_order_and_never_the_working_directory(
    bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_tool(bin_folder, "git", "echo 1.0")
    monkeypatch.chdir(bin_folder)
    assert which("git", ":.:bin") is None
    assert which("git", f"{tmp_path}:{bin_folder}") == bin_folder / "git"


def test_the_names_of_tools_can_be_written_in_a_selector() -> None:
    assert all(name.isalnum() and name == name.lower() for name in TOOLS)
