"""The home, its lock, its status, its log: private, atomic, bounded."""

import json
import os
from pathlib import Path

import pytest

from farhand_daemon.event_log import EventLog
from farhand_daemon.paths import Home, find_home, prepare_home, write_private
from farhand_daemon.status import HomeLock, StatusFile, read_status, running_pid
from farhand_shared.errors import Conflict, FarhandError, InvalidInput


def test_the_option_wins_over_the_variable_over_the_default(tmp_path: Path) -> None:
    environ = {"FARHAND_DAEMON_HOME": str(tmp_path / "variable")}
    assert find_home(str(tmp_path / "option"), environ).root == tmp_path / "option"
    assert find_home(None, environ).root == tmp_path / "variable"
    assert find_home(None, {}).root.name == "farhandd"
    assert find_home("relative", {}).root == Path.cwd() / "relative"
    for nonsense in ("", "a\0b"):
        with pytest.raises(InvalidInput):
            find_home(nonsense, {})


def test_a_home_is_made_private_whatever_the_umask(tmp_path: Path) -> None:
    home = Home(tmp_path / "deep" / "home")
    old = os.umask(0)
    try:
        prepare_home(home)
    finally:
        os.umask(old)
    assert home.root.stat().st_mode & 0o777 == 0o700
    home.root.chmod(0o755)
    prepare_home(home)
    assert home.root.stat().st_mode & 0o777 == 0o700
    assert not list(home.root.iterdir())


def test_a_home_that_is_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FarhandError, match=str(tmp_path / "file")):
        prepare_home(Home(tmp_path / "file"))


def test_private_files_are_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_private(path, b"one")
    write_private(path, b"two")
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_a_failed_replacement_keeps_the_old_bytes(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.mkdir()  # replacing a folder by a file fails at the last step
    with pytest.raises(OSError, match=r"."):
        write_private(path, b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_one_daemon_per_home(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert running_pid(home) is None
    with HomeLock.take(home):
        assert running_pid(home) == os.getpid()
        with pytest.raises(Conflict, match=f"pid {os.getpid()}"):
            HomeLock.take(home)
    assert running_pid(home) is None
    with HomeLock.take(home):
        pass


def test_status_keeps_since_while_the_state_stays(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert read_status(home) is None
    status = StatusFile(home)
    status.set("offline", machine_name="m", link_address="a:1", reason="one")
    first = read_status(home)
    status.set("offline", machine_name="m", link_address="a:1", reason="two")
    second = read_status(home)
    assert first is not None
    assert second is not None
    assert (first.since_ms, second.reason) == (second.since_ms, "two")
    home.status_file.write_text("{}")
    assert read_status(home) is None


def test_the_log_is_json_lines_and_keeps_one_old_file(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "daemon.log", max_bytes=500)
    for number in range(100):
        log.write("event", number=number, text="a\nb")
    log.close()
    files = sorted(p.name for p in tmp_path.iterdir())
    assert files == ["daemon.log", "daemon.log.1"]
    lines = (tmp_path / "daemon.log").read_text().splitlines()
    assert json.loads(lines[-1])["number"] == 99
    for name in files:
        assert (tmp_path / name).stat().st_size <= 500
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


def test_a_log_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    EventLog(tmp_path / "no" / "such" / "folder").write("event")
