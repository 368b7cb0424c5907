"""One installation at a time, and what a killed one left is no obstacle."""

import os
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
    for left in ("99999999\n", "", "nonsense"):  # killed; killed before it wrote its pid
        work.mkdir()
        (work / "pid").write_text(left)
        (work / "half a wheel").touch()
        with _working(tmp_path) as work:
            assert [path.name for path in work.iterdir()] == ["pid"]
