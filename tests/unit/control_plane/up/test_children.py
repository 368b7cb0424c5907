"""One child of `up`."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from farhand_control_plane.up import children
from farhand_control_plane.up.children import Child


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Child]:
    made = Child("toy", log=tmp_path / "toy.log", environ=dict(os.environ))
    yield made
    made.end(signal.SIGKILL, 10)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def until_ended(child: Child) -> None:
    deadline = time.monotonic() + 30
    while child.running:
        assert time.monotonic() < deadline
        time.sleep(0.01)  # between two looks, not for timing


def test_the_end_of_the_lifeline_is_seen_by_the_child(child: Child) -> None:
    child.start(python("import os, sys; os.read(int(sys.argv[2]), 1); sys.exit(7)"))
    assert child.running
    child.forget()  # closes our end, as dying does
    until_ended(child)
    assert child.how_it_ended() == "exit status 7"


def test_a_line_is_told_and_reports_are_heard_even_when_several_come_at_once(child: Child) -> None:
    child.start(
        python(
            "import os, sys\n"
            "said = os.read(int(sys.argv[2]), 99)\n"
            "assert said == b'{\"a\": 1}\\n', said\n"
            'os.write(int(sys.argv[4]), b\'{"n": 1}\\n{"n": 2}\\n{"n"\')\n'
            "os.write(int(sys.argv[4]), b': 3}\\n')\n"
        ),
        reports=True,
    )
    child.tell({"a": 1})
    until_ended(child)
    assert [line["n"] for line in child.hear()] == [1, 2, 3]
    assert child.report_fd == -1


def test_its_output_goes_to_a_log_whose_last_line_can_be_told(child: Child) -> None:
    child.start(python("print('first', flush=True); raise SystemExit('cannot go on: no')"))
    until_ended(child)
    assert child.last_words() == "cannot go on: no"


def test_a_signal_that_ended_it_is_named(child: Child) -> None:
    child.start(python("import os; os.kill(os.getpid(), 9)"))
    until_ended(child)
    assert child.how_it_ended() == "killed by SIGKILL"


def test_it_ends_gently_or_else_by_force(child: Child) -> None:
    child.start(python("import time; time.sleep(100)"))
    assert child.end(signal.SIGTERM, 10) is True
    child.start(
        python(
            "import os, signal, sys, time\n"
            "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "os.write(int(sys.argv[4]), b'{}\\n')\n"
            "time.sleep(100)\n"
        ),
        reports=True,
    )
    deadline = time.monotonic() + 30
    while not child.hear():
        assert time.monotonic() < deadline
        time.sleep(0.01)  # between two looks, not for timing
    assert child.end(signal.SIGTERM, 0.2) is False
    assert not child.running


def test_one_that_keeps_dying_is_started_again_later_and_later(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(children.time, "monotonic", lambda: now)
    waits = []
    for _ in range(8):
        child.start(python("pass"))
        assert child.process is not None
        child.process.wait()
        assert not child.due_again()
        began = now
        while not child.due_again():
            now += 0.1
        waits.append(round(now - began, 1))
    assert waits == sorted(waits)
    assert waits[0] <= 0.3
    assert waits[-1] == pytest.approx(children.RETRY_CAP_S, abs=0.2)
    now += children.HEALTHY_S + 1  # it ran well for a while
    assert child.process is not None
    assert not child.due_again()
    now += 0.3
    assert child.due_again()


def test_no_descriptor_of_one_child_reaches_another(tmp_path: Path, child: Child) -> None:
    """Else the end of a lifeline would not be seen while a sibling lives."""
    sibling = Child("sibling", log=tmp_path / "s.log", environ=dict(os.environ))
    child.start(python("import os, sys; os.read(int(sys.argv[2]), 1)"))
    sibling.start(python("import time; time.sleep(100)"))
    child.forget()
    until_ended(child)
    sibling.end(signal.SIGKILL, 10)


def test_its_log_is_bounded_while_it_runs_and_the_last_part_is_kept(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "LOG_MAX_BYTES", 10_000)
    child.start(
        python(
            "import os, sys\n"
            "for n in range(5000): os.write(1, b'line %d\\n' % n)\n"
            "os.write(int(sys.argv[4]), b'{}\\n')\n"
            "os.read(int(sys.argv[2]), 99)\n"
            "os.write(1, b'after\\n')\n"
        ),
        reports=True,
    )
    deadline = time.monotonic() + 30
    while not child.hear():
        assert time.monotonic() < deadline
        time.sleep(0.01)  # between two looks, not for timing
    assert not child.due_again()  # a look of the parent
    old = child.log.with_suffix(".log.old")
    assert child.log.stat().st_size == 0
    assert old.stat().st_size == 10_000
    assert old.read_bytes().endswith(b"line 4998\nline 4999\n")
    assert child.last_words() == "line 4999"
    child.tell({})
    until_ended(child)
    assert child.log.read_bytes() == b"after\n"  # no hole where the old part was
    assert child.last_words() == "after"
