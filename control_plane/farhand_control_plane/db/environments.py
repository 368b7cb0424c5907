"""Environments on demand: the wish for one, the wish to destroy it, and how they stand.

Every intent is a row before anything is done, so whoever dies in between leaves work and no riddle.
Who does it holds a lease: `environment_leases`.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

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
from farhand_shared.ids import InstanceId, MachineId, MemberId, TicketId, new_id


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
    ticket_closed_s: float | None  # ago; None: it has no ticket, or an open one


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """An environment that is not known to be gone."""

    machine_id: MachineId
    name: str
    place: str
    standing: Standing


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
            ticket_closed_s=one.ticket_closed_s,
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
               extract(epoch from farhand_now() - e.destroying_at) as destroying_s,
               extract(epoch from farhand_now() - t.closed_at) as ticket_closed_s
          from environments e
          join machines m on m.instance_id = e.instance_id and m.machine_id = e.machine_id
          left join tickets t on t.instance_id = e.instance_id and t.ticket_id = e.ticket_id
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
                "ticket_closed_s": _seconds(row["ticket_closed_s"]),
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
