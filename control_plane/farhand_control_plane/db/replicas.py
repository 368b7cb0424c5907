"""The replicas of the control plane that are alive."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from farhand_control_plane.db.transaction import Tx
from farhand_shared.ids import ReplicaId

ALIVE_S: Final = 60.0  # seen within this long; a replica says it is there every 15 s


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    replica_id: ReplicaId
    address: str
    version: str
    started_at: datetime
    seen_at: datetime


async def register(tx: Tx, replica_id: ReplicaId, address: str, version: str) -> None:
    """Say that a replica has started; it may be said again."""
    await tx.execute(
        """
        insert into replicas (replica_id, address, version, started_at, seen_at)
        values (%s, %s, %s, farhand_now(), farhand_now())
        on conflict (replica_id) do update
          set address = excluded.address, version = excluded.version, seen_at = excluded.seen_at
        """,
        (replica_id, address, version),
    )


async def seen(tx: Tx, replica_id: ReplicaId) -> None:
    """Say that a replica is alive."""
    await tx.execute(
        "update replicas set seen_at = farhand_now() where replica_id = %s", (replica_id,)
    )


async def remove(tx: Tx, replica_id: ReplicaId) -> None:
    """Say that a replica has stopped."""
    await tx.execute("delete from replicas where replica_id = %s", (replica_id,))


async def forget_dead(tx: Tx) -> int:
    """Remove replicas that were killed and never came back; returns how many."""
    cursor = await tx.execute(
        "delete from replicas where seen_at < farhand_now() - %s * interval '10 seconds'",
        (ALIVE_S,),
    )
    return cursor.rowcount


async def alive(tx: Tx) -> list[ReplicaView]:
    """Return the replicas seen lately, oldest first."""
    cursor = await tx.execute(
        """
        select replica_id, address, version, started_at, seen_at
        from replicas
        where seen_at > farhand_now() - %s * interval '1 second'
        order by started_at
        """,
        (ALIVE_S,),
    )
    return [ReplicaView(**row) for row in await cursor.fetchall()]
