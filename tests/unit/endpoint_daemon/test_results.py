"""A supervisor's record in the words of the link."""

from dataclasses import replace

from farhand_daemon.results import cancelled_before_start, event_of, refused, result_of
from farhand_daemon.supervisor.records import ExitRecord, Reason, SpawnProblem, Started
from farhand_shared.command import (
    AttemptEvent,
    ExitReason,
    Note,
    event_of_result,
    shell_exit_status,
)

_RECORD = ExitRecord(
    attempt_id="a",
    reason=Reason.EXIT,
    exit_code=3,
    signal=None,
    core_dumped=False,
    problem=None,
    started=Started(pid=1, start_time=1, boot_id="b", at_ms=1),
    total_bytes=(10, 20),
    omitted_bytes=(0, 5),
    sha256=(b"o" * 32, b"e" * 32),
    wall_ms=7,
    stdout_left_open=True,
    descendants_left=False,
    survivors=0,
    ended_at_ms=1,
)
_NONE = (0, 0)


def test_exit_code_signal_and_reason_stay_apart() -> None:
    result = result_of(_RECORD, (0, 4))
    assert (result.reason, result.exit_code, result.signal) == (ExitReason.EXIT, 3, None)
    assert (result.stdout.produced, result.stderr.produced) == (10, 20)
    assert (result.stderr.omitted_from, result.stderr.omitted) == (4, 5)
    assert result.stdout_left_open
    timeout = result_of(replace(_RECORD, reason=Reason.TIMEOUT, exit_code=0), _NONE)
    assert (timeout.reason, timeout.exit_code) == (ExitReason.TIMEOUT, 0)
    killed = result_of(replace(_RECORD, reason=Reason.SIGNAL, exit_code=None, signal=9), _NONE)
    assert shell_exit_status(killed) == 137


def test_a_program_that_is_not_there_is_a_spawn_error_with_the_shells_status() -> None:
    for kind, status in (("not_found", 127), ("not_executable", 126), ("too_big", 125)):
        problem = SpawnProblem(kind=kind, message=f"cannot start x: {kind}; y")
        record = replace(
            _RECORD, reason=Reason.SPAWN_ERROR, exit_code=status, problem=problem, started=None
        )
        result = result_of(record, _NONE)
        assert result.reason is ExitReason.SPAWN_ERROR
        assert result.exit_code is None
        assert (result.error_code, result.error) == (kind, problem.message)
        assert shell_exit_status(result) == status


def test_a_directory_that_vanished_before_the_start_is_a_spawn_error() -> None:
    record = replace(_RECORD, reason=Reason.CWD_MISSING, exit_code=None, started=None)
    assert result_of(record, _NONE).error_code == "cwd_missing"


def test_a_stop_before_the_start_proves_that_it_never_ran() -> None:
    record = replace(_RECORD, reason=Reason.CANCEL, exit_code=None, started=None)
    assert event_of_result(result_of(record, _NONE)) is AttemptEvent.CANCEL_PROVEN
    assert event_of_result(cancelled_before_start()) is AttemptEvent.CANCEL_PROVEN


def test_the_same_record_gives_the_same_hash() -> None:
    first, second = (event_of("a", result_of(_RECORD, _NONE)) for _ in range(2))
    assert first == second
    assert first.result_hash != event_of("a", refused("x", "y")).result_hash


def test_what_explains_an_end_goes_with_it_and_changes_nothing_else() -> None:
    notes = (Note(code="input_wanted", text="it wanted input"),)
    plain, explained = (result_of(replace(_RECORD, notes=n), _NONE) for n in ((), notes))
    assert explained == replace(plain, notes=notes)
    assert shell_exit_status(explained) == shell_exit_status(plain)
