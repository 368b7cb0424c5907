"""The daemon over its link: commands, refusals, cuts, adoption, cancels, stops."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from farhand_shared.command import Argv, AttemptState, CommandSpec, ExitReason
from farhand_shared.link_events import Verdict
from tests.fakes.fake_control_plane import FakeAttempt, FakeControlPlane
from tests.fakes.supervised_lab import until
from tests.integration.endpoint_daemon.conftest import Farhandd


async def _linked(plane: FakeControlPlane, farhandd: Farhandd) -> str:
    """Enrol, run a daemon, wait for its link; return the machine's id."""
    machine_id = await farhandd.enrol(plane)
    await farhandd.start("run")
    await plane.connected(machine_id)
    return machine_id


async def _eventually(condition: Callable[[], bool], *, deadline_s: float = 20.0) -> None:
    """Wait for something that only the file system or the process table tells."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        await asyncio.sleep(0.01)  # nothing announces it


def _gate(farhandd: Farhandd, name: str) -> Path:
    """Return a file that a command waits for, so that tests decide when it goes on."""
    return farhandd.home.parent / name


def _logged(farhandd: Farhandd, event: str) -> int:
    """Return how many events of this name the daemon's log has."""
    log = farhandd.home / "daemon.log"
    return log.read_text().count(f'"event": "{event}"') if log.exists() else 0


def _exited(attempt: FakeAttempt, code: int = 0) -> None:
    assert attempt.result is not None
    assert (attempt.result.reason, attempt.result.exit_code) == (ExitReason.EXIT, code)


async def test_a_command_runs_and_its_result_arrives_once(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await _linked(plane, farhandd)
    attempt = await plane.run(machine_id, b"echo out; echo err >&2; exit 3")
    _exited(attempt, 3)
    assert bytes(attempt.stdout) == b"out\n"
    assert bytes(attempt.stderr) == b"err\n"
    assert attempt.decision is not None
    assert attempt.decision.verdict is Verdict.ALLOW
    assert len(attempt.decision.plan_hash) == 32
    assert len(attempt.started) == 1
    spool = farhandd.home / "spool"
    await _eventually(lambda: not list(spool.glob("*.spool")))


async def test_bytes_go_through_untouched(plane: FakeControlPlane, farhandd: Farhandd) -> None:
    machine_id = await _linked(plane, farhandd)
    payload = b"\xff\xfe \n\t\\ '\" $HOME"
    spec = CommandSpec(
        run=Argv(argv=(b"printf", b"%s|%s", payload, b"")), env=((b"X", b"\xff"),), cwd=b"/"
    )
    denied = await plane.run(machine_id, spec)
    assert denied.result is not None
    assert denied.result.error_code == "cwd_denied"
    farhandd.narrow('trust_level = "trusted"\nroots = ["/"]\n')
    attempt = await plane.run(machine_id, spec)
    assert bytes(attempt.stdout) == payload + b"|"
    out = await plane.run(machine_id, CommandSpec(run=Argv(argv=(b"pwd",)), cwd=b"/usr"))
    assert bytes(out.stdout) == b"/usr\n"


async def test_much_output_arrives_whole(plane: FakeControlPlane, farhandd: Farhandd) -> None:
    machine_id = await _linked(plane, farhandd)
    attempt = await plane.run(machine_id, b"head -c 20000000 /dev/zero | tr '\\0' x; echo end >&2")
    _exited(attempt)
    assert len(attempt.stdout) == 20_000_000
    assert not attempt.omitted


async def test_refusals_name_the_reason(plane: FakeControlPlane, farhandd: Farhandd) -> None:
    machine_id = await _linked(plane, farhandd)

    async def refused(attempt: FakeAttempt) -> str:
        await plane.result(attempt)
        assert attempt.result is not None
        assert attempt.result.reason is ExitReason.REFUSED
        assert attempt.decision is not None
        assert attempt.decision.verdict is Verdict.DENY
        assert not attempt.started
        return attempt.result.error_code

    assert await refused(plane.offer(machine_id, b"true", inferred=True)) == "inferred_not_allowed"
    assert await refused(plane.offer(machine_id, b"echo cred://x")) == "handle_in_text"
    farhandd.narrow('trust_level = "trusted"\nallow_infered = true\n')
    assert await refused(plane.offer(machine_id, b"true")) == "machine_file_invalid"
    farhandd.narrow('trust_level = "off"\n')
    assert await refused(plane.offer(machine_id, b"true")) == "trust_off"
    farhandd.narrow('trust_level = "trusted"\nallow_inferred = true\n')
    attempt = plane.offer(machine_id, b"true", inferred=True)
    _exited(await plane.result(attempt))


async def test_nothing_the_server_sends_changes_the_machine_file(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await _linked(plane, farhandd)
    path = farhandd.home / "machine.toml"
    farhandd.narrow('trust_level = "off"\nchosen_by = "typed"\n')
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    plane.machines[machine_id].name = "renamed"
    session = plane.machines[machine_id].session
    assert session is not None
    for attempt in [plane.offer(machine_id, b"true", inferred=i) for i in (True, False)]:
        session.link.approve(attempt.offer.attempt_id, b"h" * 32)
        session.due.set()
        await plane.result(attempt)
        assert attempt.result is not None
        assert attempt.result.error_code == "trust_off"
    plane.drain(machine_id)
    await plane.connected(machine_id, after_epoch=1)
    plane.bye(machine_id, "superseded", retry=True)
    await plane.connected(machine_id, after_epoch=2)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


async def test_places_are_limited_and_the_queue_is_short(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await _linked(plane, farhandd)
    farhandd.narrow('trust_level = "trusted"\nconcurrency = 2\n')
    gate = _gate(farhandd, "go")
    waiting = f"while ! test -e '{gate}'; do sleep 0.05; done; echo done".encode()
    attempts = [plane.offer(machine_id, waiting) for _ in range(2 + 16 + 1)]
    busy = await plane.result(attempts[-1])
    assert busy.result is not None
    assert busy.result.error_code == "busy"
    await plane.until(lambda: all(a.started for a in attempts[:2]))
    assert not any(a.started for a in attempts[2:])
    gate.touch()
    for attempt in attempts[:-1]:
        _exited(await plane.result(attempt))


async def test_a_cut_link_resumes_without_loss_or_repetition(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await _linked(plane, farhandd)
    gate = _gate(farhandd, "go")
    script = f"echo one; while ! test -e '{gate}'; do sleep 0.05; done; echo two".encode()
    attempt = plane.offer(machine_id, script)
    await plane.until(lambda: bytes(attempt.stdout) == b"one\n")
    plane.accept_links = False
    plane.cut(machine_id)
    gate.touch()
    plane.accept_links = True
    await plane.result(attempt)
    _exited(attempt)
    assert bytes(attempt.stdout) == b"one\ntwo\n"
    assert plane.machines[machine_id].epoch >= 2


async def test_a_result_is_sent_until_it_is_acknowledged(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await _linked(plane, farhandd)
    plane.acknowledge_results = False
    attempt = await plane.run(machine_id, b"echo hi")
    spool = farhandd.home / "spool" / f"{attempt.offer.attempt_id}.spool"
    assert spool.exists()
    plane.acknowledge_results = True
    plane.cut(machine_id)
    await _eventually(lambda: not spool.exists())
    assert not plane.conflicts
    assert bytes(attempt.stdout) == b"hi\n"


async def test_a_killed_daemon_leaves_its_command_to_the_next_one(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await _linked(plane, farhandd)
    gate, runs = _gate(farhandd, "go"), _gate(farhandd, "runs")
    script = (
        f"echo run >> '{runs}'; seq 1 1000; while ! test -e '{gate}'; do sleep 0.05; done;"
        " seq 1001 2000; exit 7"
    ).encode()
    attempt = plane.offer(machine_id, script)
    await plane.until(lambda: attempt.stdout.endswith(b"1000\n"))
    daemon = farhandd.started[-1]
    daemon.kill()
    await daemon.wait()
    gate.touch()  # it may end while no daemon is there
    await farhandd.start("run")
    await plane.result(attempt)
    _exited(attempt, 7)
    assert bytes(attempt.stdout) == "".join(f"{n}\n" for n in range(1, 2001)).encode()
    assert runs.read_text() == "run\n"
    assert len({s.pid for s in attempt.started}) == 1
    hello = plane.machines[machine_id].hellos[-1]
    assert [a.attempt_id for a in hello.live] == [attempt.offer.attempt_id]
    assert hello.daemon_instance_id != plane.machines[machine_id].hellos[0].daemon_instance_id


async def test_a_result_survives_the_death_of_the_daemon_with_the_same_hash(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await _linked(plane, farhandd)
    plane.acknowledge_results = False
    attempt = await plane.run(machine_id, b"echo hi; exit 1")
    farhandd.started[-1].kill()
    await farhandd.started[-1].wait()
    plane.acknowledge_results = True
    await farhandd.start("run")
    spool = farhandd.home / "spool" / f"{attempt.offer.attempt_id}.spool"
    await _eventually(lambda: not spool.exists())
    assert not plane.conflicts


async def test_cancel_ends_the_whole_group(plane: FakeControlPlane, farhandd: Farhandd) -> None:
    machine_id = await _linked(plane, farhandd)
    attempt = plane.offer(machine_id, b"sleep 300 & sleep 300")
    await plane.until(lambda: bool(attempt.started))
    plane.cancel(attempt.offer.attempt_id, machine_id)
    await plane.result(attempt)
    assert attempt.result is not None
    assert attempt.result.reason is ExitReason.CANCEL
    assert attempt.result.signal == signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.killpg(attempt.started[0].pid, 0)


async def _orphaned(plane: FakeControlPlane, farhandd: Farhandd, machine_id: str) -> FakeAttempt:
    """Run a command, kill its supervisor, wait for the result and its acknowledgement."""
    attempt = plane.offer(machine_id, b"echo begun; sleep 300; true")
    await plane.until(lambda: attempt.stdout == b"begun\n")
    spool = farhandd.home / "spool" / f"{attempt.offer.attempt_id}.spool"
    stat = Path(f"/proc/{attempt.started[0].pid}/stat").read_text()
    os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)
    await plane.result(attempt)
    await _eventually(lambda: not plane.acknowledge_results or not spool.exists())
    return attempt


def _runs(attempt: FakeAttempt) -> bool:
    try:
        os.killpg(attempt.started[0].pid, 0)
    except ProcessLookupError:
        return False
    return True


def _send_cancel(plane: FakeControlPlane, attempt: FakeAttempt, machine_id: str) -> None:
    """Send a cancel for an attempt whose result is recorded."""
    session = plane.machines[machine_id].session
    assert session is not None
    assert attempt.result_hash is not None
    session.link.cancel_recorded(attempt.offer.attempt_id, attempt.result_hash, "cancel")
    session.due.set()


async def test_a_killed_supervisors_process_is_named_and_a_later_cancel_ends_it(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await _linked(plane, farhandd)
    attempt = await _orphaned(plane, farhandd, machine_id)
    assert attempt.result is not None
    assert attempt.result.reason is ExitReason.INDETERMINATE
    assert f"process {attempt.started[0].pid} still runs" in attempt.result.error
    assert _runs(attempt)
    _send_cancel(plane, attempt, machine_id)
    await _eventually(lambda: not _runs(attempt))
    _exited(await plane.run(machine_id, b"true"))
    assert not plane.conflicts


async def test_a_process_without_a_supervisor_holds_a_place_until_its_end(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await _linked(plane, farhandd)
    farhandd.narrow('trust_level = "trusted"\nconcurrency = 1\n')
    attempt = await _orphaned(plane, farhandd, machine_id)
    waiting = plane.offer(machine_id, b"true")
    farhandd.started[-1].kill()
    await farhandd.started[-1].wait()
    await farhandd.start("run")  # the next daemon counts it too
    await plane.connected(machine_id, after_epoch=1)
    if waiting.decision is None:
        plane.send_offer(waiting)
    probe = plane.offer(machine_id, b"true")
    session = plane.machines[machine_id].session
    assert session is not None
    nonce = session.link.probe(time.monotonic())
    session.due.set()
    await plane.until(lambda: session.link.pong_nonce >= nonce)
    assert not waiting.started
    assert not probe.started
    os.killpg(attempt.started[0].pid, signal.SIGKILL)
    _exited(await plane.result(waiting))
    _exited(await plane.result(probe))


async def test_a_cancel_reaches_a_lost_command_whose_result_waits_for_its_acknowledgement(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await _linked(plane, farhandd)
    plane.acknowledge_results = False
    attempt = await _orphaned(plane, farhandd, machine_id)
    plane.cancel(attempt.offer.attempt_id, machine_id)
    await _eventually(lambda: not _runs(attempt))


async def test_ctrl_c_ends_what_a_killed_supervisor_left(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await _linked(plane, farhandd)
    attempt = await _orphaned(plane, farhandd, machine_id)
    daemon = farhandd.started[-1]
    daemon.send_signal(signal.SIGINT)
    async with asyncio.timeout(20):
        assert await daemon.wait() == 0
    await _eventually(lambda: not _runs(attempt))  # a zombie until init has looked


async def test_a_cancel_that_overtakes_the_offer_leaves_a_tombstone(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await _linked(plane, farhandd)
    session = plane.machines[machine_id].session
    assert session is not None
    runs = _gate(farhandd, "runs")
    late = plane.offer(machine_id, f"touch '{runs}'".encode(), held_back=True)
    session.link.cancel(late.offer.attempt_id, "cancel")
    session.due.set()
    await plane.result(late)
    assert late.result is not None
    assert late.result.reason is ExitReason.CANCEL
    farhandd.started[-1].kill()
    await farhandd.started[-1].wait()
    await farhandd.start("run")
    await plane.connected(machine_id, after_epoch=1)

    late.result = None  # a server that forgot offers it all the same
    late.state = AttemptState.QUEUED
    plane.send_offer(late)
    await plane.result(late)
    assert late.state is AttemptState.CANCELLED_BEFORE_START
    _exited(await plane.run(machine_id, b"true"))
    assert not runs.exists()


async def test_a_cancelled_command_in_the_local_queue_never_starts(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await _linked(plane, farhandd)
    farhandd.narrow('trust_level = "trusted"\nconcurrency = 1\n')
    gate, runs = _gate(farhandd, "go"), _gate(farhandd, "runs")
    first = plane.offer(machine_id, f"while ! test -e '{gate}'; do sleep 0.05; done".encode())
    await plane.until(lambda: bool(first.started))
    queued = plane.offer(machine_id, f"touch '{runs}'".encode())
    plane.cancel(queued.offer.attempt_id, machine_id)
    await plane.result(queued)
    assert queued.state is AttemptState.CANCELLED_BEFORE_START
    gate.touch()
    _exited(await plane.result(first))
    _exited(await plane.run(machine_id, b"true"))
    assert not runs.exists()


async def test_what_waits_locally_for_too_long_expires(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await _linked(plane, farhandd)
    farhandd.narrow('trust_level = "trusted"\nconcurrency = 1\n')
    gate = _gate(farhandd, "go")
    first = plane.offer(machine_id, f"while ! test -e '{gate}'; do sleep 0.05; done".encode())
    late = plane.offer(machine_id, b"true", start_within_ms=300)
    await plane.until(lambda: bool(first.started))
    await asyncio.sleep(0.4)  # the deadline itself is what is tried
    gate.touch()
    await plane.result(late)
    assert late.result is not None
    assert late.result.error_code == "expired"
    assert not late.started


async def test_what_waits_locally_is_asked_for_again_after_a_cut(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await _linked(plane, farhandd)
    farhandd.narrow('trust_level = "trusted"\nconcurrency = 1\n')
    gate, runs = _gate(farhandd, "go"), _gate(farhandd, "runs")
    first = plane.offer(machine_id, f"while ! test -e '{gate}'; do sleep 0.05; done".encode())
    await plane.until(lambda: bool(first.started))
    withdrawn = plane.offer(machine_id, f"touch '{runs}'".encode())
    kept = plane.offer(machine_id, b"echo kept")
    # The queue takes 16: once a later one is refused, both have arrived.
    behind = [plane.offer(machine_id, b"true") for _ in range(15)]
    await plane.result(behind[-1])
    plane.accept_links = False
    plane.cut(machine_id)
    await plane.until(lambda: plane.machines[machine_id].session is None)
    del plane.attempts[withdrawn.offer.attempt_id]  # its authorisation failed meanwhile
    gate.touch()
    plane.accept_links = True
    _exited(await plane.result(first))
    await plane.result(kept)
    assert bytes(kept.stdout) == b"kept\n"
    assert not runs.exists()


async def test_a_revoked_machine_stops_its_commands_and_dials_no_more(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await _linked(plane, farhandd)
    attempt = plane.offer(machine_id, b"sleep 300")
    await plane.until(lambda: bool(attempt.started))
    plane.bye(machine_id, "revoked", retry=False)
    ended = await farhandd.wait(farhandd.started[-1])
    assert ended.status == 3
    assert "revoked" in ended.stderr
    with pytest.raises(ProcessLookupError):
        os.killpg(attempt.started[0].pid, 0)
    status = await farhandd.call("status", "--json")
    document = json.loads(status.stdout)
    assert (document["state"], document["bye"], document["pid"]) == ("ended", "revoked", None)
    assert "told revoked" in (await farhandd.call("status")).stdout


async def test_a_goodbye_that_allows_it_is_followed_by_a_new_stream(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await _linked(plane, farhandd)
    plane.bye(machine_id, "paused", retry=True)
    await plane.connected(machine_id, after_epoch=1)
    plane.drain(machine_id)
    await plane.connected(machine_id, after_epoch=2)


async def test_a_server_that_is_not_there_is_waited_for(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await farhandd.enrol(plane)
    plane.accept_links = False
    daemon = await farhandd.start("run")
    await _eventually(lambda: _logged(farhandd, "stream_ended") >= 2)  # it waited and dialled again
    plane.accept_links = True
    await plane.connected(machine_id)
    plane.accept_links = False
    plane.cut(machine_id)
    before = _logged(farhandd, "stream_ended")
    await _eventually(lambda: _logged(farhandd, "stream_ended") >= before + 2)
    plane.accept_links = True
    await plane.connected(machine_id, after_epoch=1)
    daemon.terminate()
    ended = await farhandd.wait(daemon)
    assert ended.status == 0
    assert "Traceback" not in ended.stderr


async def test_a_machine_that_is_not_confirmed_yet_waits_quietly(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await farhandd.enrol(plane, active=False)
    daemon = await farhandd.start("run")
    await plane.until(lambda: len(plane.machines[machine_id].hellos) >= 3)  # it asks again
    plane.machines[machine_id].status = "active"
    await _eventually(lambda: _logged(farhandd, "connected") == 1)
    daemon.terminate()
    ended = await farhandd.wait(daemon)
    assert ended.status == 0
    waiting, connected = ended.stderr.splitlines()
    assert waiting.startswith("farhandd: waiting to be confirmed: ")
    assert connected == "farhandd: connected as laptop"
    assert _logged(farhandd, "stream_ended") == 1


async def test_a_stop_leaves_neither_lock_nor_sockets(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await farhandd.enrol(plane)
    leftover = farhandd.home / ".identity.json.4711.0123abcd"  # of a write that a crash cut short
    leftover.write_text("{}")
    daemon = await farhandd.start("run")
    await plane.connected(machine_id)
    attempt = plane.offer(machine_id, b"sleep 300")
    await plane.until(lambda: bool(attempt.started))
    assert not leftover.exists()
    sockets = farhandd.home / "supervisors"
    for socket in sockets.iterdir():  # one of them watches the command
        os.kill(int(socket.stem), signal.SIGKILL)
    await plane.result(attempt)
    daemon.terminate()
    assert (await farhandd.wait(daemon)).status == 0
    await until(lambda: not list(sockets.iterdir()))  # a fork that was asked for may be late
    assert not (farhandd.home / "daemon.lock").exists()
    os.killpg(attempt.started[0].pid, signal.SIGKILL)


async def test_a_renamed_computer_is_the_same_machine(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    # https://github.com/saltstack/salt/issues/16209: identity is the cached hostname
    machine_id = await _linked(plane, farhandd)
    machine = plane.machines[machine_id]
    farhandd.started[-1].terminate()
    await farhandd.wait(farhandd.started[-1])
    names_of_its_own = await asyncio.create_subprocess_exec("unshare", "--uts", "true")
    if await names_of_its_own.wait():
        pytest.skip("a computer's name can only be changed for one process by root, with unshare")
    renamed = await asyncio.create_subprocess_exec(
        "unshare", "--uts", "sh", "-c", 'hostname renamed-b && exec "$@"', "sh",
        sys.executable, "-m", "farhand_daemon", "run", "--home", str(farhandd.home),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    farhandd.started.append(renamed)
    await plane.connected(machine_id, after_epoch=1)
    assert machine.hellos[-1].facts.hostname == "renamed-b" != machine.hellos[0].facts.hostname
    assert machine.hellos[-1].journal_id == machine.hellos[0].journal_id
    assert machine.name == "laptop", "what people call it is theirs to change"


async def test_a_second_daemon_on_the_same_home_is_refused(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    await _linked(plane, farhandd)
    pid = farhandd.started[-1].pid
    ended = await farhandd.call("run")
    assert ended.status == 1
    assert ended.stderr.count("\n") == 1
    assert f"pid {pid}" in ended.stderr


async def test_ctrl_c_ends_commands_with_reason_shutdown_and_delivers(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await _linked(plane, farhandd)
    attempt = plane.offer(machine_id, b"echo begun; sleep 300")
    await plane.until(lambda: bytes(attempt.stdout) == b"begun\n")
    farhandd.started[-1].send_signal(signal.SIGINT)
    ended = await farhandd.wait(farhandd.started[-1])
    assert ended.status == 0, ended.stderr
    assert attempt.result is not None
    assert attempt.result.reason is ExitReason.SHUTDOWN
    assert not list((farhandd.home / "spool").glob("*.spool"))


async def test_sigterm_and_a_lost_lifeline_leave_commands_running(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await _linked(plane, farhandd)
    gate = _gate(farhandd, "go")
    attempt = plane.offer(
        machine_id, f"while ! test -e '{gate}'; do sleep 0.05; done; echo end".encode()
    )
    await plane.until(lambda: bool(attempt.started))
    farhandd.started[-1].terminate()
    assert (await farhandd.wait(farhandd.started[-1])).status == 0

    ours, theirs = os.pipe()
    await farhandd.start("run", "--lifeline", str(ours), pass_fds=(ours,))
    os.close(ours)
    await plane.connected(machine_id, after_epoch=1)
    os.close(theirs)
    assert (await farhandd.wait(farhandd.started[-1])).status == 0
    assert attempt.result is None

    gate.touch()
    await farhandd.start("run")
    _exited(await plane.result(attempt))
    assert bytes(attempt.stdout) == b"end\n"


async def test_an_edited_machine_file_is_told_to_the_server(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await _linked(plane, farhandd)
    assert plane.machines[machine_id].hellos[-1].trust_level == "trusted"
    farhandd.narrow('trust_level = "off"\nchosen_by = "typed"\n')
    await plane.until(lambda: plane.machines[machine_id].hellos[-1].trust_level == "off")


async def test_commands_get_no_variable_of_ours_and_no_secret(
    plane: FakeControlPlane, farhandd: Farhandd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FARHAND_MODEL_API_KEY", "canary")
    monkeypatch.setenv("GITHUB_TOKEN", "canary")
    machine_id = await _linked(plane, farhandd)
    attempt = await plane.run(machine_id, b"env; echo HOME=$HOME LANG=$LANG")
    assert b"canary" not in attempt.stdout
    assert b"FARHAND_" not in attempt.stdout
    assert b"GRPC_" not in attempt.stdout
    assert b"LANG=" in attempt.stdout
    for path in farhandd.home.iterdir():
        if path.is_file():
            assert b"canary" not in path.read_bytes()


async def test_a_certificate_past_half_its_life_is_renewed_and_used(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await farhandd.enrol(plane)
    path = farhandd.home / "identity.json"
    old = json.loads(path.read_text())
    path.write_text(json.dumps({**old, "renew_at_ms": 0}))
    await farhandd.start("run")
    await plane.connected(machine_id)
    assert plane.renewals == 1
    new = json.loads(path.read_text())
    assert new["key_pem"] != old["key_pem"]
    assert new["certificate_pem"] != old["certificate_pem"]
    assert new["renew_at_ms"] > time.time() * 1000
    _exited(await plane.run(machine_id, b"true"))


async def test_a_server_that_moved_is_found_again(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await farhandd.enrol(plane)
    path = farhandd.home / "identity.json"
    moved = {**json.loads(path.read_text()), "link_address": "127.0.0.1:1"}
    path.write_text(json.dumps(moved))
    daemon = await farhandd.start("run")
    await plane.connected(machine_id)
    assert json.loads(path.read_text())["link_address"] == f"127.0.0.1:{plane.link_port}"
    assert daemon.stderr is not None
    async with asyncio.timeout(30):  # the server sees the link a moment before the daemon says so
        lines = [(await daemon.stderr.readline()).decode().rstrip() for _ in range(2)]
    daemon.terminate()
    ended = await farhandd.wait(daemon)
    assert ended.stderr == "", "the outage is told once, however often it was tried"
    assert lines[0] == (
        "farhandd: cannot reach the control plane at 127.0.0.1:1: nothing listens there; "
        "check that it runs and that this machine may reach it (it goes on trying)"
    )
    logged = (farhandd.home / "daemon.log").read_text()
    assert "ipv4:127.0.0.1:1" in logged, "gRPC's own words are in the log, where they help"
    assert lines[1] == "farhandd: connected as laptop"


async def test_addresses_may_be_given_at_the_start(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await farhandd.enrol(plane)
    path = farhandd.home / "identity.json"
    there = json.loads(path.read_text())["link_address"]
    path.write_text(json.dumps({**json.loads(path.read_text()), "link_address": "127.0.0.1:1"}))
    await farhandd.start("run", "--link-address", there)
    await plane.connected(machine_id)


async def test_running_without_enrolment_is_one_line(farhandd: Farhandd) -> None:
    for verb in ("run", "status"):
        ended = await farhandd.call(verb)
        assert ended.status == 1
        assert "farhandd enroll URL" in ended.stderr
        assert ended.stderr.count("\n") == 1
    assert not farhandd.home.exists()
