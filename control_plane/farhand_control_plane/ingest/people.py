"""Which member speaks, in which role, under which policy."""

from farhand_control_plane.db import members
from farhand_control_plane.db.mandates import current_policy
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain import authority
from farhand_control_plane.domain.words import MemberRole
from farhand_shared.ids import InstanceId, MemberId, is_id


async def role_of(tx: Tx, instance_id: InstanceId, member_id: MemberId | None) -> MemberRole | None:
    """Return a present member's role; None for nobody, and for another instance's."""
    if member_id is None or not is_id(member_id):
        return None
    member = await members.get(tx, instance_id, member_id)
    return None if member is None else member.role


async def check_may_stop(tx: Tx, instance_id: InstanceId, member_id: MemberId | None) -> None:
    """Raise NotAllowed unless the member may close Tickets under the current policy."""
    policy = await current_policy(tx, instance_id)
    authority.check_may_stop(policy.rules, await role_of(tx, instance_id, member_id))


async def check_may_answer(tx: Tx, instance_id: InstanceId, member_id: MemberId) -> None:
    """Raise NotAllowed unless the member may answer under the current policy."""
    policy = await current_policy(tx, instance_id)
    authority.check_may_answer(policy.rules, await role_of(tx, instance_id, member_id))
