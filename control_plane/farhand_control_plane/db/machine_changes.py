"""What people change about a machine: its name, its labels, whether it takes work.

Each change is told as an event of its own and changes nothing, and tells nothing, when it is so
already. They emit events, so call one last in a transaction. All raise NotFound and NotAllowed;
Conflict when the machine cannot be changed so.
"""

from collections.abc import Collection, Mapping
from typing import Final, LiteralString

import psycopg.errors
from psycopg.types.json import Jsonb

from farhand_control_plane.db import events
from farhand_control_plane.db.listen import COMMANDS, MACHINES
from farhand_control_plane.db.machines import KeptMachine, lock_kept
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import EventKind, MachineStatus
from farhand_shared.errors import Conflict, InvalidInput
from farhand_shared.ids import InstanceId, MachineId, MemberId
from farhand_shared.labels import LABELS_MAX


async def rename(
    tx: Tx, instance_id: InstanceId, machine_id: MachineId, member_id: MemberId, name: str
) -> None:
    """Give a machine another name, which no other machine of the instance may have."""
    machine = await _changeable(tx, instance_id, machine_id, member_id, "rename")
    if machine.name == name:
        return
    try:
        async with tx.transaction():
            await tx.execute(
                "update machines set name = %s where instance_id = %s and machine_id = %s",
                (name, instance_id, machine_id),
            )
    except psycopg.errors.UniqueViolation as error:
        raise Conflict(
            f"cannot rename {machine.name}: {name} is taken; choose another name"
        ) from error
    await tx.execute(_TELL_LINK, (MACHINES, machine_id))
    await events.emit_of_machine(
        tx, instance_id, EventKind.MACHINE_RENAMED, machine_id, name, before=machine.name
    )


async def label(
    tx: Tx,
    instance_id: InstanceId,
    machine_id: MachineId,
    member_id: MemberId,
    *,
    add: Mapping[str, str],
    remove: Collection[str],
) -> None:
    """Add and change labels, and take others away; those of the machine's own file stay."""
    machine = await _changeable(tx, instance_id, machine_id, member_id, "label")
    kept = {name: value for name, value in machine.labels.items() if name not in remove}
    labels = kept | dict(add)
    if len(labels) > LABELS_MAX:
        raise InvalidInput(
            f"cannot label {machine.name}: {len(labels)} labels, the limit is {LABELS_MAX}; "
            "remove some"
        )
    if labels == machine.labels:
        return
    await tx.execute(
        "update machines set labels = %s where instance_id = %s and machine_id = %s",
        (Jsonb(labels), instance_id, machine_id),
    )
    await events.emit_of_machine(
        tx, instance_id, EventKind.MACHINE_LABELLED, machine_id, machine.name, labels=labels
    )


async def pause(
    tx: Tx, instance_id: InstanceId, machine_id: MachineId, member_id: MemberId
) -> None:
    """Start nothing more there; what runs goes on, what is queued waits until it is resumed."""
    await _turn(tx, instance_id, machine_id, member_id, pausing=True)


async def resume(
    tx: Tx, instance_id: InstanceId, machine_id: MachineId, member_id: MemberId
) -> None:
    """Let a paused machine take work again; its queue starts at once where it is online."""
    await _turn(tx, instance_id, machine_id, member_id, pausing=False)


async def _turn(
    tx: Tx, instance_id: InstanceId, machine_id: MachineId, member_id: MemberId, *, pausing: bool
) -> None:
    verb = "pause" if pausing else "resume"
    machine = await _changeable(tx, instance_id, machine_id, member_id, verb)
    wanted = MachineStatus.PAUSED if pausing else MachineStatus.ACTIVE
    if machine.status is wanted:
        return
    if machine.status not in (MachineStatus.ACTIVE, MachineStatus.PAUSED):
        raise Conflict(
            f"cannot {verb} {machine.name}: it is {machine.status.value}; "
            "only an active machine takes work"
        )
    await tx.execute(
        "update machines set status = %s where instance_id = %s and machine_id = %s",
        (wanted.value, instance_id, machine_id),
    )
    await tx.execute(_TELL_LINK, (MACHINES, machine_id))
    if not pausing:
        await tx.execute(_TELL_LINK, (COMMANDS, machine_id))  # its queue is looked at
    kind = EventKind.MACHINE_PAUSED if pausing else EventKind.MACHINE_RESUMED
    await events.emit_of_machine(tx, instance_id, kind, machine_id, machine.name)


async def _changeable(
    tx: Tx, instance_id: InstanceId, machine_id: MachineId, member_id: MemberId, verb: str
) -> KeptMachine:
    machine = await lock_kept(tx, instance_id, machine_id, member_id, verb)
    if machine.status is MachineStatus.REVOKED:
        raise Conflict(f"cannot {verb} {machine.name}: it was revoked; add it anew")
    return machine


_TELL_LINK: Final[LiteralString] = "select pg_notify(%s, %s)"
