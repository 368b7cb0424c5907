"""People of an instance, as rows."""

from dataclasses import dataclass

from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import MemberRole
from farhand_shared.ids import InstanceId, MemberId


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    member_id: MemberId
    name: str
    role: MemberRole


async def get(tx: Tx, instance_id: InstanceId, member_id: MemberId) -> Member | None:
    """Return a present member; None when absent, removed or another instance's."""
    cursor = await tx.execute(
        """
        select member_id, name, role
          from members
         where instance_id = %s and member_id = %s and removed_at is null
        """,
        (instance_id, member_id),
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    return Member(member_id=row["member_id"], name=row["name"], role=MemberRole(row["role"]))


async def owner_of(tx: Tx, instance_id: InstanceId) -> Member | None:
    """Return the instance's first owner: whom the local token and first tokens belong to."""
    cursor = await tx.execute(
        """
        select member_id, name, role
          from members
         where instance_id = %s and role = 'owner' and removed_at is null
         order by created_at, member_id
         limit 1
        """,
        (instance_id,),
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    return Member(member_id=row["member_id"], name=row["name"], role=MemberRole(row["role"]))
