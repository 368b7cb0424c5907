"""The survey is taken by a process of its own, with an end, and told only when it is news."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from farhand_daemon import surveyor
from farhand_daemon.command_env import CommandEnvironment
from farhand_daemon.event_log import EventLog
from farhand_daemon.greeting import Greeting, JournalMark
from farhand_daemon.machine_file import Ceiling
from farhand_daemon.surveyor import Surveyor, is_news, parse_survey, take_survey
from farhand_shared.link_events import Repository, Survey

MARK = JournalMark(journal_id="j", counter=1)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    log = EventLog(tmp_path / "daemon.log")
    yield log
    log.close()


@pytest.fixture
def ceiling(tmp_path: Path) -> Ceiling:
    folder = tmp_path / "work" / "web" / ".git"
    folder.mkdir(parents=True)
    (folder / "config").write_text('[remote "origin"]\n\turl = https://a:b@github.com/acme/web\n')
    path = tmp_path / "machine.toml"
    roots = json.dumps([str(tmp_path / "work")])
    path.write_text(f'trust_level = "trusted"\nroots = {roots}\nlabels = ["build", "team=infra"]\n')
    return Ceiling(path)


@pytest.fixture
def environment(tmp_path: Path) -> CommandEnvironment:
    tool = tmp_path / "bin" / "git"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho git version 2.39.5\n")
    tool.chmod(0o755)
    return CommandEnvironment({b"PATH": os.fsencode(tool.parent), b"PYTHONPATH": b"/nowhere"})


async def test_a_survey_finds_disk_tools_and_repositories(
    ceiling: Ceiling, environment: CommandEnvironment, log: EventLog, tmp_path: Path
) -> None:
    surveys = Surveyor(ceiling=ceiling, environment=environment, log=log)
    await surveys.look()
    found = surveys.current
    assert found is not None
    assert found.tools == (("git", "2.39.5"),)
    assert found.repositories == (
        Repository(remote="github.com/acme/web", path=os.fsencode(tmp_path / "work" / "web")),
    )
    assert found.disk_bytes > found.disk_free_bytes > 0


async def test_the_loop_goes_on_while_a_survey_is_taken(
    ceiling: Ceiling, environment: CommandEnvironment, log: EventLog
) -> None:
    surveys = Surveyor(ceiling=ceiling, environment=environment, log=log)
    looking = asyncio.create_task(surveys.look())
    longest = 0.0
    while not looking.done():
        began = time.monotonic()
        await asyncio.sleep(0.001)  # a turn of the loop, to see how long it took
        longest = max(longest, time.monotonic() - began)
    assert longest < 0.25, longest


async def test_a_survey_that_hangs_is_ended_and_what_was_known_stays(
    ceiling: Ceiling,
    environment: CommandEnvironment,
    log: EventLog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    surveys = Surveyor(ceiling=ceiling, environment=environment, log=log)
    await surveys.look()
    known = surveys.current
    pid_file = tmp_path / "pid"
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho $$ > {pid_file}\nexec sleep 600\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(TimeoutError):
        await take_survey((tmp_path,), ((b"PATH", os.fsencode(os.defpath)),), timeout_s=0.5)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)
    python.write_text("#!/bin/sh\nexit 3\n")
    await surveys.look()
    assert surveys.current is known
    assert "the survey ended with 3" in (tmp_path / "daemon.log").read_text()


async def test_stopping_the_daemon_ends_a_survey_and_the_tool_that_it_asks(
    ceiling: Ceiling, environment: CommandEnvironment, log: EventLog, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    (tmp_path / "bin" / "git").write_text(f"#!/bin/sh\necho $$ > {pid_file}\nexec /bin/sleep 600\n")
    surveys = Surveyor(ceiling=ceiling, environment=environment, log=log, first_after_s=0.0)
    running = asyncio.create_task(surveys.run())
    end = time.monotonic() + 20
    while not (pid_file.exists() and pid_file.read_text().strip()):
        assert time.monotonic() < end, "the tool was not asked"
        await asyncio.sleep(0.01)  # nothing announces it
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


def test_what_changes_all_the_time_is_no_news() -> None:
    told = Survey(disk_bytes=1000, disk_free_bytes=500, battery_percent=80, has_battery=True)
    assert not is_news(told, replace(told, disk_free_bytes=520, battery_percent=10))
    assert is_news(told, replace(told, disk_free_bytes=300))
    assert is_news(told, replace(told, on_battery=True))
    assert is_news(told, replace(told, tools=(("git", "2.40"),)))


@pytest.mark.parametrize("printed", [b"", b"[]", b"{}", b'{"disk_bytes": "x"}', b"\xff"])
def test_what_is_no_survey_is_refused(printed: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_survey(printed)


def test_the_hello_tells_labels_at_once_and_a_survey_when_there_is_one(
    ceiling: Ceiling, tmp_path: Path
) -> None:
    newest: list[Survey | None] = [None]
    greeting = Greeting(ceiling, boot_id="b", survey=lambda: newest[0])
    assert not greeting.has_news()  # nothing was said yet
    facts = greeting.hello(MARK).facts
    assert (facts.labels, facts.survey) == ((("build", ""), ("team", "infra")), None)
    newest[0] = Survey(disk_bytes=1)
    assert greeting.has_news()
    assert not greeting.is_stale()  # it can wait until nothing runs
    assert greeting.hello(MARK).facts.survey == Survey(disk_bytes=1)
    assert not greeting.has_news()
    text = (tmp_path / "machine.toml").read_text()
    (tmp_path / "machine.toml").write_text(text.replace("infra", "web"))
    assert greeting.is_stale()


def test_a_start_is_left_alone_for_a_while() -> None:
    assert surveyor.FIRST_AFTER_S >= 5
