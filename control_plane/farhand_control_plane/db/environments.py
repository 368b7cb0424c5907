"""Environments on demand: the wish for one, who works on it, and what became of it.

Every intent is a row before anything is done, so whoever dies in between leaves work and no riddle.
Work on a row is under a lease: its generation fences every write of its holder.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString

import psycopg.errors

from farhand_control_plane.db import enrolment, machines
from farhand_control_plane.db.listen import ENVIRONMENTS
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.environments import (
    InUse,
    Offer,
    Standing,
    environment_name,
    over_limit,
)
from farhand_control_plane.domain.words import (
    EnvironmentState,
    MachineKind,
    MachineStatus,
)
from farhand_shared.errors import Conflict, NotFound
from farhand_shared.ids import InstanceId, MachineId, MemberId, ReplicaId, TicketId, new_id
from farhand_shared.redact import Secret

_ERROR_MAX: Final = 2_000  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentView:
    """An environment as people see it."""

    machine_id: MachineId
    name: str
    requester_member_id: MemberId
    ticket_id: TicketId | None
    provisioner: str
    state: EnvironmentState
    reason: str  # why it is destroyed; empty: it is not
    error: str  # of the last try; empty: none failed
    created_at: datetime
    expires_at: datetime
    destroying_s: float | None  # for how long it is being destroyed


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """An environment that this replica works on, and what is to be done."""

    instance_id: InstanceId
    machine_id: MachineId
    generation: int
    state: EnvironmentState  # creating or destroying
    name: str
    requester_member_id: MemberId
    allow_inferred: bool
    confirmed: bool  # its daemon is enrolled and its words were compared
    tries: int  # that have failed
    left_s: float  # of its lifetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """An environment that is not known to be gone."""

    machine_id: MachineId
    name: str
    place: str
    standing: Standing


# What is asked for --------------------------------------------------------------------------------


async def want(
    tx: Tx,
    instance_id: InstanceId,
    member_id: MemberId,
    offer: Offer,
    *,
    ticket_id: TicketId | None = None,
    allow_inferred: bool = False,
) -> MachineId:
    """Store the wish for an environment, and its machine, pending; a replica makes it.

    Idempotent by the ticket: one that has an environment gets no second. Nobody is told yet: there
    is nothing to see before its daemon comes. Raises Conflict at a limit.
    """
    # In turn: two that come together must not both be the last that fits.
    await tx.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (instance_id,))
    if ticket_id is not None:
        known = await _of_ticket(tx, instance_id, ticket_id)
        if known is not None:
            return known
    in_use = [
        InUse(
            machine_id=one.machine_id,
            name=one.name,
            requester_member_id=one.requester_member_id,
            state=one.state,
            destroying_s=one.destroying_s or 0.0,
        )
        for one in await list_all(tx, instance_id)
    ]
    refused = over_limit(offer.limits, in_use, member_id)
    if refused is not None:
        raise Conflict(refused)
    machine_id = MachineId(new_id())
    await _insert_machine(tx, instance_id, machine_id, member_id)
    await tx.execute(
        """
        insert into environments (instance_id, machine_id, requester_member_id, ticket_id,
                                  provisioner, state, allow_inferred, created_at, expires_at)
        values (%s, %s, %s, %s, %s, 'creating', %s, farhand_now(),
                farhand_now() + make_interval(secs => %s))
        """,
        (
            instance_id,
            machine_id,
            member_id,
            ticket_id,
            offer.provisioner,
            allow_inferred,
            offer.limits.lifetime_s,
        ),
    )
    await tx.execute("select pg_notify(%s, '')", (ENVIRONMENTS,))
    return machine_id


async def _of_ticket(tx: Tx, instance_id: InstanceId, ticket_id: TicketId) -> MachineId | None:
    cursor = await tx.execute(
        """
        select machine_id from environments
         where instance_id = %s and ticket_id = %s and state in ('creating', 'ready')
        """,
        (instance_id, ticket_id),
    )
    row = await cursor.fetchone()
    return None if row is None else row["machine_id"]


async def _insert_machine(
    tx: Tx, instance_id: InstanceId, machine_id: MachineId, member_id: MemberId
) -> None:
    for name in (environment_name(machine_id), f"env-{machine_id}"):
        try:
            async with tx.transaction():
                await tx.execute(
                    """
                    insert into machines (instance_id, machine_id, owner_member_id, name, kind,
                                          status, created_at)
                    values (%s, %s, %s, %s, %s, %s, farhand_now())
                    """,
                    (
                        instance_id,
                        machine_id,
                        member_id,
                        name,
                        MachineKind.ON_DEMAND.value,
                        MachineStatus.PENDING.value,
                    ),
                )
        except psycopg.errors.UniqueViolation:  # somebody called a machine so
            continue
        return
    raise Conflict("cannot make an environment: its name is taken; try again")


async def list_all(tx: Tx, instance_id: InstanceId) -> list[EnvironmentView]:
    """Return every environment that is not known to be gone, oldest first."""
    cursor = await tx.execute(
        """
        select e.machine_id, m.name, e.requester_member_id, e.ticket_id, e.provisioner, e.state,
               e.reason, e.error, e.created_at, e.expires_at,
               extract(epoch from farhand_now() - e.destroying_at) as destroying_s
          from environments e
          join machines m on m.instance_id = e.instance_id and m.machine_id = e.machine_id
         where e.instance_id = %s and e.state <> 'destroyed'
         order by e.created_at, e.machine_id
        """,
        (instance_id,),
    )
    return [
        EnvironmentView(
            **{
                **row,
                "state": EnvironmentState(row["state"]),
                "destroying_s": _seconds(row["destroying_s"]),
            }
        )
        for row in await cursor.fetchall()
    ]


async def destroy(tx: Tx, instance_id: InstanceId, machine_id: MachineId, *, why: str) -> bool:
    """Store the intent to destroy an environment: its machine is revoked, its work ends.

    Commands that were only queued there are cancelled, and say why. False when it was said before.
    Emits events, so call it last. Raises NotFound.
    """
    # The machine first, as everywhere.
    cursor = await tx.execute(
        """
        select m.name, m.status
          from machines m
         where m.instance_id = %s and m.machine_id = %s and m.kind = 'on_demand'
           for no key update of m
        """,
        (instance_id, machine_id),
    )
    machine = await cursor.fetchone()
    if machine is None:
        raise NotFound("cannot destroy the environment: there is none of that id")
    cursor = await tx.execute(
        """
        update environments
           set state = 'destroying', reason = %s, destroying_at = farhand_now(), tries = 0,
               retry_at = null
         where instance_id = %s and machine_id = %s and state in ('creating', 'ready')
        """,
        (why, instance_id, machine_id),
    )
    if cursor.rowcount == 0:
        return False
    await tx.execute("select pg_notify(%s, '')", (ENVIRONMENTS,))
    if machine["status"] != MachineStatus.REVOKED:
        await enrolment.end_codes_for(tx, instance_id, machine_id)
        await machines.end(
            tx,
            instance_id,
            machine_id,
            machine["name"],
            error=f"its environment is destroyed: {why}",
        )
    return True


# Who works on it ----------------------------------------------------------------------------------


async def claim(
    tx: Tx,
    instance_id: InstanceId,
    *,
    provisioner: str,
    place: str,
    replica_id: ReplicaId,
    lease_s: float,
    limit: int,
) -> list[Lease]:
    """Take environments to make or destroy that nobody works on; those of other places stay."""
    cursor = await tx.execute(
        """
        with due as (
          select instance_id, machine_id
            from environments
           where instance_id = %(instance)s and provisioner = %(provisioner)s
             and state in ('creating', 'destroying') and place in ('', %(place)s)
             and (lease_until is null or lease_until <= farhand_now())
             and (retry_at is null or retry_at <= farhand_now())
           order by state desc, created_at, machine_id
           limit %(limit)s
             for update skip locked
        )
        update environments e
           set leased_by = %(replica)s, place = %(place)s, generation = e.generation + 1,
               lease_until = farhand_now() + make_interval(secs => %(lease_s)s)
          from due
          join machines m on m.instance_id = due.instance_id and m.machine_id = due.machine_id
         where e.instance_id = due.instance_id and e.machine_id = due.machine_id
        returning e.instance_id, e.machine_id, e.generation, e.state, m.name,
                  e.requester_member_id, e.allow_inferred, e.tries,
                  m.status <> 'pending' as confirmed,
                  extract(epoch from e.expires_at - farhand_now()) as left_s
        """,
        {
            "instance": instance_id,
            "provisioner": provisioner,
            "place": place,
            "replica": replica_id,
            "lease_s": lease_s,
            "limit": limit,
        },
    )
    return [
        Lease(
            **{
                **row,
                "state": EnvironmentState(row["state"]),
                "left_s": float(row["left_s"]),
            }
        )
        for row in await cursor.fetchall()
    ]


async def renew(tx: Tx, lease: Lease, lease_s: float) -> bool:
    """Keep the lease; False when it is lost, or the environment is not wanted so any more."""
    return await _write(
        tx, lease, "lease_until = farhand_now() + make_interval(secs => %s)", (lease_s,)
    )


async def release(tx: Tx, lease: Lease) -> None:
    """Give the lease back undone; whoever looks next goes on."""
    # Whatever became of the intent: the lease is ours to give back.
    await tx.execute(
        """
        update environments set leased_by = null, lease_until = null
         where instance_id = %s and machine_id = %s and generation = %s
        """,
        (lease.instance_id, lease.machine_id, lease.generation),
    )
    await tx.execute("select pg_notify(%s, '')", (ENVIRONMENTS,))


async def failed(tx: Tx, lease: Lease, error: str, retry_s: float) -> bool:
    """Note a failure; the next try comes after so many seconds. False: the lease was lost."""
    return await _write(
        tx,
        lease,
        "tries = tries + 1, error = %s, leased_by = null, lease_until = null,"
        " retry_at = farhand_now() + make_interval(secs => %s)",
        (error[:_ERROR_MAX].replace("\0", ""), retry_s),
    )


async def ready(tx: Tx, lease: Lease) -> bool:
    """Say that the environment is made. False: the lease was lost, or it is to go already."""
    return await _write(
        tx,
        lease,
        "state = 'ready', ready_at = farhand_now(), tries = 0, error = '', retry_at = null,"
        " leased_by = null, lease_until = null",
    )


async def destroyed(tx: Tx, lease: Lease) -> bool:
    """Say that nothing of the environment is left. False: the lease was lost."""
    return await _write(
        tx,
        lease,
        "state = 'destroyed', destroyed_at = farhand_now(), error = '', leased_by = null,"
        " lease_until = null",
    )


async def _write(
    tx: Tx, lease: Lease, assignments: LiteralString, values: Sequence[Any] = ()
) -> bool:
    """Change what the lease holds, while it holds it; ``Any``: values of columns."""
    cursor = await tx.execute(
        f"""
        update environments set {assignments}
         where instance_id = %s and machine_id = %s and generation = %s and state = %s
           and lease_until > farhand_now()
        """,  # noqa: S608 - constants of ours only
        (*values, lease.instance_id, lease.machine_id, lease.generation, lease.state.value),
    )
    return cursor.rowcount == 1


async def make_code(tx: Tx, lease: Lease) -> Secret:
    """Make a code that lets in the lease's machine; earlier ones of it end."""
    await enrolment.end_codes_for(tx, lease.instance_id, lease.machine_id)
    made = await enrolment.make_code(
        tx,
        lease.instance_id,
        lease.requester_member_id,
        kind=MachineKind.ON_DEMAND,
        for_machine_id=lease.machine_id,
    )
    return Secret(made.text.encode())


# How they stand -----------------------------------------------------------------------------------


async def watched(tx: Tx, instance_id: InstanceId, provisioner: str) -> list[Watched]:
    """Return the provisioner's environments that are not known to be gone."""
    cursor = await tx.execute(
        """
        select e.machine_id, m.name, e.place, e.state, m.status,
               extract(epoch from farhand_now() - e.created_at) as age_s,
               extract(epoch from e.expires_at - farhand_now()) as left_s,
               extract(epoch from farhand_now() - t.closed_at) as ticket_closed_s,
               extract(epoch from farhand_now() - e.destroying_at) as destroying_s
          from environments e
          join machines m on m.instance_id = e.instance_id and m.machine_id = e.machine_id
          left join tickets t on t.instance_id = e.instance_id and t.ticket_id = e.ticket_id
         where e.instance_id = %s and e.provisioner = %s and e.state <> 'destroyed'
        """,
        (instance_id, provisioner),
    )
    return [
        Watched(
            machine_id=row["machine_id"],
            name=row["name"],
            place=row["place"],
            standing=Standing(
                state=EnvironmentState(row["state"]),
                machine_status=MachineStatus(row["status"]),
                age_s=float(row["age_s"]),
                left_s=float(row["left_s"]),
                ticket_closed_s=_seconds(row["ticket_closed_s"]),
                destroying_s=_seconds(row["destroying_s"]),
            ),
        )
        for row in await cursor.fetchall()
    ]


def _seconds(value: Any) -> float | None:  # a numeric of the database
    return None if value is None else float(value)


async def forget(tx: Tx, instance_id: InstanceId, machine_id: MachineId, why: str) -> None:
    """Give up on an environment that nobody can reach, so that it stands in nobody's way."""
    await tx.execute(
        """
        update environments
           set state = 'destroyed', destroyed_at = farhand_now(), error = %s,
               leased_by = null, lease_until = null
         where instance_id = %s and machine_id = %s and state = 'destroying'
        """,
        (why, instance_id, machine_id),
    )
