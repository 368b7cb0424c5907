"""Commands: how they stand, what they wrote, stopping one."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from farhand_control_plane.api import shapes
from farhand_control_plane.api.access import Executor, Reader
from farhand_control_plane.api.machines import find as find_machine
from farhand_control_plane.api.services import Services, services_of
from farhand_control_plane.db import command_stops, command_views, output
from farhand_control_plane.db.command_views import CommandView
from farhand_control_plane.db.tokens import Caller
from farhand_control_plane.db.transaction import Tx
from farhand_shared.errors import InvalidInput, NotAllowed, NotFound
from farhand_shared.ids import CommandId, is_id
from farhand_shared.limits import KIB, MIB
from farhand_shared.link_events import Stream

router = APIRouter(prefix="/v1/commands", tags=["commands"])

_Services = Annotated[Services, Depends(services_of)]
_Bytes = Annotated[int, Query(ge=0, le=MIB)]


@router.get("")
async def list_commands(
    caller: Reader,
    services: _Services,
    machine_id: Annotated[str | None, Query(description="of this machine only")] = None,
    open_only: Annotated[
        bool, Query(alias="open", description="only those that have not ended")
    ] = False,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: str | None = None,
) -> shapes.Page[shapes.Command]:
    """List commands, newest first: direct ones and those of tickets."""
    if cursor is not None and not is_id(cursor):
        raise InvalidInput("cannot list commands: the cursor is not one of ours; start without it")
    async with services.database.transaction() as tx:
        machine = None if machine_id is None else await find_machine(tx, caller, machine_id)
        found = await command_views.recent(
            tx,
            caller.instance_id,
            machine_id=None if machine is None else machine.machine_id,
            open_only=open_only,
            before=None if cursor is None else CommandId(cursor),
            limit=limit + 1,
        )
    return shapes.page_of(
        [shapes.command(view) for view in found], limit, [view.command_id for view in found]
    )


@router.get("/{command_id}")
async def show_command(
    command_id: str,
    caller: Reader,
    services: _Services,
    head: _Bytes = 16 * KIB,
    tail: _Bytes = 16 * KIB,
) -> shapes.CommandWithOutput:
    """Show a command with the first ``head`` and last ``tail`` bytes of its output, as text."""
    async with services.database.transaction() as tx:
        view = await find(tx, caller, command_id)
        stdout, stderr = [
            await output.head_tail(tx, caller.instance_id, view.attempt_id, stream, head, tail)
            for stream in (Stream.STDOUT, Stream.STDERR)
        ]
    return shapes.CommandWithOutput(
        **shapes.command_fields(view), stdout=shapes.output(stdout), stderr=shapes.output(stderr)
    )


@router.post("/{command_id}/stop")
async def stop_command(command_id: str, caller: Executor, services: _Services) -> shapes.Command:
    """Ask for its end: at once when it is still queued, else when its machine proves it."""
    async with services.database.transaction() as tx:
        view = await find(tx, caller, command_id)
        if view.requester_member_id != caller.member_id:
            raise NotAllowed("cannot stop this command: somebody else asked for it")
        await command_stops.request_stop(
            tx, caller.instance_id, command_id=view.command_id, reason="cancel"
        )
        return shapes.command(await find(tx, caller, command_id))


async def find(tx: Tx, caller: Caller, command_id: str) -> CommandView:
    """Return one of the instance's commands; raise NotFound."""
    found = (
        await command_views.get(tx, caller.instance_id, CommandId(command_id))
        if is_id(command_id)
        else None
    )
    if found is None:
        raise NotFound(f"cannot find command {command_id!r}")
    return found
