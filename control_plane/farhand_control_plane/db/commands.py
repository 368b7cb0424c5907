"""Commands and their attempts: asking, claiming, stopping, recording; for every reader and writer.

A row is the command; the replica that holds the machine's link claims it. Every write on an attempt
is a compare-and-set on its state, and whoever speaks for the machine holds its current epoch.
"""

from dataclasses import dataclass
from datetime import datetime

from farhand_control_plane.db.transaction import Tx
from farhand_shared.command import AttemptState, CommandResult, CommandSpec
from farhand_shared.ids import (
    AttemptId,
    CommandId,
    InstanceId,
    MachineId,
    MemberId,
    SessionId,
    TicketId,
)
from farhand_shared.limits import START_WITHIN_DEFAULT_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCommand:
    """What is asked of a machine, and by whom."""

    instance_id: InstanceId
    machine_id: MachineId
    requester_member_id: MemberId
    spec: CommandSpec
    title: str  # the command as text, for people
    ticket_id: TicketId | None = None  # None: a direct command
    session_id: SessionId | None = None  # told when it ends
    item_seq: int | None = None  # with session_id and call_index: the effect's key
    call_index: int | None = None
    inferred: bool = False
    mandate_hash: bytes | None = None
    supersede_key: str | None = None
    start_within_ms: int = START_WITHIN_DEFAULT_MS
    tier: int = 5
    traceparent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    command_id: CommandId
    attempt_id: AttemptId
    created: bool  # False: the effect's key was used before, these are the ids it got


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandView:
    """A command with its latest attempt, as pages and agents read it."""

    command_id: CommandId
    attempt_id: AttemptId
    machine_id: MachineId
    machine_name: str
    requester_member_id: MemberId
    ticket_id: TicketId | None
    session_id: SessionId | None
    title: str
    state: AttemptState
    stop_reason: str | None  # why somebody wanted it ended
    reason: str | None  # of a terminal state: exit, timeout, revoked, reauthorisation…
    error: str  # the same for people
    result: CommandResult | None  # None until the machine's own result is recorded
    queued_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    start_expires_at: datetime
    machine_online: bool
    stdout_stored: int
    stderr_stored: int


async def enqueue(tx: Tx, command: NewCommand) -> Enqueued:
    """Store a command as queued and wake the holder of its machine's link.

    Idempotent by (session_id, item_seq, call_index). A ``supersede_key`` supersedes older queued
    commands of the same machine and key, and asks running ones to stop. Raises NotFound for an
    unknown machine, Conflict for one that is not usable, NotAllowed when the requester is not its
    owner, InvalidInput and TooLarge for a bad specification.
    """
    raise NotImplementedError


async def request_stop(
    tx: Tx,
    instance_id: InstanceId,
    *,
    command_id: CommandId | None = None,
    ticket_id: TicketId | None = None,
    reason: str = "cancel",
) -> int:
    """Stop one command, or all of a ticket; return how many were still open.

    Queued ones are cancelled_before_start at once, others are ``stopping`` until their machine
    proves the end. ``reason``: cancel, superseded, expired, shutdown. Nothing matches: 0.
    """
    raise NotImplementedError


async def get(tx: Tx, instance_id: InstanceId, command_id: CommandId) -> CommandView | None:
    """Return one command, None when this instance has none of that id."""
    raise NotImplementedError


async def of_attempt(tx: Tx, instance_id: InstanceId, attempt_id: AttemptId) -> CommandView | None:
    """Return the command that an attempt tries."""
    raise NotImplementedError


async def of_ticket(tx: Tx, instance_id: InstanceId, ticket_id: TicketId) -> list[CommandView]:
    """Return a ticket's commands, oldest first."""
    raise NotImplementedError


async def recent(tx: Tx, instance_id: InstanceId, *, limit: int = 50) -> list[CommandView]:
    """Return the newest commands, newest first."""
    raise NotImplementedError
