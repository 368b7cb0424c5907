"""Commands as everybody but the link's holder uses them: asking, stopping, reading.

A command is a row; the replica that holds its machine's link claims it, woken by a notification.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString

from farhand_control_plane.db import events
from farhand_control_plane.db.command_end import EndedCommand, announce, lock_sessions
from farhand_control_plane.db.listen import COMMANDS
from farhand_control_plane.db.machines import ONLINE
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import MachineStatus
from farhand_shared.codec import encode_spec, input_digest
from farhand_shared.command import AttemptState, CommandResult, CommandSpec
from farhand_shared.errors import Conflict, InvalidInput, NotAllowed, NotFound
from farhand_shared.exec_frames import result_from_json
from farhand_shared.ids import (
    AttemptId,
    CommandId,
    InstanceId,
    MachineId,
    MemberId,
    SessionId,
    TicketId,
    new_id,
)
from farhand_shared.limits import START_WITHIN_DEFAULT_MS, START_WITHIN_MAX_MS

TITLE_MAX: Final = 300  # characters


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
    machine_seen_at: datetime | None
    stdout_stored: int
    stderr_stored: int


async def enqueue(tx: Tx, command: NewCommand) -> Enqueued:
    """Store a command as queued and wake the holder of its machine's link.

    Idempotent by (session_id, item_seq, call_index). A ``supersede_key`` supersedes older queued
    commands of the same machine and key, and asks running ones to stop. Raises NotFound for an
    unknown machine, Conflict for one that is not usable, NotAllowed when the requester is not its
    owner, InvalidInput and TooLarge for a bad specification.
    """
    if not 0 < command.start_within_ms <= START_WITHIN_MAX_MS:
        raise InvalidInput(
            f"cannot queue the command: start_within_ms is {command.start_within_ms:,}, "
            f"the limit is {START_WITHIN_MAX_MS:,}; give less"
        )
    spec = encode_spec(command.spec)
    machine = await _usable_machine(tx, command)
    enqueued = await _insert(tx, command, spec)
    if not enqueued.created:
        return enqueued
    ended: list[EndedCommand] = []
    if command.supersede_key is not None:
        ended = await _supersede(tx, command, enqueued.command_id)
    await tx.execute("select pg_notify(%s, %s)", (COMMANDS, command.machine_id))
    await announce(tx, ended)
    if command.ticket_id is not None and not machine["online"]:
        seen_at: datetime | None = machine["seen_at"]
        await events.emit(
            tx,
            command.instance_id,
            "command_waiting",
            subject_id=enqueued.command_id,
            ticket_id=command.ticket_id,
            payload={
                "command_id": enqueued.command_id,
                "machine": machine["name"],
                "since": None if seen_at is None else seen_at.isoformat(),
                "until": machine["until"].isoformat(),
            },
        )
    return enqueued


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


def title_of(text: str) -> str:
    """Return a command's text cut and cleaned for the title column."""
    text = text.replace("\0", "\N{SYMBOL FOR NULL}").encode("utf-8", "replace").decode()
    return text if len(text) <= TITLE_MAX else text[: TITLE_MAX - 1] + "…"


async def _usable_machine(tx: Tx, command: NewCommand) -> dict[str, Any]:
    cursor = await tx.execute(
        f"""
        select m.name, m.status, m.owner_member_id, m.seen_at, {ONLINE} as online,
               farhand_now() + make_interval(secs => %s) as until
          from machines m
          left join machine_connections l
                 on l.instance_id = m.instance_id and l.machine_id = m.machine_id
         where m.instance_id = %s and m.machine_id = %s
           for key share of m
        """,  # noqa: S608 - constants of ours only
        (command.start_within_ms / 1000, command.instance_id, command.machine_id),
    )
    machine = await cursor.fetchone()
    if machine is None or machine["status"] == MachineStatus.REVOKED:
        raise NotFound("cannot queue the command: there is no such machine; list the machines")
    refuse_unusable(
        machine["name"],
        MachineStatus(machine["status"]),
        machine["owner_member_id"],
        command.requester_member_id,
    )
    return machine


def refuse_unusable(
    name: str, status: MachineStatus, owner_member_id: MemberId, member_id: MemberId
) -> None:
    """Raise NotAllowed unless the machine is the member's, Conflict when it takes no work."""
    if owner_member_id != member_id:
        raise NotAllowed(
            f"cannot run on {name}: it is another member's machine; ask them, or use your own"
        )
    if status is MachineStatus.PENDING:
        raise Conflict(
            f"cannot run on {name}: nobody has compared its six words yet; "
            f"farhand machines confirm {name}"
        )
    if status is MachineStatus.QUARANTINED:
        raise Conflict(
            f"cannot run on {name}: it is quarantined, two machines showed its certificate; "
            "enrol it again"
        )


async def _insert(tx: Tx, command: NewCommand, spec: bytes) -> Enqueued:
    command_id, attempt_id = CommandId(new_id()), AttemptId(new_id())
    cursor = await tx.execute(
        """
        with command as (
          insert into commands (instance_id, command_id, machine_id, requester_member_id, ticket_id,
                                session_id, item_seq, call_index, title, spec, input_digest, tier,
                                inferred, mandate_hash, supersede_key, start_expires_at,
                                traceparent, created_at)
          values (%(instance_id)s, %(command_id)s, %(machine_id)s, %(requester)s, %(ticket_id)s,
                  %(session_id)s, %(item_seq)s, %(call_index)s, %(title)s, %(spec)s, %(digest)s,
                  %(tier)s, %(inferred)s, %(mandate_hash)s, %(supersede_key)s,
                  farhand_now() + make_interval(secs => %(start_within_s)s), %(traceparent)s,
                  farhand_now())
          on conflict on constraint uq_commands_effect do nothing
          returning instance_id, command_id, machine_id
        )
        insert into attempts (instance_id, attempt_id, command_id, machine_id, state, queued_at)
        select instance_id, %(attempt_id)s, command_id, machine_id, 'queued', farhand_now()
          from command
        """,
        {
            "instance_id": command.instance_id,
            "command_id": command_id,
            "attempt_id": attempt_id,
            "machine_id": command.machine_id,
            "requester": command.requester_member_id,
            "ticket_id": command.ticket_id,
            "session_id": command.session_id,
            "item_seq": command.item_seq,
            "call_index": command.call_index,
            "title": title_of(command.title),
            "spec": spec,
            "digest": input_digest(spec),
            "tier": command.tier,
            "inferred": command.inferred,
            "mandate_hash": command.mandate_hash,
            "supersede_key": command.supersede_key,
            "start_within_s": command.start_within_ms / 1000,
            "traceparent": command.traceparent,
        },
    )
    if cursor.rowcount == 1:
        return Enqueued(command_id=command_id, attempt_id=attempt_id, created=True)
    cursor = await tx.execute(
        """
        select c.command_id, a.attempt_id
          from commands c
          join attempts a on a.instance_id = c.instance_id and a.command_id = c.command_id
         where c.instance_id = %s and c.session_id = %s and c.item_seq = %s and c.call_index = %s
         order by a.queued_at desc
         limit 1
        """,
        (command.instance_id, command.session_id, command.item_seq, command.call_index),
    )
    row = await cursor.fetchone()
    if row is None:
        raise Conflict("cannot queue the command: its effect key is being used; try again")
    return Enqueued(command_id=row["command_id"], attempt_id=row["attempt_id"], created=False)


async def _supersede(tx: Tx, command: NewCommand, command_id: CommandId) -> list[EndedCommand]:
    """End the older commands of this machine and key; the lock makes newcomers queue up.

    Queued ones are superseded at once. One that was offered is asked to stop, and the claim of the
    new one waits until it has ended.
    """
    await tx.execute(
        "select pg_advisory_xact_lock(hashtextextended(%s, 0))",
        (f"supersede {command.machine_id} {command.supersede_key}",),
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
        (command.instance_id, command.machine_id, command.supersede_key, command_id),
    )
    attempt_ids = [row["attempt_id"] for row in await cursor.fetchall()]
    if not attempt_ids:
        return []
    return await _stop(
        tx, command.instance_id, attempt_ids, reason="superseded", queued_becomes="superseded"
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


_SELECT: Final[LiteralString] = f"""
    select c.command_id, a.attempt_id, c.machine_id, m.name as machine_name,
           c.requester_member_id, c.ticket_id, c.session_id, c.title, a.state, a.stop_reason,
           a.reason, a.error, a.result, a.queued_at, a.started_at, a.ended_at, c.start_expires_at,
           {ONLINE} as machine_online, m.seen_at as machine_seen_at, a.stdout_stored,
           a.stderr_stored
      from commands c
      join attempts a on a.instance_id = c.instance_id and a.command_id = c.command_id
      join machines m on m.instance_id = c.instance_id and m.machine_id = c.machine_id
      left join machine_connections l
             on l.instance_id = c.instance_id and l.machine_id = c.machine_id
"""  # noqa: S608 - constants of ours only


def _view(row: dict[str, Any]) -> CommandView:
    result = row["result"]
    return CommandView(
        **{
            **row,
            "state": AttemptState(row["state"]),
            "result": None if result is None else result_from_json(result),
        }
    )
