"""Who holds a machine's link: epochs that only grow, leases that end by themselves.

The row of ``machine_connections`` is the fence. Taking it over locks it for update; every write
that speaks for the machine locks it for share and compares the epoch (``HELD``), so once a new
epoch has committed nothing of an older stream can.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString

from psycopg.types.json import Jsonb

from farhand_control_plane.db import events
from farhand_control_plane.db.listen import MACHINES
from farhand_control_plane.db.machine_facts import facts_json
from farhand_control_plane.db.machines import ONLINE
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import EventKind, MachineStatus
from farhand_shared.ids import InstanceId, MachineId, MemberId, ReplicaId
from farhand_shared.limits import CONCURRENCY_DEFAULT, CONNECTION_LEASE_S
from farhand_shared.link_events import Hello

# A CTE body that gives one row while the epoch is still the machine's newest.
HELD: Final[LiteralString] = """
    select epoch, farhand_now() as now from machine_connections
     where instance_id = %(instance_id)s and machine_id = %(machine_id)s and epoch = %(epoch)s
       for share"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The stream that held the machine's link when another one asked for it."""

    replica_id: ReplicaId
    epoch: int
    daemon_instance_id: str
    replica_lives: bool  # its database session still exists


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Whether a machine that has just said Hello may have its link here."""

    name: str
    owner_member_id: MemberId
    status: MachineStatus
    certificate_valid: bool  # known and not revoked
    was_online: bool  # as everybody else sees it until now
    holder: Holder | None  # a live older stream


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLink:
    instance_id: InstanceId
    machine_id: MachineId
    epoch: int


def replica_lock(replica_id: ReplicaId) -> int:
    """Return the advisory lock that a replica's session holds for as long as it lives."""
    return int.from_bytes(bytes.fromhex(replica_id.replace("-", ""))[-8:], "big", signed=True)


async def hold_replica_lock(connection: Tx, replica_id: ReplicaId) -> None:
    """Show on this connection that the replica lives; a killed one is known at once by its lack.

    Shared, so that a replica which reconnects does not wait for its own lost session.
    """
    await connection.execute("select pg_advisory_lock_shared(%s)", (replica_lock(replica_id),))


async def lock_for_admission(
    tx: Tx, instance_id: InstanceId, machine_id: MachineId, serial: str
) -> Admission | None:
    """Lock the machine's row until commit and return how it stands; None when it is unknown."""
    cursor = await tx.execute(
        f"""
        select m.name, m.owner_member_id, m.status, l.replica_id, l.epoch, l.daemon_instance_id,
               coalesce(l.lease_until > farhand_now(), false) as leased, {ONLINE} as online,
               exists (select from certificates c
                        where c.instance_id = m.instance_id and c.machine_id = m.machine_id
                          and c.serial = %s and c.revoked_at is null) as certificate_valid
          from machines m
          left join machine_connections l
                 on l.instance_id = m.instance_id and l.machine_id = m.machine_id
         where m.instance_id = %s and m.machine_id = %s
           for no key update of m
        """,  # noqa: S608 - a constant of ours only
        (serial, instance_id, machine_id),
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    holder = None
    if row["replica_id"] is not None and row["leased"]:
        holder = Holder(
            replica_id=row["replica_id"],
            epoch=row["epoch"],
            daemon_instance_id=row["daemon_instance_id"] or "",
            replica_lives=await _lives(tx, row["replica_id"]),
        )
    return Admission(
        name=row["name"],
        owner_member_id=row["owner_member_id"],
        status=MachineStatus(row["status"]),
        certificate_valid=row["certificate_valid"],
        was_online=row["online"],
        holder=holder,
    )


async def _lives(tx: Tx, replica_id: ReplicaId) -> bool:
    cursor = await tx.execute(
        "select pg_try_advisory_xact_lock(%s) as dead", (replica_lock(replica_id),)
    )
    row = await cursor.fetchone()
    return row is None or not row["dead"]


async def take(
    tx: Tx,
    instance_id: InstanceId,
    machine_id: MachineId,
    *,
    replica_id: ReplicaId,
    address: str,
    hello: Hello,
    was_online: bool,
) -> int:
    """Make this stream the machine's link and store what its Hello says; return the new epoch.

    One statement, because all machines may come back at once. Waits for writes of the older stream
    that are under way; later ones fail. Call it with the machine's row locked, and last: a machine
    that was offline is told to be online, one that says something else of itself than before to be
    described anew.
    """
    cursor = await tx.execute(
        """
        with before as (
          select trust_level, allow_inferred, concurrency, facts, daemon_version
            from machines where instance_id = %(instance_id)s and machine_id = %(machine_id)s
        ), machine as (
          update machines m
             set trust_level = %(trust_level)s, chosen_by = %(chosen_by)s,
                 allow_inferred = %(allow_inferred)s, concurrency = %(concurrency)s,
                 facts = case when %(all_facts)s then '{}' else m.facts end || %(facts)s,
                 capability = %(capability)s, daemon_version = %(daemon_version)s,
                 journal_id = %(journal_id)s, journal_counter = %(journal_counter)s,
                 seen_at = farhand_now()
            from before
           where m.instance_id = %(instance_id)s and m.machine_id = %(machine_id)s
          returning m.name, (m.trust_level, m.allow_inferred, m.concurrency, m.facts)
                    is distinct from (before.trust_level, before.allow_inferred,
                                      before.concurrency, before.facts) as described,
                    before.daemon_version as version_before,
                    coalesce(before.facts->>'update_problem', '') as problem_before
        ), taken as (
          insert into machine_connections as l
                 (instance_id, machine_id, replica_id, address, epoch, daemon_instance_id,
                  connected_at, lease_until)
          values (%(instance_id)s, %(machine_id)s, %(replica_id)s, %(address)s, 1,
                  %(daemon_instance_id)s, farhand_now(),
                  farhand_now() + make_interval(secs => %(lease_s)s))
          on conflict (instance_id, machine_id) do update
             set replica_id = excluded.replica_id, address = excluded.address,
                 epoch = l.epoch + 1, daemon_instance_id = excluded.daemon_instance_id,
                 connected_at = excluded.connected_at, lease_until = excluded.lease_until
          returning epoch
        )
        select machine.*, taken.epoch, pg_notify(%(channel)s, %(machine_id)s::text)
          from machine, taken
        """,
        {
            "instance_id": instance_id,
            "machine_id": machine_id,
            "trust_level": hello.trust_level,
            "chosen_by": hello.chosen_by,
            "allow_inferred": hello.allow_inferred,
            "concurrency": hello.concurrency or CONCURRENCY_DEFAULT,
            # Without a survey, what an earlier one told stays.
            "all_facts": hello.facts.survey is not None,
            "facts": Jsonb(facts_json(hello.facts)),
            "capability": hello.capability,
            "daemon_version": hello.daemon_version,
            "journal_id": hello.journal_id,
            "journal_counter": hello.journal_counter,
            "replica_id": replica_id,
            "address": address,
            "daemon_instance_id": hello.daemon_instance_id,
            "lease_s": CONNECTION_LEASE_S,
            "channel": MACHINES,
        },
    )
    (taken,) = await cursor.fetchall()
    await _tell_of_update(tx, instance_id, machine_id, taken, hello)
    if not was_online or taken["described"]:
        kind = EventKind.MACHINE_DESCRIBED if was_online else EventKind.MACHINE_ONLINE
        await events.emit_of_machine(tx, instance_id, kind, machine_id, taken["name"])
    return int(taken["epoch"])


async def _tell_of_update(
    tx: Tx, instance_id: InstanceId, machine_id: MachineId, machine: dict[str, Any], hello: Hello
) -> None:
    """Tell that the daemon is another version now, or that one failed on the machine."""
    name, before, version = machine["name"], machine["version_before"], hello.daemon_version
    if before and version != before:
        kind = EventKind.MACHINE_UPDATED
        await events.emit_of_machine(
            tx, instance_id, kind, machine_id, name, version=version, before=before
        )
    problem = hello.facts.update_problem
    if problem and problem != machine["problem_before"]:
        kind = EventKind.MACHINE_UPDATE_FAILED
        await events.emit_of_machine(tx, instance_id, kind, machine_id, name, reason=problem)


async def quarantine(tx: Tx, instance_id: InstanceId, machine_id: MachineId) -> None:
    """Stop trusting a machine whose certificate two living daemons show; both links close."""
    await tx.execute(
        """
        update machines set status = 'quarantined'
         where instance_id = %s and machine_id = %s and status in ('active', 'paused')
        """,
        (instance_id, machine_id),
    )
    await tx.execute("select pg_notify(%s, %s)", (MACHINES, machine_id))


async def renew(
    connection: Tx, replica_id: ReplicaId, links: Sequence[tuple[HeldLink, float]]
) -> None:
    """Renew leases in one batch; each link comes with the seconds since it was last heard.

    A lease that ``expire`` took stays taken: ``revive`` takes it back, and says so.

    Two statements of their own, never in one transaction: together they would take the two rows of
    a machine in the other order than ``take``.
    """
    arguments = {
        "replica_id": replica_id,
        "lease_s": CONNECTION_LEASE_S,
        "instances": [link.instance_id for link, _ in links],
        "machines": [link.machine_id for link, _ in links],
        "epochs": [link.epoch for link, _ in links],
        "ages": [age for _, age in links],
    }
    await connection.execute(
        """
        update machine_connections l
           set lease_until = farhand_now() + make_interval(secs => %(lease_s)s)
          from unnest(%(instances)s::uuid[], %(machines)s::uuid[], %(epochs)s::bigint[])
               as held(instance_id, machine_id, epoch)
         where l.instance_id = held.instance_id and l.machine_id = held.machine_id
           and l.epoch = held.epoch and l.replica_id = %(replica_id)s
           and l.lease_until is not null
        """,
        arguments,
    )
    await connection.execute(
        """
        update machines m
           set seen_at = greatest(m.seen_at, farhand_now() - make_interval(secs => held.age))
          from unnest(%(instances)s::uuid[], %(machines)s::uuid[], %(ages)s::float8[])
               as held(instance_id, machine_id, age)
         where m.instance_id = held.instance_id and m.machine_id = held.machine_id
        """,
        arguments,
    )


async def standing(
    connection: Tx, links: Sequence[HeldLink]
) -> list[tuple[MachineId, MachineStatus, str, int]]:
    """Return (machine, status, name, newest epoch) of these links' machines."""
    cursor = await connection.execute(
        """
        select m.machine_id, m.status, m.name, coalesce(l.epoch, 0) as epoch
          from unnest(%s::uuid[], %s::uuid[]) as held(instance_id, machine_id)
          join machines m on m.instance_id = held.instance_id and m.machine_id = held.machine_id
          left join machine_connections l
                 on l.instance_id = m.instance_id and l.machine_id = m.machine_id
        """,
        ([link.instance_id for link in links], [link.machine_id for link in links]),
    )
    return [
        (row["machine_id"], MachineStatus(row["status"]), row["name"], row["epoch"])
        for row in await cursor.fetchall()
    ]


async def seen_by_holder(
    connection: Tx, instance_id: InstanceId, machine_id: MachineId
) -> datetime | None:
    """Return when the machine was last heard on its link; None when no live link is held."""
    cursor = await connection.execute(
        """
        select m.seen_at
          from machines m
          join machine_connections l
            on l.instance_id = m.instance_id and l.machine_id = m.machine_id
         where m.instance_id = %s and m.machine_id = %s
           and l.replica_id is not null and l.lease_until > farhand_now()
        """,
        (instance_id, machine_id),
    )
    row = await cursor.fetchone()
    return None if row is None else row["seen_at"]


async def release(tx: Tx, link: HeldLink, *, heard_s_ago: float | None = None) -> None:
    """Say that the stream of this epoch is over; a newer one is not touched. Call it last.

    ``heard_s_ago``: when the machine was last heard on it; leases are renewed now and then only,
    and "last seen" is looked at when it is away. Nobody is told twice that a machine is offline:
    not if ``expire`` has said so.
    """
    if heard_s_ago is not None:  # the machine's row first, as in ``take``
        await tx.execute(
            """
            update machines
               set seen_at = greatest(seen_at, farhand_now() - make_interval(secs => %s))
             where instance_id = %s and machine_id = %s
            """,
            (heard_s_ago, link.instance_id, link.machine_id),
        )
    cursor = await tx.execute(
        """
        with held as (
          select instance_id, machine_id, lease_until from machine_connections
           where instance_id = %s and machine_id = %s and epoch = %s
             for update
        )
        update machine_connections l
           set replica_id = null, lease_until = null
          from held
          join machines m on m.instance_id = held.instance_id and m.machine_id = held.machine_id
         where l.instance_id = held.instance_id and l.machine_id = held.machine_id
        returning m.name, held.lease_until is not null as was_online
        """,
        (link.instance_id, link.machine_id, link.epoch),
    )
    row = await cursor.fetchone()
    if row is not None and row["was_online"]:
        await events.emit_of_machine(
            tx, link.instance_id, EventKind.MACHINE_OFFLINE, link.machine_id, row["name"]
        )


async def expire(tx: Tx, *, limit: int = 100) -> int:
    """Tell of machines that nobody has heard for too long: their replica died or stands still.

    Takes the lease and leaves the holder's name: one that lives takes it back (``revive``). Rows
    that another replica expires at this moment are left to it. Call it last; returns how many.
    """
    cursor = await tx.execute(
        f"""
        with silent as (
          select l.instance_id, l.machine_id, m.name
            from machine_connections l
            join machines m on m.instance_id = l.instance_id and m.machine_id = l.machine_id
           where l.replica_id is not null and l.lease_until is not null and not {ONLINE}
           order by l.instance_id, l.machine_id
           limit %s
             for update of l skip locked
        )
        update machine_connections l set lease_until = null
          from silent
         where l.instance_id = silent.instance_id and l.machine_id = silent.machine_id
        returning l.instance_id, l.machine_id, silent.name
        """,  # noqa: S608 - a constant of ours only
        (limit,),
    )
    expired = await cursor.fetchall()
    # Events lock their instance's row: always in the same order.
    for row in sorted(expired, key=lambda row: (row["instance_id"], row["machine_id"])):
        await events.emit_of_machine(
            tx, row["instance_id"], EventKind.MACHINE_OFFLINE, row["machine_id"], row["name"]
        )
    return len(expired)


async def expired_of(
    connection: Tx, replica_id: ReplicaId, links: Sequence[HeldLink]
) -> list[HeldLink]:
    """Return those of these links, all held here, whose lease was taken by ``expire``."""
    cursor = await connection.execute(
        """
        select held.instance_id, held.machine_id, held.epoch
          from unnest(%s::uuid[], %s::uuid[], %s::bigint[])
               as held(instance_id, machine_id, epoch)
          join machine_connections l
            on l.instance_id = held.instance_id and l.machine_id = held.machine_id
           and l.epoch = held.epoch and l.replica_id = %s and l.lease_until is null
        """,
        (
            [link.instance_id for link in links],
            [link.machine_id for link in links],
            [link.epoch for link in links],
            replica_id,
        ),
    )
    return [HeldLink(**row) for row in await cursor.fetchall()]


async def revive(tx: Tx, replica_id: ReplicaId, link: HeldLink) -> None:
    """Take back the lease of a link that is alive after all, and tell so. Call it last."""
    cursor = await tx.execute(
        """
        update machine_connections l
           set lease_until = farhand_now() + make_interval(secs => %s)
          from machines m
         where l.instance_id = %s and l.machine_id = %s and l.epoch = %s and l.replica_id = %s
           and l.lease_until is null
           and m.instance_id = l.instance_id and m.machine_id = l.machine_id
        returning m.name
        """,
        (CONNECTION_LEASE_S, link.instance_id, link.machine_id, link.epoch, replica_id),
    )
    row = await cursor.fetchone()
    if row is not None:
        await events.emit_of_machine(
            tx, link.instance_id, EventKind.MACHINE_ONLINE, link.machine_id, row["name"]
        )


async def hold(tx: Tx, link: HeldLink) -> bool:
    """Hold the epoch until commit; False when it is not the newest any more."""
    cursor = await tx.execute(
        HELD,
        {"instance_id": link.instance_id, "machine_id": link.machine_id, "epoch": link.epoch},
    )
    return await cursor.fetchone() is not None


async def ask_to_probe(connection: Tx, machine_id: MachineId) -> datetime:
    """Have whichever replica holds the machine's link ping it and note when it was heard.

    Returns the database's time.
    """
    cursor = await connection.execute(
        "select farhand_now() as now, pg_notify(%s, %s)", (MACHINES, machine_id)
    )
    rows = await cursor.fetchall()
    now: datetime = rows[0]["now"]
    return now
