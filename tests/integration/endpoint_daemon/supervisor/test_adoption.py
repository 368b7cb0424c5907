"""Every process of ours may be killed at any point: commands run once and are found again."""

import asyncio
import os
import select
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from farhand_daemon.attempts import AttemptState, Decision
from farhand_daemon.process_identity import boot_id, start_time
from farhand_daemon.spool import SpoolReader, SpoolWriter
from farhand_daemon.supervisor.handle import HandleState
from farhand_daemon.supervisor.records import Reason, StopReason, Stream
from tests.fakes.supervised_lab import (
    PATH,
    Lab,
    ended,
    lost,
    read_all,
    supervisor_of,
    until,
)

ROOT = Path(__file__).resolve().parents[4]
DAEMON = ROOT / "tests" / "fakes" / "crashing_daemon.py"
DIGEST = b"d" * 32


class Crash:
    """A daemon in a process of its own, and the lab that finds what it left."""

    def __init__(self, tmp_path: Path, state_dir: Path) -> None:
        self.folder = tmp_path
        self.lab = Lab(state_dir, head_bytes=256 << 10, tail_bytes=768 << 10)
        self.daemon: asyncio.subprocess.Process | None = None
        self.fork_server = 0

    async def daemon_runs(self, script: str, point: str = "running") -> None:
        """Start the daemon and wait until it has got to `point`."""
        self.daemon = await asyncio.create_subprocess_exec(
            sys.executable,
            DAEMON,
            self.lab.state_dir,
            point,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=self.folder,
            env={
                "PATH": PATH.decode(),
                "LAB_MARK": self.lab.mark.decode(),
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
        )
        assert self.daemon.stdin is not None
        assert self.daemon.stdout is not None
        self.daemon.stdin.write(script.encode())
        self.daemon.stdin.close()
        line = await asyncio.wait_for(self.daemon.stdout.readline(), 30)
        self.fork_server = int(line or 0)

    async def kill_daemon(self) -> None:
        if self.daemon is not None:
            if self.daemon.returncode is None:
                self.daemon.kill()
            await self.daemon.wait()

    def lines(self, name: str) -> int:
        file = self.folder / name
        return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.fixture
async def crash(tmp_path: Path) -> AsyncIterator[Crash]:
    crash = Crash(tmp_path, tmp_path / "state")
    yield crash
    await crash.kill_daemon()
    await crash.lab.close()
    for pid in crash.lab.processes():
        os.kill(pid, signal.SIGKILL)
    await until(lambda: not crash.lab.supervisors())
    assert (crash.lab.state_dir / "supervisor.log").read_text() == ""


RUNS_ON = "echo x >> count; echo before; read line < fifo; echo after; exit 7"


async def test_command_outlives_its_daemon_and_is_adopted(crash: Crash) -> None:
    os.mkfifo(crash.folder / "fifo")
    await crash.daemon_runs(RUNS_ON)
    await crash.kill_daemon()
    attempts = await crash.lab.open()
    handle = attempts.live["victim"]
    assert handle.state is HandleState.RUNNING
    assert handle.started is not None
    assert attempts.status("victim").state is AttemptState.STARTED
    assert attempts.start("victim", DIGEST, crash.lab.spec("true")) is Decision.EXISTING
    (crash.folder / "fifo").write_text("go\n")
    record = await ended(handle)
    assert (record.reason, record.exit_code) == (Reason.EXIT, 7)
    assert read_all(handle, Stream.STDOUT) == b"before\nafter\n"
    assert crash.lines("count") == 1


async def test_idle_supervisors_and_the_fork_server_end_with_the_daemon(crash: Crash) -> None:
    os.mkfifo(crash.folder / "fifo")
    await crash.daemon_runs(RUNS_ON)
    await until(lambda: len(crash.lab.supervisors()) == 2)  # the busy one and a warm one
    await crash.kill_daemon()
    await until(lambda: len(crash.lab.supervisors()) == 1)
    await until(lambda: not Path(f"/proc/{crash.fork_server}").exists())
    await crash.lab.open()
    (crash.folder / "fifo").write_text("go\n")
    await ended(crash.lab.attempts.live["victim"])


async def test_command_that_ended_without_a_daemon_has_its_result(crash: Crash) -> None:
    os.mkfifo(crash.folder / "fifo")
    await crash.daemon_runs(RUNS_ON)
    await crash.kill_daemon()
    (crash.folder / "fifo").write_text("go\n")
    await until(lambda: not crash.lab.supervisors())
    attempts = await crash.lab.open()
    handle = attempts.live["victim"]
    assert attempts.status("victim").state is AttemptState.FINISHED
    assert handle.record is not None
    assert handle.record.exit_code == 7
    assert read_all(handle, Stream.STDOUT) == b"before\nafter\n"
    assert crash.lab.recorder.told == []  # it is in `live`, nothing new has happened


async def test_adopted_command_can_be_cancelled_with_all_it_started(crash: Crash) -> None:
    await crash.daemon_runs("sleep 1001 & sleep 1002")
    await crash.kill_daemon()
    attempts = await crash.lab.open()
    attempts.cancel("victim", StopReason.CANCEL)
    record = await ended(attempts.live["victim"])
    assert record.reason is Reason.CANCEL
    assert not crash.lab.processes()


async def test_command_is_not_held_back_while_there_is_no_daemon(crash: Crash) -> None:
    os.mkfifo(crash.folder / "fifo")
    await crash.daemon_runs("read line < fifo; head -c 5000000 /dev/zero; echo end > done")
    await crash.kill_daemon()
    (crash.folder / "fifo").write_text("go\n")
    await until(lambda: (crash.folder / "done").exists())
    attempts = await crash.lab.open()
    record = await ended(attempts.live["victim"])
    assert record.total_bytes == (5_000_000, 0)
    assert record.omitted_bytes == (5_000_000 - (1 << 20), 0)


async def test_adopted_command_is_held_back_again_once_the_link_is_up(crash: Crash) -> None:
    os.mkfifo(crash.folder / "fifo")
    await crash.daemon_runs("read line < fifo; exec head -c 5000000 /dev/zero")
    await crash.kill_daemon()
    attempts = await crash.lab.open(link_up=True)
    (crash.folder / "fifo").write_text("go\n")
    handle = attempts.live["victim"]
    await crash.lab.recorder.until(lambda: handle.produced(Stream.STDOUT) == 1 << 20)
    handle.ack(Stream.STDOUT, 1 << 20)
    await crash.lab.recorder.until(lambda: handle.produced(Stream.STDOUT) > 1 << 20)
    attempts.link_state(up=False)
    assert (await ended(handle)).total_bytes == (5_000_000, 0)


async def test_daemon_may_die_and_come_back_many_times(crash: Crash) -> None:
    os.mkfifo(crash.folder / "fifo")
    await crash.daemon_runs(RUNS_ON)
    await crash.kill_daemon()
    for _ in range(3):
        attempts = await crash.lab.open()
        assert attempts.live["victim"].state is HandleState.RUNNING
        await crash.lab.close()
    attempts = await crash.lab.open()
    (crash.folder / "fifo").write_text("go\n")
    assert (await ended(attempts.live["victim"])).exit_code == 7
    assert crash.lines("count") == 1


@pytest.mark.parametrize("point", ["journalled", "prepared"])
async def test_without_go_nothing_runs(crash: Crash, point: str) -> None:
    await crash.daemon_runs("echo x >> count", point)
    await crash.kill_daemon()
    attempts = await crash.lab.open()
    await until(lambda: len(crash.lab.supervisors()) <= 1)  # the warm one of the new daemon
    assert crash.lines("count") == 0
    if point == "journalled":  # it may have run, for all that can be known: never again
        assert attempts.status("victim").state is AttemptState.INDETERMINATE
        assert attempts.live["victim"].loss is not None
        decision = attempts.start("victim", DIGEST, crash.lab.spec("true"))
        assert decision is Decision.EXISTING
    else:
        assert attempts.status("victim").state is AttemptState.UNKNOWN
        assert not list((crash.lab.state_dir / "spool").iterdir())


async def test_death_right_after_go_still_runs_it_once(crash: Crash) -> None:
    await crash.daemon_runs("echo x >> count; echo out", "go")
    attempts = await crash.lab.open()
    handle = attempts.live["victim"]
    record = await ended(handle)
    assert record.exit_code == 0
    assert read_all(handle, Stream.STDOUT) == b"out\n"
    assert crash.lines("count") == 1


async def test_killed_supervisor_is_noticed_at_once_and_said_honestly(crash: Crash) -> None:
    lab = crash.lab
    await crash.daemon_runs("true")
    await crash.kill_daemon()
    attempts = await lab.open()
    handle = await lab.start(lab.shell("echo out; sleep 1000"))
    await lab.recorder.until(lambda: read_all(handle, Stream.STDOUT) == b"out\n")
    os.kill(supervisor_of(handle), signal.SIGKILL)
    loss = await lost(handle)
    assert loss.still_running
    assert attempts.status(handle.attempt_id).state is AttemptState.INDETERMINATE
    assert ("lost", handle.attempt_id) in lab.recorder.told
    assert read_all(handle, Stream.STDOUT) == b"out\n"
    handle.cancel(StopReason.CANCEL)  # the orphan is provably ours
    await until(lambda: not lab.processes())
    record, _, _ = await lab.run(lab.shell("exit 3"))  # and life goes on
    assert record.exit_code == 3


async def test_everything_of_ours_killed_at_once_is_indeterminate(crash: Crash) -> None:
    await crash.daemon_runs("echo out; echo x >> count; exec sleep 1000")
    await until(lambda: crash.lines("count") == 1)
    for pid in [crash.fork_server, *crash.lab.supervisors()]:
        os.kill(pid, signal.SIGKILL)
    await crash.kill_daemon()
    attempts = await crash.lab.open()
    handle = attempts.live["victim"]
    loss = await lost(handle)  # on a busy computer a killed process takes a moment to be gone
    assert attempts.status("victim").state is AttemptState.INDETERMINATE
    assert loss.still_running
    assert "died while it ran" in loss.message
    assert read_all(handle, Stream.STDOUT) == b"out\n"
    assert not [p for p in (crash.lab.state_dir / "supervisors").iterdir() if p.stem == "victim"]


async def test_killed_fork_server_is_replaced(crash: Crash) -> None:
    await crash.daemon_runs("true")
    await crash.kill_daemon()
    lab = crash.lab
    await lab.open()
    handle = await lab.start(lab.shell("echo ready; sleep 1000"))
    os.kill(lab.fork_server.pid, signal.SIGKILL)
    for _ in range(3):  # more than are warm
        record, _, _ = await lab.run(lab.shell("sleep 600 >/dev/null 2>&1 & exit 3"))
        assert record.exit_code == 3
    assert handle.record is None  # its supervisor has not noticed anything
    handle.cancel(StopReason.CANCEL)
    assert (await ended(handle)).reason is Reason.CANCEL


async def test_killed_idle_supervisor_costs_nothing(crash: Crash) -> None:
    await crash.daemon_runs("true")
    await crash.kill_daemon()
    lab = crash.lab
    await lab.open()
    await lab.run(lab.spec("true"))
    for pid in lab.supervisors():
        _kill_and_wait(pid)  # not awaited: the pool must not have noticed yet
    handle = await lab.start(lab.shell(f"echo x >> {crash.folder}/count"))
    assert (await ended(handle)).exit_code == 0
    assert crash.lines("count") == 1


async def test_home_may_lie_deeper_than_a_socket_address_can_say(tmp_path: Path) -> None:
    deep = tmp_path
    while len(os.fspath(deep)) < 300:
        deep /= "a folder with a rather long name"
    deep.mkdir(parents=True)
    crash = Crash(deep, deep / "state")
    os.mkfifo(deep / "fifo")
    await crash.daemon_runs(RUNS_ON)
    await crash.kill_daemon()
    attempts = await crash.lab.open()
    (deep / "fifo").write_text("go\n")
    assert (await ended(attempts.live["victim"])).exit_code == 7
    await crash.lab.close()


async def test_left_behind_pipe_survives_the_daemon_and_is_found_again(crash: Crash) -> None:
    os.mkfifo(crash.folder / "fifo")
    await crash.daemon_runs("(read line < fifo; echo late; echo alive > proof) & echo done")
    await until(lambda: _has_exit(crash))
    await crash.kill_daemon()
    await crash.lab.open()
    (crash.folder / "fifo").write_text("go\n")
    await until(lambda: (crash.folder / "proof").exists())
    assert read_all(crash.lab.attempts.live["victim"], Stream.STDOUT) == b"done\n"


async def test_end_without_a_daemon_is_known_while_its_supervisor_stays_for_a_child(
    crash: Crash,
) -> None:
    await crash.daemon_runs("sleep 1000 & echo done; exit 5")
    await until(lambda: _has_exit(crash))
    await crash.kill_daemon()
    attempts = await crash.lab.open()
    record = attempts.live["victim"].record
    assert record is not None
    assert (record.exit_code, record.stdout_left_open) == (5, True)


async def test_supervisor_that_lives_but_cannot_be_reached_is_waited_for(crash: Crash) -> None:
    """It is just ending, say: its socket is closed, the process not quite gone."""
    lab = crash.lab
    await lab.open()
    await lab.close()
    stand_in = await asyncio.create_subprocess_exec("sleep", "1000")
    started = start_time(stand_in.pid)
    assert started is not None
    writer = SpoolWriter(
        os.fspath(lab.state_dir / "spool" / "stuck.spool"),
        "stuck",
        {"pid": stand_in.pid, "start_time": started, "boot_id": boot_id(), "socket": "no.sock"},
        head=16,
        tail=48,
    )
    writer.put_started({"pid": 1, "start_time": 0, "boot_id": boot_id(), "at_ms": 0})
    attempts = await lab.open()
    handle = attempts.live["stuck"]
    assert handle.state is HandleState.RUNNING
    stand_in.kill()
    await stand_in.wait()
    loss = await lost(handle)
    assert not loss.still_running
    assert lab.recorder.told == [("lost", "stuck")]


async def test_stopped_supervisor_is_adopted_once_it_goes_on(
    crash: Crash, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farhand_daemon.supervisor.pool._ADOPTION_S", 0.2)
    os.mkfifo(crash.folder / "fifo")
    await crash.daemon_runs(RUNS_ON)
    reader = SpoolReader(os.fspath(crash.lab.state_dir / "spool" / "victim.spool"))
    supervisor = reader.supervisor["pid"]
    reader.close()
    assert isinstance(supervisor, int)
    os.kill(supervisor, signal.SIGSTOP)
    await crash.kill_daemon()
    attempts = await crash.lab.open()
    handle = attempts.live["victim"]
    assert handle.state is HandleState.RUNNING
    handle.ack(Stream.STDOUT, 1)  # kept until the supervisor can be told
    os.kill(supervisor, signal.SIGCONT)
    (crash.folder / "fifo").write_text("go\n")
    assert (await ended(handle)).exit_code == 7
    assert crash.lines("count") == 1


async def test_what_was_decided_is_known_after_a_restart(crash: Crash) -> None:
    await crash.daemon_runs("true")
    await crash.kill_daemon()
    lab = crash.lab
    attempts = await lab.open()
    journal_id, counter = attempts.journal_id, attempts.counter
    attempts.cancel("never-seen", StopReason.CANCEL)
    handle = await lab.start(lab.spec("true"), "kept")
    await ended(handle)
    handle = await lab.start(lab.spec("true"), "delivered")
    await ended(handle)
    attempts.acknowledge_result("delivered", b"hash")
    await lab.close()

    attempts = await lab.open()
    assert attempts.journal_id == journal_id
    assert attempts.counter == counter + 3
    assert attempts.status("other").state is AttemptState.UNKNOWN
    assert attempts.status("never-seen").state is AttemptState.TOMBSTONED
    assert attempts.status("kept").state is AttemptState.FINISHED
    assert attempts.status("delivered").state is AttemptState.RECEIPTED
    assert attempts.status("delivered").result_hash == b"hash"
    assert set(attempts.live) == {"victim", "kept"}
    spec = lab.shell(f"echo x >> {crash.folder}/count")
    assert attempts.start("never-seen", DIGEST, spec) is Decision.TOMBSTONED
    for known in ("kept", "delivered"):
        assert attempts.start(known, DIGEST, spec) is Decision.EXISTING
        assert attempts.start(known, b"e" * 32, spec) is Decision.CONFLICT
    assert crash.lines("count") == 0
    assert [p.stem for p in (lab.state_dir / "spool").iterdir() if p.stem == "delivered"] == []


async def test_forgotten_attempt_is_ended_and_never_told(crash: Crash) -> None:
    await crash.daemon_runs("exec sleep 1000")
    await crash.kill_daemon()
    attempts = await crash.lab.open()
    attempts.forget("victim")
    await until(lambda: "victim" not in attempts.live)
    assert not crash.lab.processes()
    assert crash.lab.recorder.told == []
    assert attempts.is_receipted("victim")


def _kill_and_wait(pid: int) -> None:
    watched = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    select.select([watched], [], [])
    os.close(watched)


def _has_exit(crash: Crash) -> bool:
    reader = SpoolReader(os.fspath(crash.lab.state_dir / "spool" / "victim.spool"))
    try:
        return reader.exit_record() is not None
    finally:
        reader.close()
