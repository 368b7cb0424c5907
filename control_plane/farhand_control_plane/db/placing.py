"""Machines as placement sees them."""

from collections.abc import Mapping, Sequence
from typing import Any

from farhand_control_plane.db.machines import MachineView, Presence
from farhand_control_plane.domain.placement import Candidate, Survey
from farhand_shared.ids import MemberId, TicketId

_TAKES_NOTHING = "off"  # the trust level


def candidates(
    views: Sequence[MachineView], member_id: MemberId, ticket_id: TicketId | None = None
) -> list[Candidate]:
    """Return these machines as candidates for work of a member, for a ticket or for none."""
    return [candidate(view, member_id, ticket_id) for view in views]


def candidate(
    view: MachineView, member_id: MemberId, ticket_id: TicketId | None = None
) -> Candidate:
    """Return one machine as a candidate; facts of a form that nobody knows count as not told."""
    facts = view.facts
    return Candidate(
        machine_id=view.machine_id,
        name=view.name,
        status=view.status,
        kind=view.kind,
        of_other_work=view.for_ticket_id != ticket_id,
        online=view.presence is Presence.ONLINE,
        # Before its first Hello the column says "off" of a machine that has not spoken.
        takes_commands=view.trust_level != _TAKES_NOTHING or view.seen_at is None,
        is_askers=view.owner_member_id == member_id,
        os=_text(facts.get("os")),
        arch=_text(facts.get("arch")),
        cpus=_number(facts.get("cpus")),
        memory_bytes=_number(facts.get("memory_bytes")),
        labels=view.labels,
        survey=_survey(facts),
        open_commands=view.running + view.queued,
        concurrency=view.concurrency,
    )


def _survey(facts: Mapping[str, Any]) -> Survey | None:  # Any: JSON
    tools = facts.get("tools")
    if not isinstance(tools, dict):
        return None
    return Survey(
        disk_free_bytes=_number(facts.get("disk_free_bytes")),
        gpus=tuple(map(_text, _list(facts.get("gpus")))),
        on_battery=facts.get("on_battery") is True,
        tools={_text(name).lower(): _text(version) for name, version in tools.items()},
        repositories=tuple(
            _text(one.get("remote")).lower()
            for one in _list(facts.get("repositories"))
            if isinstance(one, dict)
        ),
    )


def _text(value: Any) -> str:  # Any: JSON
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int:  # Any: JSON
    return value if isinstance(value, int) else 0


def _list(value: Any) -> list[Any]:  # Any: JSON
    return value if isinstance(value, list) else []
