"""Which provisioners there are: ours, and those of installed packages."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from farhand_control_plane.provisioning.provisioner import Provisioner, Site
from farhand_shared.errors import InvalidInput

GROUP: Final = "farhand.provisioners"
# Ours are named here: another package must not take their place, and a checkout needs no metadata.
_OURS: Final = {
    "local_process": "farhand_control_plane.provisioning.local_process:LocalProcess",
    "local_container": "farhand_control_plane.provisioning.local_container:LocalContainer",
}

Factory = Callable[[Site], Provisioner]


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A provisioner that could be used."""

    name: str
    package: str  # whose it is
    about: str  # its first line


def installed() -> list[Installed]:
    """Return every provisioner by name; loads them, to say what each is."""
    others = [point for point in entry_points(group=GROUP) if point.name not in _OURS]
    return [
        *(Installed(name=name, package="farhand", about=_about(name)) for name in sorted(_OURS)),
        *(
            Installed(
                name=point.name,
                package=point.dist.name if point.dist else point.value,
                about=_about(point.name),
            )
            for point in sorted(others, key=lambda point: point.name)
        ),
    ]


def load(name: str, site: Site) -> Provisioner:
    """Return the provisioner of this name; InvalidInput when there is none, or it cannot be had."""
    return _factory(name)(site)


def _about(name: str) -> str:
    try:
        lines = (_factory(name).__doc__ or "").strip().splitlines()
    except InvalidInput as error:
        return str(error)
    return lines[0] if lines else ""


def _factory(name: str) -> Factory:
    if name in _OURS:
        module, _, attribute = _OURS[name].partition(":")
        found: Factory = getattr(import_module(module), attribute)
        return found
    points = entry_points(group=GROUP, name=name)
    if not points:
        known = ", ".join(sorted({*_OURS, *(point.name for point in entry_points(group=GROUP))}))
        raise InvalidInput(
            f"cannot use provisioner {name!r}: none of that name is installed; there are: {known}"
        )
    return _loaded(next(iter(points)))


def _loaded(point: EntryPoint) -> Factory:
    try:
        factory: Any = point.load()  # of a stranger's package: checked below
    except Exception as error:  # whatever its import raises is that package's own
        raise InvalidInput(
            f"cannot use provisioner {point.name!r}: {point.value} cannot be loaded: {error}; "
            "mend or remove that package"
        ) from error
    if not callable(factory):
        raise InvalidInput(
            f"cannot use provisioner {point.name!r}: {point.value} cannot be called; "
            "it has to take a Site and return a Provisioner"
        )
    made: Factory = factory
    return made
