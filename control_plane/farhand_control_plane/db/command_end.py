"""Telling whoever waits that a command ended: its session, its ticket's watchers, followers."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from farhand_control_plane.db import events, sessions
from farhand_control_plane.db.listen import ATTEMPTS
from farhand_control_plane.db.transaction import Tx
from farhand_shared.command import AttemptState, CommandResult, shell_exit_status
from farhand_shared.ids import AttemptId, CommandId, InstanceId, SessionId, TicketId


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedCommand:
    """A command whose attempt has just become terminal, in the open transaction."""

    instance_id: InstanceId
    command_id: CommandId
    attempt_id: AttemptId
    session_id: SessionId | None
    ticket_id: TicketId | None
    machine_name: str
    title: str
    state: AttemptState
    result: CommandResult | None  # None: no result of the machine's own
    late: bool = False  # the real result of an attempt that was given up before


async def lock_sessions(
    tx: Tx, instance_id: InstanceId, session_ids: Collection[SessionId]
) -> None:
    """Lock the sessions that will be told, before their attempts are touched.

    A session's own step holds its row and then touches attempts; the other order could deadlock.
    """
    if session_ids:
        await tx.execute(
            """
            select session_id from sessions
             where instance_id = %s and session_id = any(%s::uuid[])
             order by session_id
               for no key update
            """,
            (instance_id, list(session_ids)),
        )


async def announce(tx: Tx, ended: Sequence[EndedCommand]) -> None:
    """Store inbox rows, then events (they take the instance's lock), and wake followers at commit.

    A session hears of each command once under ``command:ID:done``; a late result comes as a second
    message under ``command:ID:late``.
    """
    for end in ended:
        if end.session_id is not None:
            await sessions.append(
                tx,
                end.instance_id,
                end.session_id,
                kind="command_done",
                dedupe_key=f"command:{end.command_id}:{'late' if end.late else 'done'}",
                payload={
                    "command_id": end.command_id,
                    "attempt_id": end.attempt_id,
                    "state": end.state.value,
                },
            )
    if ended:
        await tx.execute(
            "select pg_notify(%s, id) from unnest(%s::text[]) as ended(id)",
            (ATTEMPTS, [end.attempt_id for end in ended]),
        )
    for end in ended:
        if end.ticket_id is not None:
            await events.emit(
                tx,
                end.instance_id,
                "command_ended",
                subject_id=end.command_id,
                ticket_id=end.ticket_id,
                payload={
                    "command_id": end.command_id,
                    "machine": end.machine_name,
                    "title": end.title,
                    "state": end.state.value,
                    "exit_status": None if end.result is None else shell_exit_status(end.result),
                },
            )
