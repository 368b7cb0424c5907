"""What a run may acknowledge, and what it keeps for whom."""

import asyncio

from farhand_control_plane.db.attempts import CommandRef
from farhand_control_plane.machines.attempt_run import AttemptRun, Reader
from farhand_control_plane.machines.limits import OutputLimits
from farhand_shared import codec
from farhand_shared.command import AttemptState, CommandResult, ExitReason
from farhand_shared.ids import AttemptId, CommandId, new_id
from farhand_shared.link_events import Decision, Result, Started, Stream, Verdict

OUT, ERR = Stream.STDOUT, Stream.STDERR
LIMITS = OutputLimits(
    head_bytes=100, tail_bytes=50, row_bytes=40, flush_s=1, live_bytes=30, write_bytes=60
)


def a_run(**more: int) -> AttemptRun:
    ref = CommandRef(
        attempt_id=AttemptId(new_id()),
        command_id=CommandId(new_id()),
        session_id=None,
        ticket_id=None,
        title="x",
    )
    return AttemptRun(ref, limits=LIMITS, **more)


def a_reader() -> Reader:
    return Reader(asyncio.Event(), {OUT: 0, ERR: 0})


def write_all(run: AttemptRun) -> list[tuple[Stream, int, bytes]]:
    """Commit everything that waits; return the rows."""
    rows: list[tuple[Stream, int, bytes]] = []
    while run.is_dirty:
        progress, token = run.progress(0.0)
        rows += progress.chunks
        run.written(token)
    return rows


def test_the_head_is_acknowledged_when_it_is_stored() -> None:
    run = a_run()
    run.on_output(OUT, 0, b"a" * 30)
    assert list(run.acknowledge()) == []
    assert write_all(run) == [(OUT, 0, b"a" * 30)]
    assert list(run.acknowledge()) == [(OUT, 30)]
    assert list(run.acknowledge()) == []


def test_rows_join_small_pieces_and_keep_to_their_size() -> None:
    run = a_run()
    for n in range(10):
        run.on_output(OUT, n * 10, bytes([n]) * 10)
    rows = write_all(run)
    assert [(offset, len(data)) for _, offset, data in rows] == [(0, 40), (40, 20), (60, 40)]
    assert b"".join(data for _, _, data in rows) == b"".join(bytes([n]) * 10 for n in range(10))


def test_past_the_head_a_reader_is_waited_for() -> None:
    run, reader = a_run(), a_reader()
    run.attach(reader)
    run.on_output(OUT, 0, b"a" * 150)
    write_all(run)
    assert list(run.acknowledge()) == [(OUT, 100)]
    reader.taken[OUT] = 120
    assert list(run.acknowledge()) == [(OUT, 120)]
    run.detach(reader)
    assert list(run.acknowledge()) == [(OUT, 150)]
    run.close()


def test_without_readers_the_tail_is_acknowledged_at_once_and_kept_in_the_file() -> None:
    run = a_run()
    run.on_output(OUT, 0, b"a" * 100 + b"b" * 70)
    write_all(run)
    assert list(run.acknowledge()) == [(OUT, 170)]
    assert not run.window
    assert b"".join(data for _, _, data in run.tail_rows()) == b"b" * 50
    run.close()


def test_a_reader_that_lags_loses_the_window_but_not_its_place() -> None:
    run, reader = a_run(), a_reader()
    run.attach(reader)
    for n in range(8):
        run.on_output(OUT, n * 10, b"x" * 10)
    write_all(run)
    list(run.acknowledge())
    assert run.first > reader.cursor  # behind: it reads the store
    assert run.window_start(OUT) == 50  # 30 bytes are kept for it
    assert sum(piece.end - piece.start for piece in run.window) == 30


def test_what_is_not_stored_is_never_dropped() -> None:
    run = a_run()
    for n in range(8):
        run.on_output(OUT, n * 10, b"x" * 10)
    list(run.acknowledge())
    assert len(run.window) == 8


def test_the_end_names_what_neither_head_nor_tail_holds() -> None:
    run = a_run()
    run.on_decision(Decision(attempt_id="a", verdict=Verdict.ALLOW, plan_hash=b"p", tier=5))
    run.on_started(Started(attempt_id="a", pid=1, started_at_ms=0, boot_id="b"), now=1.0)
    run.on_output(OUT, 0, b"a" * 500)
    run.on_omission(ERR, 0, 20)
    run.on_output(ERR, 20, b"e")
    result = CommandResult(reason=ExitReason.EXIT, exit_code=0)
    while run.unstored_bytes > LIMITS.write_bytes:
        run.written(run.progress(0.0)[1])
    ending = run.ending(
        Result(attempt_id="a", result=result, result_hash=codec.result_hash(result)), now=3.0
    )
    assert ending.extra_omitted == [(OUT, 100, 350)]
    assert ending.progress.stdout_to == 500
    assert ending.progress.stderr_to == 21
    run.commit(AttemptState.EXITED)
    assert not run.window


def test_facts_are_written_once() -> None:
    run = a_run()
    run.on_decision(Decision(attempt_id="a", verdict=Verdict.ALLOW, plan_hash=b"p", tier=5))
    run.on_started(Started(attempt_id="a", pid=7, started_at_ms=0, boot_id="b"), now=1.0)
    progress, token = run.progress(3.5)
    assert (progress.allowed, progress.started_ago_s, progress.pid) == (True, 2.5, 7)
    run.written(token)
    assert not run.is_dirty
    assert run.progress(9.0)[0].started_ago_s is None


def test_a_new_link_goes_on_with_the_tail_of_the_older_one() -> None:
    older = a_run()
    older.on_output(OUT, 0, b"a" * 130)
    write_all(older)
    newer = AttemptRun(older.ref, limits=LIMITS, stdout_stored=100, inherits=older)
    assert newer.resume_offset(OUT) == 130
    newer.on_output(OUT, 130, b"b" * 5)
    assert b"".join(data for _, _, data in newer.tail_rows()) == b"a" * 30 + b"b" * 5
    newer.close()


def test_a_head_that_was_not_stored_comes_again_over_a_new_link() -> None:
    older = a_run()
    older.on_output(OUT, 0, b"a" * 130)
    newer = AttemptRun(older.ref, limits=LIMITS, stdout_stored=40, inherits=older)
    assert newer.resume_offset(OUT) == 40
    older.close()
