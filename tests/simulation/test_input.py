"""What people type and pipe into commands, through a whole system in which things break."""

import contextlib
import hashlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulation.stage import FARHAND, Stage, stage

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(400)]

PIECE = bytes(range(256)) * 256


@pytest.fixture(scope="module")
def whole() -> Iterator[Stage]:
    with stage(concurrency=8) as made:
        yield made


def start(
    system: Stage, *options: str, script: str, stdin: int = subprocess.PIPE
) -> "subprocess.Popen[bytes]":
    """Start `farhand exec` with a shell's script."""
    return subprocess.Popen(
        [*FARHAND, "exec", *options, "--shell", system.machine.name, "--", script],
        env=system.client_environ(),
        cwd=system.work,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def run(system: Stage, script: str, data: bytes) -> "subprocess.CompletedProcess[bytes]":
    running = start(system, "--stdin", script=script)
    out, err = running.communicate(data, timeout=120)
    return subprocess.CompletedProcess(running.args, running.returncode, out, err)


def resident_bytes(pid: int) -> int:
    pages = Path(f"/proc/{pid}/statm").read_bytes().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


# Pipes


def test_a_pipe_a_file_and_nothing_are_passed_on_to_their_end(system: Stage) -> None:
    told = run(system, "cat", b"piped\n")
    assert (told.returncode, told.stdout, told.stderr) == (0, b"piped\n", b"")
    file = system.work / "some file"
    file.write_bytes(PIECE)
    with file.open("rb") as opened:
        running = start(system, "--stdin", script="sha256sum", stdin=opened.fileno())
        out, _ = running.communicate(timeout=60)
    assert out.split()[0].decode() == hashlib.sha256(PIECE).hexdigest()
    running = start(system, "--stdin", script="wc -c", stdin=subprocess.DEVNULL)
    assert running.communicate(timeout=60)[0].strip() == b"0"
    reading = [*FARHAND, "exec", "--stdin", system.machine.name, "--", "wc", "-c"]
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *reading],
        env=system.client_environ(),
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert closed.stdout.strip() == b"0"


def test_without_it_a_command_reads_nothing(system: Stage) -> None:
    running = start(system, script="readlink /proc/self/fd/0; cat")
    assert running.communicate(b"unread", timeout=60)[0] == b"/dev/null\n"


def test_a_large_input_arrives_byte_for_byte_and_nothing_grows(system: Stage) -> None:
    assert system.daemon is not None
    assert system.replica is not None
    hasher, size = hashlib.sha256(), 0
    running = start(system, "--stdin", script="cat | sha256sum")
    assert running.stdin is not None
    watched = {"daemon": system.daemon.pid, "replica": system.replica.pid, "client": running.pid}
    grown: dict[str, int] = {}
    first: dict[str, int] = {}
    for number in range(1600):  # 100 MiB
        piece = number.to_bytes(4, "big") * (len(PIECE) // 4)
        hasher.update(piece)
        size += len(piece)
        running.stdin.write(piece)
        if number == 200:
            first = {name: resident_bytes(pid) for name, pid in watched.items()}
        elif number > 200 and number % 100 == 0:
            for name, pid in watched.items():
                grown[name] = max(grown.get(name, 0), resident_bytes(pid) - first[name])
    out, err = running.communicate(timeout=120)
    assert out.split()[0].decode() == hasher.hexdigest(), err
    assert max(grown.values()) < 16 << 20, grown


def test_a_command_that_does_not_read_holds_its_writer(system: Stage) -> None:
    running = start(system, "--stdin", script="sleep 2; wc -c")
    assert running.stdin is not None
    os.set_blocking(running.stdin.fileno(), False)
    taken = 0
    while select.select([], [running.stdin], [], 0.7)[1]:
        with contextlib.suppress(BlockingIOError):
            taken += os.write(running.stdin.fileno(), PIECE)
    assert 1 << 20 < taken < 8 << 20
    out, _ = running.communicate(timeout=60)
    assert int(out) == taken


@pytest.mark.parametrize(("script", "status"), [("exit 3", 3), ("head -c 3", 0)])
def test_who_ends_without_reading_all_ends_at_once(system: Stage, script: str, status: int) -> None:
    before = time.monotonic()
    told = run(system, script, PIECE * 200)
    assert told.returncode == status, told.stderr
    assert time.monotonic() - before < 10


def test_ctrl_c_and_the_time_limit_end_what_waits_for_input(system: Stage) -> None:
    running = start(system, "--stdin", script="echo up; cat")
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n"
    running.send_signal(signal.SIGINT)
    assert running.wait(30) == 130
    running.communicate(timeout=10)
    limited = start(system, "--stdin", "--timeout", "0.5", script="cat")
    assert limited.wait(30) == 124
    limited.communicate(timeout=10)


# Faults


class Feed:
    """A command that counts what it reads, fed piece by piece while something breaks."""

    def __init__(self, system: Stage) -> None:
        self.system = system
        self.hasher = hashlib.sha256()
        self.running = start(system, "--stdin", script="echo up >&2; sha256sum; exit 4")
        assert self.running.stderr is not None
        assert self.running.stderr.readline() == b"up\n"
        self.number = 0

    def give(self, pieces: int) -> None:
        assert self.running.stdin is not None
        for _ in range(pieces):
            piece = self.number.to_bytes(4, "big") * (len(PIECE) // 4)
            self.number += 1
            self.hasher.update(piece)
            self.running.stdin.write(piece)
            self.running.stdin.flush()

    def arrives_whole(self) -> None:
        out, err = self.running.communicate(timeout=120)
        assert out.split()[0].decode() == self.hasher.hexdigest(), err
        assert self.running.returncode == 4, err


def test_input_goes_on_over_a_cut_link(system: Stage) -> None:
    feed = Feed(system)
    for _ in range(2):  # more would wait longer and longer before they dial again
        feed.give(20)
        system.link.cut()
        feed.give(20)
    feed.arrives_whole()


def test_input_goes_on_with_the_next_daemon(system: Stage) -> None:
    feed = Feed(system)
    feed.give(40)
    system.kill_daemon()
    system.start_daemon()
    feed.give(40)
    feed.arrives_whole()


def test_input_goes_on_with_the_next_replica(system: Stage) -> None:
    feed = Feed(system)
    feed.give(40)
    system.kill_replica()
    system.start_replica()
    feed.give(40)
    feed.arrives_whole()


def test_the_last_words_are_not_lost_with_a_replica(system: Stage) -> None:
    """All was accepted, its end too, and the machine has none of it: the writer asks, and sends."""
    feed = Feed(system)
    system.link.freeze()
    feed.give(2)
    assert feed.running.stdin is not None
    feed.running.stdin.close()
    time.sleep(0.5)  # the writer has nothing to say any more, and nothing tells that
    system.kill_replica()
    system.link.thaw()
    system.start_replica()
    feed.running.stdin = None
    feed.arrives_whole()


# No terminal here


def test_without_a_terminal_here_it_is_given_one_all_the_same(system: Stage) -> None:
    running = start(system, "--pty", script="stty size; [ -t 0 ] && cat")
    out, _ = running.communicate(b"typed\n", timeout=60)
    assert out == b"24 80\r\ntyped\r\ntyped\r\n"
    assert running.returncode == 0


def test_what_asks_for_a_password_fails_at_once_without_a_terminal(system: Stage) -> None:
    asks = "exec 2>&1; (: < /dev/tty) || echo no terminal; read -r -t 20 answer || echo no answer"
    before = time.monotonic()
    running = start(system, script=asks)
    out, _ = running.communicate(timeout=60)
    assert b"no terminal" in out
    assert b"no answer" in out
    assert time.monotonic() - before < 10
