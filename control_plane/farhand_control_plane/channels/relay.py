"""From the outbox to people: enqueue with the rules of speech, deliver in each Thread's order."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from farhand_control_plane.channels.channel import Channel
from farhand_control_plane.db.outbox import OutboxView
from farhand_control_plane.db.transaction import Tx
from farhand_shared.ids import (
    CommandId,
    InstanceId,
    OutboxId,
    QuestionId,
    ReportId,
    ThreadId,
    TicketId,
    TriggerId,
)

if TYPE_CHECKING:
    from farhand_control_plane.db.listen import Listener
    from farhand_control_plane.db.pool import Database


async def send(
    tx: Tx,
    instance_id: InstanceId,
    thread_id: ThreadId,
    *,
    kind: str,
    text: str,
    command_ids: Sequence[CommandId] = (),
    ticket_id: TicketId | None = None,
    reply_to_trigger_id: TriggerId | None = None,
    report_id: ReportId | None = None,
    question_id: QuestionId | None = None,
    idempotency_key: str,
    draft: bool = False,
) -> OutboxId:
    """Enqueue one outward message; the same idempotency key is the same message.

    ``kind``: reply or question (an acknowledgement is made by code alone). Raises InvalidInput when
    the prose is empty or over 100 words (says both counts), NotFound for ids of another instance.
    """
    raise NotImplementedError


class Relay:
    """Delivers due outbox rows. Several may run: a row is claimed by one at a time."""

    def __init__(
        self,
        database: "Database",
        listener: "Listener",
        channels: Mapping[str, Channel],  # by source kind
        *,
        on_sent: Callable[[Tx, OutboxView], Awaitable[None]],  # ingest.tickets.reply_sent
    ) -> None:
        raise NotImplementedError

    async def run(self) -> None:
        """Deliver until cancelled; woken by the outbox channel and by due times."""
        raise NotImplementedError

    async def deliver_due(self) -> int:
        """Deliver what is due now; return how many rows were tried."""
        raise NotImplementedError
