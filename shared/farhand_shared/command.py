"""A Command's specification, its result and the states of an Attempt, as both ends see them.

The specification travels as opaque bytes (``codec.encode_spec``) with ``input_digest`` =
SHA-256 of those bytes; nobody re-serialises it.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from farhand_shared.errors import Conflict, InvalidInput
from farhand_shared.file_operation import FileOperation
from farhand_shared.limits import (
    EXECUTION_TIMEOUT_DEFAULT_MS,
    GRACE_MS,
    LIMIT_COUNT_MAX,
    LIMIT_MEMORY_MAX_BYTES,
    LIMIT_MEMORY_MIN_BYTES,
    LIMIT_OPEN_FILES_MIN,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """One ``/bin/sh -c`` string, never split or quoted by us."""

    script: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Argv:
    """A program and its arguments, passed on byte for byte; ``argv[0]`` is looked up in PATH."""

    argv: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pty:
    """A terminal of the command's own, and the size of the window that shows it."""

    rows: int
    columns: int
    term: bytes = b""  # TERM of the command, unless its env has one; empty: none


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a command, with all processes it starts, may use. 0: no limit but the machine's own."""

    memory_bytes: int = 0
    processes: int = 0  # at once, threads included
    open_files: int = 0  # of each process

    def check(self) -> None:
        """Raise InvalidInput naming the limit that no system could hold."""
        for name, value, least, most in (
            ("memory", self.memory_bytes, LIMIT_MEMORY_MIN_BYTES, LIMIT_MEMORY_MAX_BYTES),
            ("processes", self.processes, 1, LIMIT_COUNT_MAX),
            ("open files", self.open_files, LIMIT_OPEN_FILES_MIN, LIMIT_COUNT_MAX),
        ):
            if value and not least <= value <= most:
                raise InvalidInput(
                    f"cannot limit {name} to {value:,}: give {least:,} to {most:,}, or 0 for none"
                )


NO_LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSpec:
    """What is asked of a machine. Later kinds of ``run`` are additions to the union."""

    run: Shell | Argv | FileOperation
    cwd: bytes | None = None  # None: the first root of the machine (its owner's home)
    env: tuple[tuple[bytes, bytes], ...] = ()  # added to the machine's own environment
    execution_timeout_ms: int = EXECUTION_TIMEOUT_DEFAULT_MS  # from start; 0 means none
    grace_ms: int = GRACE_MS  # between TERM and KILL
    stdin: bool = False  # its input is streamed to it; False: it reads the null device
    pty: Pty | None = None  # None: pipes, and no controlling terminal; implies stdin
    limits: Limits = NO_LIMITS

    @property
    def takes_input(self) -> bool:
        """Tell whether input can be streamed to it."""
        return self.stdin or self.pty is not None


# ``error_code`` of a machine's answer about an attempt of which it keeps only the receipt.
RECEIPTED: Final = "receipted"


class ExitReason(StrEnum):
    """Why an attempt ended; apart from exit code and signal."""

    EXIT = "exit"
    SIGNAL = "signal"
    TIMEOUT = "timeout"
    CANCEL = "cancel"
    SHUTDOWN = "shutdown"
    OOM = "oom"
    SPAWN_ERROR = "spawn_error"  # never ran; error says what (not_found, not_executable, too_big…)
    REFUSED = "refused"  # the machine's ceiling, or re-authorisation; error says which
    INDETERMINATE = "indeterminate"  # may have started; nobody can know


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTotals:
    """What one output stream came to, in bytes of what the command wrote."""

    produced: int = 0
    omitted_from: int = 0  # first offset that the spool dropped (link down and spool full)
    omitted: int = 0  # how many bytes were dropped, 0 when none
    sha256: bytes = b""  # over everything produced, dropped bytes included


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What explains an end beside its reason: a limit that was reached, input that was wanted."""

    code: str  # out_of_memory, process_limit, open_files_limit, input_wanted, …
    text: str  # for people


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """How one attempt ended. Sent until acknowledged; recorded once."""

    reason: ExitReason
    exit_code: int | None = None  # None unless the process exited by itself
    signal: int | None = None  # None unless a signal ended it
    error_code: str = ""  # for spawn_error, refused and indeterminate: a stable word
    error: str = ""  # the same for people: names the thing and the limit
    stdout: StreamTotals = StreamTotals()
    stderr: StreamTotals = StreamTotals()
    stdout_left_open: bool = False  # a child still held an output stream 2 s after the exit
    wall_ms: int = 0  # from start to exit, monotonic
    notes: tuple[Note, ...] = ()


def shell_exit_status(result: CommandResult) -> int:
    """Return the status a shell user expects: own code, 128+n, 124, 125, 126 or 127.

    Rule: decisions, "Exit codes of exec".
    """
    if result.reason is ExitReason.TIMEOUT:
        return 124
    if result.reason is ExitReason.SPAWN_ERROR:
        return {"not_executable": 126, "not_found": 127}.get(result.error_code, 125)
    if result.exit_code is not None:
        return result.exit_code
    if result.signal is not None:
        return 128 + result.signal
    return 125


class AttemptState(StrEnum):
    """Where one try on one machine stands. Wire, table and API use these words."""

    QUEUED = "queued"
    OFFERED = "offered"
    AWAITING_OWNER = "awaiting_owner"
    JOURNALLED = "journalled"
    STARTED = "started"
    STOPPING = "stopping"
    EXITED = "exited"
    SPAWN_ERROR = "spawn_error"
    REFUSED = "refused"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"
    CANCELLED_BEFORE_START = "cancelled_before_start"
    INDETERMINATE = "indeterminate"
    LOST = "lost"


FINAL = frozenset(
    {
        AttemptState.EXITED,
        AttemptState.SPAWN_ERROR,
        AttemptState.REFUSED,
        AttemptState.EXPIRED,
        AttemptState.SUPERSEDED,
        AttemptState.CANCELLED_BEFORE_START,
    }
)
# Terminal for whoever waits, but a real result may still replace them, once.
PROVISIONAL = frozenset({AttemptState.LOST, AttemptState.INDETERMINATE})
TERMINAL = FINAL | PROVISIONAL


class AttemptEvent(StrEnum):
    """What can happen to an attempt, seen from the server."""

    OFFER = "offer"
    ASK = "ask"
    ACKNOWLEDGE = "acknowledge"  # the machine allowed and journalled it
    START = "start"
    STOP = "stop"  # a person, a deadline or a newer key wants it ended
    EXIT = "exit"
    FAIL_TO_SPAWN = "fail_to_spawn"
    REFUSE = "refuse"
    EXPIRE = "expire"
    SUPERSEDE = "supersede"
    CANCEL_PROVEN = "cancel_proven"  # it never started, and never will
    LOSE_TRACK = "lose_track"
    GIVE_UP = "give_up"
    REOFFER = "reoffer"


_S, _E = AttemptState, AttemptEvent
_RUNNING = (_S.OFFERED, _S.AWAITING_OWNER, _S.JOURNALLED, _S.STARTED, _S.STOPPING)

TRANSITIONS: dict[tuple[AttemptState, AttemptEvent], AttemptState] = {
    (_S.QUEUED, _E.OFFER): _S.OFFERED,
    (_S.QUEUED, _E.STOP): _S.CANCELLED_BEFORE_START,
    (_S.QUEUED, _E.EXPIRE): _S.EXPIRED,
    (_S.QUEUED, _E.SUPERSEDE): _S.SUPERSEDED,
    (_S.QUEUED, _E.REFUSE): _S.REFUSED,
    (_S.QUEUED, _E.GIVE_UP): _S.LOST,
    (_S.OFFERED, _E.REOFFER): _S.OFFERED,
    (_S.OFFERED, _E.ASK): _S.AWAITING_OWNER,
    (_S.OFFERED, _E.ACKNOWLEDGE): _S.JOURNALLED,
    (_S.AWAITING_OWNER, _E.ACKNOWLEDGE): _S.JOURNALLED,
    (_S.AWAITING_OWNER, _E.REOFFER): _S.OFFERED,  # the machine forgot its question
    (_S.OFFERED, _E.START): _S.STARTED,
    (_S.JOURNALLED, _E.START): _S.STARTED,
    (_S.STOPPING, _E.ACKNOWLEDGE): _S.STOPPING,
    (_S.STOPPING, _E.START): _S.STOPPING,
    (_S.STOPPING, _E.STOP): _S.STOPPING,
    (_S.STOPPING, _E.REOFFER): _S.STOPPING,
    **{(s, _E.STOP): _S.STOPPING for s in _RUNNING},
    **{(s, _E.EXIT): _S.EXITED for s in _RUNNING},
    **{(s, _E.FAIL_TO_SPAWN): _S.SPAWN_ERROR for s in _RUNNING},
    **{(s, _E.REFUSE): _S.REFUSED for s in _RUNNING},
    **{(s, _E.EXPIRE): _S.EXPIRED for s in _RUNNING},  # journalled ones wait for a free slot
    **{(s, _E.CANCEL_PROVEN): _S.CANCELLED_BEFORE_START for s in _RUNNING},
    **{(s, _E.LOSE_TRACK): _S.INDETERMINATE for s in _RUNNING},
    **{(s, _E.GIVE_UP): _S.LOST for s in _RUNNING},
    # Provisional states are upgraded once by a real result.
    **{(s, _E.EXIT): _S.EXITED for s in PROVISIONAL},
    **{(s, _E.FAIL_TO_SPAWN): _S.SPAWN_ERROR for s in PROVISIONAL},
    **{(s, _E.REFUSE): _S.REFUSED for s in PROVISIONAL},
    **{(s, _E.EXPIRE): _S.EXPIRED for s in PROVISIONAL},
    **{(s, _E.CANCEL_PROVEN): _S.CANCELLED_BEFORE_START for s in PROVISIONAL},
}


def step(state: AttemptState, event: AttemptEvent) -> AttemptState:
    """Return the state after ``event``; raise Conflict when the table lacks the pair."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise Conflict(f"cannot {event.value} an attempt that is {state.value}") from None


def event_of_result(result: CommandResult) -> AttemptEvent:
    """Return the event that a machine's result is, whatever the attempt's state."""
    match result.reason:
        case ExitReason.SPAWN_ERROR:
            return AttemptEvent.FAIL_TO_SPAWN
        case ExitReason.REFUSED if result.error_code == "expired":
            return AttemptEvent.EXPIRE
        case ExitReason.REFUSED:
            return AttemptEvent.REFUSE
        case ExitReason.INDETERMINATE:
            return AttemptEvent.LOSE_TRACK
        case ExitReason.CANCEL if result.exit_code is None and result.signal is None:
            return AttemptEvent.CANCEL_PROVEN
        case _:
            return AttemptEvent.EXIT
