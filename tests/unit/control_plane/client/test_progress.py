"""How far a transfer is: one line of a terminal, and nothing anywhere else."""

import threading
from types import SimpleNamespace

import pytest

from farhand_control_plane.client import progress
from farhand_control_plane.client.progress import Progress, amount


class Terminal:
    """What was written to standard error, with a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, is_one: bool = True) -> None:
        self.written = b""
        self.now = 100.0
        self.wrote = threading.Event()
        monkeypatch.setattr(progress, "put", self._put)
        monkeypatch.setattr(progress, "os", SimpleNamespace(isatty=lambda _fd: is_one))
        monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: self.now))

    def _put(self, descriptor: int, data: bytes) -> None:
        assert descriptor == 2
        self.written += data
        self.wrote.set()


def test_after_a_second_it_says_how_much_and_how_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(monkeypatch)
    with Progress("video.mp4", 50_000_000, 10_000_000) as line:
        line.add(1_000_000)
        assert terminal.written == b"", "what is quick needs no line"
        terminal.now += 2
        line.add(4_000_000)
        assert terminal.written == (b"\r\x1b[Kvideo.mp4  15.0 MB of 50.0 MB  30 %  2.5 MB/s"), (
            "what was there before counts as done, not as fast"
        )
        before = terminal.written
        line.add(1)
        assert terminal.written == before, "not at every piece"
    assert terminal.written.endswith(b"\r\x1b[K")


def test_a_word_stands_on_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(monkeypatch)
    with Progress("a", 10) as line:
        terminal.now += 2
        line.add(5)
        terminal.written = b""
        line.say("laptop is unreachable")
        assert terminal.written == b"\r\x1b[Klaptop is unreachable\n"


def test_a_name_drives_no_terminal_and_is_cut_at_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal(monkeypatch)
    with Progress("x" * 60 + "\x1b[2J.tar", 10) as line:
        terminal.now += 2
        line.add(5)
    assert b"\x1b[2J" not in terminal.written
    assert "…xxx".encode() in terminal.written


def test_a_transfer_of_others_is_asked_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(monkeypatch)
    with Progress("a", 1_000) as line:
        terminal.now += 5
        line.follow(lambda: 500)
        assert terminal.wrote.wait(30)
    assert b"500 bytes of 1.0 KB  50 %" in terminal.written


def test_a_pipe_gets_words_and_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(monkeypatch, is_one=False)
    with Progress("a", 10) as line:
        terminal.now += 5
        line.add(5)
        line.follow(lambda: 6)
        line.say("going on at 5 of 10 bytes")
    assert terminal.written == b"going on at 5 of 10 bytes\n"


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 bytes"), (999, "999 bytes"), (1_500, "1.5 KB"), (52_428_800, "52.4 MB"),
     (3 * 10**12, "3.0 TB"), (5 * 10**15, "5000.0 TB")],
)  # fmt: skip
def test_sizes_are_words(count: int, words: str) -> None:
    assert amount(count) == words
