"""What a new link must compare with the machine's own account of its attempts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from farhand_control_plane.db.attempts import CommandRef
from farhand_control_plane.db.links import HeldLink
from farhand_control_plane.db.transaction import Tx
from farhand_shared.command import AttemptState
from farhand_shared.reconcile import AttemptView


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldAttempt:
    """An attempt as a new link finds it."""

    ref: CommandRef
    view: AttemptView  # for ``reconcile``
    revoked: bool  # final: nothing of it is taken any more


async def of_machine(tx: Tx, link: HeldLink, live_ids: Sequence[str]) -> list[HeldAttempt]:
    """Return what a new link must reconcile: what is open, and ``live_ids``.

    A machine has many attempts behind it, so each of the two is found by an index of its own.
    """
    cursor = await tx.execute(
        """
        with concerned as (
          select attempt_id from attempts
           where instance_id = %(instance_id)s and machine_id = %(machine_id)s
             and state in ('offered', 'awaiting_owner', 'journalled', 'started', 'stopping')
          union
          select attempt_id from attempts
           where instance_id = %(instance_id)s and attempt_id = any(%(live)s::uuid[])
        )
        select a.attempt_id, a.command_id, c.session_id, c.ticket_id, c.title, a.state,
               c.input_digest, a.acknowledged_at is not null as acknowledged,
               a.started_at is not null as started, coalesce(a.journal_id, '') as journal_id,
               coalesce(a.journal_counter, 0) as journal_counter, a.stdout_stored,
               a.stderr_stored, a.result_hash, a.reason,
               coalesce(a.stop_reason, 'cancel') as stop_reason
          from concerned
          join attempts a on a.instance_id = %(instance_id)s
                         and a.attempt_id = concerned.attempt_id
          join commands c on c.instance_id = a.instance_id and c.command_id = a.command_id
         where a.machine_id = %(machine_id)s
         order by a.attempt_id
        """,
        {
            "instance_id": link.instance_id,
            "machine_id": link.machine_id,
            "live": list(live_ids),
        },
    )
    return [_held(row) for row in await cursor.fetchall()]


def _held(row: dict[str, Any]) -> HeldAttempt:
    revoked = row["state"] == AttemptState.LOST and row["reason"] == "revoked"
    # A final ``lost`` is told to the comparison as what it is: over, without a result to come.
    state = AttemptState.CANCELLED_BEFORE_START if revoked else AttemptState(row["state"])
    return HeldAttempt(
        ref=CommandRef(
            attempt_id=row["attempt_id"],
            command_id=row["command_id"],
            session_id=row["session_id"],
            ticket_id=row["ticket_id"],
            title=row["title"],
        ),
        view=AttemptView(
            attempt_id=row["attempt_id"],
            state=state,
            input_digest=row["input_digest"],
            acknowledged=row["acknowledged"],
            started=row["started"],
            journal_id=row["journal_id"],
            journal_counter=row["journal_counter"],
            stdout_stored=row["stdout_stored"],
            stderr_stored=row["stderr_stored"],
            result_hash=row["result_hash"],
            stop_reason=row["stop_reason"],
        ),
        revoked=revoked,
    )


def resuming_at(view: AttemptView, stdout_offset: int, stderr_offset: int) -> AttemptView:
    """Return the view with other safe offsets: a replica may hold more than is stored."""
    return replace(view, stdout_stored=stdout_offset, stderr_stored=stderr_offset)
