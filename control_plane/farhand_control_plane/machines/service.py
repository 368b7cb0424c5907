"""Everything a replica does for machines, behind one object that wiring starts and stops."""

from dataclasses import dataclass

from farhand_control_plane.db.listen import Listener
from farhand_control_plane.db.pool import Database
from farhand_control_plane.machines.execs import Execs
from farhand_control_plane.machines.hub import Hub
from farhand_shared.ids import InstanceId, ReplicaId


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSettings:
    """Where the two listeners bind, and what machines are told to dial."""

    enrol_bind: str = "127.0.0.1:0"
    link_bind: str = "127.0.0.1:0"
    link_advertise: str = ""  # host:port in RedeemResponse; empty: the bound address


class MachineService:
    """CA, enrolment and link listeners, dispatcher, output store and exec of one replica."""

    def __init__(
        self,
        *,
        database: Database,
        listener: Listener,
        dsn: str,
        replica_id: ReplicaId,
        instance_id: InstanceId,
        instance_key: bytes,
        settings: MachineSettings,
    ) -> None:
        """``instance_key``: 32 bytes that wrap the CA key; ``instance_id`` names the root."""
        raise NotImplementedError

    hub: Hub
    execs: Execs
    root_pem: bytes  # after open(): what machines pin and clients may trust
    enrol_port: int
    link_port: int

    async def open(self) -> None:
        """Make or load the CA, bind both listeners, start serving."""
        raise NotImplementedError

    async def drain(self, within_s: float = 10.0) -> None:
        """Ask every machine to go to another replica; returns when they left or the time is up."""
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError
