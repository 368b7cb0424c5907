from farhand_proto.v1 import files_pb2 as _files_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Stream(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STREAM_UNSPECIFIED: _ClassVar[Stream]
    STREAM_STDOUT: _ClassVar[Stream]
    STREAM_STDERR: _ClassVar[Stream]
STREAM_UNSPECIFIED: Stream
STREAM_STDOUT: Stream
STREAM_STDERR: Stream

class Up(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[UpEvent]
    def __init__(self, events: _Optional[_Iterable[_Union[UpEvent, _Mapping]]] = ...) -> None: ...

class UpEvent(_message.Message):
    __slots__ = ("hello", "pong", "decision", "started", "output", "omitted", "result", "input_ack", "quiet")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    OMITTED_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    INPUT_ACK_FIELD_NUMBER: _ClassVar[int]
    QUIET_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    pong: Pong
    decision: Decision
    started: Started
    output: Output
    omitted: Omitted
    result: Result
    input_ack: InputAck
    quiet: Quiet
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., pong: _Optional[_Union[Pong, _Mapping]] = ..., decision: _Optional[_Union[Decision, _Mapping]] = ..., started: _Optional[_Union[Started, _Mapping]] = ..., output: _Optional[_Union[Output, _Mapping]] = ..., omitted: _Optional[_Union[Omitted, _Mapping]] = ..., result: _Optional[_Union[Result, _Mapping]] = ..., input_ack: _Optional[_Union[InputAck, _Mapping]] = ..., quiet: _Optional[_Union[Quiet, _Mapping]] = ...) -> None: ...

class Down(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[DownEvent]
    def __init__(self, events: _Optional[_Iterable[_Union[DownEvent, _Mapping]]] = ...) -> None: ...

class DownEvent(_message.Message):
    __slots__ = ("welcome", "ping", "offer", "approval", "cancel", "output_ack", "result_ack", "gone", "drain", "bye", "input", "resize")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    OFFER_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_ACK_FIELD_NUMBER: _ClassVar[int]
    RESULT_ACK_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    BYE_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    RESIZE_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    ping: Ping
    offer: Offer
    approval: Approval
    cancel: Cancel
    output_ack: OutputAck
    result_ack: ResultAck
    gone: Gone
    drain: Drain
    bye: Bye
    input: Input
    resize: Resize
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., ping: _Optional[_Union[Ping, _Mapping]] = ..., offer: _Optional[_Union[Offer, _Mapping]] = ..., approval: _Optional[_Union[Approval, _Mapping]] = ..., cancel: _Optional[_Union[Cancel, _Mapping]] = ..., output_ack: _Optional[_Union[OutputAck, _Mapping]] = ..., result_ack: _Optional[_Union[ResultAck, _Mapping]] = ..., gone: _Optional[_Union[Gone, _Mapping]] = ..., drain: _Optional[_Union[Drain, _Mapping]] = ..., bye: _Optional[_Union[Bye, _Mapping]] = ..., input: _Optional[_Union[Input, _Mapping]] = ..., resize: _Optional[_Union[Resize, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("daemon_instance_id", "boot_id", "journal_id", "journal_counter", "local_time_ms", "capability", "daemon_version", "trust_level", "chosen_by", "allow_inferred", "concurrency", "facts", "live")
    DAEMON_INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_ID_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_COUNTER_FIELD_NUMBER: _ClassVar[int]
    LOCAL_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    CAPABILITY_FIELD_NUMBER: _ClassVar[int]
    DAEMON_VERSION_FIELD_NUMBER: _ClassVar[int]
    TRUST_LEVEL_FIELD_NUMBER: _ClassVar[int]
    CHOSEN_BY_FIELD_NUMBER: _ClassVar[int]
    ALLOW_INFERRED_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
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
    live: _containers.RepeatedCompositeFieldContainer[LiveAttempt]
    def __init__(self, daemon_instance_id: _Optional[str] = ..., boot_id: _Optional[str] = ..., journal_id: _Optional[str] = ..., journal_counter: _Optional[int] = ..., local_time_ms: _Optional[int] = ..., capability: _Optional[int] = ..., daemon_version: _Optional[str] = ..., trust_level: _Optional[str] = ..., chosen_by: _Optional[str] = ..., allow_inferred: _Optional[bool] = ..., concurrency: _Optional[int] = ..., facts: _Optional[_Union[Facts, _Mapping]] = ..., live: _Optional[_Iterable[_Union[LiveAttempt, _Mapping]]] = ...) -> None: ...

class Facts(_message.Message):
    __slots__ = ("hostname", "os", "os_version", "arch", "user", "home", "cpus", "memory_bytes", "time_zone", "labels", "survey", "update_problem")
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    OS_FIELD_NUMBER: _ClassVar[int]
    OS_VERSION_FIELD_NUMBER: _ClassVar[int]
    ARCH_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    HOME_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    SURVEY_FIELD_NUMBER: _ClassVar[int]
    UPDATE_PROBLEM_FIELD_NUMBER: _ClassVar[int]
    hostname: str
    os: str
    os_version: str
    arch: str
    user: str
    home: bytes
    cpus: int
    memory_bytes: int
    time_zone: str
    labels: _containers.RepeatedCompositeFieldContainer[Label]
    survey: Survey
    update_problem: str
    def __init__(self, hostname: _Optional[str] = ..., os: _Optional[str] = ..., os_version: _Optional[str] = ..., arch: _Optional[str] = ..., user: _Optional[str] = ..., home: _Optional[bytes] = ..., cpus: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., time_zone: _Optional[str] = ..., labels: _Optional[_Iterable[_Union[Label, _Mapping]]] = ..., survey: _Optional[_Union[Survey, _Mapping]] = ..., update_problem: _Optional[str] = ...) -> None: ...

class Label(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class Survey(_message.Message):
    __slots__ = ("disk_bytes", "disk_free_bytes", "gpus", "has_battery", "on_battery", "battery_percent", "tools", "repositories")
    DISK_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    HAS_BATTERY_FIELD_NUMBER: _ClassVar[int]
    ON_BATTERY_FIELD_NUMBER: _ClassVar[int]
    BATTERY_PERCENT_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    REPOSITORIES_FIELD_NUMBER: _ClassVar[int]
    disk_bytes: int
    disk_free_bytes: int
    gpus: _containers.RepeatedScalarFieldContainer[str]
    has_battery: bool
    on_battery: bool
    battery_percent: int
    tools: _containers.RepeatedCompositeFieldContainer[Tool]
    repositories: _containers.RepeatedCompositeFieldContainer[Repository]
    def __init__(self, disk_bytes: _Optional[int] = ..., disk_free_bytes: _Optional[int] = ..., gpus: _Optional[_Iterable[str]] = ..., has_battery: _Optional[bool] = ..., on_battery: _Optional[bool] = ..., battery_percent: _Optional[int] = ..., tools: _Optional[_Iterable[_Union[Tool, _Mapping]]] = ..., repositories: _Optional[_Iterable[_Union[Repository, _Mapping]]] = ...) -> None: ...

class Tool(_message.Message):
    __slots__ = ("name", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class Repository(_message.Message):
    __slots__ = ("remote", "path")
    REMOTE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    remote: str
    path: bytes
    def __init__(self, remote: _Optional[str] = ..., path: _Optional[bytes] = ...) -> None: ...

class LiveAttempt(_message.Message):
    __slots__ = ("attempt_id", "input_digest", "state", "stdout_produced", "stderr_produced", "input_received", "input_taken", "input_closed")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[LiveAttempt.State]
        STATE_JOURNALLED: _ClassVar[LiveAttempt.State]
        STATE_AWAITING_OWNER: _ClassVar[LiveAttempt.State]
        STATE_STARTED: _ClassVar[LiveAttempt.State]
        STATE_FINISHED: _ClassVar[LiveAttempt.State]
    STATE_UNSPECIFIED: LiveAttempt.State
    STATE_JOURNALLED: LiveAttempt.State
    STATE_AWAITING_OWNER: LiveAttempt.State
    STATE_STARTED: LiveAttempt.State
    STATE_FINISHED: LiveAttempt.State
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    INPUT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STDOUT_PRODUCED_FIELD_NUMBER: _ClassVar[int]
    STDERR_PRODUCED_FIELD_NUMBER: _ClassVar[int]
    INPUT_RECEIVED_FIELD_NUMBER: _ClassVar[int]
    INPUT_TAKEN_FIELD_NUMBER: _ClassVar[int]
    INPUT_CLOSED_FIELD_NUMBER: _ClassVar[int]
    attempt_id: str
    input_digest: bytes
    state: LiveAttempt.State
    stdout_produced: int
    stderr_produced: int
    input_received: int
    input_taken: int
    input_closed: bool
    def __init__(self, attempt_id: _Optional[str] = ..., input_digest: _Optional[bytes] = ..., state: _Optional[_Union[LiveAttempt.State, str]] = ..., stdout_produced: _Optional[int] = ..., stderr_produced: _Optional[int] = ..., input_received: _Optional[int] = ..., input_taken: _Optional[int] = ..., input_closed: _Optional[bool] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("server_time_ms", "stream_epoch", "capability", "min_capability", "machine_name", "stored")
    SERVER_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    STREAM_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CAPABILITY_FIELD_NUMBER: _ClassVar[int]
    MIN_CAPABILITY_FIELD_NUMBER: _ClassVar[int]
    MACHINE_NAME_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    server_time_ms: int
    stream_epoch: int
    capability: int
    min_capability: int
    machine_name: str
    stored: _containers.RepeatedCompositeFieldContainer[StoredOutput]
    def __init__(self, server_time_ms: _Optional[int] = ..., stream_epoch: _Optional[int] = ..., capability: _Optional[int] = ..., min_capability: _Optional[int] = ..., machine_name: _Optional[str] = ..., stored: _Optional[_Iterable[_Union[StoredOutput, _Mapping]]] = ...) -> None: ...

class StoredOutput(_message.Message):
    __slots__ = ("attempt_id", "stream", "offset")
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    attempt_id: str
    stream: Stream
    offset: int
    def __init__(self, attempt_id: _Optional[str] = ..., stream: _Optional[_Union[Stream, str]] = ..., offset: _Optional[int] = ...) -> None: ...

class Ping(_message.Message):
    __slots__ = ("nonce",)
    NONCE_FIELD_NUMBER: _ClassVar[int]
    nonce: int
    def __init__(self, nonce: _Optional[int] = ...) -> None: ...

class Pong(_message.Message):
    __slots__ = ("nonce",)
    NONCE_FIELD_NUMBER: _ClassVar[int]
    nonce: int
    def __init__(self, nonce: _Optional[int] = ...) -> None: ...

class Offer(_message.Message):
    __slots__ = ("attempt_id", "command_id", "stream_epoch", "spec", "input_digest", "start_within_ms", "tier", "inferred", "requester", "ticket_id", "mandate_hash", "traceparent")
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    COMMAND_ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    INPUT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    START_WITHIN_MS_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    INFERRED_FIELD_NUMBER: _ClassVar[int]
    REQUESTER_FIELD_NUMBER: _ClassVar[int]
    TICKET_ID_FIELD_NUMBER: _ClassVar[int]
    MANDATE_HASH_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    attempt_id: str
    command_id: str
    stream_epoch: int
    spec: bytes
    input_digest: bytes
    start_within_ms: int
    tier: int
    inferred: bool
    requester: str
    ticket_id: str
    mandate_hash: bytes
    traceparent: str
    def __init__(self, attempt_id: _Optional[str] = ..., command_id: _Optional[str] = ..., stream_epoch: _Optional[int] = ..., spec: _Optional[bytes] = ..., input_digest: _Optional[bytes] = ..., start_within_ms: _Optional[int] = ..., tier: _Optional[int] = ..., inferred: _Optional[bool] = ..., requester: _Optional[str] = ..., ticket_id: _Optional[str] = ..., mandate_hash: _Optional[bytes] = ..., traceparent: _Optional[str] = ...) -> None: ...

class CommandSpec(_message.Message):
    __slots__ = ("shell", "argv", "file", "cwd", "has_cwd", "env", "execution_timeout_ms", "grace_ms", "stdin", "pty", "limits")
    SHELL_FIELD_NUMBER: _ClassVar[int]
    ARGV_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    HAS_CWD_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    GRACE_MS_FIELD_NUMBER: _ClassVar[int]
    STDIN_FIELD_NUMBER: _ClassVar[int]
    PTY_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    shell: Shell
    argv: Argv
    file: _files_pb2.FileOperation
    cwd: bytes
    has_cwd: bool
    env: _containers.RepeatedCompositeFieldContainer[EnvVar]
    execution_timeout_ms: int
    grace_ms: int
    stdin: bool
    pty: Pty
    limits: Limits
    def __init__(self, shell: _Optional[_Union[Shell, _Mapping]] = ..., argv: _Optional[_Union[Argv, _Mapping]] = ..., file: _Optional[_Union[_files_pb2.FileOperation, _Mapping]] = ..., cwd: _Optional[bytes] = ..., has_cwd: _Optional[bool] = ..., env: _Optional[_Iterable[_Union[EnvVar, _Mapping]]] = ..., execution_timeout_ms: _Optional[int] = ..., grace_ms: _Optional[int] = ..., stdin: _Optional[bool] = ..., pty: _Optional[_Union[Pty, _Mapping]] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("memory_bytes", "processes", "open_files")
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    OPEN_FILES_FIELD_NUMBER: _ClassVar[int]
    memory_bytes: int
    processes: int
    open_files: int
    def __init__(self, memory_bytes: _Optional[int] = ..., processes: _Optional[int] = ..., open_files: _Optional[int] = ...) -> None: ...

class Shell(_message.Message):
    __slots__ = ("script",)
    SCRIPT_FIELD_NUMBER: _ClassVar[int]
    script: bytes
    def __init__(self, script: _Optional[bytes] = ...) -> None: ...

class Argv(_message.Message):
    __slots__ = ("argv",)
    ARGV_FIELD_NUMBER: _ClassVar[int]
    argv: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, argv: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Pty(_message.Message):
    __slots__ = ("rows", "columns", "term")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    rows: int
    columns: int
    term: bytes
    def __init__(self, rows: _Optional[int] = ..., columns: _Optional[int] = ..., term: _Optional[bytes] = ...) -> None: ...

class EnvVar(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    value: bytes
    def __init__(self, name: _Optional[bytes] = ..., value: _Optional[bytes] = ...) -> None: ...

class Decision(_message.Message):
    __slots__ = ("attempt_id", "verdict", "plan_hash", "tier", "reason_code", "message")
    class Verdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        VERDICT_UNSPECIFIED: _ClassVar[Decision.Verdict]
        VERDICT_ALLOW: _ClassVar[Decision.Verdict]
        VERDICT_ASK: _ClassVar[Decision.Verdict]
        VERDICT_DENY: _ClassVar[Decision.Verdict]
    VERDICT_UNSPECIFIED: Decision.Verdict
    VERDICT_ALLOW: Decision.Verdict
    VERDICT_ASK: Decision.Verdict
    VERDICT_DENY: Decision.Verdict
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    PLAN_HASH_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    REASON_CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    attempt_id: str
    verdict: Decision.Verdict
    plan_hash: bytes
    tier: int
    reason_code: str
    message: str
    def __init__(self, attempt_id: _Optional[str] = ..., verdict: _Optional[_Union[Decision.Verdict, str]] = ..., plan_hash: _Optional[bytes] = ..., tier: _Optional[int] = ..., reason_code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class Approval(_message.Message):
    __slots__ = ("attempt_id", "plan_hash")
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    PLAN_HASH_FIELD_NUMBER: _ClassVar[int]
    attempt_id: str
    plan_hash: bytes
    def __init__(self, attempt_id: _Optional[str] = ..., plan_hash: _Optional[bytes] = ...) -> None: ...

class Started(_message.Message):
    __slots__ = ("attempt_id", "pid", "started_at_ms", "boot_id")
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    attempt_id: str
    pid: int
    started_at_ms: int
    boot_id: str
    def __init__(self, attempt_id: _Optional[str] = ..., pid: _Optional[int] = ..., started_at_ms: _Optional[int] = ..., boot_id: _Optional[str] = ...) -> None: ...

class Output(_message.Message):
    __slots__ = ("attempt_id", "stream", "offset", "data")
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    attempt_id: str
    stream: Stream
    offset: int
    data: bytes
    def __init__(self, attempt_id: _Optional[str] = ..., stream: _Optional[_Union[Stream, str]] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class Omitted(_message.Message):
    __slots__ = ("attempt_id", "stream", "offset", "length")
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    attempt_id: str
    stream: Stream
    offset: int
    length: int
    def __init__(self, attempt_id: _Optional[str] = ..., stream: _Optional[_Union[Stream, str]] = ..., offset: _Optional[int] = ..., length: _Optional[int] = ...) -> None: ...

class InputAck(_message.Message):
    __slots__ = ("attempt_id", "offset", "closed")
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    attempt_id: str
    offset: int
    closed: bool
    def __init__(self, attempt_id: _Optional[str] = ..., offset: _Optional[int] = ..., closed: _Optional[bool] = ...) -> None: ...

class Quiet(_message.Message):
    __slots__ = ("attempt_id", "quiet_ms", "reads_terminal", "takes_input")
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    QUIET_MS_FIELD_NUMBER: _ClassVar[int]
    READS_TERMINAL_FIELD_NUMBER: _ClassVar[int]
    TAKES_INPUT_FIELD_NUMBER: _ClassVar[int]
    attempt_id: str
    quiet_ms: int
    reads_terminal: bool
    takes_input: bool
    def __init__(self, attempt_id: _Optional[str] = ..., quiet_ms: _Optional[int] = ..., reads_terminal: _Optional[bool] = ..., takes_input: _Optional[bool] = ...) -> None: ...

class Result(_message.Message):
    __slots__ = ("attempt_id", "result", "result_hash")
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    RESULT_HASH_FIELD_NUMBER: _ClassVar[int]
    attempt_id: str
    result: CommandResult
    result_hash: bytes
    def __init__(self, attempt_id: _Optional[str] = ..., result: _Optional[_Union[CommandResult, _Mapping]] = ..., result_hash: _Optional[bytes] = ...) -> None: ...

class CommandResult(_message.Message):
    __slots__ = ("reason", "has_exit_code", "exit_code", "signal", "error_code", "error", "stdout", "stderr", "stdout_left_open", "wall_ms", "notes")
    class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        REASON_UNSPECIFIED: _ClassVar[CommandResult.Reason]
        REASON_EXIT: _ClassVar[CommandResult.Reason]
        REASON_SIGNAL: _ClassVar[CommandResult.Reason]
        REASON_TIMEOUT: _ClassVar[CommandResult.Reason]
        REASON_CANCEL: _ClassVar[CommandResult.Reason]
        REASON_SHUTDOWN: _ClassVar[CommandResult.Reason]
        REASON_OOM: _ClassVar[CommandResult.Reason]
        REASON_SPAWN_ERROR: _ClassVar[CommandResult.Reason]
        REASON_REFUSED: _ClassVar[CommandResult.Reason]
        REASON_INDETERMINATE: _ClassVar[CommandResult.Reason]
    REASON_UNSPECIFIED: CommandResult.Reason
    REASON_EXIT: CommandResult.Reason
    REASON_SIGNAL: CommandResult.Reason
    REASON_TIMEOUT: CommandResult.Reason
    REASON_CANCEL: CommandResult.Reason
    REASON_SHUTDOWN: CommandResult.Reason
    REASON_OOM: CommandResult.Reason
    REASON_SPAWN_ERROR: CommandResult.Reason
    REASON_REFUSED: CommandResult.Reason
    REASON_INDETERMINATE: CommandResult.Reason
    REASON_FIELD_NUMBER: _ClassVar[int]
    HAS_EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    STDOUT_LEFT_OPEN_FIELD_NUMBER: _ClassVar[int]
    WALL_MS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    reason: CommandResult.Reason
    has_exit_code: bool
    exit_code: int
    signal: int
    error_code: str
    error: str
    stdout: StreamTotals
    stderr: StreamTotals
    stdout_left_open: bool
    wall_ms: int
    notes: _containers.RepeatedCompositeFieldContainer[Note]
    def __init__(self, reason: _Optional[_Union[CommandResult.Reason, str]] = ..., has_exit_code: _Optional[bool] = ..., exit_code: _Optional[int] = ..., signal: _Optional[int] = ..., error_code: _Optional[str] = ..., error: _Optional[str] = ..., stdout: _Optional[_Union[StreamTotals, _Mapping]] = ..., stderr: _Optional[_Union[StreamTotals, _Mapping]] = ..., stdout_left_open: _Optional[bool] = ..., wall_ms: _Optional[int] = ..., notes: _Optional[_Iterable[_Union[Note, _Mapping]]] = ...) -> None: ...

class Note(_message.Message):
    __slots__ = ("code", "text")
    CODE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    code: str
    text: str
    def __init__(self, code: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class StreamTotals(_message.Message):
    __slots__ = ("produced", "omitted_from", "omitted", "sha256")
    PRODUCED_FIELD_NUMBER: _ClassVar[int]
    OMITTED_FROM_FIELD_NUMBER: _ClassVar[int]
    OMITTED_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    produced: int
    omitted_from: int
    omitted: int
    sha256: bytes
    def __init__(self, produced: _Optional[int] = ..., omitted_from: _Optional[int] = ..., omitted: _Optional[int] = ..., sha256: _Optional[bytes] = ...) -> None: ...

class Input(_message.Message):
    __slots__ = ("attempt_id", "offset", "data", "end")
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    attempt_id: str
    offset: int
    data: bytes
    end: bool
    def __init__(self, attempt_id: _Optional[str] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ..., end: _Optional[bool] = ...) -> None: ...

class Resize(_message.Message):
    __slots__ = ("attempt_id", "rows", "columns")
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    attempt_id: str
    rows: int
    columns: int
    def __init__(self, attempt_id: _Optional[str] = ..., rows: _Optional[int] = ..., columns: _Optional[int] = ...) -> None: ...

class OutputAck(_message.Message):
    __slots__ = ("attempt_id", "stream", "offset")
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    attempt_id: str
    stream: Stream
    offset: int
    def __init__(self, attempt_id: _Optional[str] = ..., stream: _Optional[_Union[Stream, str]] = ..., offset: _Optional[int] = ...) -> None: ...

class ResultAck(_message.Message):
    __slots__ = ("attempt_id", "result_hash")
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_HASH_FIELD_NUMBER: _ClassVar[int]
    attempt_id: str
    result_hash: bytes
    def __init__(self, attempt_id: _Optional[str] = ..., result_hash: _Optional[bytes] = ...) -> None: ...

class Cancel(_message.Message):
    __slots__ = ("attempt_id", "reason")
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    attempt_id: str
    reason: str
    def __init__(self, attempt_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class Gone(_message.Message):
    __slots__ = ("attempt_id",)
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    attempt_id: str
    def __init__(self, attempt_id: _Optional[str] = ...) -> None: ...

class Drain(_message.Message):
    __slots__ = ("within_ms",)
    WITHIN_MS_FIELD_NUMBER: _ClassVar[int]
    within_ms: int
    def __init__(self, within_ms: _Optional[int] = ...) -> None: ...

class Bye(_message.Message):
    __slots__ = ("code", "message", "retry")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    retry: bool
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., retry: _Optional[bool] = ...) -> None: ...
