"""A replica that is killed between any two steps: the next one finishes, once."""

import asyncio
import sys
from pathlib import Path

import pytest

from tests.fakes import provisioning_process
from tests.integration.control_plane.provisioning.conftest import Yard

PROGRAM = Path(provisioning_process.__file__)
ROOT = PROGRAM.parents[2]


async def killed_at(yard: Yard, point: str) -> None:
    """Run a replica's loop until it has killed itself."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(PROGRAM), yard.database.dsn, str(yard.site.folder), yard.url, point),
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == -9, errors.decode()


@pytest.mark.parametrize("point", ["claimed", "code", "redeemed", "confirmed", "created"])
async def test_what_a_killed_replica_was_making_is_made_once(yard: Yard, point: str) -> None:
    machine_id = await yard.want()
    await killed_at(yard, point)
    async with yard.loop():
        await yard.is_(machine_id, "ready")
        view = await yard.online(machine_id)
        seen = await yard.lab.exec(yard.replica, view.name, "echo", "here")
        assert seen.bytes_of() == b"here\n"
        assert yard.left()[0] == [machine_id]
        await yard.destroy(machine_id)
        await yard.is_(machine_id, "destroyed")
    assert yard.left() == ([], set())
    assert len(await yard.lab.sql("select 1 from machines")) == 1


@pytest.mark.parametrize("point", ["destroying", "destroyed"])
async def test_what_a_killed_replica_was_destroying_is_gone(yard: Yard, point: str) -> None:
    async with yard.loop():
        machine_id = await yard.want()
        await yard.is_(machine_id, "ready")
        await yard.online(machine_id)
    await yard.destroy(machine_id)
    await killed_at(yard, point)
    async with yard.loop():
        await yard.is_(machine_id, "destroyed")
    assert yard.left() == ([], set())
