"""Commands with a terminal of their own: what they see of it, and how it ends."""

import os
import signal
from pathlib import Path

import pytest

from farhand_daemon.supervisor.handle import CommandHandle
from farhand_daemon.supervisor.records import Reason, SpawnSpec, StopReason, Stream
from tests.fakes.supervised_lab import Lab, ended, read_all, until

SIZE = (24, 80)


def on_terminal(lab: Lab, script: str, *, size: tuple[int, int] = SIZE) -> SpawnSpec:
    return lab.spec("/bin/bash", "-c", script, terminal=size, grace_ms=300)


class Typist:
    """Types into a command and waits for what it shows."""

    def __init__(self, lab: Lab, handle: CommandHandle) -> None:
        self.lab, self.handle = lab, handle
        self.typed = 0

    def type(self, text: bytes, *, end: bool = False) -> None:
        self.handle.give_input(self.typed, text, end=end)
        self.typed += len(text)

    @property
    def shown(self) -> bytes:
        return read_all(self.handle, Stream.STDOUT)

    async def shows(self, text: bytes) -> None:
        await self.lab.recorder.until(lambda: text in self.shown)


async def test_it_is_the_controlling_terminal_and_has_the_size_asked_for(lab: Lab) -> None:
    script = (
        "tty; stty size; ps -o tty= -p $$; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo > /dev/tty all"
    )
    record, shown, stderr = await lab.run(on_terminal(lab, script, size=(50, 132)))
    tty, size, controlling, last = shown.decode().replace("\r", "").splitlines()
    assert tty.startswith("/dev/pts/")
    assert size == "50 132"
    assert f"/dev/{controlling.strip()}" == tty
    assert last == "all"
    assert stderr == b""
    assert (record.reason, record.exit_code, record.stdout_left_open) == (Reason.EXIT, 0, False)


async def test_without_one_there_is_no_controlling_terminal(lab: Lab) -> None:
    record, stdout, _ = await lab.run(lab.shell("tty; : < /dev/tty || exit 7", stdin=True))
    assert b"not a tty" in stdout
    assert record.exit_code


async def test_exit_code_and_the_last_words_are_exact(lab: Lab) -> None:
    script = "for i in $(seq 20000); do echo line $i; done; printf last; exit 42"
    record, shown, _ = await lab.run(on_terminal(lab, script))
    assert record.exit_code == 42
    assert (
        shown.replace(b"\r", b"") == b"".join(b"line %d\n" % i for i in range(1, 20001)) + b"last"
    )


async def test_what_is_typed_is_read_line_by_line_and_shown(lab: Lab) -> None:
    script = 'while read -r line; do echo "<$line>"; done; echo bye'
    typist = Typist(lab, await lab.start(on_terminal(lab, script)))
    typist.type(b"one\n")
    await typist.shows(b"<one>")
    typist.type(b"t\xc3\xbc\x7fwo\r")  # a backspace takes the whole character
    await typist.shows(b"<two>")
    typist.type(b"\x04")
    record = await ended(typist.handle)
    assert record.exit_code == 0
    assert b"bye" in typist.shown


async def test_ctrl_c_reaches_what_is_in_front_and_nobody_else(lab: Lab) -> None:
    script = "trap 'echo cut; exit 5' INT; echo up; while :; do sleep 0.05; done"
    typist = Typist(lab, await lab.start(on_terminal(lab, script)))
    await typist.shows(b"up")
    typist.type(b"\x03")
    record = await ended(typist.handle)
    assert record.exit_code == 5
    assert b"cut" in typist.shown


async def test_ctrl_z_stops_a_job_of_a_shell_and_the_terminal_stays(lab: Lab) -> None:
    spec = lab.spec("/bin/bash", "--norc", "-i", terminal=SIZE, grace_ms=300)
    typist = Typist(lab, await lab.start(spec))
    typist.type(b"PS1=READY-; sleep 1000\n")
    await typist.shows(b"sleep 1000")
    await until(lambda: any(b"sleep" in command(pid) for pid in lab.processes()))
    typist.type(b"\x1a")
    await typist.shows(b"Stopped")
    typist.type(b"kill %1; fg; echo still $((40 + 2))\n")
    await typist.shows(b"still 42")
    typist.type(b"exit 9\n")
    assert (await ended(typist.handle)).exit_code == 9


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


async def test_a_new_size_is_told_to_the_program_in_front(lab: Lab) -> None:
    script = "trap 'stty size' WINCH; echo up; while :; do sleep 0.05; done"
    typist = Typist(lab, await lab.start(on_terminal(lab, script)))
    await typist.shows(b"up")
    typist.handle.resize(33, 99)
    await typist.shows(b"33 99")
    lab.attempts.cancel(typist.handle.attempt_id, StopReason.CANCEL)
    await ended(typist.handle)


@pytest.mark.parametrize("typed", [b"whole line\n", b"half a line"])
async def test_the_end_of_the_input_is_the_character_that_says_so(lab: Lab, typed: bytes) -> None:
    typist = Typist(lab, await lab.start(lab.spec("wc", "-c", terminal=SIZE)))
    typist.type(typed, end=True)
    record = await ended(typist.handle)
    assert record.exit_code == 0
    assert typist.shown.endswith(b"%d\r\n" % len(typed))
    assert typist.handle.input_closed


async def test_a_paste_of_80_kb_arrives_whole(lab: Lab) -> None:
    script = "stty -echo; echo up; wc -c"
    typist = Typist(lab, await lab.start(on_terminal(lab, script)))
    await typist.shows(b"up")
    typist.type((b"0123456789" * 7 + b"\n") * 1200, end=True)
    await ended(typist.handle)
    assert typist.shown.split()[-1] == b"%d" % (71 * 1200)


async def test_who_reads_nothing_holds_what_is_typed_and_hears_ctrl_c_no_more(lab: Lab) -> None:
    typist = Typist(lab, await lab.start(on_terminal(lab, "stty raw -echo; echo up; sleep 1000")))
    await typist.shows(b"up")
    typist.type(b"x" * (1 << 20))
    await lab.recorder.until(lambda: typist.handle.input_taken > 0)
    assert typist.handle.input_taken < 1 << 18
    lab.attempts.cancel(typist.handle.attempt_id, StopReason.CANCEL)
    assert (await ended(typist.handle)).reason is Reason.CANCEL


async def test_a_cancel_hangs_up_so_that_a_shell_that_ignores_term_ends_at_once(lab: Lab) -> None:
    spec = lab.spec("/bin/bash", "--norc", "-i", terminal=SIZE, grace_ms=60_000)
    typist = Typist(lab, await lab.start(spec))
    typist.type(b"PS1=; echo up$((1))\n")
    await typist.shows(b"up1")
    lab.attempts.cancel(typist.handle.attempt_id, StopReason.CANCEL)
    record = await ended(typist.handle)
    assert record.reason is Reason.CANCEL
    assert record.signal in (signal.SIGHUP, None)


async def test_who_ignores_all_of_it_is_killed_after_the_grace(lab: Lab) -> None:
    script = "trap '' HUP TERM INT; echo up; while :; do sleep 0.05; done"
    typist = Typist(lab, await lab.start(on_terminal(lab, script)))
    await typist.shows(b"up")
    lab.attempts.cancel(typist.handle.attempt_id, StopReason.CANCEL)
    record = await ended(typist.handle)
    assert (record.reason, record.signal) == (Reason.CANCEL, signal.SIGKILL)
    assert lab.processes() == []


async def test_what_stays_behind_does_not_hold_the_result(lab: Lab) -> None:
    script = "setsid sh -c 'trap \"\" HUP; exec sleep 30' & sleep 0.1; echo done"
    handle = await lab.start(on_terminal(lab, script))
    record = await ended(handle)
    assert read_all(handle, Stream.STDOUT) == b"done\r\n"
    assert not record.stdout_left_open
    assert record.descendants_left
    for pid in lab.processes():
        os.kill(pid, signal.SIGKILL)


async def test_a_terminal_outlives_the_daemon(lab: Lab) -> None:
    script = 'read -r line; echo "<$line>"; stty size; read -r line; echo "<$line>"'
    typist = Typist(lab, await lab.start(on_terminal(lab, script)))
    typist.type(b"before\n")
    await typist.shows(b"<before>")
    await lab.close(quit_leftovers=False)
    await lab.open()
    again = Typist(lab, lab.attempts.live[typist.handle.attempt_id])
    again.typed = again.handle.input_received or 0
    assert again.typed == 7
    again.type(b"after\n")
    record = await ended(again.handle)
    assert record.exit_code == 0
    assert b"<after>" in again.shown


async def test_a_supervisor_goes_from_a_terminal_to_pipes_and_back(lab: Lab) -> None:
    for _ in range(3):
        _, shown, _ = await lab.run(on_terminal(lab, "tty >/dev/null && echo yes"))
        assert shown == b"yes\r\n"
        _, stdout, _ = await lab.run(lab.shell("echo plain"))
        assert stdout == b"plain\n"
