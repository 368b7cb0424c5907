"""Enrolment codes and certificates: how a computer becomes a machine."""

from dataclasses import dataclass
from datetime import datetime

from farhand_control_plane.db.transaction import Tx
from farhand_shared.ids import InstanceId, MachineId, MemberId


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeCode:
    text: str  # FH1-…: shown once, only its hash is stored
    code_id: str
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeView:
    """Where a code stands: waiting, or used by ``machine_id`` with these six words."""

    code_id: str
    made_by_member_id: MemberId
    expires_at: datetime
    used_at: datetime | None
    machine_id: MachineId | None
    machine_name: str | None
    words: tuple[str, ...]


async def make_code(
    tx: Tx, instance_id: InstanceId, member_id: MemberId, name: str | None = None
) -> MadeCode:
    """Make a single-use code, valid for ten minutes, pinned to the newest root.

    ``name`` is what the maker wants to call the machine.
    """
    raise NotImplementedError


async def code(tx: Tx, instance_id: InstanceId, code_id: str) -> CodeView | None:
    """Return where a code stands (``machines add --wait`` and the page ask again and again)."""
    raise NotImplementedError


async def confirm(
    tx: Tx,
    instance_id: InstanceId,
    member_id: MemberId,
    machine_id: MachineId,
    words: tuple[str, ...],
) -> None:
    """Make a pending machine active, because its code's maker compared the six words.

    Idempotent. Raises NotFound, NotAllowed (another's code), InvalidInput (other words) and
    Conflict (revoked or quarantined).
    """
    raise NotImplementedError
