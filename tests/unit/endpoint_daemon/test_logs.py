"""`farhandd logs`: the last events of both files, and a reader that survives rotation."""

import contextlib
import json
from pathlib import Path

import pytest

from farhand_daemon.event_log import EventLog
from farhand_daemon.logs import LogReader, readable, show_logs
from farhand_daemon.paths import Home
from farhand_shared.errors import NotFound


def numbers(text: str) -> list[int]:
    return [json.loads(line)["number"] for line in text.splitlines()]


def test_the_last_events_come_from_both_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = EventLog(tmp_path / "daemon.log", max_bytes=400)
    for number in range(20):
        log.write("event", number=number)
    log.close()
    in_newest = len((tmp_path / "daemon.log").read_text().splitlines())
    assert in_newest < 7
    assert show_logs(Home(tmp_path), count=7, follow=False, as_json=True) == 0
    assert numbers(capsys.readouterr().out) == list(range(13, 20))
    show_logs(Home(tmp_path), count=0, follow=False, as_json=True)
    assert capsys.readouterr().out == ""


def test_following_goes_from_one_file_into_the_next(tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    reader = LogReader(path)
    assert list(reader.lines()) == []  # not there yet
    log = EventLog(path, max_bytes=300)
    seen: list[int] = []
    for number in range(50):
        log.write("event", number=number)
        if number % 3 == 0:  # never two rotations between two looks
            seen += numbers(b"\n".join(reader.lines()).decode())
    log.close()
    seen += numbers(b"\n".join(reader.lines()).decode())
    reader.close()
    assert seen == list(range(50))


def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    path.write_bytes(b"one\ntw")
    with contextlib.closing(LogReader(path)) as reader:
        assert list(reader.lines()) == [b"one"]
        with path.open("ab") as file:
            file.write(b"o\n")
        assert list(reader.lines()) == [b"two"]
        path.write_bytes(b"new\n")  # emptied and written anew
        assert list(reader.lines()) == [b"new"]


def test_an_event_is_one_line_for_people() -> None:
    line = b'{"at": "2026-03-04T05:06:07.123Z", "event": "stream_ended", "reason": "a\\nb", "n": 1}'
    shown = readable(line)
    assert "stream_ended" in shown
    assert shown.endswith('reason="a b"  n=1')
    assert readable(b"no json \xff") == "no json \\xff"
    assert readable(b"[]") == "[]"


def test_without_a_log_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="farhandd run"):
        show_logs(Home(tmp_path), count=5, follow=False, as_json=False)


def test_a_log_that_somebody_moved_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    log = EventLog(path)
    log.write("event", number=1)
    path.rename(tmp_path / "moved")
    log.write("event", number=2)
    path.unlink()
    log.write("event", number=3)
    log.close()
    assert numbers(path.read_text()) == [3]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_log_that_cannot_be_rotated_stays_bounded(tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    (tmp_path / "daemon.log.1" / "in the way").mkdir(parents=True)
    log = EventLog(path, max_bytes=500)
    for number in range(100):
        log.write("event", number=number)
    log.close()
    assert path.stat().st_size <= 500
    assert numbers(path.read_text())[-1] == 99


def test_a_log_that_is_too_long_at_the_start_is_rotated_at_once(tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    path.write_bytes(b"x" * 600 + b"\n")
    log = EventLog(path, max_bytes=500)
    log.write("event", number=1)
    log.close()
    assert numbers(path.read_text()) == [1]
