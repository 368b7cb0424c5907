"""From the outbox to people: enqueue with the rules of speech, deliver in each Thread's order."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, assert_never

import psycopg

from farhand_control_plane.channels.channel import Channel, NotSent, SendResult, Sent, Unclear
from farhand_control_plane.db import intake, mandates, outbox, questions, ticket_records
from farhand_control_plane.db.listen import OUTBOX, Listener
from farhand_control_plane.db.outbox import OutboxView
from farhand_control_plane.db.pool import Database
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.feedback import check_prose, storable, template_key
from farhand_control_plane.domain.mandate import REPLY
from farhand_control_plane.domain.outbox import CLAIM_S, OutboxEvent, settle
from farhand_control_plane.domain.words import OutboxState
from farhand_shared.errors import Conflict, FarhandError, InvalidInput, NotAllowed, NotFound
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

_log = logging.getLogger(__name__)

_KINDS: Final = ("reply", "question")  # an acknowledgement is made by code alone
SEND_S: Final = CLAIM_S / 2  # a try ends before its claim lapses
POLL_S: Final = 15.0  # the net under a lost notification
_PAUSE_S: Final = 1.0  # after a failure of our own
_LOCKED_PAUSE_S: Final = 0.05  # something is due, and another replica holds it at this moment

OnSent = Callable[[Tx, OutboxView], Awaitable[None]]


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

    ``kind``: reply or question. A draft waits for a person's approval. Raises InvalidInput when the
    prose is empty or over 100 words (says both counts), NotFound for ids of another instance,
    NotAllowed when the Ticket's Mandate does not let it speak, Conflict when code has posted the
    report because the Router was silent.
    """
    if kind not in _KINDS:
        raise InvalidInput(f"cannot send a message of kind {kind!r}: use {' or '.join(_KINDS)}")
    prose = storable(text)
    check_prose(prose)
    await _check_ids(
        tx,
        instance_id,
        thread_id=thread_id,
        ticket_id=ticket_id,
        reply_to_trigger_id=reply_to_trigger_id,
        report_id=report_id,
        question_id=question_id,
    )
    if foreign := await ticket_records.foreign_commands(tx, instance_id, ticket_id, command_ids):
        raise NotFound(f"cannot attach the output of {foreign[0]}: there is no such command here")
    return await outbox.enqueue(
        tx,
        instance_id,
        thread_id,
        kind=kind,
        text=prose,
        command_ids=command_ids,
        ticket_id=ticket_id,
        reply_to_trigger_id=reply_to_trigger_id,
        report_id=report_id,
        question_id=question_id,
        idempotency_key=idempotency_key,
        draft=draft,
    )


async def _check_ids(
    tx: Tx,
    instance_id: InstanceId,
    *,
    thread_id: ThreadId,
    ticket_id: TicketId | None,
    reply_to_trigger_id: TriggerId | None,
    report_id: ReportId | None,
    question_id: QuestionId | None,
) -> None:
    if not await ticket_records.has_thread(tx, instance_id, thread_id):
        raise NotFound(f"cannot send to thread {thread_id}: there is none")
    if ticket_id is not None:
        known = await ticket_records.has_ticket(tx, instance_id, ticket_id)
        mandate = await mandates.of_ticket(tx, instance_id, ticket_id) if known else None
        if mandate is None:
            raise NotFound(f"cannot speak for ticket {ticket_id}: there is none")
        if REPLY not in mandate.scope.actions:
            raise NotAllowed(f"cannot speak for ticket {ticket_id}: its mandate does not allow it")
    if reply_to_trigger_id is not None and (
        await intake.trigger(tx, instance_id, reply_to_trigger_id) is None
    ):
        raise NotFound(f"cannot reply to message {reply_to_trigger_id}: there is none")
    if report_id is not None:
        if not await ticket_records.has_report(tx, instance_id, report_id):
            raise NotFound(f"cannot deliver report {report_id}: there is none")
        if await outbox.has_key(tx, instance_id, template_key(report_id)):
            raise Conflict(f"cannot deliver report {report_id}: people have it already")
    if question_id is not None and await questions.get(tx, instance_id, question_id) is None:
        raise NotFound(f"cannot ask question {question_id}: there is none")


class Relay:
    """Delivers due outbox rows. Several may run: a row is claimed by one at a time.

    A crash at any point sends nothing twice: a row that was being sent is looked up on the
    provider's side before it is tried again.
    """

    def __init__(
        self,
        database: Database,
        listener: Listener,
        channels: Mapping[str, Channel],  # by source kind
        *,
        on_sent: OnSent,  # ingest.tickets.reply_sent; in the transaction that records the send
    ) -> None:
        self._database = database
        self._listener = listener
        self._channels = channels
        self._on_sent = on_sent

    async def run(self) -> None:
        """Deliver until cancelled; woken by the outbox channel and by due times.

        Each kind of channel has its own task: a slow provider holds up nobody else's.
        """
        async with asyncio.TaskGroup() as group:
            for kind in self._channels:
                group.create_task(self._serve(kind), name=f"relay {kind}")

    async def deliver_due(self) -> int:
        """Deliver what is due now; return how many rows were tried."""
        return sum([await self._deliver_due(kind) for kind in self._channels])

    async def _serve(self, kind: str) -> None:
        wake = asyncio.Event()
        unsubscribe = self._listener.subscribe(OUTBOX, lambda _: wake.set())
        try:
            while True:
                wake.clear()
                try:
                    await self._deliver_due(kind)
                    wait_s = await self._idle_s(kind)
                except (psycopg.Error, FarhandError) as error:
                    _log.warning("relay %s: %s", kind, error)
                    wait_s = _PAUSE_S
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await wake.wait()
        finally:
            unsubscribe()

    async def _idle_s(self, kind: str) -> float:
        async with self._database.transaction() as tx:
            due_s = await outbox.next_due_s(tx, kind)
        return POLL_S if due_s is None else min(max(due_s, _LOCKED_PAUSE_S), POLL_S)

    async def _deliver_due(self, kind: str) -> int:
        channel, tried = self._channels[kind], 0
        deliver = self._record if channel.record_is_delivery else self._publish
        while await deliver(kind, channel):
            tried += 1
        return tried

    async def _record(self, kind: str, channel: Channel) -> bool:
        """Deliver a row whose record is what people read: all of it is one transaction."""
        row = None
        try:
            async with self._database.transaction() as tx:
                row = await outbox.claim_next(tx, kind)
                if row is None:
                    return False
                await self._store(tx, row, OutboxEvent.SENT, receipt={})
        except Exception as error:
            if row is None or isinstance(error, psycopg.OperationalError | FarhandError):
                raise
            # Not the row's Thread, nor any other, may stand still for one row that cannot be told.
            _log.exception("relay %s: row %s could not be recorded", kind, row.outbox_id)
            async with self._database.transaction() as tx:
                settlement = settle(OutboxState.SENDING, OutboxEvent.ABSENT, tries=row.tries)
                await outbox.postpone(tx, row, settlement, f"{type(error).__name__}: {error}"[:500])
        return True

    async def _publish(self, kind: str, channel: Channel) -> bool:
        """Send or look up one row between two transactions: claimed, tried, settled."""
        async with self._database.transaction() as tx:
            row = await outbox.claim_next(tx, kind)
        if row is None:
            return False
        result = await self._try(channel, row)
        async with self._database.transaction() as tx:
            match result:
                case Sent(receipt=receipt):
                    await self._store(tx, row, OutboxEvent.SENT, receipt=receipt)
                case NotSent(error=error, final=final, retry_after_s=retry_after_s):
                    event = OutboxEvent.REFUSED if final else OutboxEvent.ABSENT
                    await self._store(tx, row, event, error=error, retry_after_s=retry_after_s)
                case Unclear(error=error):
                    await self._store(tx, row, OutboxEvent.UNCLEAR, error=error)
                case other:
                    assert_never(other)
        return True

    async def _try(self, channel: Channel, row: OutboxView) -> SendResult:
        attempt = channel.send if row.state is OutboxState.READY else channel.reconcile
        try:
            async with asyncio.timeout(SEND_S):
                return await attempt(row)
        except TimeoutError:
            return Unclear(error=f"no answer within {SEND_S:.0f} s")
        except Exception as error:
            # Whatever it was, it may have happened after the provider took the message.
            _log.warning("relay: row %s: %r", row.outbox_id, error)
            return Unclear(error=f"{type(error).__name__}: {error}"[:500])

    async def _store(
        self,
        tx: Tx,
        row: OutboxView,
        event: OutboxEvent,
        *,
        error: str | None = None,
        retry_after_s: float | None = None,
        receipt: dict[str, Any] | None = None,
    ) -> None:
        claimed = OutboxState.SENDING if row.state is OutboxState.READY else OutboxState.UNKNOWN
        settlement = settle(claimed, event, tries=row.tries, retry_after_s=retry_after_s)
        if not await outbox.settle(tx, row, settlement, error=error, receipt=receipt):
            _log.warning("relay: the claim on row %s had lapsed", row.outbox_id)
            return
        if settlement.state is OutboxState.SENT:
            await self._on_sent(tx, row)
