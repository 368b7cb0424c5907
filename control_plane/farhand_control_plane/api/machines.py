"""Machines: seeing them, letting one in, choosing among them, changing and revoking one."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request

from farhand_control_plane.api import machine_shapes, shapes
from farhand_control_plane.api.access import MachineKeeper, Reader
from farhand_control_plane.api.install import install_line, url_of
from farhand_control_plane.api.services import Services, services_of
from farhand_control_plane.db import enrolment, machine_changes, machines, placing
from farhand_control_plane.db.machines import MachineView
from farhand_control_plane.db.tokens import Caller
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.placement import place
from farhand_control_plane.domain.selector import parse
from farhand_control_plane.domain.words import MachineKind
from farhand_shared.errors import InvalidInput, NotFound
from farhand_shared.ids import MachineId, is_id
from farhand_shared.labels import parse_labels

router = APIRouter(prefix="/v1/machines", tags=["machines"])

_Services = Annotated[Services, Depends(services_of)]
_WORDS = 6
_NAME_MAX = 64
_NOT_NAMES = ("codes", "explain")  # paths of their own beside those of machines


@router.get("")
async def list_machines(
    caller: Reader,
    services: _Services,
    revoked: Annotated[bool, Query(description="list revoked ones too")] = False,
    coming: Annotated[
        bool, Query(description="list environments that are being made too: nobody confirms these")
    ] = False,
) -> shapes.Page[shapes.Machine]:
    async with services.database.transaction() as tx:
        found = await machines.list_all(tx, caller.instance_id, with_revoked=revoked)
    return shapes.Page(
        items=[shapes.machine(view) for view in found if coming or not view.is_coming]
    )


@router.post("/codes", status_code=201)
async def make_code(
    asked: shapes.CodeAsked, caller: MachineKeeper, request: Request, services: _Services
) -> shapes.CodeMade:
    """Make a code that lets one computer in, once, within ten minutes."""
    name = None if asked.name is None else checked_name(asked.name)
    url = url_of(request, services)
    async with services.database.transaction() as tx:
        made = await enrolment.make_code(
            tx,
            caller.instance_id,
            caller.member_id,
            name,
            kind=MachineKind(asked.kind or "personal"),
        )
    return shapes.CodeMade(
        id=made.code_id,
        code=made.text,
        expires_at=made.expires_at,
        url=url,
        install_line=install_line(url),
    )


@router.get("/codes/{code_id}")
async def show_code(code_id: str, caller: Reader, services: _Services) -> shapes.Code:
    """Tell whether a code was used, by which machine, and the six words to compare."""
    async with services.database.transaction() as tx:
        found = await enrolment.code(tx, caller.instance_id, code_id) if is_id(code_id) else None
    if found is None:
        raise NotFound("cannot find this code; make one with farhand machines add")
    return shapes.code(found)


@router.get("/explain")
async def explain_selector(
    selector: Annotated[
        str, Query(description="machine=NAME, or terms such as os=linux gpu repo:acme/web")
    ],
    caller: Reader,
    services: _Services,
) -> machine_shapes.Explained:
    """Say which machine the caller's work would go to, and why not to each of the others."""
    asked = parse(selector)
    async with services.database.transaction() as tx:
        views = await machines.list_all(tx, caller.instance_id)
    return machine_shapes.explained(
        asked, place(asked, placing.candidates(views, caller.member_id), services.offer)
    )


@router.get("/{machine}")
async def show_machine(machine: str, caller: Reader, services: _Services) -> shapes.Machine:
    """Show one machine by name or id."""
    async with services.database.transaction() as tx:
        return shapes.machine(await find(tx, caller, machine))


@router.post("/{machine}/confirm")
async def confirm_machine(
    machine: str, asked: shapes.WordsAsked, caller: MachineKeeper, services: _Services
) -> shapes.Machine:
    """Make a pending machine active: whoever made its code has compared the six words."""
    if len(asked.words) != _WORDS:
        raise InvalidInput(
            f"cannot confirm {machine}: {len(asked.words)} words given; give the {_WORDS} it shows"
        )
    words = tuple(word.strip().lower() for word in asked.words)
    async with services.database.transaction() as tx:
        view = await find(tx, caller, machine)
        await enrolment.confirm(tx, caller.instance_id, caller.member_id, view.machine_id, words)
        return shapes.machine(await find(tx, caller, view.machine_id))


@router.post("/{machine}/rename")
async def rename_machine(
    machine: str, asked: machine_shapes.NameAsked, caller: MachineKeeper, services: _Services
) -> shapes.Machine:
    """Give a machine another name."""
    name = checked_name(asked.name)
    async with services.database.transaction() as tx:
        view = await find(tx, caller, machine)
        await machine_changes.rename(
            tx, caller.instance_id, view.machine_id, caller.member_id, name
        )
        return shapes.machine(await find(tx, caller, view.machine_id))


@router.post("/{machine}/labels")
async def label_machine(
    machine: str, asked: machine_shapes.LabelsAsked, caller: MachineKeeper, services: _Services
) -> shapes.Machine:
    """Add, change and remove labels; those in the machine's own file stay and win."""
    add = parse_labels(asked.add)
    async with services.database.transaction() as tx:
        view = await find(tx, caller, machine)
        await machine_changes.label(
            tx,
            caller.instance_id,
            view.machine_id,
            caller.member_id,
            add=add,
            remove=asked.remove,
        )
        return shapes.machine(await find(tx, caller, view.machine_id))


@router.post("/{machine}/pause")
async def pause_machine(machine: str, caller: MachineKeeper, services: _Services) -> shapes.Machine:
    """Start nothing more there: what runs goes on, what is queued waits until it is resumed."""
    async with services.database.transaction() as tx:
        view = await find(tx, caller, machine)
        await machine_changes.pause(tx, caller.instance_id, view.machine_id, caller.member_id)
        return shapes.machine(await find(tx, caller, view.machine_id))


@router.post("/{machine}/resume")
async def resume_machine(
    machine: str, caller: MachineKeeper, services: _Services
) -> shapes.Machine:
    """Let a paused machine take work again, its queue first."""
    async with services.database.transaction() as tx:
        view = await find(tx, caller, machine)
        await machine_changes.resume(tx, caller.instance_id, view.machine_id, caller.member_id)
        return shapes.machine(await find(tx, caller, view.machine_id))


@router.post("/{machine}/revoke")
async def revoke_machine(
    machine: str, caller: MachineKeeper, services: _Services
) -> shapes.Machine:
    """End a machine for good: its link closes within two seconds."""
    async with services.database.transaction() as tx:
        view = await find(tx, caller, machine)
        await machines.revoke(tx, caller.instance_id, view.machine_id, member_id=caller.member_id)
        return shapes.machine(await find(tx, caller, view.machine_id))


async def find(tx: Tx, caller: Caller, name_or_id: str) -> MachineView:
    """Return the caller's machine of this name or id; raise NotFound."""
    found = (
        await machines.get(tx, caller.instance_id, MachineId(name_or_id))
        if is_id(name_or_id)
        else None
    )
    if found is None and "\0" not in name_or_id:
        found = await machines.find(tx, caller.instance_id, name_or_id)
    if found is None:
        raise NotFound(
            f"cannot find machine {name_or_id!r}: no machine has this name or id; "
            "see farhand machines list"
        )
    return found


def checked_name(name: str) -> str:
    """Return a name that is fit for a machine; raise InvalidInput."""
    name = name.strip()
    if not name or len(name) > _NAME_MAX or not name.isprintable() or "/" in name:
        raise InvalidInput(
            f"cannot call a machine {name[:_NAME_MAX]!r}: "
            f"use 1 to {_NAME_MAX} printable characters other than /"
        )
    if name in _NOT_NAMES:
        raise InvalidInput(f"cannot call a machine {name!r}: the word is taken; choose another")
    return name
