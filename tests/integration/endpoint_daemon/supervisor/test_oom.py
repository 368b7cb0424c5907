"""A command that runs out of memory says so, where the system tells it apart from other kills."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from farhand_daemon.attempts import Attempts
from farhand_daemon.supervisor.fork_client import launch_fork_server
from farhand_daemon.supervisor.records import Reason
from tests.fakes.supervised_lab import Lab, until

LIMIT_BYTES = 96 << 20
GREEDY = "b = bytearray(400 << 20); b[::4096] = b'x' * len(b[::4096])"


@pytest.fixture
def put_into_small_cgroup() -> Iterator[Callable[[int], None]]:
    """Give a function that puts a process into a cgroup of 96 MiB; skip where none can be made."""
    v1 = Path("/sys/fs/cgroup/memory")
    parent, limit = (v1, "memory.limit_in_bytes") if v1.is_dir() else (v1.parent, "memory.max")
    group = parent / f"farhand-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / limit).write_text(str(LIMIT_BYTES))
    except OSError:
        if group.is_dir():
            group.rmdir()
        pytest.skip("no cgroup with a memory limit can be made here")

    def put(pid: int) -> None:
        (group / "cgroup.procs").write_text(str(pid))

    yield put
    group.rmdir()


async def test_only_the_greedy_command_dies_and_the_reason_is_oom(
    tmp_path: Path, put_into_small_cgroup: Callable[[int], None]
) -> None:
    lab = Lab(tmp_path / "state")
    lab.fork_server = launch_fork_server(lab.state_dir)
    put_into_small_cgroup(lab.fork_server.pid)
    lab.attempts = await Attempts.open(lab.state_dir, lab.fork_server, lab.recorder)
    quiet = await lab.start(lab.spec("sleep", "1000"))
    record, _, _ = await lab.run(lab.spec(sys.executable, "-I", "-c", GREEDY))
    assert (record.reason, record.signal, record.exit_code) == (Reason.OOM, 9, None)
    assert quiet.record is None
    record, _, _ = await lab.run(lab.shell("kill -9 $$"))
    assert record.reason is Reason.SIGNAL  # the count has not moved since
    lab.attempts.forget(quiet.attempt_id)
    await until(lambda: quiet.attempt_id not in lab.attempts.live)
    await lab.attempts.close(quit_leftovers=True)
    await until(lambda: not lab.supervisors())
