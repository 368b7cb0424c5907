"""The machine that a tool call means: one that is named, else the one that has what is asked."""

from collections.abc import Sequence
from dataclasses import dataclass

from farhand_control_plane.agents.toolbox import failed
from farhand_control_plane.db import placing
from farhand_control_plane.db.machines import MachineView
from farhand_control_plane.domain.environments import Offer
from farhand_control_plane.domain.machine_names import the_one_named
from farhand_control_plane.domain.placement import place
from farhand_control_plane.domain.selector import parse
from farhand_control_plane.engine.contract import ToolDone
from farhand_shared.errors import InvalidInput
from farhand_shared.ids import MemberId, TicketId


@dataclass(frozen=True, slots=True)
class FreshEnvironment:
    """No machine that exists is meant: one is to be made."""

    offer: Offer


def machine_for(
    wanted: str,
    usable: Sequence[MachineView],
    member_id: MemberId,
    ticket_id: TicketId,
    offer: Offer | None,
) -> MachineView | FreshEnvironment | ToolDone:
    """Return the machine for a ticket's work; else the call's result, which says what is wrong.

    A name comes before a selector of the same letters. An offline machine is returned when only
    such fit: the command waits for it. ``offer``: what can be made for work that asks for it.
    """
    meant = the_one_named(wanted, (machine.name for machine in usable))
    for machine in usable:
        if machine.name == meant:
            return machine
    try:
        selector = parse(wanted)
    except InvalidInput as error:
        names = ", ".join(machine.name for machine in usable) or "none"
        return failed(
            "unknown_machine",
            f"no machine named {wanted!r} may be used; there are: {names}. "
            f"Read as what it must have: {error}",
        )
    placement = place(selector, placing.candidates(usable, member_id, ticket_id), offer)
    for machine in usable:
        if machine.machine_id == placement.chosen:
            return machine
    if placement.makes is not None and offer is not None:
        return FreshEnvironment(offer)
    against = [f"{one.name}: {', '.join(one.reasons)}" for one in placement.machines]
    return failed("no_machine_fits", "\n".join([placement.summary, *against]))
