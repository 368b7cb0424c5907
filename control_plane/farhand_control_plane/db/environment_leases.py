"""Work on environments on demand: who has the lease of one, and what came of it.

A lease's generation fences every write of its holder; what is to be done is the row's state.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

from farhand_control_plane.db import enrolment
from farhand_control_plane.db.listen import ENVIRONMENTS
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import EnvironmentState, MachineKind
from farhand_shared.ids import InstanceId, MachineId, MemberId, ReplicaId
from farhand_shared.redact import Secret

_ERROR_MAX: Final = 2_000  # characters


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
