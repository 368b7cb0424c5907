"""Wanting commands ended: a person's stop, a newer command of the same key.

What is queued ends at once; of the rest the wish is noted, and their machines' holders are woken.
"""

from collections.abc import Sequence

from farhand_control_plane.db.command_end import EndedCommand, announce, lock_sessions
from farhand_control_plane.db.listen import COMMANDS
from farhand_control_plane.db.transaction import Tx
from farhand_shared.command import AttemptState
from farhand_shared.ids import AttemptId, CommandId, InstanceId, MachineId, TicketId


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
    One that is lost or indeterminate keeps its state and is not counted, but its machine, which
    may still hold the process, is asked to end it.
    """
    cursor = await tx.execute(
        """
        select distinct session_id from commands
         where instance_id = %s and (command_id = %s::uuid or ticket_id = %s::uuid)
           and session_id is not null
        """,
        (instance_id, command_id, ticket_id),
    )
    sessions = [row["session_id"] for row in await cursor.fetchall()]
    await lock_sessions(tx, instance_id, sessions)
    cursor = await tx.execute(
        """
        select a.attempt_id
          from attempts a
          join commands c on c.instance_id = a.instance_id and c.command_id = a.command_id
         where a.instance_id = %s
           and (c.command_id = %s::uuid or c.ticket_id = %s::uuid)
           and a.state in ('queued', 'offered', 'awaiting_owner', 'journalled', 'started',
                           'stopping')
         order by a.attempt_id
           for update of a
        """,
        (instance_id, command_id, ticket_id),
    )
    attempt_ids = [row["attempt_id"] for row in await cursor.fetchall()]
    if attempt_ids:
        ended = await _stop(
            tx, instance_id, attempt_ids, reason=reason, queued_becomes="cancelled_before_start"
        )
        await announce(tx, ended)
    await _ask_to_end_leftovers(tx, instance_id, command_id, ticket_id, reason)
    return len(attempt_ids)


async def _ask_to_end_leftovers(
    tx: Tx,
    instance_id: InstanceId,
    command_id: CommandId | None,
    ticket_id: TicketId | None,
    reason: str,
) -> None:
    """Note the wish at provisional attempts and wake the holders of their machines' links."""
    await tx.execute(
        """
        with asked as (
          update attempts a
             set stop_reason = coalesce(a.stop_reason, %(reason)s)
           where a.instance_id = %(instance_id)s and a.attempt_id in (
                 select o.attempt_id
                   from commands c
                   join attempts o on o.instance_id = c.instance_id
                                  and o.command_id = c.command_id
                  where c.instance_id = %(instance_id)s
                    and (c.command_id = %(command_id)s::uuid or c.ticket_id = %(ticket_id)s::uuid)
                    and o.state in ('lost', 'indeterminate')
                    and o.reason is distinct from 'revoked'
                  order by o.attempt_id
                    for update of o)
          returning a.machine_id, a.attempt_id
        )
        select pg_notify(%(channel)s, machine_id::text || ' ' || attempt_id::text) from asked
        """,
        {
            "reason": reason,
            "instance_id": instance_id,
            "command_id": command_id,
            "ticket_id": ticket_id,
            "channel": COMMANDS,
        },
    )


async def supersede(
    tx: Tx, instance_id: InstanceId, machine_id: MachineId, key: str, *, by: CommandId
) -> list[EndedCommand]:
    """End the older commands of a machine and key, and return those that have ended by that.

    The lock, held until commit, makes newcomers queue up.

    Queued ones are superseded at once. One that was offered is asked to stop, and the claim of the
    new one waits until it has ended.
    """
    await tx.execute(
        "select pg_advisory_xact_lock(hashtextextended(%s, 0))",
        (f"supersede {machine_id} {key}",),
    )
    cursor = await tx.execute(
        """
        select a.attempt_id
          from attempts a
          join commands c on c.instance_id = a.instance_id and c.command_id = a.command_id
         where a.instance_id = %s and a.machine_id = %s and c.supersede_key = %s
           and c.command_id <> %s
           and a.state in ('queued', 'offered', 'awaiting_owner', 'journalled', 'started',
                           'stopping')
         order by a.attempt_id
           for update of a
        """,
        (instance_id, machine_id, key, by),
    )
    attempt_ids = [row["attempt_id"] for row in await cursor.fetchall()]
    if not attempt_ids:
        return []
    return await _stop(
        tx, instance_id, attempt_ids, reason="superseded", queued_becomes="superseded"
    )


async def _stop(
    tx: Tx,
    instance_id: InstanceId,
    attempt_ids: Sequence[AttemptId],
    *,
    reason: str,
    queued_becomes: str,
) -> list[EndedCommand]:
    """Move locked open attempts on and wake their machines' holders; return those that ended."""
    cursor = await tx.execute(
        """
        with moved as (
          update attempts a
             set state = case when a.state = 'queued' then %(queued_becomes)s else 'stopping' end,
                 stop_reason = coalesce(a.stop_reason, %(reason)s),
                 reason = case when a.state = 'queued' then %(reason)s end,
                 ended_at = case when a.state = 'queued' then farhand_now() end
           where a.instance_id = %(instance_id)s and a.attempt_id = any(%(attempt_ids)s::uuid[])
             and a.state in ('queued', 'offered', 'awaiting_owner', 'journalled', 'started',
                             'stopping')
          returning a.*
        )
        select a.attempt_id, a.command_id, a.state, c.session_id, c.ticket_id, c.title,
               m.name as machine_name,
               case when a.state = 'stopping' then pg_notify(%(channel)s, a.machine_id::text) end
          from moved a
          join commands c on c.instance_id = a.instance_id and c.command_id = a.command_id
          join machines m on m.instance_id = a.instance_id and m.machine_id = a.machine_id
        """,
        {
            "queued_becomes": queued_becomes,
            "reason": reason,
            "instance_id": instance_id,
            "attempt_ids": list(attempt_ids),
            "channel": COMMANDS,
        },
    )
    return [
        EndedCommand(
            instance_id=instance_id,
            command_id=row["command_id"],
            attempt_id=row["attempt_id"],
            session_id=row["session_id"],
            ticket_id=row["ticket_id"],
            machine_name=row["machine_name"],
            title=row["title"],
            state=AttemptState(row["state"]),
            result=None,
        )
        for row in await cursor.fetchall()
        if row["state"] != AttemptState.STOPPING
    ]
