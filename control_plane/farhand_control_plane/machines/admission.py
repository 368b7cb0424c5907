"""Whether a machine that says Hello may have its link here, and under which epoch.

The clone rule lives here: the same daemon overlaps with itself whenever it recycles its stream; a
different daemon with the same certificate is a restart if the older one is silent, and a copy of
the machine's home if both are alive, and then neither is trusted.
"""

import asyncio
import logging
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from farhand_control_plane.db import links
from farhand_control_plane.db.links import HeldLink, Holder
from farhand_control_plane.db.pool import Database
from farhand_control_plane.domain.words import MachineStatus
from farhand_control_plane.machines.hub import Hub
from farhand_control_plane.machines.machine_link import Holding, MachineLink
from farhand_shared.ids import InstanceId, MachineId, ReplicaId
from farhand_shared.limits import PONG_DUE_S
from farhand_shared.link_events import Bye, Hello
from farhand_shared.pki import MachineIdentity

_log = logging.getLogger(__name__)

REVOKED: Final = Bye(
    code="revoked", message="this machine was revoked; enrol it again", retry=False
)
QUARANTINED: Final = Bye(
    code="quarantined",
    message="two living daemons showed this machine's certificate; run farhandd enroll --rejoin on "
    "the computer that shall stay this machine, then on the other",
    retry=False,
)
PENDING: Final = Bye(
    code="pending",
    message="the six words are not confirmed yet; whoever made the code confirms them",
    retry=True,
)
_LOOK_S: Final = 0.1  # how often it is looked whether the rival has answered
# "Heard" is noted by another process a little later than it happened; only clearly later counts.
_MARGIN: Final = timedelta(seconds=0.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Presented:
    """Who the certificate of the connection says the machine is."""

    identity: MachineIdentity
    serial: str


class Admission:
    """Decides for one replica."""

    def __init__(
        self,
        database: Database,
        hub: Hub,
        replica_id: ReplicaId,
        address: str,
        *,
        rival_wait_s: float = PONG_DUE_S,
    ) -> None:
        """``address``: of this replica, for its peers. ``rival_wait_s``: how long an older link has
        to answer before it counts as gone."""
        self._database = database
        self._hub = hub
        self._replica_id = replica_id
        self._address = address
        self._rival_wait_s = rival_wait_s

    async def admit(self, presented: Presented, hello: Hello) -> Holding | Bye:
        """Return the holding under a new epoch, or the goodbye to send."""
        instance_id = InstanceId(presented.identity.instance_id)
        machine_id = MachineId(presented.identity.machine_id)
        silent_epoch: int | None = None
        while True:
            async with self._database.transaction() as tx:
                admission = await links.lock_for_admission(
                    tx, instance_id, machine_id, presented.serial
                )
                if admission is None or not admission.certificate_valid:
                    return REVOKED
                if (bye := _refusal(admission.status)) is not None:
                    return bye
                rival = admission.holder
                if rival is None or not self._is_rival(rival, hello, machine_id, silent_epoch):
                    epoch = await links.take(
                        tx,
                        instance_id,
                        machine_id,
                        replica_id=self._replica_id,
                        address=self._address,
                        hello=hello,
                        was_online=admission.was_online,
                    )
                    return Holding(
                        held=HeldLink(instance_id=instance_id, machine_id=machine_id, epoch=epoch),
                        name=admission.name,
                        owner_member_id=admission.owner_member_id,
                    )
            if await self._is_alive(rival, instance_id, machine_id):
                _log.error("machine %s: two living daemons, both quarantined", machine_id)
                async with self._database.transaction() as tx:
                    await links.quarantine(tx, instance_id, machine_id)
                return QUARANTINED
            silent_epoch = rival.epoch

    def _is_rival(
        self, holder: Holder, hello: Hello, machine_id: MachineId, silent_epoch: int | None
    ) -> bool:
        """Tell whether the holder of the link may be another living copy of this machine."""
        if holder.daemon_instance_id == hello.daemon_instance_id or holder.epoch == silent_epoch:
            return False
        if holder.replica_id == self._replica_id:
            return self._hub.link(machine_id) is not None
        return holder.replica_lives

    async def _is_alive(
        self, holder: Holder, instance_id: InstanceId, machine_id: MachineId
    ) -> bool:
        """Have the older link pinged, here or on its replica; tell whether it answered in time."""
        link = self._hub.link(machine_id)
        if link is not None and holder.replica_id == self._replica_id:
            return await self._answers_here(link)
        asked_at: datetime | None = None
        until = time.monotonic() + self._rival_wait_s
        while time.monotonic() < until:
            async with self._database.autocommit() as connection:
                now = await links.ask_to_probe(connection, machine_id)
                seen_at = await links.seen_by_holder(connection, instance_id, machine_id)
            if seen_at is None:
                return False
            asked_at = asked_at or now
            if seen_at > asked_at + _MARGIN:
                return True
            await asyncio.sleep(_LOOK_S)  # polled: the answer comes to another replica
        return False

    async def _answers_here(self, link: MachineLink) -> bool:
        nonce = link.session.probe(time.monotonic())
        link.output_due.set()
        until = time.monotonic() + self._rival_wait_s
        while time.monotonic() < until and link.is_open:
            if link.session.pong_nonce >= nonce:
                return True
            await asyncio.sleep(_LOOK_S)  # polled: the answer comes on another stream
        return False


def _refusal(status: MachineStatus) -> Bye | None:
    match status:
        case MachineStatus.REVOKED:
            return REVOKED
        case MachineStatus.QUARANTINED:
            return QUARANTINED
        case MachineStatus.PENDING:
            return PENDING
        case MachineStatus.ACTIVE | MachineStatus.PAUSED:
            return None
