"""Asking something of a machine: a command is stored as queued.

A command is a row; the replica that holds its machine's link claims it, woken by a notification.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from farhand_control_plane.db import events
from farhand_control_plane.db.command_end import EndedCommand, announce
from farhand_control_plane.db.command_stops import supersede
from farhand_control_plane.db.command_views import waits_because
from farhand_control_plane.db.listen import COMMANDS
from farhand_control_plane.db.machines import ONLINE
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.capability import refuse_unknown
from farhand_control_plane.domain.words import MachineKind, MachineStatus
from farhand_shared.codec import encode_spec, input_digest
from farhand_shared.command import CommandSpec
from farhand_shared.errors import Conflict, InvalidInput, NotAllowed, NotFound
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
        ended = await supersede(
            tx,
            command.instance_id,
            command.machine_id,
            command.supersede_key,
            by=enqueued.command_id,
        )
    await tx.execute("select pg_notify(%s, %s)", (COMMANDS, command.machine_id))
    await announce(tx, ended)
    because: str | None = waits_because(
        online=machine["online"], paused=machine["status"] == MachineStatus.PAUSED
    )
    if _is_coming(machine):
        because = "being made"
    if command.ticket_id is not None and because is not None:
        seen_at: datetime | None = machine["seen_at"]
        until = await _start_expires_at(tx, command.instance_id, enqueued.command_id)
        await events.emit(
            tx,
            command.instance_id,
            "command_waiting",
            subject_id=enqueued.command_id,
            ticket_id=command.ticket_id,
            payload={
                "command_id": enqueued.command_id,
                "machine": machine["name"],
                "because": because,
                "since": None if seen_at is None else seen_at.isoformat(),
                "until": until.isoformat(),
            },
        )
    return enqueued


async def _start_expires_at(tx: Tx, instance_id: InstanceId, command_id: CommandId) -> datetime:
    cursor = await tx.execute(
        "select start_expires_at from commands where instance_id = %s and command_id = %s",
        (instance_id, command_id),
    )
    (row,) = await cursor.fetchall()
    moment: datetime = row["start_expires_at"]
    return moment


def title_of(text: str) -> str:
    """Return a command's text cut and cleaned for the title column."""
    text = text.replace("\0", "\N{SYMBOL FOR NULL}").encode("utf-8", "replace").decode()
    return text if len(text) <= TITLE_MAX else text[: TITLE_MAX - 1] + "…"


async def _usable_machine(tx: Tx, command: NewCommand) -> dict[str, Any]:
    cursor = await tx.execute(
        f"""
        select m.name, m.kind, m.status, m.owner_member_id, m.seen_at, m.capability,
               m.daemon_version, {ONLINE} as online
          from machines m
          left join machine_connections l
                 on l.instance_id = m.instance_id and l.machine_id = m.machine_id
         where m.instance_id = %s and m.machine_id = %s
           for key share of m
        """,  # noqa: S608 - constants of ours only
        (command.instance_id, command.machine_id),
    )
    machine = await cursor.fetchone()
    if machine is None or machine["status"] == MachineStatus.REVOKED:
        raise NotFound("cannot queue the command: there is no such machine; list the machines")
    refuse_unusable(
        machine["name"],
        MachineKind(machine["kind"]),
        MachineStatus(machine["status"]),
        machine["owner_member_id"],
        command.requester_member_id,
    )
    if machine["capability"]:  # else it is not there yet, and will come with a daemon of today
        refuse_unknown(
            command.spec,
            name=machine["name"],
            capability=machine["capability"],
            daemon_version=machine["daemon_version"],
        )
    return machine


def _is_coming(machine: dict[str, Any]) -> bool:  # a row
    """Tell whether it is an environment that a provisioner is about to make."""
    return bool(
        machine["kind"] == MachineKind.ON_DEMAND and machine["status"] == MachineStatus.PENDING
    )


def refuse_unusable(
    name: str,
    kind: MachineKind,
    status: MachineStatus,
    owner_member_id: MemberId,
    member_id: MemberId,
) -> None:
    """Raise NotAllowed unless the machine is the member's, Conflict when it takes no work.

    An environment that is being made takes work: it waits for it.
    """
    if owner_member_id != member_id:
        raise NotAllowed(
            f"cannot run on {name}: it is another member's machine; ask them, or use your own"
        )
    if status is MachineStatus.PENDING and kind is not MachineKind.ON_DEMAND:
        raise Conflict(
            f"cannot run on {name}: nobody has compared its six words yet; "
            f"farhand machines confirm {name}"
        )
    if status is MachineStatus.QUARANTINED:
        raise Conflict(
            f"cannot run on {name}: it is quarantined, two machines showed its certificate; "
            "farhandd enroll --rejoin there brings it back"
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
