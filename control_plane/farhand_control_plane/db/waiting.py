"""What waits for machines whose links are held: work to claim, attempts to end."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from farhand_control_plane.db.links import HeldLink
from farhand_control_plane.db.transaction import Tx
from farhand_shared.command import AttemptState
from farhand_shared.ids import AttemptId, MachineId


async def machines_with_work(connection: Tx, machine_ids: Collection[MachineId]) -> list[MachineId]:
    """Return which of these machines have something queued or to be stopped."""
    cursor = await connection.execute(
        """
        select distinct machine_id
          from attempts
         where machine_id = any(%s::uuid[]) and state in ('queued', 'stopping')
        """,
        (list(machine_ids),),
    )
    return [row["machine_id"] for row in await cursor.fetchall()]


# A machine remembers for 30 days that an attempt was its own; later it would take the wish to end
# it for one that came before the offer.
_LEFTOVER_DAYS: Final = 28


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A lost or indeterminate attempt that somebody wants ended."""

    attempt_id: AttemptId
    reason: str
    result_hash: bytes | None  # of the machine's word that it is indeterminate


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What is to be done for a machine."""

    stops: Sequence[tuple[AttemptId, str]]  # open ones that are stopping, with the reason
    leftovers: Sequence[Leftover]
    queued: bool  # there is something to claim, or that waits for what it supersedes


async def for_link(
    connection: Tx,
    link: HeldLink,
    *,
    stops_sent: Sequence[AttemptId],
    leftovers: Sequence[AttemptId] | None,
) -> Waiting:
    """Return what waits for a link, in one statement: mostly nothing does.

    ``stops_sent`` are left out. ``leftovers``: only these are asked about; None: all that the
    machine ever had.
    """
    cursor = await connection.execute(
        """
        select state, attempt_id, coalesce(stop_reason, 'cancel') as reason,
               null::bytea as result_hash
          from attempts
         where instance_id = %(instance_id)s and machine_id = %(machine_id)s
           and state = 'stopping' and attempt_id <> all(%(sent)s::uuid[])
        union all
        (select state, attempt_id, '', null
           from attempts
          where instance_id = %(instance_id)s and machine_id = %(machine_id)s
            and state = 'queued'
          limit 1)
        union all
        (select state, attempt_id, stop_reason, result_hash
           from attempts
          where instance_id = %(instance_id)s and machine_id = %(machine_id)s
            and state in ('lost', 'indeterminate') and reason is distinct from 'revoked'
            and stop_reason is not null
            and ended_at > farhand_now() - make_interval(days => %(days)s)
            and (%(all)s or attempt_id = any(%(asked)s::uuid[]))
          order by attempt_id)
        """,
        {
            "instance_id": link.instance_id,
            "machine_id": link.machine_id,
            "sent": list(stops_sent),
            "days": _LEFTOVER_DAYS,
            "all": leftovers is None,
            "asked": list(leftovers or ()),
        },
    )
    stops: list[tuple[AttemptId, str]] = []
    found: list[Leftover] = []
    queued = False
    for row in await cursor.fetchall():
        match AttemptState(row["state"]):
            case AttemptState.STOPPING:
                stops.append((row["attempt_id"], row["reason"]))
            case AttemptState.QUEUED:
                queued = True
            case _:
                found.append(
                    Leftover(
                        attempt_id=row["attempt_id"],
                        reason=row["reason"],
                        result_hash=row["result_hash"],
                    )
                )
    return Waiting(stops=stops, leftovers=found, queued=queued)
