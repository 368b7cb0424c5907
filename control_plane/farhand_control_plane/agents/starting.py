"""A ticket's commands on machines, whatever they are: where one goes, and how its call waits."""

from farhand_control_plane.agents import show
from farhand_control_plane.agents.placing import FreshEnvironment, machine_for
from farhand_control_plane.agents.toolbox import CallSite, Outcome
from farhand_control_plane.db import commands, environments, machines, tickets
from farhand_control_plane.db.machines import MachineView, Presence
from farhand_control_plane.db.tickets import TicketView
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.environments import Offer
from farhand_control_plane.domain.words import MachineKind, MachineStatus
from farhand_control_plane.engine.contract import SessionRef, ToolDone, ToolWaits
from farhand_shared.command import CommandSpec

_TICKET_TIER = 3  # the authority of a ticket's own mandate


async def start(
    site: CallSite, *, machine: str, spec: CommandSpec, title: str, inline_wait_s: float
) -> Outcome:
    """Ask a machine for a command of the call's ticket; a call that is repeated asks once.

    ``machine``: a name, or what it must have. The outcome waits for the command's end, for so long;
    one that cannot be placed says why.
    """
    ticket = await ticket_of(site)
    usable = await usable_machines(site.tx, site.ref, ticket)
    chosen = machine_for(
        machine, usable, ticket.row.requester_member_id, ticket.row.ticket_id, site.offer
    )
    if isinstance(chosen, FreshEnvironment):
        chosen = await _made(site, ticket, chosen.offer)
    if isinstance(chosen, ToolDone):
        return chosen
    enqueued = await commands.enqueue(
        site.tx,
        commands.NewCommand(
            instance_id=site.ref.instance_id,
            machine_id=chosen.machine_id,
            requester_member_id=ticket.row.requester_member_id,
            spec=spec,
            title=title,  # cut, visibly, where it is stored
            ticket_id=ticket.row.ticket_id,
            session_id=site.ref.session_id,
            item_seq=site.item_seq,
            call_index=site.call_index,
            inferred=ticket.row.inferred,
            mandate_hash=ticket.mandate.mandate_hash,
            tier=_TICKET_TIER,
        ),
    )
    here = chosen.presence is Presence.ONLINE and chosen.status is not MachineStatus.PAUSED
    return ToolWaits(
        waits_for=f"command:{enqueued.command_id}:done",
        wait_s=inline_wait_s,
        otherwise=show.asked(enqueued.command_id, chosen.name, here=here),
    )


async def _made(site: CallSite, ticket: TicketView, offer: Offer) -> MachineView:
    """Return the machine of an environment that is made for the ticket; what runs there waits.

    Raises Conflict at a limit.
    """
    machine_id = await environments.want(
        site.tx,
        site.ref.instance_id,
        ticket.row.requester_member_id,
        offer,
        ticket_id=ticket.row.ticket_id,
        allow_inferred=ticket.row.inferred,
    )
    view = await machines.get(site.tx, site.ref.instance_id, machine_id)
    if view is None:
        raise AssertionError(f"environment {machine_id} has no machine")
    return view


async def ticket_of(site: CallSite) -> TicketView:
    """Return the ticket that the call's Worker does."""
    ticket_id = site.ref.ticket_id
    view = await tickets.get(site.tx, site.ref.instance_id, ticket_id) if ticket_id else None
    if view is None:
        raise AssertionError(f"worker session {site.ref.session_id} has no ticket")
    return view


async def usable_machines(tx: Tx, ref: SessionRef, ticket: TicketView) -> list[MachineView]:
    """Return the requester's own machines: by default only its owner may run there.

    Those that cannot be used yet are among them: that a machine waits for its confirmation is a
    better answer than that there is none of that name. Of environments on demand it has its own:
    those of other tickets go when these do.
    """
    return [
        machine
        for machine in await machines.list_all(tx, ref.instance_id)
        if machine.owner_member_id == ticket.row.requester_member_id
        and (
            machine.kind is not MachineKind.ON_DEMAND
            or machine.for_ticket_id == ticket.row.ticket_id
        )
    ]
