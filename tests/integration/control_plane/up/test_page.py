"""The page is built beside `up`: what is said about it, and that nothing of a build outlives it."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from farhand_control_plane.up.page import PageBuild, builder

ROOT = Path(__file__).resolve().parents[4]
SCRIPTS = ROOT / "scripts"

# What stands for the builder: gets `report` and `lifeline`, and `start_child`, whose process number
# it writes down.
PREAMBLE = """
import json, os, pathlib, signal, subprocess, sys, time
lifeline, report = int(sys.argv[2]), int(sys.argv[4])
def say(text): os.write(report, json.dumps({"message": text}).encode() + b"\\n")
def start_child(code="import time; time.sleep(1000)"):
    child = subprocess.Popen([sys.executable, "-c", code])
    pathlib.Path(__file__).with_suffix(".pid").write_text(str(child.pid))
    return child
"""


@pytest.fixture
def heard() -> list[str]:
    return []


@pytest.fixture
def build(tmp_path: Path, heard: list[str]) -> Iterator[Callable[[str], PageBuild]]:
    """A function that makes a build whose builder does what a text of Python says."""
    made: list[PageBuild] = []

    def make(code: str, *, failed: Path | None = None, **variables: str) -> PageBuild:
        program = tmp_path / "builder.py"
        program.write_text(PREAMBLE + code)
        environ = {**os.environ, **variables}
        page = PageBuild(
            program,
            log=tmp_path / "page.log",
            environ=environ,
            say=heard.append,
            failed=failed,
        )
        made.append(page)
        return page

    yield make
    for page in made:
        page.stop()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)  # between two looks, not for timing


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def child_of(folder: Path) -> int:
    path = folder / "builder.pid"
    until(lambda: path.exists() and path.read_text() != "")
    return int(path.read_text())


def look_until(page: PageBuild, condition: Callable[[], bool]) -> None:
    def looked() -> bool:
        page.look()
        return condition()

    until(looked)


def test_what_the_builder_says_is_passed_on(
    build: Callable[..., PageBuild], heard: list[str]
) -> None:
    page = build("say('building'); say('page ready')")
    page.start()
    look_until(page, lambda: len(heard) == 2)
    assert heard == ["building", "page ready"]


def test_a_builder_that_had_nothing_to_do_is_not_mentioned(
    build: Callable[..., PageBuild], heard: list[str], tmp_path: Path
) -> None:
    page = build("pathlib.Path(__file__).with_suffix('.done').touch()")
    page.start()
    until((tmp_path / "builder.done").exists)
    look_until(page, lambda: page._child.process is None)
    assert heard == []


def test_a_builder_that_breaks_off_without_a_word_is_told_with_its_last_words(
    build: Callable[..., PageBuild], heard: list[str]
) -> None:
    page = build("sys.exit('no such thing')")
    page.start()
    look_until(page, lambda: heard != [])
    (line,) = heard
    assert line.startswith("the page was not built (exit status 1: no such thing); see ")


def test_a_builder_that_is_killed_is_told_here_and_on_the_page_and_leaves_nothing_running(
    build: Callable[..., PageBuild], heard: list[str], tmp_path: Path
) -> None:
    failed = tmp_path / "_page.failed"
    page = build(
        "start_child(); say('building'); os.kill(os.getpid(), signal.SIGKILL)", failed=failed
    )
    page.start()
    child = child_of(tmp_path)
    look_until(page, lambda: len(heard) == 2)
    assert heard[1].startswith("the page was not built (killed by SIGKILL")
    assert failed.read_text() == heard[1] + "\n"
    until(lambda: not is_alive(child))


def test_stopping_ends_all_that_the_builder_has_started(
    build: Callable[..., PageBuild], tmp_path: Path
) -> None:
    page = build("start_child(); time.sleep(1000)")
    page.start()
    child = child_of(tmp_path)
    assert is_alive(child)
    page.stop()
    until(lambda: not is_alive(child))
    page.stop()  # once more does nothing


def test_stopping_ends_a_child_that_does_not_care_to(
    build: Callable[..., PageBuild], tmp_path: Path
) -> None:
    stubborn = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print('deaf', flush=True); time.sleep(1000)"
    )
    page = build(f"start_child({stubborn!r}); time.sleep(1000)")
    page.start()
    child = child_of(tmp_path)
    until(lambda: "deaf" in (tmp_path / "page.log").read_text())
    page.stop()
    until(lambda: not is_alive(child))


def test_our_settings_are_no_business_of_the_build(
    build: Callable[..., PageBuild], heard: list[str]
) -> None:
    page = build("say(str([n for n in os.environ if n.startswith('FARHAND_')]))", FARHAND_X="1")
    page.start()
    look_until(page, lambda: heard != [])
    assert heard == ["[]"]


def test_without_a_checkout_nothing_is_started(tmp_path: Path, heard: list[str]) -> None:
    page = PageBuild(None, log=tmp_path / "log", environ={}, say=heard.append)
    page.start()
    page.look()
    page.stop()
    assert heard == []
    assert not (tmp_path / "log").exists()


def test_a_checkout_is_built_by_its_own_script() -> None:
    assert builder() == SCRIPTS / "build_served.py"


def test_the_real_builder_ends_with_its_lifeline_and_what_it_started_too(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = (
        "import subprocess, sys\n"
        f"sys.path.insert(0, {str(SCRIPTS)!r})\n"
        "import build_served, build_wheels\n"
        "def dist():\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])\n"
        f"    open({str(pid_file)!r}, 'w').write(f'{{child.pid}}\\n')\n"
        "    child.wait()\n"
        "build_wheels.dist = dist\n"
        "sys.exit(build_served.main())\n"
    )
    program = tmp_path / "builder.py"
    program.write_text(code)
    page = PageBuild(program, log=tmp_path / "log", environ=os.environ, say=lambda _: None)
    page.start()
    try:
        until(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"))
        process = page._child.process
        assert process is not None
        page._child.forget()  # closes our end, as dying does
        assert process.wait(30) == 128 + 15
        until(lambda: not is_alive(int(pid_file.read_text())))
    finally:
        page.stop()
