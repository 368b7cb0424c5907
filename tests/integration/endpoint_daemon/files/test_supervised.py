"""A file operation under a real supervisor: forked without exec, and ended like any command."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from farhand_daemon import file_argv
from farhand_daemon.supervisor.records import Reason, SpawnSpec, StopReason, Stream
from farhand_shared.file_operation import (
    FileOperation,
    ListFolder,
    PutFile,
    ReadFile,
    SearchFiles,
    StatFile,
    WriteFile,
)
from tests.fakes.supervised_lab import Lab, ended, read_all, until
from tests.integration.endpoint_daemon.files.conftest import names
from tests.integration.endpoint_daemon.files.test_putting import CONTENT, sha256


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    """Attempts of a fresh folder; afterwards no process and no word of a fault may be left."""
    lab = Lab(tmp_path / "state")
    await lab.open()
    yield lab
    await lab.close()
    await until(lambda: not lab.supervisors())
    assert (lab.state_dir / "supervisor.log").read_text() == ""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def spec(root: Path, operation: FileOperation, **facts: Any) -> SpawnSpec:
    argv = file_argv.pack(operation, roots=[os.fsencode(root)], own=[])
    return SpawnSpec(argv=argv, env=(), cwd=os.fsencode(root), file=True, **facts)


async def test_operations_run_one_after_the_other_in_a_recycled_supervisor(
    lab: Lab, root: Path
) -> None:
    (root / "file").write_bytes(b"\xff\0content")
    record, stdout, stderr = await lab.run(spec(root, ReadFile(path=b"file")))
    assert (record.reason, record.exit_code, stdout) == (Reason.EXIT, 0, b"\xff\0content")
    assert json.loads(stderr)["sent"] == 9
    supervisors = lab.supervisors()
    record, stdout, stderr = await lab.run(spec(root, StatFile(path=b"none")))
    assert (record.exit_code, stdout) == (1, b"")
    assert json.loads(stderr)["error"]["code"] == "not_found"
    record, stdout, _ = await lab.run(lab.shell("echo command"))
    assert stdout == b"command\n"
    assert set(supervisors) <= set(lab.supervisors())


async def test_a_large_write_arrives_whole(lab: Lab, root: Path) -> None:
    data = os.urandom(5_000_000)
    write = WriteFile(path=b"file", data=data, mode=0o640)
    record, _, stderr = await lab.run(spec(root, write, umask=0o077))
    assert record.exit_code == 0, stderr
    assert (root / "file").read_bytes() == data
    record, _, _ = await lab.run(spec(root, WriteFile(path=b"new", data=b"x"), umask=0o077))
    assert (root / "new").stat().st_mode & 0o777 == 0o600


async def test_it_holds_no_descriptor_of_its_supervisor_and_no_signal_is_ignored(
    lab: Lab, root: Path
) -> None:
    """A reader of /proc/self sees the process that it is."""
    operation = ListFolder(path=b"/proc/self/fd")
    argv = file_argv.pack(operation, roots=[b"/"], own=[])
    record, stdout, stderr = await lab.run(SpawnSpec(argv=argv, env=(), cwd=b"/", file=True))
    assert record.exit_code == 0, stderr
    entries = [json.loads(line) for line in stdout.splitlines()][:-1]
    targets = [entry["target"] for entry in entries if not entry["target"].startswith("/")]
    assert entries[0]["target"] == "/dev/null"
    assert len(targets) == 2, targets  # both outputs; the rest are folders
    argv = file_argv.pack(ReadFile(path=b"/proc/self/status"), roots=[b"/"], own=[])
    _, stdout, _ = await lab.run(SpawnSpec(argv=argv, env=(), cwd=b"/", file=True))
    status = dict(line.split(":\t") for line in stdout.decode().splitlines() if ":\t" in line)
    own_of_the_c_library = 0b11 << 31
    assert int(status["SigIgn"], 16) & ~own_of_the_c_library == 1 << 24  # SIGXFSZ
    assert int(status["SigBlk"], 16) == 0


async def test_the_bytes_of_a_put_come_over_its_input(lab: Lab, root: Path) -> None:
    put = PutFile(path=b"file", size=len(CONTENT), sha256=sha256(CONTENT))
    handle = await lab.start(spec(root, put, stdin=True))
    for at in range(0, len(CONTENT), 200_000):
        chunk = CONTENT[at : at + 200_000]
        handle.give_input(at, chunk, end=at + 200_000 >= len(CONTENT))
    record = await ended(handle)
    assert record.exit_code == 0, read_all(handle, Stream.STDERR)
    assert (root / "file").read_bytes() == CONTENT
    assert names(root) == ["file"]


async def test_a_put_goes_on_after_the_daemon_was_away(lab: Lab, root: Path) -> None:
    put = PutFile(path=b"file", size=len(CONTENT), sha256=sha256(CONTENT))
    handle = await lab.start(spec(root, put, stdin=True))
    attempt_id = handle.attempt_id
    handle.give_input(0, CONTENT[:1000], end=False)
    await until(lambda: any(one.stat().st_size == 1000 for one in root.iterdir()))
    await lab.close(quit_leftovers=False)
    await lab.open()
    handle = lab.attempts.live[attempt_id]
    await lab.recorder.until(lambda: handle.input_received is not None)
    assert handle.input_taken == 1000
    handle.give_input(1000, CONTENT[1000:], end=True)
    record = await ended(handle)
    assert record.exit_code == 0, read_all(handle, Stream.STDERR)
    assert (root / "file").read_bytes() == CONTENT


async def test_a_put_without_input_says_that_none_came(lab: Lab, root: Path) -> None:
    put = PutFile(path=b"file", size=1, sha256=sha256(b"x"))
    _, _, stderr = await lab.run(spec(root, put))
    assert json.loads(stderr)["error"]["code"] == "bad_content"
    assert names(root) == []


async def test_a_cancel_and_a_deadline_end_it_like_any_command(lab: Lab, root: Path) -> None:
    put = PutFile(path=b"file", size=2, sha256=sha256(b"xx"))
    handle = await lab.start(spec(root, put, stdin=True))
    handle.give_input(0, b"x", end=False)
    await until(lambda: any(one.stat().st_size == 1 for one in root.iterdir()))
    handle.cancel(StopReason.CANCEL)
    record = await asyncio.wait_for(ended(handle), 30)
    assert (record.reason, record.signal) == (Reason.CANCEL, 15)
    (root / "a").write_bytes(b"a" * 100 + b"!")
    search = SearchFiles(path=b"a", pattern=rb"(a+)+$")
    record, _, _ = await lab.run(spec(root, search, timeout_ms=300, grace_ms=1000))
    assert record.reason is Reason.TIMEOUT
    assert not (root / "file").exists()


async def test_many_at_once_do_not_mix(lab: Lab, root: Path) -> None:
    for number in range(12):
        (root / f"f{number}").write_bytes(b"%d" % number * 10_000)
    done = await asyncio.gather(
        *(lab.run(spec(root, ReadFile(path=b"f%d" % number))) for number in range(12))
    )
    for number, (record, stdout, _) in enumerate(done):
        assert record.exit_code == 0
        assert stdout == b"%d" % number * 10_000
