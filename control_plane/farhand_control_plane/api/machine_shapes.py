"""The JSON of what people change about a machine, and of the choice among machines."""

from pydantic import BaseModel, Field

from farhand_control_plane.api.shapes import Asked
from farhand_control_plane.db.machines import Presence
from farhand_control_plane.domain.placement import Placement
from farhand_control_plane.domain.selector import Selector, render


class NameAsked(Asked):
    name: str = Field(description="no other machine may have it")


class LabelsAsked(Asked):
    add: list[str] = Field(default_factory=list, description="build, or team=infra")
    remove: list[str] = Field(default_factory=list, description="names")


class MachineAnswer(BaseModel):
    """One machine's answer to a selector."""

    id: str
    name: str
    fits: bool
    presence: Presence
    reasons: list[str] = Field(
        description="in words: why it fits, or everything that is against it"
    )


class Explained(BaseModel):
    """Where work goes that asks for this selector."""

    selector: str = Field(description="as it was understood")
    chosen: str | None = Field(description="the machine's id; null when none fits")
    waits: bool = Field(description="the chosen one is not here: the work waits for it")
    makes: str | None = Field(
        description="the provisioner that would make a fresh environment for it; null: none does"
    )
    summary: str
    machines: list[MachineAnswer] = Field(description="the best one first")


def explained(selector: Selector, placement: Placement) -> Explained:
    return Explained(
        selector=render(selector),
        chosen=placement.chosen,
        waits=placement.waits,
        makes=placement.makes,
        summary=placement.summary,
        machines=[
            MachineAnswer(
                id=answer.machine_id,
                name=answer.name,
                fits=answer.fits,
                presence=Presence.ONLINE if answer.online else Presence.OFFLINE,
                reasons=list(answer.reasons),
            )
            for answer in placement.machines
        ],
    )
