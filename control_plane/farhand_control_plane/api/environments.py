"""Environments on demand: asking for one, seeing them, having one destroyed."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends

from farhand_control_plane.api import environment_shapes, shapes
from farhand_control_plane.api.access import MachineKeeper, Reader
from farhand_control_plane.api.machines import find
from farhand_control_plane.api.services import Services, services_of
from farhand_control_plane.db import environments, machines
from farhand_control_plane.db.environments import EnvironmentView
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import MachineKind
from farhand_control_plane.provisioning import registry
from farhand_shared.errors import InvalidInput, NotFound
from farhand_shared.ids import InstanceId, MachineId

router = APIRouter(tags=["environments"])

_Services = Annotated[Services, Depends(services_of)]


@router.get("/v1/provisioners")
async def list_provisioners(
    caller: Reader, services: _Services
) -> shapes.Page[environment_shapes.Provisioner]:
    """List what can make environments, and which of them does."""
    installed = await asyncio.to_thread(registry.installed)  # reads packages
    async with services.database.transaction() as tx:
        made = await environments.list_all(tx, caller.instance_id)
    return shapes.Page(
        items=[environment_shapes.provisioner(one, services.offer, made) for one in installed]
    )


@router.get("/v1/environments")
async def list_environments(
    caller: Reader, services: _Services
) -> shapes.Page[environment_shapes.Environment]:
    """List environments that are wanted, that are there, and that are being destroyed."""
    async with services.database.transaction() as tx:
        found = await environments.list_all(tx, caller.instance_id)
    return shapes.Page(items=[environment_shapes.environment(view) for view in found])


@router.post("/v1/environments", status_code=201)
async def make_environment(
    caller: MachineKeeper, services: _Services
) -> environment_shapes.Environment:
    """Ask for an environment of the caller's own, for no ticket: it lives until it is destroyed,
    or until its lifetime is over."""
    if services.offer is None:
        raise InvalidInput(
            "cannot make an environment: no provisioner is configured; set FARHAND_PROVISIONER and "
            "start the server again"
        )
    async with services.database.transaction() as tx:
        machine_id = await environments.want(
            tx, caller.instance_id, caller.member_id, services.offer
        )
        return environment_shapes.environment(await _view(tx, caller.instance_id, machine_id))


@router.post("/v1/environments/{machine}/destroy")
async def destroy_environment(
    machine: str, caller: MachineKeeper, services: _Services
) -> environment_shapes.Environment:
    """Have an environment destroyed, with everything in it; what runs there is ended."""
    async with services.database.transaction() as tx:
        found = await find(tx, caller, machine)
        if found.kind is not MachineKind.ON_DEMAND:
            raise InvalidInput(
                f"cannot destroy {found.name}: it is a {found.kind.value} machine, which nobody "
                "but its people can destroy; farhand machines revoke ends it here"
            )
        await machines.lock_kept(
            tx, caller.instance_id, found.machine_id, caller.member_id, "destroy"
        )
        await environments.destroy(
            tx, caller.instance_id, found.machine_id, why="a person asked for it"
        )
        return environment_shapes.environment(await _view(tx, caller.instance_id, found.machine_id))


async def _view(tx: Tx, instance_id: InstanceId, machine_id: MachineId) -> EnvironmentView:
    for view in await environments.list_all(tx, instance_id):
        if view.machine_id == machine_id:
            return view
    raise NotFound("cannot find the environment: it is gone already")
