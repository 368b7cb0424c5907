"""What happens by time alone: late deliveries, expired Mandates, closes that had to wait."""

import asyncio
import logging
from datetime import datetime
from typing import Final

import psycopg

from farhand_control_plane.db import (
    mandates,
    outbox,
    subscriptions,
    ticket_records,
    tickets,
)
from farhand_control_plane.db.pool import Database
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.feedback import shorten, template_key
from farhand_control_plane.domain.words import (
    TicketOutcome,
)
from farhand_control_plane.ingest import closing
from farhand_control_plane.ingest.announcements import Announcements
from farhand_shared.errors import FarhandError
from farhand_shared.ids import (
    InstanceId,
    ReportId,
    TicketId,
)

_log = logging.getLogger(__name__)

_AT_ONCE: Final = 100  # rows looked at per call of expire_due
ROUTER_SILENT_S: Final = 60.0  # a report unread for longer is told by code
POLL_S: Final = 5.0  # also for closes that wait for an executor, which no clock announces


async def expire_due(tx: Tx) -> int:
    """Do what is due in all instances: late deliveries, unheard reports, expired Mandates, closes.

    Returns how many rows changed; closes one Ticket per call at most, so call it again, in another
    transaction, until it returns 0.
    """
    changed = sum(
        [await subscriptions.retry(tx, late) for late in await subscriptions.late(tx, _AT_ONCE)]
    )
    for due in await mandates.expired(tx, 1):
        if await _expire(tx, due.instance_id, due.ticket_id):
            return changed + 1
    for unheard in await ticket_records.unheard_reports(tx, ROUTER_SILENT_S, _AT_ONCE):
        await _tell(tx, unheard.instance_id, unheard.report_id)
        changed += 1
    for finished in await ticket_records.reported_ready(tx, _AT_ONCE):
        announcements = Announcements(finished.instance_id)
        if await closing.close_if_finished(
            tx, finished.instance_id, finished.ticket_id, announcements
        ):
            await announcements.store(tx)
            return changed + 1
    return changed


async def _tell(tx: Tx, instance_id: InstanceId, report_id: ReportId) -> None:
    """Post a report by template: the Router's model does not answer, and people wait."""
    report = await tickets.report_view(tx, instance_id, report_id)
    if report is None:
        return
    lines = [f"{report.ticket_title}: {report.text}"]
    if report.question is not None and report.question.options:
        lines.append("Options: " + ", ".join(report.question.options))
    if report.accept:
        lines.append(f"To accept: {report.accept}")
    await outbox.enqueue(
        tx,
        instance_id,
        report.thread_ids[0],
        kind="reply" if report.question is None else "question",
        text=shorten("\n".join(lines)),
        command_ids=report.command_ids,
        ticket_id=report.ticket_id,
        report_id=report_id,
        question_id=None if report.question is None else report.question.question_id,
        idempotency_key=template_key(report_id),
    )


async def next_due_s(tx: Tx) -> float | None:
    """Return the seconds until something is due by time (0: now); None when nothing is planned."""
    times = [await mandates.next_expiry(tx), await subscriptions.next_try_at(tx)]
    planned = [at for at in times if at is not None]
    if not planned:
        return None
    cursor = await tx.execute("select farhand_now() as now")
    row = await cursor.fetchone()
    now: datetime = min(planned) if row is None else row["now"]
    return max(0.0, (min(planned) - now).total_seconds())


async def _expire(tx: Tx, instance_id: InstanceId, ticket_id: TicketId) -> bool:
    ticket = await ticket_records.lock(tx, instance_id, ticket_id, to_close=True)
    if ticket is None or ticket.outcome is not None or not ticket.expired:
        return False
    announcements = Announcements(instance_id)
    await closing.close(
        tx,
        instance_id,
        ticket,
        TicketOutcome.EXPIRED,
        announcements,
        reason="its mandate has expired",
    )
    await announcements.store(tx)
    return True


class DueLoop:
    """Does what is due, in every replica: whoever comes second finds it done."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def run(self) -> None:
        """Work until cancelled; sleeps until the next planned time, a few seconds at most."""
        wait_s = 0.0
        while True:
            await asyncio.sleep(wait_s)
            try:
                wait_s = await self._work()
            except (psycopg.Error, FarhandError) as error:
                _log.warning("what is due was not done: %s", error)
                wait_s = POLL_S

    async def _work(self) -> float:
        """Do all that is due now and return the seconds until the next look."""
        while True:
            async with self._database.transaction() as tx:
                changed = await expire_due(tx)
            if not changed:
                break
        async with self._database.transaction() as tx:
            due_s = await next_due_s(tx)
        return POLL_S if due_s is None else min(max(due_s, 0.0), POLL_S)
