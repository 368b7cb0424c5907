"""The JSON that the API speaks; listings, `--json` of the command line and pages share it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from farhand_control_plane.db.command_views import Because, CommandView
from farhand_control_plane.db.enrolment import CodeView
from farhand_control_plane.db.machines import MachineView, Presence
from farhand_control_plane.db.output import OutputView
from farhand_control_plane.db.questions import QuestionView
from farhand_control_plane.db.tokens import TokenView
from farhand_control_plane.domain.access import Scope
from farhand_control_plane.domain.words import (
    MachineKind,
    MachineStatus,
    QuestionState,
)
from farhand_shared.command import AttemptState, ExitReason, shell_exit_status
from farhand_shared.exec_frames import result_to_json

Item = TypeVar("Item")


class Asked(BaseModel):
    """A request body: a field that nobody knows is a mistake, not something to skip.

    Text that the database cannot hold (NUL, half a surrogate pair) is refused here, for all.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _storable(cls, value: Any) -> Any:
        for field, part in value.items() if isinstance(value, dict) else ():
            for text in part if isinstance(part, list) else [part]:
                if isinstance(text, str) and not is_storable(text):
                    raise PydanticCustomError(
                        "unstorable",
                        "{field} holds a character that no text can hold (NUL or a lone surrogate)",
                        {"field": field},
                    )
        return value


def is_storable(text: str) -> bool:
    """Tell whether a text column can hold this."""
    return "\0" not in text and not any("\ud800" <= c <= "\udfff" for c in text)


class Page(BaseModel, Generic[Item]):
    """One page of a listing; ``next_cursor`` is the next one's ``cursor``, null at the end."""

    items: list[Item]
    next_cursor: str | None = None


class FailureReason(BaseModel):
    code: str = Field(description="stable: for programs")
    message: str = Field(description="cannot …: why; what to do. For whoever made the call")


class Failure(BaseModel):
    """Every failure of the API."""

    error: FailureReason


# ── machines ────────────────────────────────────────────────────────────────────────────────────


class Machine(BaseModel):
    id: str
    name: str
    kind: MachineKind = Field(
        description="personal, managed, or on_demand: an environment that a provisioner made"
    )
    ticket_id: str | None = Field(
        description="of an environment: the ticket that it was made for, and goes with"
    )
    status: MachineStatus
    presence: Presence
    trust_level: str = Field(
        description="ask, workspace, trusted or off: what its own file says, and only that"
    )
    chosen_by: str = Field(description="typed, up, preset or default: how that level came to be")
    allow_inferred: bool
    labels: dict[str, str] = Field(
        description="by name, an empty value where none was given; those of its own file win"
    )
    facts: dict[str, Any]
    owner_member_id: str
    words: list[str] = Field(description="six, to compare while the machine is pending")
    daemon_version: str
    capability: int
    concurrency: int
    running: int
    queued: int
    queued_since: datetime | None = Field(
        description="when the oldest of them was asked for; null: nothing is queued"
    )
    queued_until: datetime | None = Field(
        description="when the first of them will not start any more"
    )
    created_at: datetime
    seen_at: datetime | None


def machine(view: MachineView) -> Machine:
    facts = {name: _text(value) for name, value in view.facts.items()}
    return Machine(
        id=view.machine_id,
        name=view.name,
        kind=view.kind,
        ticket_id=view.for_ticket_id,
        status=view.status,
        presence=view.presence,
        trust_level=view.trust_level,
        chosen_by=view.chosen_by,
        allow_inferred=view.allow_inferred,
        labels={_text(name): _text(value) for name, value in view.labels.items()},
        facts=facts,
        owner_member_id=view.owner_member_id,
        words=list(view.words) if view.status.value == "pending" else [],
        daemon_version=view.daemon_version,
        capability=view.capability,
        concurrency=view.concurrency,
        running=view.running,
        queued=view.queued,
        queued_since=view.queued_since,
        queued_until=view.queued_until,
        created_at=view.created_at,
        seen_at=view.seen_at,
    )


def _text(value: Any) -> Any:
    """Return a fact as JSON carries it: paths of a machine need not be text."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_text(name): _text(inner) for name, inner in value.items()}
    return [_text(inner) for inner in value] if isinstance(value, list) else value


class CodeAsked(Asked):
    name: str | None = Field(default=None, description="what to call the machine")
    kind: Literal["personal", "managed"] | None = Field(
        default=None,
        description="personal when not given; managed: set up by root or an image, nobody sits "
        "there",
    )


class CodeMade(BaseModel):
    id: str
    code: str = Field(description="shown once; typed at the prompt of farhandd enroll")
    expires_at: datetime
    url: str = Field(description="the address to give farhandd enroll")
    install_line: str = Field(
        description="to be run on that computer: installs the daemon, enrols it, runs it"
    )


class Code(BaseModel):
    id: str
    expires_at: datetime
    used_at: datetime | None
    machine_id: str | None
    machine_name: str | None
    words: list[str]


def code(view: CodeView) -> Code:
    return Code(
        id=view.code_id,
        expires_at=view.expires_at,
        used_at=view.used_at,
        machine_id=view.machine_id,
        machine_name=view.machine_name,
        words=list(view.words),
    )


class WordsAsked(Asked):
    words: list[str] = Field(description="the six words that the machine shows")


# ── commands ────────────────────────────────────────────────────────────────────────────────────


class Output(BaseModel):
    """A stream as text: undecodable bytes are shown as U+FFFD; the bytes are behind
    GET /v1/attempts/{attempt_id}/output."""

    head: str
    tail: str = Field(description="empty when the head is everything")
    total_bytes: int
    omitted_bytes: int


def output(view: OutputView) -> Output:
    return Output(
        head=view.head.decode("utf-8", "replace"),
        tail=view.tail.decode("utf-8", "replace"),
        total_bytes=view.total,
        omitted_bytes=view.omitted,
    )


class StreamTotals(BaseModel):
    """What one stream came to, in bytes of what the command wrote."""

    produced: int
    omitted_from: int
    omitted: int = Field(description="bytes that its machine had to drop while the link was down")
    sha256: str = Field(description="over everything produced")


class ResultNote(BaseModel):
    """What explains an end beside its reason: a limit that was reached, input that was wanted."""

    code: str = Field(
        description="out_of_memory, process_limit, open_files_limit, memory_limit_per_process, "
        "input_wanted; later codes are additions"
    )
    text: str


class CommandResult(BaseModel):
    """How a command ended, as its machine says it."""

    reason: ExitReason
    exit_code: int | None
    signal: int | None
    error_code: str
    error: str
    stdout: StreamTotals
    stderr: StreamTotals
    stdout_left_open: bool
    wall_ms: int
    notes: list[ResultNote]


# What a command does with files; the words of the requests.
Operation = Literal[
    "stat",
    "list",
    "glob",
    "search",
    "read",
    "write",
    "edit",
    "put",
    "make_folder",
    "move",
    "remove",
]


class Command(BaseModel):
    id: str
    attempt_id: str
    machine_id: str
    machine: str
    ticket_id: str | None
    title: str
    operation: Operation | None = Field(
        description="what it does with files: its standard error is one line of JSON; null: it "
        "runs a program"
    )
    state: AttemptState
    stop_reason: str | None = Field(description="why somebody wanted it ended; null: nobody did")
    reason: str | None = Field(description="of an end: exit, timeout, revoked, reauthorisation, …")
    error: str = Field(description="the same for people; empty: nothing went wrong")
    exit_status: int | None = Field(description="as a shell would say it; null until it ended")
    result: CommandResult | None = Field(description="the machine's own; null until it is recorded")
    queued_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    start_expires_at: datetime = Field(description="it never starts after this")
    waiting: bool = Field(
        description="queued, and its machine is offline or paused: it starts by itself later"
    )
    waiting_because: Because | None = Field(description="null: it does not wait for its machine")
    machine_seen_at: datetime | None = Field(description="null: never")
    stdout_bytes: int
    stderr_bytes: int


class CommandWithOutput(Command):
    stdout: Output
    stderr: Output


def command(view: CommandView) -> Command:
    return Command(**command_fields(view))


def command_fields(view: CommandView) -> dict[str, Any]:
    result = view.result
    return {
        "id": view.command_id,
        "attempt_id": view.attempt_id,
        "machine_id": view.machine_id,
        "machine": view.machine_name,
        "ticket_id": view.ticket_id,
        "title": view.title,
        "operation": view.operation,
        "state": view.state,
        "stop_reason": view.stop_reason,
        "reason": view.reason,
        "error": view.error,
        "exit_status": None if result is None else shell_exit_status(result),
        "result": None if result is None else result_to_json(result),
        "queued_at": view.queued_at,
        "started_at": view.started_at,
        "ended_at": view.ended_at,
        "start_expires_at": view.start_expires_at,
        "waiting": view.waits_because is not None,
        "waiting_because": view.waits_because,
        "machine_seen_at": view.machine_seen_at,
        "stdout_bytes": view.stdout_stored,
        "stderr_bytes": view.stderr_stored,
    }


# ── questions ───────────────────────────────────────────────────────────────────────────────────


class Question(BaseModel):
    id: str
    ticket_id: str | None
    thread_id: str | None
    text: str
    options: list[str]
    default_option: str | None
    if_unanswered: str = Field(description="what happens then")
    state: QuestionState
    asked_at: datetime
    answer: str | None
    settled_at: datetime | None


def question(view: QuestionView) -> Question:
    return Question(
        id=view.question_id,
        ticket_id=view.ticket_id,
        thread_id=view.thread_id,
        text=view.text,
        options=list(view.options),
        default_option=view.default_option,
        if_unanswered=view.if_unanswered,
        state=view.state,
        asked_at=view.asked_at,
        answer=view.answer,
        settled_at=view.settled_at,
    )


# ── tokens ──────────────────────────────────────────────────────────────────────────────────────


class TokenAsked(Asked):
    name: str = Field(min_length=1, max_length=100)
    scopes: list[str]
    machine: str | None = Field(
        default=None, description="name or id of what 'this machine' means to its user"
    )
    expires_in_days: int | None = Field(default=None, ge=1, le=3650)


class Token(BaseModel):
    id: str
    name: str
    scopes: list[Scope]
    machine_id: str | None
    created_at: datetime
    expires_at: datetime | None
    used_at: datetime | None


class TokenMade(Token):
    token: str = Field(description="shown once; only its hash is stored")


def token_fields(view: TokenView) -> dict[str, Any]:
    return {
        "id": view.token_id,
        "name": view.name,
        "scopes": list(view.scopes),
        "machine_id": view.machine_id,
        "created_at": view.created_at,
        "expires_at": view.expires_at,
        "used_at": view.used_at,
    }


def page_of(items: Sequence[Item], limit: int, cursors: Sequence[str]) -> Page[Item]:
    """Return a page from one more item than its limit; ``cursors`` are the items' own."""
    more = len(items) > limit
    return Page(items=list(items[:limit]), next_cursor=cursors[limit - 1] if more else None)
