"""A command that waits for somebody to type is noticed; one that only works is left in peace."""

import sys
from functools import partial

import pytest

from farhand_daemon.supervisor.records import Quiet, SpawnSpec, StopReason, Stream
from tests.fakes.supervised_lab import Lab, ended, read_all

SOON_MS = 150
# Makes a terminal of its own, as ssh -t or expect do, and has somebody ask there.
ASKS_ELSEWHERE = "import pty; pty.spawn(['sh', '-c', 'read answer < /dev/tty'])"


def _count_is(lab: Lab, count: int) -> bool:
    return len(lab.recorder.hints) == count


async def hint_of(lab: Lab, spec: SpawnSpec) -> Quiet:
    handle = await lab.start(spec)
    await lab.recorder.until(lambda: bool(lab.recorder.hints))
    handle.cancel(StopReason.CANCEL)
    await ended(handle)
    (told,) = lab.recorder.hints
    assert told[0] == handle.attempt_id
    assert told[1].quiet_ms >= SOON_MS
    return told[1]


async def test_who_reads_its_terminal_is_told_of(lab: Lab) -> None:
    quiet = await hint_of(lab, lab.spec("cat", terminal=(24, 80), quiet_hint_ms=SOON_MS))
    assert (quiet.reads_terminal, quiet.takes_input) == (True, True)


async def test_a_prompt_that_waits_for_several_things_is_told_of(lab: Lab) -> None:
    waits = "import select, sys; select.select([sys.stdin], [], [])"
    spec = lab.spec(sys.executable, "-c", waits, terminal=(24, 80), quiet_hint_ms=SOON_MS)
    assert (await hint_of(lab, spec)).reads_terminal


async def test_who_reads_its_input_is_told_of(lab: Lab) -> None:
    quiet = await hint_of(lab, lab.spec("cat", stdin=True, quiet_hint_ms=SOON_MS))
    assert (quiet.reads_terminal, quiet.takes_input) == (False, True)


async def test_who_asks_on_a_terminal_of_its_own_has_nobody_to_answer(lab: Lab) -> None:
    spec = lab.spec(sys.executable, "-c", ASKS_ELSEWHERE, quiet_hint_ms=SOON_MS)
    quiet = await hint_of(lab, spec)
    assert (quiet.reads_terminal, quiet.takes_input) == (True, False)


@pytest.mark.parametrize(
    "script",
    [
        "sleep 1",
        "end=$(($(date +%s) + 1)); while [ $(date +%s) -lt $end ]; do :; done",
        "(sleep 1; echo) | cat >/dev/null",
        "mkfifo $HOME/f; (sleep 1; echo > $HOME/f) & read line < $HOME/f",
    ],
    ids=["sleeps", "computes", "a pipeline", "a fifo"],
)
async def test_who_is_busy_or_waits_for_its_own_is_not_told_of(
    lab: Lab, script: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = str(tmp_path_factory.mktemp("home")).encode()
    spec = lab.shell(script, env=((b"HOME", home),), quiet_hint_ms=SOON_MS, stdin=True)
    record, _, _ = await lab.run(spec)
    assert record.exit_code == 0
    assert not lab.recorder.hints


async def test_the_hint_comes_once_for_each_quiet_time(lab: Lab) -> None:
    handle = await lab.start(
        lab.spec(
            "sh", "-c", "read a; echo got; read b; echo got", stdin=True, quiet_hint_ms=SOON_MS
        )
    )
    for number in (1, 2):
        await lab.recorder.until(partial(_count_is, lab, number))
        handle.give_input((number - 1) * 2, b"x\n", end=False)
    assert (await ended(handle)).exit_code == 0
    assert read_all(handle, Stream.STDOUT) == b"got\ngot\n"
    assert len(lab.recorder.hints) == 2


GIT_ASKS = (
    "printf 'protocol=https\nhost=h\n\n' | "
    "GIT_TERMINAL_PROMPT=0 git -c credential.helper= credential fill"
)


@pytest.mark.parametrize(
    "script",
    [GIT_ASKS, f"{sys.executable} -c 'input()'"],
    ids=["git", "python"],
)
async def test_who_wanted_input_and_had_none_fails_and_the_result_says_so(
    lab: Lab, script: str
) -> None:
    record, _, stderr = await lab.run(lab.shell(script))
    assert record.exit_code not in (0, None), stderr
    assert [note.code for note in record.notes] == ["input_wanted"], stderr
    assert record.wall_ms < 5000


async def test_words_about_input_mean_nothing_of_who_succeeded(lab: Lab) -> None:
    record, _, _ = await lab.run(lab.shell("echo 'a terminal is required' >&2"))
    assert not record.notes
