"""How commands end: by themselves, by their deadline, by cancel; and that nothing stays behind."""

import os
import signal
from pathlib import Path

import pytest

from farhand_daemon.process_identity import stat_fields
from farhand_daemon.supervisor.handle import CommandHandle
from farhand_daemon.supervisor.records import Reason, StopReason, Stream
from tests.fakes.supervised_lab import (
    Lab,
    ended,
    read_all,
    supervisor_of,
    until,
)

# Most computers give a daemon no control group, so nothing may rest on them alone.
either_way = pytest.mark.parametrize(
    "lab", [{}, {"hierarchies": []}], indirect=True, ids=["groups if any", "no groups"]
)


async def said(lab: Lab, handle: CommandHandle, word: bytes) -> None:
    """Wait until the command has written a word."""
    await lab.recorder.until(lambda: word in read_all(handle, Stream.STDOUT))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
async def test_death_by_signal_is_no_exit_code(lab: Lab, number: signal.Signals) -> None:
    record, _, _ = await lab.run(lab.shell(f"ulimit -c 0; kill -{number.value} $$"))
    assert (record.reason, record.exit_code, record.signal) == (Reason.SIGNAL, None, number.value)


async def test_deadline_ends_a_command(lab: Lab) -> None:
    record, stdout, _ = await lab.run(lab.shell("echo on; exec sleep 1000", timeout_ms=200))
    assert (record.reason, record.signal, record.exit_code) == (Reason.TIMEOUT, 15, None)
    assert stdout == b"on\n"
    assert 200 <= record.wall_ms < 5000


async def test_command_that_ends_in_time_is_not_touched_by_its_deadline(lab: Lab) -> None:
    record, _, _ = await lab.run(lab.shell("exit 4", timeout_ms=60_000))
    assert (record.reason, record.exit_code) == (Reason.EXIT, 4)


@pytest.mark.parametrize("reason", list(StopReason))
async def test_exit_code_after_our_term_stands_apart_from_the_reason(
    lab: Lab, reason: StopReason
) -> None:
    script = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    handle = await lab.start(lab.shell(script))
    await said(lab, handle, b"ready")
    lab.attempts.cancel(handle.attempt_id, reason)
    record = await ended(handle)
    assert (record.reason.value, record.exit_code, record.signal) == (reason.value, 0, None)
    assert read_all(handle, Stream.STDOUT) == b"ready\nbye\n"


@either_way
async def test_who_ignores_term_is_killed_with_all_grandchildren(lab: Lab) -> None:
    script = (
        "trap '' TERM; (trap '' TERM; sleep 1000 & sleep 1001 & echo ready; wait) & "
        "while :; do wait; done"
    )
    handle = await lab.start(lab.shell(script, grace_ms=300))
    await said(lab, handle, b"ready")
    handle.cancel(StopReason.CANCEL)
    record = await ended(handle)
    assert (record.reason, record.signal) == (Reason.CANCEL, 9)
    assert record.survivors == 0
    assert not lab.processes()
    assert not lab.zombies()


@either_way
async def test_grandchild_in_its_own_session_is_ended_too(lab: Lab) -> None:
    script = "setsid sh -c 'trap \"\" TERM HUP; echo ready; while :; do sleep 1; done' & wait"
    handle = await lab.start(lab.shell(script, grace_ms=300))
    await said(lab, handle, b"ready")
    handle.cancel(StopReason.CANCEL)
    record = await ended(handle)
    assert record.reason is Reason.CANCEL
    assert not record.stdout_left_open
    assert not lab.processes()


@either_way
async def test_daemonised_grandchild_does_not_survive_a_cancel(lab: Lab) -> None:
    """It has a dead parent, its own session, and none of our pipes."""
    script = "(setsid sh -c 'sleep 1000 & exit' >/dev/null 2>&1 &); echo ready; exec sleep 1001"
    handle = await lab.start(lab.shell(script))
    await said(lab, handle, b"ready")
    await until(lambda: len(lab.processes()) == 2)
    handle.cancel(StopReason.CANCEL)
    await ended(handle)
    assert not lab.processes()


@either_way
async def test_spawner_that_never_stops_leaves_no_survivor(lab: Lab) -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 300 & sleep 0.01; done"
    handle = await lab.start(lab.spec("bash", "-c", script, grace_ms=500))
    await said(lab, handle, b"ready")
    handle.cancel(StopReason.CANCEL)
    record = await ended(handle)
    assert record.survivors == 0
    assert not lab.processes()


@either_way
async def test_spawner_of_new_sessions_leaves_no_survivor(lab: Lab) -> None:
    script = "trap '' TERM; echo ready; while :; do setsid sleep 300 & sleep 0.01; done"
    handle = await lab.start(lab.spec("bash", "-c", script, grace_ms=300))
    await said(lab, handle, b"ready")
    handle.cancel(StopReason.CANCEL)
    record = await ended(handle)
    assert record.survivors == 0
    assert not lab.processes()


@either_way
async def test_stopped_command_hears_the_term(lab: Lab) -> None:
    handle = await lab.start(lab.shell("echo ready; kill -STOP $$; echo never"))
    await said(lab, handle, b"ready")
    handle.cancel(StopReason.CANCEL)
    record = await ended(handle)
    assert (record.reason, record.signal) == (Reason.CANCEL, 15)


async def test_orphans_are_reaped_while_the_command_runs(lab: Lab) -> None:
    script = (
        "for i in $(seq 200); do (sleep 0.02 &); done; echo forked; read line < fifo; echo $line"
    )
    fifo = lab.state_dir / "fifo"
    os.mkfifo(fifo)
    handle = await lab.start(lab.shell(script, cwd=os.fsencode(lab.state_dir)))
    await said(lab, handle, b"forked")
    supervisor = supervisor_of(handle)

    def only_the_command_is_left() -> bool:
        children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
        return len(children) == 1

    await until(only_the_command_is_left)
    fifo.write_text("over\n")
    assert (await ended(handle)).exit_code == 0
    assert read_all(handle, Stream.STDOUT) == b"forked\nover\n"


async def test_output_held_open_by_a_child_is_reported_after_two_seconds(lab: Lab) -> None:
    handle = await lab.start(lab.shell("sleep 600 & echo done"))
    record = await ended(handle)
    assert (record.reason, record.exit_code) == (Reason.EXIT, 0)
    assert record.stdout_left_open
    assert record.descendants_left
    assert record.wall_ms < 1500  # the command's own time, without the two seconds
    assert read_all(handle, Stream.STDOUT) == b"done\n"
    (sleeper,) = lab.processes()
    os.kill(sleeper, signal.SIGKILL)


async def test_who_is_left_behind_with_our_pipe_can_still_write(lab: Lab) -> None:
    """Without a reader it would die of SIGPIPE: its supervisor stays for it, then goes."""
    os.mkfifo(lab.state_dir / "fifo")
    script = "(read line < fifo; echo late; echo alive > proof) & echo done"
    handle = await lab.start(lab.shell(script, cwd=os.fsencode(lab.state_dir)))
    record = await ended(handle)
    assert record.stdout_left_open
    supervisor = supervisor_of(handle)
    (lab.state_dir / "fifo").write_text("go\n")
    await until(lambda: (lab.state_dir / "proof").exists())
    await until(lambda: not lab.processes())
    await until(lambda: supervisor not in lab.supervisors())
    assert read_all(handle, Stream.STDOUT) == b"done\n"  # the report was final


async def test_quit_ends_supervisors_that_only_keep_pipes(lab: Lab) -> None:
    handle = await lab.start(lab.shell("sleep 600 & echo done"))
    await ended(handle)
    (sleeper,) = lab.processes()
    await lab.close(quit_leftovers=True)
    await until(lambda: not lab.supervisors())
    assert stat_fields(sleeper) is not None  # left on purpose by the command, not ours to end
    os.kill(sleeper, signal.SIGKILL)


async def test_quiet_background_process_is_left_alone_and_said(lab: Lab) -> None:
    record, stdout, _ = await lab.run(lab.shell("sleep 600 >/dev/null 2>&1 & echo done"))
    assert record.exit_code == 0
    assert not record.stdout_left_open
    assert record.descendants_left
    assert stdout == b"done\n"
    (sleeper,) = lab.processes()
    os.kill(sleeper, signal.SIGKILL)


async def test_last_words_of_the_command_are_read_though_a_child_holds_the_pipe(lab: Lab) -> None:
    record, stdout, _ = await lab.run(lab.shell("sleep 600 & head -c 60000 /dev/zero; exit 0"))
    assert record.total_bytes == (60_000, 0)
    assert len(stdout) == 60_000
    for pid in lab.processes():
        os.kill(pid, signal.SIGKILL)


async def test_cancel_while_a_child_holds_the_pipe_ends_the_child(lab: Lab) -> None:
    handle = await lab.start(lab.shell("sleep 600 & echo done; exit 5"))
    await said(lab, handle, b"done")
    handle.cancel(StopReason.CANCEL)
    record = await ended(handle)
    assert record.exit_code == 5 or record.reason is Reason.CANCEL
    assert not record.stdout_left_open
    assert not lab.processes()


async def test_cancel_before_the_start_starts_nothing(lab: Lab, tmp_path: Path) -> None:
    handle = lab.attempts._pool.prepare("early", lab.shell(f"touch {tmp_path}/ran"))
    handle.cancel(StopReason.CANCEL)
    handle.go()
    record = await ended(handle)
    assert (record.reason, record.started, record.exit_code) == (Reason.CANCEL, None, None)
    assert not (tmp_path / "ran").exists()


async def test_finished_supervisor_takes_the_next_command(lab: Lab) -> None:
    supervisors = set()
    for _ in range(10):
        handle = await lab.start(lab.spec("true"))
        await ended(handle)
        supervisors.add(supervisor_of(handle))
    assert len(supervisors) <= 2


async def test_supervisor_with_something_left_behind_takes_no_other_command(lab: Lab) -> None:
    first = await lab.start(lab.shell("sleep 600 >/dev/null 2>&1 & echo done"))
    await ended(first)
    used = set()
    for _ in range(5):
        handle = await lab.start(lab.spec("true"))
        await ended(handle)
        used.add(supervisor_of(handle))
    assert supervisor_of(first) not in used
    for pid in lab.processes():
        os.kill(pid, signal.SIGKILL)


async def test_supervisor_retires_after_200_commands(lab: Lab) -> None:
    uses: dict[int, int] = {}
    for _ in range(430):
        handle = await lab.start(lab.spec("true"))
        await ended(handle)
        pid = supervisor_of(handle)
        uses[pid] = uses.get(pid, 0) + 1
        lab.attempts.acknowledge_result(handle.attempt_id, b"hash")
    assert max(uses.values()) <= 200
    assert len(uses) >= 3


@pytest.mark.parametrize("lab", [{"idle_s": 0.2}], indirect=True)
async def test_idle_supervisors_retire_and_the_next_command_has_new_ones(lab: Lab) -> None:
    handles = [await lab.start(lab.shell("read line < /dev/null; sleep 0.1")) for _ in range(6)]
    for handle in handles:
        await ended(handle)
    await until(lambda: not lab.supervisors())
    record = await ended(await lab.start(lab.spec("true")))
    assert record.exit_code == 0
    await until(lambda: not lab.supervisors())


async def test_supervisor_that_is_told_to_terminate_ends_its_command_politely(lab: Lab) -> None:
    handle = await lab.start(
        lab.shell("trap 'echo bye; exit 0' TERM; echo ready; sleep 100 & wait")
    )
    await said(lab, handle, b"ready")
    os.kill(supervisor_of(handle), signal.SIGTERM)
    record = await ended(handle)
    assert (record.reason, record.exit_code) == (Reason.SHUTDOWN, 0)
    assert not lab.processes()


@either_way
async def test_many_at_once_all_end_and_leave_nothing(lab: Lab) -> None:
    handles = [await lab.start(lab.shell(f"echo {n}; exit {n}")) for n in range(40)]
    for n, handle in enumerate(handles):
        record = await ended(handle)
        assert record.exit_code == n
        assert read_all(handle, Stream.STDOUT) == b"%d\n" % n
    assert not lab.processes()
    assert not lab.zombies()
