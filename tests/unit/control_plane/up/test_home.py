"""The home and its locks."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from farhand_control_plane.up.home import HomeLock, inherited_lock, prepare, wait_until_free
from farhand_shared.errors import Conflict, Unavailable


def test_a_missing_home_is_made_private(tmp_path: Path) -> None:
    home = tmp_path / "some where" / "home"
    prepare(home)
    assert home.stat().st_mode & 0o777 == 0o700


def test_a_home_that_others_could_read_is_made_private(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    prepare(tmp_path)
    assert tmp_path.stat().st_mode & 0o777 == 0o700


def test_a_file_is_no_home(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match=r"cannot use the home .*FARHAND_HOME"):
        prepare(tmp_path / "file")


def test_the_second_one_is_told_who_holds_the_home_and_where(tmp_path: Path) -> None:
    first, second = HomeLock(tmp_path / "up.lock"), HomeLock(tmp_path / "up.lock")
    first.take()
    with pytest.raises(Conflict, match=rf"already starting in .* \(process {os.getpid()}\)"):
        second.take()
    first.say({"pid": 7, "url": "http://127.0.0.1:1"})
    with pytest.raises(Conflict, match=r"already runs in .* \(process 7\) at http://127.0.0.1:1"):
        second.take()
    first.release()
    assert not (tmp_path / "up.lock").exists()
    second.take()
    second.release()


def test_a_lock_whose_file_was_removed_meanwhile_is_not_taken_for_the_home(tmp_path: Path) -> None:
    path = tmp_path / "up.lock"
    first = HomeLock(path)
    first.take()
    ours = os.open(path, os.O_RDWR)  # opened before the holder gives it up
    first.release()
    fcntl.flock(ours, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a file that is not in place any more
    second = HomeLock(path)
    second.take()  # makes a new one
    assert json.loads(path.read_text())["pid"] == os.getpid()
    second.release()
    os.close(ours)


def test_an_inherited_lock_is_held_until_the_child_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farhand_control_plane.up.home._WAIT_FOR_THE_LAST_ONE_S", 0.2)
    path = tmp_path / "server.lock"
    with inherited_lock(path, "the server") as held:
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"],
            stdin=subprocess.PIPE,
            pass_fds=[held],
        )
    assert child.stdin is not None
    with pytest.raises(Unavailable, match="the server of an earlier run has not ended"):
        wait_until_free(path, "the server")
    child.stdin.close()
    child.wait(30)
    wait_until_free(path, "the server")


def test_a_lock_that_nobody_made_is_free(tmp_path: Path) -> None:
    wait_until_free(tmp_path / "none", "nobody")
