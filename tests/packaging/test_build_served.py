"""The builder that `farhand up` starts in a checkout: what it says, and what it leaves behind."""

import json
import os
from pathlib import Path

import build_dashboard
import build_served
import build_wheels
import building
import pytest


class Builds:
    """Stands for both builds; each does as told."""

    def __init__(self) -> None:
        self.page_is_current = False
        self.page: Exception | None = None
        self.dist: Exception | None = None
        self.done: list[str] = []

    def build_dist(self) -> bool:
        self.done.append("dist")
        if self.dist is not None:
            raise self.dist
        return True

    def build_page(self) -> bool:
        self.done.append("page")
        if self.page is not None:
            raise self.page
        return True


@pytest.fixture
def failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the reason of a failure lies."""
    path = tmp_path / "_page.failed"
    monkeypatch.setattr(build_served, "FAILED", path)
    return path


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> Builds:
    made = Builds()
    monkeypatch.setattr(build_wheels, "dist", made.build_dist)
    monkeypatch.setattr(build_dashboard, "build", made.build_page)
    monkeypatch.setattr(build_dashboard, "is_current", lambda: made.page_is_current)
    return made


def run() -> tuple[int, list[str]]:
    """Run the builder; return its status and what it reported."""
    ours, theirs = os.pipe()
    status = build_served.build_all(theirs)
    os.close(theirs)
    with os.fdopen(ours) as report:
        return status, [json.loads(line)["message"] for line in report]


def test_when_all_is_current_it_says_nothing(builds: Builds, failed: Path) -> None:
    builds.page_is_current = True
    failed.write_text("an old reason")
    assert run() == (0, [])
    assert builds.done == ["dist"]
    assert not failed.exists()


def test_a_page_that_was_built_is_said(builds: Builds, failed: Path) -> None:
    status, (first, last) = run()
    assert status == 0
    assert first.startswith("building the page")
    assert last.startswith("page ready (")
    assert not failed.exists()


def test_why_the_page_could_not_be_built_is_said_and_kept(
    builds: Builds, failed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    builds.page = building.CannotBuildError("cannot build: no", "all that\nVite said\n")
    status, lines = run()
    assert status == 1
    assert lines[-1] == "cannot build: no"
    assert failed.read_text() == "cannot build: no\n"
    assert "Vite said" in capsys.readouterr().out  # the log


def test_while_the_page_is_built_nobody_is_told_why_it_once_could_not_be(
    builds: Builds, failed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed.write_text("an old reason")
    monkeypatch.setattr(build_dashboard, "build", lambda: builds.done.append(str(failed.exists())))
    assert run()[0] == 0
    assert builds.done == ["dist", "False"]


def test_a_daemons_wheel_that_cannot_be_built_does_not_keep_the_page_away(
    builds: Builds, failed: Path
) -> None:
    builds.dist = building.CannotBuildError("cannot build the wheel: no")
    status, lines = run()
    assert status == 1
    assert builds.done == ["dist", "page"]
    assert "no machine can be added" in lines[0]
    assert not failed.exists()
