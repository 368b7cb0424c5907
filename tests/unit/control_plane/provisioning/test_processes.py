"""Which processes belong to an environment: told by what they are."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from farhand_control_plane.provisioning.keeper import keeper_of, take_lock
from farhand_control_plane.provisioning.processes import descendants, end_all, processes_of

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def run(command: str, **how: object) -> "subprocess.Popen[bytes]":
        """Run a shell command that says when it is there."""
        process = subprocess.Popen(
            ["/bin/sh", "-c", f"echo; {command}"],
            stdout=subprocess.PIPE,
            start_new_session=True,
            **how,  # type: ignore[call-overload] # options of Popen that a test names
        )
        assert process.stdout is not None
        process.stdout.readline()
        started.append(process)
        return process

    yield run
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)  # between two looks: these are not our children


def test_a_process_is_known_by_its_environment_folder_or_open_file(
    start: Start, tmp_path: Path
) -> None:
    folder = tmp_path / "env"
    folder.mkdir()
    bare = {"PATH": "/usr/bin:/bin"}
    by = {
        "environment": start("exec sleep 60", env={**bare, "HOME": f"{folder}/work"}, cwd="/"),
        "folder": start("exec sleep 60", env=bare, cwd=folder),
        "command line": start(f"exec tail -f /dev/null {folder}/x", env=bare, cwd="/"),
        "open file": start(f"exec sleep 60 3> {folder}/log", env=bare, cwd="/"),
        "descent": start("(cd / && env -i sleep 60; true); true", env=bare, cwd=folder),
    }
    wait_for(lambda: len(descendants(by["descent"].pid)) == 2)
    apart = start("exec sleep 60", env={**bare, "HOME": f"{folder}2"}, cwd=tmp_path)
    found = processes_of(folder)
    assert {name for name, process in by.items() if process.pid in found} == set(by)
    assert descendants(by["descent"].pid) <= found
    assert apart.pid not in found, "a name that only begins alike is another's"
    assert os.getpid() not in found
    assert end_all(folder, 10.0) == set()
    assert apart.poll() is None


def test_the_lock_tells_who_keeps_a_folder(tmp_path: Path) -> None:
    assert keeper_of(tmp_path) is None
    descriptor = take_lock(tmp_path)
    assert descriptor is not None
    assert take_lock(tmp_path) is None
    assert keeper_of(tmp_path) == os.getpid()
    os.close(descriptor)
    assert keeper_of(tmp_path) is None
    assert keeper_of(tmp_path / "absent") is None


def run_keeper(folder: Path, seconds: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [
            *(sys.executable, "-P", "-m", "farhand_control_plane.provisioning.keeper"),
            *(str(folder), seconds),
        ],
        stdout=subprocess.DEVNULL,  # which the keeper has too, longer than we wait
        stderr=subprocess.DEVNULL,
        check=False,
        timeout=30,
    )


def test_a_keeper_ends_by_itself_when_its_time_is_over(tmp_path: Path) -> None:
    """Its daemon fails at once, because nothing was enrolled: it is started again, not for ever."""
    assert run_keeper(tmp_path, "0.5").returncode == 0
    wait_for(lambda: keeper_of(tmp_path) is None)
    assert processes_of(tmp_path) == set()


def test_a_folder_has_one_keeper_and_it_ends_when_it_is_asked_to(tmp_path: Path) -> None:
    assert run_keeper(tmp_path, "600").returncode == 0
    keeper = keeper_of(tmp_path)
    assert keeper is not None
    assert run_keeper(tmp_path, "600").returncode == 0, "it has one: that is fine"
    assert keeper_of(tmp_path) == keeper
    os.kill(keeper, signal.SIGTERM)
    wait_for(lambda: keeper_of(tmp_path) is None)
    assert processes_of(tmp_path) == set()


def test_a_folder_that_is_gone_has_no_keeper(tmp_path: Path) -> None:
    assert run_keeper(tmp_path / "destroyed", "600").returncode == 1
