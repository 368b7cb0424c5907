"""Environments of a test: a replica that lets machines in, and a provisioner with its loop."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from farhand_control_plane.config import load
from farhand_control_plane.db import environments, machines
from farhand_control_plane.db.bootstrap import Bootstrap
from farhand_control_plane.db.listen import Listener
from farhand_control_plane.db.pool import Database
from farhand_control_plane.domain.environments import Limits, Offer
from farhand_control_plane.machines.service import MachineService
from farhand_control_plane.provisioning.local_process import LocalProcess
from farhand_control_plane.provisioning.loop import Provisioning, Rhythm
from farhand_control_plane.provisioning.processes import processes_of
from farhand_control_plane.provisioning.provisioner import Provisioner, Site
from farhand_shared.ids import MachineId, ReplicaId, TicketId, new_id
from tests.fakes.machine_lab import Lab, Until
from tests.fakes.well_known import well_known

QUICK = Rhythm(look_s=0.1, list_s=0.2, lease_s=2.0, renew_s=0.3)
OFFER = Offer(provisioner="local_process", limits=Limits(grace_s=0))


@dataclass(eq=False)
class Yard:
    """One instance whose environments are folders of this test."""

    lab: Lab
    replica: MachineService
    url: str
    site: Site
    until: Until

    @property
    def database(self) -> Database:
        return self.lab.database

    @property
    def instance(self) -> Bootstrap:
        return self.lab.instance

    @property
    def folder(self) -> Path:
        return self.site.folder / self.instance.instance_id

    async def want(self, ticket_id: str | None = None, *, offer: Offer = OFFER) -> MachineId:
        async with self.database.transaction() as tx:
            return await environments.want(
                tx,
                self.instance.instance_id,
                self.instance.owner_member_id,
                offer,
                ticket_id=None if ticket_id is None else TicketId(ticket_id),
            )

    async def destroy(self, machine_id: MachineId, why: str = "a test") -> None:
        async with self.database.transaction() as tx:
            await environments.destroy(tx, self.instance.instance_id, machine_id, why=why)

    async def row(self, machine_id: MachineId) -> dict[str, Any]:
        rows = await self.lab.sql(
            "select e.*, m.status, m.name from environments e join machines m using (machine_id)"
        )
        return next(dict(row) for row in rows if row["machine_id"] == machine_id)

    async def is_(self, machine_id: MachineId, state: str) -> dict[str, Any]:
        """Wait until an environment is in a state; return its row."""

        async def look() -> dict[str, Any] | None:
            row = await self.row(machine_id)
            return row if row["state"] == state else None

        found: dict[str, Any] = await self.until(look)
        return found

    async def online(self, machine_id: MachineId) -> machines.MachineView:
        """Wait until its daemon is connected."""

        async def look() -> machines.MachineView | None:
            async with self.database.transaction() as tx:
                view = await machines.get(tx, self.instance.instance_id, machine_id)
            online = view is not None and view.presence is machines.Presence.ONLINE
            return view if online else None

        found: machines.MachineView = await self.until(look)
        return found

    async def clear(self) -> None:
        """Destroy whatever a test has left."""
        provisioner = LocalProcess(self.site)
        for one in await provisioner.list_all():
            await provisioner.destroy(one.environment_id)
        assert self.left() == ([], set())

    def left(self) -> tuple[list[str], set[int]]:
        """Return what lies in the folder, and what runs there."""
        names = sorted(path.name for path in self.folder.iterdir()) if self.folder.exists() else []
        return names, processes_of(self.folder)

    @asynccontextmanager
    async def loop(
        self, provisioner: Provisioner | None = None, *, offer: Offer = OFFER
    ) -> AsyncIterator[Provisioning]:
        """Run a replica's loop until the block ends."""
        async with Listener(self.database.dsn) as listener:
            loop = Provisioning(
                self.database,
                listener,
                instance_id=self.instance.instance_id,
                replica_id=ReplicaId(new_id()),
                provisioner=provisioner or LocalProcess(self.site),
                offer=offer,
                rhythm=QUICK,
            )
            task = asyncio.create_task(loop.run(self.url))
            try:
                yield loop
            finally:
                task.cancel()
                ended = await asyncio.gather(task, return_exceptions=True)
            assert isinstance(ended[0], asyncio.CancelledError), ended


MakeYard = Callable[[], Any]


@pytest.fixture
async def yard(
    database: Database, instance: Bootstrap, until: Until, tmp_path: Path
) -> AsyncIterator[Yard]:
    async with AsyncExitStack() as stack:
        lab = Lab(database, instance, until)
        await stack.enter_async_context(lab.stack)
        replica = await lab.replica()
        url = stack.enter_context(well_known(replica))
        site = Site(
            instance_id=instance.instance_id,
            folder=tmp_path / "environments",
            settings=load({"FARHAND_HOME": str(tmp_path)}),
            environ=os.environ,
        )
        yard = Yard(lab=lab, replica=replica, url=url, site=site, until=until)
        try:
            yield yard
        finally:
            await yard.clear()
