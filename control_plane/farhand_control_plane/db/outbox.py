"""Outward effects: stored before they are tried, claimed, settled."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import OutboxState
from farhand_shared.ids import (
    CommandId,
    InstanceId,
    MemberId,
    OutboxId,
    QuestionId,
    ReportId,
    ThreadId,
    TicketId,
    TriggerId,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxView:
    """An outward effect. ``text`` is prose; the output of ``command_ids`` is rendered by code."""

    outbox_id: OutboxId
    instance_id: InstanceId
    thread_id: ThreadId
    ticket_id: TicketId | None
    reply_to_trigger_id: TriggerId | None
    kind: str  # acknowledgement, reply, question
    text: str
    command_ids: tuple[CommandId, ...]
    report_id: ReportId | None
    question_id: QuestionId | None
    idempotency_key: str
    state: OutboxState
    tries: int
    error: str | None
    created_at: datetime
    sent_at: datetime | None


async def list_(
    tx: Tx, instance_id: InstanceId, *, states: Sequence[OutboxState] = (), limit: int = 50
) -> list[OutboxView]:
    """Return the newest rows in the given states (none given: all), newest first."""
    raise NotImplementedError


async def approve(
    tx: Tx, instance_id: InstanceId, outbox_id: OutboxId, member_id: MemberId
) -> None:
    """Let a draft go out as it stands. Raises NotFound, NotAllowed; Conflict when not a draft."""
    raise NotImplementedError


async def retry(tx: Tx, instance_id: InstanceId, outbox_id: OutboxId, member_id: MemberId) -> None:
    """Try a dead row again: it is reconciled first. Raises NotFound, NotAllowed, Conflict."""
    raise NotImplementedError
