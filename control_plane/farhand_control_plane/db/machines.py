"""Machines: who owns them, how they stand, whether they are there, who holds their link."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import MachineStatus
from farhand_shared.ids import InstanceId, MachineId, MemberId


class Presence(StrEnum):
    ONLINE = "online"
    OFFLINE = "offline"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineView:
    machine_id: MachineId
    name: str
    owner_member_id: MemberId
    status: MachineStatus
    presence: Presence
    trust_level: str
    chosen_by: str
    allow_inferred: bool
    concurrency: int
    facts: Mapping[str, Any]  # hostname, os, os_version, arch, user, home, cpus, memory_bytes, …
    words: tuple[str, ...]  # six, to compare while pending
    daemon_version: str
    capability: int
    created_at: datetime
    seen_at: datetime | None  # None: never connected
    running: int  # open commands that were offered
    queued: int


async def list_all(
    tx: Tx, instance_id: InstanceId, *, with_revoked: bool = False
) -> list[MachineView]:
    """Return the instance's machines by name."""
    raise NotImplementedError


async def get(tx: Tx, instance_id: InstanceId, machine_id: MachineId) -> MachineView | None:
    raise NotImplementedError


async def find(tx: Tx, instance_id: InstanceId, name_or_id: str) -> MachineView | None:
    """Return the machine of this id or (unrevoked) name."""
    raise NotImplementedError


async def rename(tx: Tx, instance_id: InstanceId, machine_id: MachineId, name: str) -> None:
    """Give a machine another name; Conflict when it is taken."""
    raise NotImplementedError


async def revoke(
    tx: Tx, instance_id: InstanceId, machine_id: MachineId, *, member_id: MemberId
) -> bool:
    """End a machine: its link closes within 2 s, its work is final ``lost(revoked)``.

    Returns False when it was revoked before. Raises NotFound, NotAllowed unless owner.
    """
    raise NotImplementedError
