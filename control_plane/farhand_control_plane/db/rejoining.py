"""The way back of a machine that was quarantined: one of its copies gets it, under a new key."""

from dataclasses import replace

from farhand_control_plane.db.enrolment import LockedCode
from farhand_control_plane.db.listen import MACHINES
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import MachineStatus
from farhand_shared.errors import Conflict
from farhand_shared.ids import InstanceId, MachineId


async def code_for_rejoining(
    tx: Tx, code: LockedCode, instance_id: InstanceId, machine_id: MachineId, serial: str
) -> LockedCode:
    """Return the code as one that lets this machine in again, if its maker may do that now.

    The machine becomes pending; ``let_in`` revokes what its copies hold. Once it has rejoined, a
    copy's certificate is revoked: then the code stays what it was, for a machine of its own.
    Raises Conflict while nothing locks the machine out.
    """
    if instance_id != code.instance_id or code.for_machine_id is not None:
        return code
    cursor = await tx.execute(
        """
        select m.name, m.status, m.owner_member_id,
               exists (select from certificates c
                        where c.instance_id = m.instance_id and c.machine_id = m.machine_id
                          and c.serial = %s and c.revoked_at is null) as certificate_valid
          from machines m
         where m.instance_id = %s and m.machine_id = %s
           for no key update of m
        """,
        (serial, instance_id, machine_id),
    )
    machine = await cursor.fetchone()
    if (
        machine is None
        or not machine["certificate_valid"]
        or machine["status"] == MachineStatus.REVOKED
        or machine["owner_member_id"] != code.made_by_member_id
    ):
        return code
    if machine["status"] != MachineStatus.QUARANTINED:
        raise Conflict(
            f"cannot rejoin: {machine['name']} is {machine['status']}, nothing locks it out; use "
            "farhandd run, or enroll --force to make this computer a machine of its own"
        )
    await tx.execute(
        """
        update machines set status = 'pending', activated_at = null
         where instance_id = %s and machine_id = %s
        """,
        (instance_id, machine_id),
    )
    await tx.execute("select pg_notify(%s, %s)", (MACHINES, machine_id))
    return replace(code, for_machine_id=machine_id)
