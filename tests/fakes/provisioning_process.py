"""A replica's provisioning loop in a process of its own, which dies where it is told to.

usage: provisioning_process.py DSN FOLDER URL POINT: makes and destroys real environments
(local_process) in FOLDER, and kills itself (SIGKILL) when it reaches POINT: claimed, code,
redeemed, confirmed, created, destroying, destroyed.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from farhand_control_plane.config import load
from farhand_control_plane.db.bootstrap import ensure_instance
from farhand_control_plane.db.listen import Listener
from farhand_control_plane.db.pool import Database
from farhand_control_plane.domain.environments import Offer
from farhand_control_plane.provisioning.local_process import LocalProcess
from farhand_control_plane.provisioning.loop import Provisioning, Rhythm
from farhand_control_plane.provisioning.provisioner import Found, Redeemed, Request, Site
from farhand_shared.ids import ReplicaId, new_id
from farhand_shared.redact import Secret


class Dying:
    """A provisioner around another one; it dies at a point."""

    def __init__(self, inner: LocalProcess, point: str) -> None:
        self._inner = inner
        self._point = point

    os = LocalProcess.os
    arch = LocalProcess.arch

    def _reached(self, point: str) -> None:
        if point == self._point:
            os.kill(os.getpid(), signal.SIGKILL)

    async def place(self) -> str:
        return await self._inner.place()

    async def create(self, request: Request) -> None:
        self._reached("claimed")

        async def code() -> Secret:
            made = await request.code()
            self._reached("code")
            return made

        async def confirm(said: Redeemed) -> None:
            self._reached("redeemed")
            await request.confirm(said)
            self._reached("confirmed")

        await self._inner.create(replace(request, code=code, confirm=confirm))
        self._reached("created")

    async def destroy(self, environment_id: str) -> None:
        self._reached("destroying")
        await self._inner.destroy(environment_id)
        self._reached("destroyed")

    async def list_all(self) -> Sequence[Found]:
        return await self._inner.list_all()


async def main(dsn: str, folder: Path, url: str, point: str) -> None:
    async with Database(dsn) as database, Listener(dsn) as listener:
        async with database.transaction() as tx:
            bootstrap = await ensure_instance(tx)
        site = Site(
            instance_id=bootstrap.instance_id,
            folder=folder,
            settings=load({"FARHAND_HOME": str(folder)}),
            environ=os.environ,
        )
        provisioner = Dying(LocalProcess(site), point)
        await Provisioning(
            database,
            listener,
            instance_id=bootstrap.instance_id,
            replica_id=ReplicaId(new_id()),
            provisioner=provisioner,
            offer=Offer(provisioner="local_process"),
            rhythm=Rhythm(look_s=0.1, lease_s=1.0, renew_s=0.3),
        ).run(url)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4]))
