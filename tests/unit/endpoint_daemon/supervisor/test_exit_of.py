"""How the end of a child is read, with waitid and without."""

import os
import subprocess

import pytest

from farhand_daemon.supervisor.exit_record import exit_of


@pytest.mark.parametrize("with_waitid", [True, False])
@pytest.mark.parametrize(
    ("script", "expected"),
    [("exit 3", (3, None, False)), ("ulimit -c 0; kill -9 $$", (None, 9, False))],
)
def test_code_and_signal_are_told_apart(
    with_waitid: bool,
    script: str,
    expected: tuple[int | None, int | None, bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    child = subprocess.Popen(["sh", "-c", "read line; " + script], stdin=subprocess.PIPE)
    assert child.stdin is not None
    assert exit_of(child.pid) is None
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    if not with_waitid:
        monkeypatch.delattr(os, "waitid")
    assert exit_of(child.pid) == expected
    monkeypatch.undo()
    child.wait()
