"""What a command's handle means to the link: its facts, its output, its gaps, its result."""

from collections.abc import Mapping
from typing import Final

from farhand_daemon import results
from farhand_daemon.spool import BytesGone
from farhand_daemon.supervisor import records
from farhand_daemon.supervisor.handle import CommandHandle
from farhand_shared.command import CommandResult, StreamTotals
from farhand_shared.link_daemon import DaemonLink
from farhand_shared.link_events import LiveState, Quiet, Started, Stream

SPOOL_STREAMS: Final[Mapping[Stream, records.Stream]] = {
    Stream.STDOUT: records.Stream.STDOUT,
    Stream.STDERR: records.Stream.STDERR,
}
WIRE_STREAMS: Final[Mapping[records.Stream, Stream]] = {
    theirs: ours for ours, theirs in SPOOL_STREAMS.items()
}


def restore(link: DaemonLink, handle: CommandHandle) -> CommandResult | None:
    """Have the link take over an attempt from journal and spool; return its result, if any."""
    result = result_of(handle)
    if result is not None:
        state = LiveState.FINISHED
    else:
        state = LiveState.STARTED if handle.started is not None else LiveState.JOURNALLED
    link.restore(
        handle.attempt_id,
        input_digest=handle.input_digest,
        state=state,
        started=None if handle.started is None else started_event(handle, handle.started),
        stdout_produced=handle.produced(records.Stream.STDOUT),
        stderr_produced=handle.produced(records.Stream.STDERR),
        input_received=handle.input_received,
        input_taken=handle.input_taken,
        input_closed=handle.input_closed,
        result=None if result is None else results.event_of(handle.attempt_id, result),
    )
    report_gaps(link, handle)
    return result


def started_event(handle: CommandHandle, started: records.Started) -> Started:
    """Return the event that a process exists; the same again after a restart of the daemon."""
    return Started(
        attempt_id=handle.attempt_id,
        pid=started.pid,
        started_at_ms=started.at_ms,
        boot_id=started.boot_id,
    )


def quiet_event(handle: CommandHandle, quiet: records.Quiet) -> Quiet:
    """Return the hint that a command seems to wait for somebody to type."""
    return Quiet(
        attempt_id=handle.attempt_id,
        quiet_ms=quiet.quiet_ms,
        reads_terminal=quiet.reads_terminal,
        takes_input=quiet.takes_input,
    )


def result_of(handle: CommandHandle) -> CommandResult | None:
    """Return how the attempt ended, always with the same hash; None while it goes on."""
    gaps = [_gaps(handle, stream) for stream in records.Stream]
    first = (gaps[0][0][0] if gaps[0] else 0, gaps[1][0][0] if gaps[1] else 0)
    if handle.record is not None:
        return results.result_of(handle.record, first)
    if handle.loss is None:
        return None
    stdout, stderr = (
        StreamTotals(
            produced=handle.produced(stream),
            omitted_from=first[index],
            omitted=sum(high - low for low, high in gaps[index]),
        )
        for index, stream in enumerate(records.Stream)
    )
    # Of the loss only what stays the same: its message may tell more at the next start.
    loss = handle.loss
    pid = loss.started.pid if loss.still_running and loss.started is not None else None
    return results.indeterminate(stdout, stderr, pid=pid)


def report_gaps(link: DaemonLink, handle: CommandHandle) -> None:
    """Tell the link every range that the spool dropped while the link was down."""
    for wire, stream in SPOOL_STREAMS.items():
        for low, high in _gaps(handle, stream):
            link.omitted(handle.attempt_id, wire, low, high - low)


def read_output(
    link: DaemonLink, handle: CommandHandle, stream: Stream, offset: int, max_bytes: int
) -> bytes:
    """Return output from the spool; a dropped range is told to the link exactly, then b""."""
    try:
        return handle.read(SPOOL_STREAMS[stream], offset, max_bytes)
    except BytesGone as gone:
        link.omitted(handle.attempt_id, stream, offset, gone.next_offset - offset)
        return b""


def _gaps(handle: CommandHandle, stream: records.Stream) -> tuple[tuple[int, int], ...]:
    """Return the dropped ranges, without a look at the spool when nothing was dropped."""
    record = handle.record
    if record is not None and not record.omitted_bytes[stream - 1]:
        return ()
    return handle.omitted(stream)
