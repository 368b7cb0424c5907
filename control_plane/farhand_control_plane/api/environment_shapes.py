"""The JSON of environments on demand and of what makes them."""

from collections.abc import Sequence
from datetime import datetime

from pydantic import BaseModel, Field

from farhand_control_plane.db.environments import EnvironmentView
from farhand_control_plane.domain.environments import Offer
from farhand_control_plane.domain.words import EnvironmentState
from farhand_control_plane.provisioning.registry import Installed


class Environment(BaseModel):
    """An environment is a machine too: ``machine_id`` is its id among machines."""

    machine_id: str
    name: str
    requester_member_id: str
    ticket_id: str | None = Field(description="null: a person asked for it directly")
    provisioner: str
    state: EnvironmentState
    reason: str = Field(description="why it is destroyed; empty while it is not")
    error: str = Field(description="of the last try to make or destroy it; empty: none failed")
    created_at: datetime
    expires_at: datetime = Field(description="then it is destroyed, whatever it does")


class EnvironmentLimits(BaseModel):
    per_instance: int
    per_member: int
    lifetime_s: int
    grace_s: int = Field(description="how long one is kept after its ticket has closed")


class Provisioner(BaseModel):
    name: str
    package: str = Field(description="that it comes with")
    about: str
    in_use: bool = Field(description="FARHAND_PROVISIONER names it")
    environments: int = Field(description="that it has made and that are not known to be gone")
    limits: EnvironmentLimits | None = Field(description="null: not in use")


def environment(view: EnvironmentView) -> Environment:
    return Environment(
        machine_id=view.machine_id,
        name=view.name,
        requester_member_id=view.requester_member_id,
        ticket_id=view.ticket_id,
        provisioner=view.provisioner,
        state=view.state,
        reason=view.reason,
        error=view.error,
        created_at=view.created_at,
        expires_at=view.expires_at,
    )


def provisioner(
    one: Installed, offer: Offer | None, environments: Sequence[EnvironmentView]
) -> Provisioner:
    in_use = offer is not None and offer.provisioner == one.name
    limits = None
    if offer is not None and in_use:
        limits = EnvironmentLimits(
            per_instance=offer.limits.per_instance,
            per_member=offer.limits.per_member,
            lifetime_s=offer.limits.lifetime_s,
            grace_s=offer.limits.grace_s,
        )
    return Provisioner(
        name=one.name,
        package=one.package,
        about=one.about,
        in_use=in_use,
        environments=sum(view.provisioner == one.name for view in environments),
        limits=limits,
    )
