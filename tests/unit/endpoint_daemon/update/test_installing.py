"""One installation at a time, and what a killed one left is no obstacle."""

import os
import time
from pathlib import Path

import pytest

from farhand_daemon.update.install import _working
from farhand_shared.errors import Conflict


def test_an_installation_that_lives_is_waited_for_and_a_dead_one_is_cleared_away(
    tmp_path: Path,
) -> None:
    with _working(tmp_path) as work:
        assert (work / "pid").read_text() == f"{os.getpid()}\n"
        with pytest.raises(Conflict, match=f"pid {os.getpid()}"), _working(tmp_path):
            pass
        assert work.exists()
    assert not work.exists()
    # Killed; killed before it wrote its pid; what a disk may make of it.
    for left in ("99999999\n", "", "nonsense", "0", "-1", "9" * 30):
        work.mkdir()
        (work / "pid").write_text(left)
        (work / "half a wheel").touch()
        with _working(tmp_path) as work:
            assert [path.name for path in work.iterdir()] == ["pid"]


def test_whoever_has_the_pid_of_an_installation_that_a_power_cut_ended_is_not_waited_for(
    tmp_path: Path,
) -> None:
    work = tmp_path / "installing"
    work.mkdir()
    note = work / "pid"
    note.write_text("1\n")  # lives, is another's where we are not root, and never ends
    with pytest.raises(Conflict, match="pid 1"), _working(tmp_path):
        pass
    long_ago = time.time() - 7 * 3600
    os.utime(note, (long_ago, long_ago))
    with _working(tmp_path) as held:
        assert (held / "pid").read_text() == f"{os.getpid()}\n"
