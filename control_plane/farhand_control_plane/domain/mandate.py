"""What a Ticket may do and how far: the policy's template cut down by the request, hashed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from farhand_control_plane.domain.canonical import canonical_hash
from farhand_shared.errors import InvalidInput
from farhand_shared.ids import EvalId, InstanceId, MachineId, MemberId, TicketId

RUN_COMMAND: Final = "run_command"
REPLY: Final = "reply"
ACTIONS: Final = (RUN_COMMAND, REPLY)
TIER_MAX: Final = 5

_OWNED: Final = "owned"  # every machine that the requester owns, whenever it was enrolled


@dataclass(frozen=True, slots=True, kw_only=True)
class MandateScope:
    """Which actions, on which machines, with how much authority."""

    actions: frozenset[str]
    machines: frozenset[MachineId] | None  # None: those the requester owns
    tier_max: int

    def within(self, outer: "MandateScope") -> bool:
        """Tell whether everything this scope allows is allowed by the other one too."""
        return (
            self.actions <= outer.actions
            and self.tier_max <= outer.tier_max
            and (
                outer.machines is None
                or (self.machines is not None and self.machines <= outer.machines)
            )
        )

    def to_json(self) -> dict[str, Any]:
        """Return the stored form; lists are sorted so that equal scopes are equal bytes."""
        return {
            "actions": sorted(self.actions),
            "machines": _OWNED if self.machines is None else sorted(self.machines),
            "tier_max": self.tier_max,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeRequest:
    """What is asked for. None: as much as the template gives."""

    actions: frozenset[str] | None = None
    machines: frozenset[MachineId] | None = None
    tier_max: int | None = None
    valid_for_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MandateTemplate:
    """The most that a policy version grants to one Ticket."""

    scope: MandateScope
    valid_for_s: int


def scope_from_json(value: Mapping[str, Any]) -> MandateScope:
    """Return the scope of a stored form; raise InvalidInput for one that is none.

    An unknown action is kept: it is of a later release, and grants nothing here.
    """
    try:
        machines = value["machines"]
        scope = MandateScope(
            actions=frozenset(str(action) for action in value["actions"]),
            machines=None if machines == _OWNED else frozenset(MachineId(m) for m in machines),
            tier_max=int(value["tier_max"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"cannot read a mandate's scope: {error!r}") from error
    if not 0 <= scope.tier_max <= TIER_MAX:
        raise InvalidInput(
            f"cannot read a mandate's scope: tier_max {scope.tier_max} is not 0 to {TIER_MAX}"
        )
    return scope


def grant(template: MandateTemplate, request: ScopeRequest) -> MandateTemplate:
    """Return template ∩ request: never more than either. Raises InvalidInput for an empty grant."""
    outer = template.scope
    actions = outer.actions if request.actions is None else outer.actions & request.actions
    if request.machines is None:
        machines = outer.machines
    elif outer.machines is None:
        machines = request.machines
    else:
        machines = outer.machines & request.machines
    tiers = [outer.tier_max] if request.tier_max is None else [outer.tier_max, request.tier_max]
    periods = [template.valid_for_s]
    if request.valid_for_s is not None:
        periods.append(request.valid_for_s)
    if not actions or (machines is not None and not machines) or min(tiers) < 0 or min(periods) < 1:
        raise InvalidInput(
            "cannot open a ticket: the policy grants nothing of what it asks for; "
            "ask for less or change the policy"
        )
    return MandateTemplate(
        scope=MandateScope(actions=actions, machines=machines, tier_max=min(tiers)),
        valid_for_s=min(periods),
    )


def mandate_hash(
    *,
    instance_id: InstanceId,
    ticket_id: TicketId,
    eval_id: EvalId,
    policy_version: int,
    granted_by_member_id: MemberId,
    scope: MandateScope,
    valid_until: datetime,
) -> bytes:
    """Return the hash that names a Mandate: SHA-256 over its canonical JSON.

    Covers everything the Mandate says, the time in whole milliseconds since 1970.
    """
    return canonical_hash(
        {
            "v": 1,
            "instance_id": instance_id,
            "ticket_id": ticket_id,
            "eval_id": eval_id,
            "policy_version": policy_version,
            "granted_by_member_id": granted_by_member_id,
            "scope": scope.to_json(),
            "valid_until_ms": int(valid_until.timestamp() * 1000),
        }
    )
