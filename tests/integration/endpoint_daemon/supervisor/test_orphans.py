"""Commands whose supervisor was killed with -9: remembered, counted, ended on request."""

import os
import signal
from pathlib import Path

import pytest

from farhand_daemon.attempts import AttemptState
from farhand_daemon.process_identity import boot_id, start_time
from farhand_daemon.supervisor.handle import CommandHandle
from farhand_daemon.supervisor.orphan_tree import OrphanTree
from farhand_daemon.supervisor.records import Started, StopReason
from tests.fakes.supervised_lab import Lab, lost, supervisor_of, until

CANCEL = StopReason.CANCEL


async def orphan(lab: Lab, script: str) -> CommandHandle:
    """Run a script, wait for its file `ready` and kill its supervisor."""
    ready = lab.state_dir / "ready"
    handle = await lab.start(lab.shell(f"{script}; : > '{ready}'; sleep 1000; true"))
    await until(lambda: handle.started is not None and ready.exists())
    os.kill(supervisor_of(handle), signal.SIGKILL)
    await lost(handle)
    return handle


def files(lab: Lab) -> list[Path]:
    return list((lab.state_dir / "orphans").glob("*"))


async def test_a_process_is_remembered_after_the_receipt_and_ended_by_a_cancel(lab: Lab) -> None:
    handle = await orphan(lab, "true")
    attempts = lab.attempts
    attempts.acknowledge_result(handle.attempt_id, b"h")
    assert attempts.status(handle.attempt_id).state is AttemptState.RECEIPTED
    assert attempts.orphans == [handle.attempt_id]
    assert lab.processes()
    attempts.cancel(handle.attempt_id, CANCEL)
    assert attempts.ending_orphans
    await until(lambda: not lab.processes())
    await until(lambda: not attempts.orphans)
    assert not attempts.ending_orphans
    assert not files(lab)
    assert ("exited", handle.attempt_id) not in lab.recorder.told


async def test_what_ignores_term_or_left_the_group_is_killed_too(lab: Lab) -> None:
    lab.attempts._pool.orphans._grace_s = 0.3
    handle = await orphan(
        lab,
        "trap '' TERM; setsid sh -c 'sleep 1000; true' & (trap '' TERM; sleep 1000; true) &"
        " sleep 0.3",
    )
    assert len(lab.processes()) >= 4
    handle.cancel(CANCEL)
    await until(lambda: not lab.processes())
    await until(lambda: not lab.attempts.orphans)


async def test_a_stopped_process_can_be_ended(lab: Lab) -> None:
    handle = await orphan(lab, "true")
    assert handle.started is not None
    os.killpg(handle.started.pid, signal.SIGSTOP)
    handle.cancel(CANCEL)
    await until(lambda: not lab.processes())


async def test_its_own_end_is_noticed_and_told(lab: Lab) -> None:
    handle = await orphan(lab, "true")
    told: list[bool] = []
    lab.attempts.on_orphan_end(lambda: told.append(True))
    lab.attempts.acknowledge_result(handle.attempt_id, b"h")
    assert files(lab)
    assert handle.started is not None
    os.killpg(handle.started.pid, signal.SIGKILL)
    await until(lambda: bool(told))
    assert lab.attempts.orphans == []
    assert not files(lab)


async def test_its_own_end_is_noticed_without_a_descriptor(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farhand_daemon.supervisor.orphans._LOOK_S", 0.05)

    def refused(pid: int) -> int:
        raise OSError

    handle = await lab.start(lab.shell("sleep 1000; true"))
    await until(lambda: handle.started is not None)
    monkeypatch.setattr(os, "pidfd_open", refused)
    os.kill(supervisor_of(handle), signal.SIGKILL)
    await lost(handle)
    assert lab.attempts.orphans == [handle.attempt_id]
    assert handle.started is not None
    os.killpg(handle.started.pid, signal.SIGKILL)
    await until(lambda: not lab.attempts.orphans)


async def test_the_next_daemon_knows_it_and_can_end_it(lab: Lab) -> None:
    handle = await orphan(lab, "true")
    lab.attempts.acknowledge_result(handle.attempt_id, b"h")
    await lab.close()
    attempts = await lab.open()
    assert handle.attempt_id not in attempts.live
    assert attempts.orphans == [handle.attempt_id]
    attempts.cancel(handle.attempt_id, CANCEL)
    await until(lambda: not lab.processes())
    await until(lambda: not files(lab))


async def test_an_ending_goes_on_after_a_restart(lab: Lab) -> None:
    handle = await orphan(lab, "trap '' TERM")
    lab.attempts.acknowledge_result(handle.attempt_id, b"h")
    lab.attempts.cancel(handle.attempt_id, CANCEL)  # its grace is longer than this daemon
    await lab.close()
    assert lab.processes()
    await lab.open()
    assert lab.attempts.ending_orphans
    assert handle.started is not None
    os.killpg(handle.started.pid, signal.SIGKILL)
    await until(lambda: not lab.attempts.orphans)


async def test_the_loss_says_the_same_when_the_process_has_ended_meanwhile(lab: Lab) -> None:
    """Or a result sent twice would have two hashes."""
    handle = await orphan(lab, "true")
    await lab.close()
    assert handle.started is not None
    os.killpg(handle.started.pid, signal.SIGKILL)
    await until(lambda: not lab.processes())
    attempts = await lab.open()
    loss = attempts.live[handle.attempt_id].loss
    assert loss is not None
    assert loss.still_running
    assert attempts.orphans == []
    attempts.acknowledge_result(handle.attempt_id, b"h")
    assert not files(lab)


async def test_a_command_that_was_being_ended_goes_on_being_ended(lab: Lab) -> None:
    lab.attempts._pool.orphans._grace_s = 0.2
    ready = lab.state_dir / "ready"
    handle = await lab.start(lab.shell(f"trap '' TERM; : > '{ready}'; sleep 1000; sleep 1000"))
    await until(lambda: handle.started is not None and ready.exists())
    handle.cancel(CANCEL)
    os.kill(supervisor_of(handle), signal.SIGKILL)
    await lost(handle)
    await until(lambda: not lab.processes())


async def test_a_pid_that_has_come_to_mean_another_process_is_left_alone(lab: Lab) -> None:
    started = start_time(os.getpid())
    assert started is not None
    for wrong in (
        Started(pid=os.getpid(), start_time=started - 1, boot_id=boot_id(), at_ms=0),
        Started(pid=os.getpid(), start_time=started, boot_id="another boot", at_ms=0),
    ):
        assert OrphanTree(wrong).signal(signal.SIGKILL) == 0
