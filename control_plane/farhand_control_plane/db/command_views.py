"""Commands as pages, agents and followers read them: each with its latest attempt."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, LiteralString

from farhand_control_plane.db.machines import ONLINE
from farhand_control_plane.db.transaction import Tx
from farhand_shared.codec_file import HEAD_BYTES, operation_in
from farhand_shared.command import AttemptState, CommandResult
from farhand_shared.exec_frames import result_from_json
from farhand_shared.ids import (
    AttemptId,
    CommandId,
    InstanceId,
    MachineId,
    MemberId,
    SessionId,
    TicketId,
)

# Why queued work does not start by itself within moments.
Because = Literal["offline", "paused"]


def waits_because(*, online: bool, paused: bool) -> Because | None:
    """Say what queued work waits for; a paused machine needs a person, so that counts first."""
    if paused:
        return "paused"
    return None if online else "offline"


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
    operation: str | None  # what it does with files; None: it runs a program
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
    machine_paused: bool
    machine_seen_at: datetime | None
    stdout_stored: int
    stderr_stored: int

    @property
    def waits_because(self) -> Because | None:
        """Why it waits for its machine; None when it does not."""
        if self.state is not AttemptState.QUEUED:
            return None
        return waits_because(online=self.machine_online, paused=self.machine_paused)


async def get(tx: Tx, instance_id: InstanceId, command_id: CommandId) -> CommandView | None:
    """Return one command, None when this instance has none of that id."""
    cursor = await tx.execute(
        _SELECT + " where c.instance_id = %s and c.command_id = %s", (instance_id, command_id)
    )
    row = await cursor.fetchone()
    return None if row is None else _view(row)


async def of_attempt(tx: Tx, instance_id: InstanceId, attempt_id: AttemptId) -> CommandView | None:
    """Return the command that an attempt tries."""
    cursor = await tx.execute(
        _SELECT + " where a.instance_id = %s and a.attempt_id = %s", (instance_id, attempt_id)
    )
    row = await cursor.fetchone()
    return None if row is None else _view(row)


async def of_ticket(tx: Tx, instance_id: InstanceId, ticket_id: TicketId) -> list[CommandView]:
    """Return a ticket's commands, oldest first."""
    cursor = await tx.execute(
        _SELECT
        + " where c.instance_id = %s and c.ticket_id = %s order by c.created_at, c.command_id",
        (instance_id, ticket_id),
    )
    return [_view(row) for row in await cursor.fetchall()]


async def recent(
    tx: Tx,
    instance_id: InstanceId,
    *,
    machine_id: MachineId | None = None,
    open_only: bool = False,
    before: CommandId | None = None,
    limit: int = 50,
) -> list[CommandView]:
    """Return the newest commands, newest first: all, a machine's, those that have not ended.

    ``before`` is where the page above ended.
    """
    # By id: a UUIDv7 sorts by time, and the primary key serves it. The open ones have their index.
    cursor = await tx.execute(
        _SELECT
        + """
         where c.instance_id = %(instance)s
           and (%(machine)s::uuid is null or a.machine_id = %(machine)s::uuid)
           and (not %(open)s or a.state in ('queued', 'offered', 'awaiting_owner', 'journalled',
                                            'started', 'stopping'))
           and (%(before)s::uuid is null or c.command_id < %(before)s::uuid)
         order by c.command_id desc
         limit %(limit)s
        """,
        {
            "instance": instance_id,
            "machine": machine_id,
            "open": open_only,
            "before": before,
            "limit": limit,
        },
    )
    return [_view(row) for row in await cursor.fetchall()]


_SELECT: Final[LiteralString] = f"""
    select c.command_id, a.attempt_id, c.machine_id, m.name as machine_name,
           c.requester_member_id, c.ticket_id, c.session_id, c.title,
           substring(c.spec for {HEAD_BYTES}) as spec_head, a.state, a.stop_reason,
           a.reason, a.error, a.result, a.queued_at, a.started_at, a.ended_at, c.start_expires_at,
           {ONLINE} as machine_online, m.status = 'paused' as machine_paused,
           m.seen_at as machine_seen_at, a.stdout_stored, a.stderr_stored
      from commands c
      join attempts a on a.instance_id = c.instance_id and a.command_id = c.command_id
      join machines m on m.instance_id = c.instance_id and m.machine_id = c.machine_id
      left join machine_connections l
             on l.instance_id = c.instance_id and l.machine_id = c.machine_id
"""  # noqa: S608 - constants of ours only


def _view(row: dict[str, Any]) -> CommandView:
    result, spec_head = row["result"], row.pop("spec_head")
    return CommandView(
        **{
            **row,
            "operation": operation_in(spec_head),
            "state": AttemptState(row["state"]),
            "result": None if result is None else result_from_json(result),
        }
    )
