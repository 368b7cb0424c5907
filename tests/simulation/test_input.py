"""What people type and pipe into commands, through a whole system in which things break."""

import contextlib
import hashlib
import os
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.simulation.stage import Stage, stage, until

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(400)]

PIECE = bytes(range(256)) * 256


@pytest.fixture(scope="module")
def whole() -> Iterator[Stage]:
    with stage(concurrency=8) as made:
        yield made


def environ(system: Stage) -> dict[str, str]:
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(system.work),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "FARHAND_HOME": str(system.folder / "nobody's home"),
        "FARHAND_URL": system.url,
        "FARHAND_TOKEN": (system.home / "token").read_text().strip(),
        **({"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}),
    }


def farhand(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "farhand_control_plane", *arguments]


def start(
    system: Stage, *options: str, script: str, stdin: int = subprocess.PIPE
) -> "subprocess.Popen[bytes]":
    """Start `farhand exec` with a shell's script."""
    return subprocess.Popen(
        farhand("exec", *options, "--shell", system.machine.name, "--", script),
        env=environ(system),
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
    reading = farhand("exec", "--stdin", system.machine.name, "--", "wc", "-c")
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *reading],
        env=environ(system),
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
    time.sleep(1.5)  # the writer has nothing to say any more, and nothing tells that
    system.kill_replica()
    system.link.thaw()
    system.start_replica()
    feed.running.stdin = None
    feed.arrives_whole()


# Terminals


class Person:
    """Somebody at a terminal in which `farhand exec` runs."""

    def __init__(self, system: Stage, *arguments: str, rows: int = 30, columns: int = 100) -> None:
        self.master, self.slave = os.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.shown = b""
        self.client = subprocess.Popen(
            ["setsid", "--ctty", *farhand("exec", *arguments)],
            env=environ(system),
            cwd=system.work,
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
        )

    def resize(self, rows: int, columns: int) -> None:
        termios.tcsetwinsize(self.master, (rows, columns))

    def type(self, text: str | bytes) -> None:
        os.write(self.master, text.encode() if isinstance(text, str) else text)

    def sees(self, text: str, *, within_s: float = 30) -> None:
        deadline = time.monotonic() + within_s
        while text.encode() not in self.shown:
            assert time.monotonic() < deadline, self.shown.decode(errors="replace")
            if select.select([self.master], [], [], 0.2)[0]:
                self.shown += os.read(self.master, 65536)

    def ends(self, *, within_s: float = 30) -> int:
        """Wait for the end of the client, reading what it shows; its terminal is as before."""
        deadline = time.monotonic() + within_s
        while self.client.poll() is None:
            assert time.monotonic() < deadline, self.shown.decode(errors="replace")
            if select.select([self.master], [], [], 0.1)[0]:
                self.shown += os.read(self.master, 65536)
        while select.select([self.master], [], [], 0)[0]:
            self.shown += os.read(self.master, 65536)
        assert termios.tcgetattr(self.slave) == self.before
        return self.client.returncode

    def leave(self) -> None:
        if self.client.poll() is None:
            self.client.kill()
        self.client.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def people() -> Iterator[list[Person]]:
    everybody: list[Person] = []
    yield everybody
    for person in everybody:
        person.leave()


Sit = Callable[..., Person]


@pytest.fixture
def sit(system: Stage, people: list[Person]) -> Sit:
    """Sit somebody down at a terminal with `farhand exec`."""

    def sit_down(*options: str, script: str = "", **more: int) -> Person:
        command = [system.machine.name, "--", "bash", "-c", script] if script else []
        person = Person(system, *options, *command, **more)
        people.append(person)
        return person

    return sit_down


def test_a_command_has_this_terminals_size_kind_and_changes(sit: Sit) -> None:
    person = sit("--pty", script="tty; stty size; echo $TERM; trap 'stty size' WINCH; echo up; "
                 "while [ ! -e gone ]; do sleep 0.05; done")  # fmt: skip
    person.sees("up")
    assert b"/dev/pts/" in person.shown
    assert b"30 100" in person.shown
    assert b"xterm-256color" in person.shown
    person.resize(41, 111)
    person.client.send_signal(signal.SIGWINCH)
    person.sees("41 111")
    person.type("\r~.")
    assert person.ends() == 130


def test_a_shell_is_used_as_if_it_ran_here(system: Stage, people: list[Person]) -> None:
    person = Person(system, "--pty", system.machine.name, "--", "bash", "--norc", "-i")
    people.append(person)
    person.type("PS1='rea''dy> '\r")
    person.sees("ready> ")
    person.type("sleep 1000\r")
    person.sees("sleep 1000\r\n")
    time.sleep(0.3)  # until it runs, nothing tells
    person.type("\x03")
    person.sees("^C")
    person.type("sleep 1001\r")
    person.sees("sleep 1001\r\n")
    time.sleep(0.3)  # as above
    person.type("\x1a")
    person.sees("Stopped")
    person.type("kill %1; echo tw$((1))ce\r")
    person.sees("tw1ce")
    person.type("exit 7\r")
    assert person.ends() == 7


def test_a_paste_of_80_kb_arrives_whole_even_with_escapes_in_it(sit: Sit) -> None:
    person = sit("--pty", script="stty -echo -icanon; echo up; head -c 80000 | sha256sum")
    person.sees("up")
    paste = (b"\r~.~d" + b"0123456789" * 8 + b"\n") * 1000
    view = memoryview(paste[:80000])
    while view:
        view = view[os.write(person.master, view[:4000]) :]
    expected = hashlib.sha256(paste[:80000].replace(b"\r", b"\n")).hexdigest()
    person.sees(expected)
    assert person.ends() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_that_ends_the_client_leaves_the_terminal_as_it_was(sit: Sit, number: int) -> None:
    person = sit("--pty", script="echo up; sleep 1000")
    person.sees("up")
    assert termios.tcgetattr(person.slave) != person.before
    person.client.send_signal(number)
    assert person.ends() == 128 + number


def test_the_terminal_is_back_after_a_link_that_stays_away(system: Stage, sit: Sit) -> None:
    person = sit("--pty", script="echo up; sleep 1000")
    person.sees("up")
    system.kill_replica()
    person.type("\r~.")
    assert person.ends() == 130
    system.start_replica()
    until("the replica answers", system.answers)


def test_a_terminal_goes_on_over_whatever_dies_between(system: Stage, sit: Sit) -> None:
    person = sit("--pty", script='echo up; while read -r line; do echo "<$line>"; done; exit 9')
    person.sees("up")
    for number, breaks in enumerate((system.kill_daemon, system.link.cut, system.kill_replica)):
        breaks()
        system.mend()
        person.type(f"after {number}\r")
        person.sees(f"<after {number}>", within_s=90)
    person.type("\x04")
    assert person.ends(within_s=90) == 9


def test_leaving_lets_it_go_on_and_coming_back_shows_all_of_it(sit: Sit) -> None:
    person = sit("--pty", script='echo up; read -r line; echo "<$line>"; read -r line; exit 6')
    person.sees("up")
    person.type("one\r")
    person.sees("<one>")
    person.type("~d")
    assert person.ends() == 0
    command_id = person.shown.decode().rpartition("--attach ")[2].split()[0]
    again = sit("--attach", command_id, "--take")
    again.sees("<one>")
    again.type("two\r")
    assert again.ends() == 6


def test_one_writes_at_a_time_and_the_other_is_told_who(sit: Sit) -> None:
    script = 'echo up; while read -r line; do echo "<$line>"; done; exit 5'
    first = sit("--pty", script=script)
    first.sees("up")
    first.type("mine\r")
    first.sees("<mine>")
    first.type("\r~?")
    first.sees("take the input over")
    command_id = first.shown.decode().rpartition("This is command ")[2].split()[0].rstrip(".")
    second = sit("--attach", command_id[-12:])
    second.sees("<mine>")
    second.type("ignored\r")
    third = sit("--attach", command_id, "--take")
    third.sees("<mine>")
    third.type("theirs\r")
    third.sees("<theirs>")
    first.type("not any more\r")
    first.sees("holds its input since")
    first.sees("<theirs>")
    second.sees("<theirs>")
    second.type("~t")
    second.sees("yours now")
    second.type("second\r")
    second.sees("<second>")
    second.type("\x04")
    assert second.ends() == 5
    for person in (first, third):
        person.sees("<second>")
        assert person.ends() == 5
    assert b"ignored" not in first.shown
    assert b"not any more>" not in first.shown


def test_lines_typed_without_a_terminal_of_its_own_end_with_ctrl_d(sit: Sit) -> None:
    person = sit("--stdin", script="cat; exit 3")
    person.type("a line\r")
    person.sees("a line\r\na line\r\n")
    person.type("\x04")
    assert person.ends() == 3


def test_a_client_that_is_suspended_gives_the_terminal_back_and_takes_it_again(sit: Sit) -> None:
    person = sit("--pty", script='echo up; read -r line; echo "<$line>"; exit 4')
    person.sees("up")
    raw = termios.tcgetattr(person.slave)
    stat = Path(f"/proc/{person.client.pid}/stat")
    for typed in ("", "~\x1a"):
        if typed:
            person.type(typed)
        else:
            person.client.send_signal(signal.SIGTSTP)
        until("it stands still", lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
        assert termios.tcgetattr(person.slave) == person.before
        person.client.send_signal(signal.SIGCONT)
        until("it has the terminal again", lambda: termios.tcgetattr(person.slave) == raw)
    person.type("here\r")
    person.sees("<here>")
    assert person.ends() == 4


def test_who_only_watches_leaves_with_ctrl_c_and_the_command_goes_on(
    system: Stage, sit: Sit
) -> None:
    person = sit("--pty", script='echo up; read -r line; echo "<$line>"; exit 4')
    person.sees("up")
    watcher = sit("--attach", system.machine.name)  # nothing else runs there
    watcher.sees("up")
    watcher.type("\x03")
    assert watcher.ends() == 130
    assert b"goes on" in watcher.shown
    other = sit("--pty", script="echo up; sleep 1000")
    other.sees("up")
    several = system.farhand("exec", "--attach", system.machine.name).ended()
    assert several.status == 125
    assert several.stderr.count("bash -c") == 2
    other.type("~.")
    other.ends()
    person.type("here\r")
    assert person.ends() == 4
    nobody = system.farhand("exec", "--attach", "ffffffff").ended()
    assert nobody.status == 125
    assert "cannot attach to 'ffffffff': no command that runs has an id" in nobody.stderr


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
