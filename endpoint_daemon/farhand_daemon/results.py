"""How an attempt ended, in the words of the link.

The same record always gives the same result, also after a restart: its hash must not change
between two sendings.
"""

from farhand_daemon.supervisor.records import ExitRecord, Reason
from farhand_shared import codec
from farhand_shared.command import RECEIPTED, CommandResult, ExitReason, StreamTotals
from farhand_shared.link_events import Result

# A supervisor tells these two apart from other failures to spawn; the link has one reason.
_CWD = (Reason.CWD_MISSING, Reason.CWD_DENIED)


def event_of(attempt_id: str, result: CommandResult) -> Result:
    """Return the event that reports a result."""
    return Result(attempt_id=attempt_id, result=result, result_hash=codec.result_hash(result))


def result_of(record: ExitRecord, omitted_from: tuple[int, int]) -> CommandResult:
    """Return the result that an exit record says; ``omitted_from`` per stream, 0 for none."""
    stdout, stderr = (
        StreamTotals(
            produced=record.total_bytes[i],
            omitted_from=omitted_from[i],
            omitted=record.omitted_bytes[i],
            sha256=record.sha256[i],
        )
        for i in (0, 1)
    )
    if record.reason is Reason.SPAWN_ERROR or record.reason in _CWD:
        problem = record.problem
        return CommandResult(
            reason=ExitReason.SPAWN_ERROR,
            error_code=problem.kind if problem is not None else record.reason.value,
            error=problem.message
            if problem is not None
            else "cannot start: no reason is known; ask for it again",
            stdout=stdout,
            stderr=stderr,
        )
    return CommandResult(
        reason=ExitReason(record.reason.value),
        exit_code=record.exit_code,
        signal=record.signal,
        stdout=stdout,
        stderr=stderr,
        stdout_left_open=record.stdout_left_open,
        wall_ms=record.wall_ms,
        notes=record.notes,
    )


def refused(reason_code: str, message: str) -> CommandResult:
    """Return the result of an attempt that the machine did not let start."""
    return CommandResult(reason=ExitReason.REFUSED, error_code=reason_code, error=message)


def cancelled_before_start() -> CommandResult:
    """Return the proof that an attempt never started and never will."""
    return CommandResult(reason=ExitReason.CANCEL)


def indeterminate(
    stdout: StreamTotals, stderr: StreamTotals, *, pid: int | None = None
) -> CommandResult:
    """Return the result of an attempt that may have run, and whose end nobody can know.

    ``pid``: its process, when it was seen to go on.
    """
    if pid is None:
        error = (
            "cannot tell how it ended: what watched it died first, and it may have run; "
            "look at what it left before asking for it again"
        )
    else:
        error = (
            f"cannot tell how it ends: what watched it died first, and process {pid} still runs "
            "on the machine; stop the command or end it there, and look at what it left before "
            "asking for it again"
        )
    return CommandResult(
        reason=ExitReason.INDETERMINATE,
        error_code="supervisor_lost",
        error=error,
        stdout=stdout,
        stderr=stderr,
    )


def already_receipted() -> CommandResult:
    """Return the answer about an attempt of which this machine keeps only the receipt."""
    return CommandResult(
        reason=ExitReason.INDETERMINATE,
        error_code=RECEIPTED,
        error="cannot tell how it ended: the server has its result, only the receipt is kept here; "
        "look at the result there",
    )
