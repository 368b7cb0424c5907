"""A command that runs out of the daemon's memory says so, and is the only one that dies."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from farhand_daemon.supervisor.cgroup import Hierarchy
from farhand_daemon.supervisor.records import Reason
from tests.fakes.supervised_lab import Lab, until

LIMIT_BYTES = 96 << 20
GREEDY = "b = bytearray(400 << 20); b[::4096] = b'x' * len(b[::4096])"


@pytest.fixture
def small_unit() -> Iterator[Path]:
    """Give a control group of 96 MiB, as of a service with MemoryMax; skip where there is none."""
    v1 = Path("/sys/fs/cgroup/memory")
    parent, limit = (v1, "memory.limit_in_bytes") if v1.is_dir() else (v1.parent, "memory.max")
    group = parent / f"test-{os.getpid()}"
    try:
        group.mkdir()
        (group / limit).write_text(str(LIMIT_BYTES))
    except OSError:
        if group.is_dir():
            group.rmdir()
        pytest.skip("no control group with a memory limit can be made here")
    yield group
    give_up = time.monotonic() + 10
    while group.exists():  # the last process in it may be just ending
        with contextlib.suppress(OSError):
            group.rmdir()
        assert time.monotonic() < give_up


async def test_only_the_greedy_command_dies_and_the_reason_is_oom(
    tmp_path: Path, small_unit: Path
) -> None:
    home = str(small_unit)
    lab = Lab(tmp_path / "state", hierarchies=[Hierarchy(home, home)])
    await lab.open()
    (small_unit / "cgroup.procs").write_text(str(lab.fork_server.pid))
    quiet = await lab.start(lab.spec("sleep", "1000"))
    record, _, _ = await lab.run(lab.spec(sys.executable, "-I", "-c", GREEDY))
    assert (record.reason, record.signal, record.exit_code) == (Reason.OOM, 9, None)
    assert [note.code for note in record.notes] == ["out_of_memory"]
    assert "the machine ran out of memory" in record.notes[0].text
    assert quiet.record is None
    record, _, _ = await lab.run(lab.shell("kill -9 $$"))
    assert record.reason is Reason.SIGNAL  # the count has not moved since
    assert not record.notes
    lab.attempts.forget(quiet.attempt_id)
    await until(lambda: quiet.attempt_id not in lab.attempts.live)
    await lab.close()
    await until(lambda: not lab.supervisors())
