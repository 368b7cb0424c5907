"""Terminals that are lent to commands, through a whole system in which things break."""

import hashlib
import os
import signal
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.simulation.person import Person
from tests.simulation.stage import Stage, until

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(400)]


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
    with system.api() as api:  # nobody could be told that it shall end
        (command,) = api.get("/v1/commands", open=True)["items"]
        api.post(f"/v1/commands/{command['id']}/stop")
        until("it has ended", lambda: not api.get("/v1/commands", open=True)["items"])


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
