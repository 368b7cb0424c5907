"""Machines: who owns them, how they stand, whether they are there."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, LiteralString

from farhand_control_plane.db import events
from farhand_control_plane.db.command_end import EndedCommand, announce
from farhand_control_plane.db.listen import ENVIRONMENTS, MACHINES
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import EventKind, MachineKind, MachineStatus, MemberRole
from farhand_shared.command import AttemptState
from farhand_shared.errors import NotAllowed, NotFound
from farhand_shared.ids import InstanceId, MachineId, MemberId, TicketId

# Over machines m left join machine_connections l: there is a live link and something was heard on
# it within OFFLINE_AFTER_S.
ONLINE: Final[LiteralString] = """coalesce(
    l.replica_id is not null and l.lease_until > farhand_now()
    and m.seen_at > farhand_now() - interval '45 seconds', false)"""
_REVOKED: Final = "the machine was revoked"


class Presence(StrEnum):
    ONLINE = "online"
    OFFLINE = "offline"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineView:
    machine_id: MachineId
    name: str
    kind: MachineKind
    for_ticket_id: TicketId | None  # of an environment that was made for one
    owner_member_id: MemberId
    status: MachineStatus
    presence: Presence
    trust_level: str
    chosen_by: str
    allow_inferred: bool
    concurrency: int
    facts: Mapping[str, Any]  # hostname, os, arch, …; as in machine_facts
    labels: Mapping[str, str]  # people's and those of its own file, which win
    words: tuple[str, ...]  # six, to compare while pending
    daemon_version: str
    capability: int
    created_at: datetime
    seen_at: datetime | None  # None: never connected
    running: int  # open commands that were offered
    queued: int
    queued_since: datetime | None  # of the oldest queued one; None: nothing is queued
    queued_until: datetime | None  # when the first of them expires

    @property
    def is_coming(self) -> bool:
        """An environment that is being made: nothing for people to see or confirm yet."""
        return self.kind is MachineKind.ON_DEMAND and self.status is MachineStatus.PENDING


async def list_all(
    tx: Tx, instance_id: InstanceId, *, with_revoked: bool = False
) -> list[MachineView]:
    """Return the instance's machines by name."""
    cursor = await tx.execute(
        _SELECT
        + """
         where m.instance_id = %s and (%s or m.status <> 'revoked')
         order by m.name, m.created_at
        """,
        (instance_id, with_revoked),
    )
    return [_view(row) for row in await cursor.fetchall()]


async def get(tx: Tx, instance_id: InstanceId, machine_id: MachineId) -> MachineView | None:
    """Return one machine, revoked ones too; None when this instance has none of that id."""
    cursor = await tx.execute(
        _SELECT + " where m.instance_id = %s and m.machine_id = %s", (instance_id, machine_id)
    )
    row = await cursor.fetchone()
    return None if row is None else _view(row)


async def find(tx: Tx, instance_id: InstanceId, name_or_id: str) -> MachineView | None:
    """Return the machine of this id or (unrevoked) name; a name that no text can be is nobody's.

    Upper and lower case count only where several machines differ in nothing else.
    """
    try:
        if b"\0" in name_or_id.encode():
            return None
    except UnicodeEncodeError:  # bytes of a command line that are not UTF-8
        return None
    cursor = await tx.execute(
        _SELECT
        + """
         where m.instance_id = %s
           and (m.machine_id::text = %s
                or (lower(m.name) = lower(%s) and m.status <> 'revoked'))
         order by m.machine_id::text = %s desc, m.name = %s desc
         limit 2
        """,
        (instance_id, name_or_id, name_or_id, name_or_id, name_or_id),
    )
    rows = await cursor.fetchall()
    if not rows:
        return None
    best = _view(rows[0])
    certain = name_or_id in (best.machine_id, best.name) or len(rows) == 1
    return best if certain else None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptMachine:
    """A machine that a member may change, locked until commit."""

    name: str
    status: MachineStatus
    labels: Mapping[str, str]  # those that people gave it


async def lock_kept(
    tx: Tx, instance_id: InstanceId, machine_id: MachineId, member_id: MemberId, verb: str
) -> KeptMachine:
    """Lock a machine for a change: its owner may, and owners of the instance.

    Raises NotFound, NotAllowed.
    """
    cursor = await tx.execute(
        """
        select m.name, m.status, m.labels, m.owner_member_id, p.role
          from machines m
          left join members p on p.instance_id = m.instance_id and p.member_id = %s
         where m.instance_id = %s and m.machine_id = %s
           for no key update of m
        """,
        (member_id, instance_id, machine_id),
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound(f"cannot {verb} the machine: there is none of that id; list the machines")
    if row["owner_member_id"] != member_id and row["role"] != MemberRole.OWNER:
        raise NotAllowed(f"cannot {verb} {row['name']}: it is another member's; ask its owner")
    return KeptMachine(name=row["name"], status=MachineStatus(row["status"]), labels=row["labels"])


async def revoke(
    tx: Tx, instance_id: InstanceId, machine_id: MachineId, *, member_id: MemberId
) -> bool:
    """End a machine: its link closes within 2 s, its work is final ``lost(revoked)``.

    What was only queued is cancelled_before_start. Its owner may, and owners of the instance.
    Emits events, so call it last. Returns False when it was revoked before. Raises NotFound,
    NotAllowed.
    """
    machine = await lock_kept(tx, instance_id, machine_id, member_id, "revoke")
    if machine.status is MachineStatus.REVOKED:
        return False
    await end(tx, instance_id, machine_id, machine.name)
    return True


async def end(
    tx: Tx,
    instance_id: InstanceId,
    machine_id: MachineId,
    name: str,
    *,
    error: str = _REVOKED,
) -> None:
    """Revoke a machine whose row is locked; its commands end with this error. Call it last."""
    await tx.execute(
        """
        update machines set status = 'revoked', revoked_at = farhand_now()
         where instance_id = %s and machine_id = %s
        """,
        (instance_id, machine_id),
    )
    await tx.execute(
        """
        update certificates set revoked_at = farhand_now()
         where instance_id = %s and machine_id = %s and revoked_at is null
        """,
        (instance_id, machine_id),
    )
    await tx.execute("select pg_notify(%s, %s)", (MACHINES, machine_id))
    await tx.execute("select pg_notify(%s, '')", (ENVIRONMENTS,))  # it may be one
    await end_commands(tx, instance_id, machine_id, name, error)
    await events.emit_of_machine(tx, instance_id, EventKind.MACHINE_REVOKED, machine_id, name)


async def end_commands(
    tx: Tx, instance_id: InstanceId, machine_id: MachineId, name: str, error: str = _REVOKED
) -> None:
    """End every open command of a revoked machine, for good."""
    cursor = await tx.execute(
        """
        update attempts a
           set state = case when a.state = 'queued' then 'cancelled_before_start' else 'lost' end,
               reason = 'revoked', stop_reason = 'revoked', ended_at = farhand_now(),
               error = %s
          from commands c
         where a.instance_id = %s and a.machine_id = %s
           and a.state in ('queued', 'offered', 'awaiting_owner', 'journalled', 'started',
                           'stopping')
           and c.instance_id = a.instance_id and c.command_id = a.command_id
        returning a.attempt_id, a.command_id, a.state, c.session_id, c.ticket_id, c.title
        """,
        (error, instance_id, machine_id),
    )
    ended = [
        EndedCommand(
            instance_id=instance_id,
            machine_name=name,
            result=None,
            **{**row, "state": AttemptState(row["state"])},
        )
        for row in await cursor.fetchall()
    ]
    await announce(tx, ended)


_SELECT: Final[LiteralString] = f"""
    select m.machine_id, m.name, m.kind, e.ticket_id as for_ticket_id, m.owner_member_id, m.status,
           {ONLINE} as online, m.trust_level, m.chosen_by, m.allow_inferred, m.concurrency,
           m.labels, m.facts, m.words, m.daemon_version, m.capability, m.created_at, m.seen_at,
           open.running, open.queued, open.queued_since, open.queued_until
      from machines m
      left join environments e
             on e.instance_id = m.instance_id and e.machine_id = m.machine_id
      left join machine_connections l
             on l.instance_id = m.instance_id and l.machine_id = m.machine_id
      left join lateral (
             select count(*) filter (where a.state <> 'queued') as running,
                    count(*) filter (where a.state = 'queued') as queued,
                    min(a.queued_at) filter (where a.state = 'queued') as queued_since,
                    min(c.start_expires_at) filter (where a.state = 'queued') as queued_until
               from attempts a
               join commands c on c.instance_id = a.instance_id and c.command_id = a.command_id
              where a.instance_id = m.instance_id and a.machine_id = m.machine_id
                and a.state in ('queued', 'offered', 'awaiting_owner', 'journalled', 'started',
                                'stopping')
           ) open on true
"""  # noqa: S608 - constants of ours only


def _view(row: dict[str, Any]) -> MachineView:
    facts = dict(row["facts"])
    labels = {**row["labels"], **facts.pop("labels", {})}
    return MachineView(
        machine_id=row["machine_id"],
        name=row["name"],
        kind=MachineKind(row["kind"]),
        for_ticket_id=row["for_ticket_id"],
        owner_member_id=row["owner_member_id"],
        status=MachineStatus(row["status"]),
        presence=Presence.ONLINE if row["online"] else Presence.OFFLINE,
        trust_level=row["trust_level"],
        chosen_by=row["chosen_by"],
        allow_inferred=row["allow_inferred"],
        concurrency=row["concurrency"],
        facts=facts,
        labels=labels,
        words=tuple(row["words"]),
        daemon_version=row["daemon_version"],
        capability=row["capability"],
        created_at=row["created_at"],
        seen_at=row["seen_at"],
        running=row["running"],
        queued=row["queued"],
        queued_since=row["queued_since"],
        queued_until=row["queued_until"],
    )
