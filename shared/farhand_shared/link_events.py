"""Every event of the link as a frozen value: what ``codec`` encodes and ``link`` decides on.

Up goes from the daemon to the replica, Down the other way. The meaning of each field is told once,
in ``proto/farhand_proto/v1/link.proto``.
"""

from dataclasses import dataclass
from enum import StrEnum

from farhand_shared.command import CommandResult


class Stream(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"


class Verdict(StrEnum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class LiveState(StrEnum):
    """What a daemon knows of an attempt that it still holds."""

    JOURNALLED = "journalled"
    AWAITING_OWNER = "awaiting_owner"
    STARTED = "started"
    FINISHED = "finished"  # the result is spooled and not yet acknowledged


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveAttempt:
    attempt_id: str
    input_digest: bytes  # empty: a tombstone, cancelled before any offer arrived
    state: LiveState
    stdout_produced: int = 0
    stderr_produced: int = 0
    input_received: int = 0  # input goes on here
    input_taken: int = 0  # as in InputAck
    input_closed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A working copy on a machine. ``remote`` is host/owner/name, without credentials."""

    remote: str
    path: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a machine finds out about itself in the background."""

    disk_bytes: int = 0
    disk_free_bytes: int = 0
    gpus: tuple[str, ...] = ()
    has_battery: bool = False
    on_battery: bool = False
    battery_percent: int = 0
    tools: tuple[tuple[str, str], ...] = ()  # name, version
    repositories: tuple[Repository, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a machine says of itself. Later facts are additions."""

    hostname: str
    os: str  # linux, macos
    os_version: str
    arch: str
    user: str
    home: bytes
    cpus: int
    memory_bytes: int
    time_zone: str
    labels: tuple[tuple[str, str], ...] = ()  # name, value
    survey: Survey | None = None  # None: not taken yet
    update_problem: str = ""  # which version of the daemon failed here, and why


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    daemon_instance_id: str
    boot_id: str
    journal_id: str
    journal_counter: int
    local_time_ms: int
    capability: int
    daemon_version: str
    trust_level: str
    chosen_by: str
    allow_inferred: bool
    concurrency: int
    facts: Facts
    live: tuple[LiveAttempt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    server_time_ms: int
    stream_epoch: int
    capability: int
    min_capability: int
    machine_name: str
    stored: tuple["StoredOutput", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOutput:
    """The server holds everything below ``offset`` of this stream: resume there."""

    attempt_id: str
    stream: Stream
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    nonce: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pong:
    nonce: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    attempt_id: str
    command_id: str
    stream_epoch: int
    spec: bytes
    input_digest: bytes
    start_within_ms: int
    tier: int
    inferred: bool
    requester: str
    ticket_id: str = ""
    mandate_hash: bytes = b""
    traceparent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    attempt_id: str
    verdict: Verdict
    plan_hash: bytes
    tier: int
    reason_code: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """An owner's yes to one plan; only for an attempt whose Decision was ``ask``."""

    attempt_id: str
    plan_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    attempt_id: str
    pid: int
    started_at_ms: int  # the machine's wall clock, for people only
    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    attempt_id: str
    stream: Stream
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Omitted:
    """The spool dropped ``[offset, offset + length)`` while the link was down."""

    attempt_id: str
    stream: Stream
    offset: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """A hint: it writes nothing and seems to wait for somebody to type. Never repeated."""

    attempt_id: str
    quiet_ms: int
    reads_terminal: bool
    takes_input: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    attempt_id: str
    result: CommandResult
    result_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class InputAck:
    """A command's pipe has taken everything below ``offset``; with ``closed`` it takes no more."""

    attempt_id: str
    offset: int
    closed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """The next bytes of a command's stdin; after ``end`` none follow."""

    attempt_id: str
    offset: int
    data: bytes
    end: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """The window of a command's terminal has this size now."""

    attempt_id: str
    rows: int
    columns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputAck:
    """Everything below ``offset`` may be forgotten."""

    attempt_id: str
    stream: Stream
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultAck:
    attempt_id: str
    result_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    attempt_id: str
    reason: str  # cancel, superseded, revoked, expired


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """The server no longer keeps this attempt: drop output and result, keep the receipt."""

    attempt_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """This replica is going away: open a new stream after ``within_ms`` at most."""

    within_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bye:
    """Why the stream ends, so that the daemon knows whether to come back."""

    code: str  # superseded, revoked, quarantined, paused, clock_skew, too_old, protocol
    message: str
    retry: bool


UpEvent = Hello | Pong | Decision | Started | Output | Omitted | InputAck | Quiet | Result
DownEvent = (
    Welcome
    | Ping
    | Offer
    | Approval
    | OutputAck
    | ResultAck
    | Cancel
    | Gone
    | Input
    | Resize
    | Drain
    | Bye
)

_EVENT_BYTES = 160  # id, offsets and framing of an ordinary event, rounded up


def size_hint(event: UpEvent | DownEvent) -> int:
    """Return about how many bytes the event takes in a message: never far too low."""
    match event:
        case Output(data=data) | Input(data=data):
            return _EVENT_BYTES + len(data)
        case Offer(spec=spec, traceparent=traceparent):
            return 3 * _EVENT_BYTES + len(spec) + len(traceparent)
        case Hello(live=live):
            return 8 * _EVENT_BYTES + len(live) * _EVENT_BYTES
        case Welcome(stored=stored):
            return 2 * _EVENT_BYTES + len(stored) * _EVENT_BYTES
        case Result(result=result):
            notes = sum(_EVENT_BYTES + 4 * len(note.text) for note in result.notes)
            return 3 * _EVENT_BYTES + 4 * len(result.error) + notes
        case Decision(message=message) | Bye(message=message):
            return 2 * _EVENT_BYTES + 4 * len(message)
        case _:
            return _EVENT_BYTES
