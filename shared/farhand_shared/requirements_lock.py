"""The locked dependencies of the daemon: a requirements file that also names the wheels.

pip reads the requirements, each with the hashes of all its wheels; the comments name the wheel of
each hash, so that whoever carries them needs no index to know which files there are.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from farhand_shared.errors import InvalidInput

_WHEEL: Final = re.compile(
    r"# wheel sha256:([0-9a-f]{64}) (([A-Za-z0-9_.]+)-([A-Za-z0-9_.!+]+)(?:-[0-9][A-Za-z0-9_.]*)?"
    r"-[A-Za-z0-9_.]+-[A-Za-z0-9_.]+-[A-Za-z0-9_.]+\.whl)"
)
_HEAD: Final = (
    "# The daemon's dependencies with the hashes of their wheels; from scripts/release.py."
)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class LockedWheel:
    """One file that a machine may install."""

    name: str  # of the file
    sha256: str

    @property
    def project(self) -> str:
        """The project's name as indexes spell it."""
        return normal_name(self.name.partition("-")[0])

    @property
    def version(self) -> str:
        return self.name.split("-")[1]


def normal_name(project: str) -> str:
    """Return a project's name as indexes spell it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", project).lower()


def render_lock(wheels: Iterable[LockedWheel]) -> str:
    """Return the file's text; InvalidInput where a project has wheels of two versions."""
    lines = [_HEAD]
    ordered = sorted(set(wheels), key=lambda wheel: (wheel.project, wheel.name, wheel.sha256))
    for project, group in groupby(ordered, key=lambda wheel: wheel.project):
        files = list(group)
        versions = {wheel.version for wheel in files}
        if len(versions) != 1:
            raise InvalidInput(
                f"cannot lock {project}: there are wheels of {', '.join(sorted(versions))}; "
                "one version must fit every machine"
            )
        lines += [f"# wheel sha256:{wheel.sha256} {wheel.name}" for wheel in files]
        hashes = [f"    --hash=sha256:{wheel.sha256}" for wheel in files]
        lines.append(f"{project}=={versions.pop()} \\")
        lines.append(" \\\n".join(hashes))
    return "\n".join(lines) + "\n"


def parse_lock(text: str) -> tuple[LockedWheel, ...]:
    """Return the wheels that a lock names."""
    found = (_WHEEL.fullmatch(line) for line in text.splitlines())
    return tuple(
        LockedWheel(name=match[2], sha256=match[1]) for match in found if match is not None
    )
