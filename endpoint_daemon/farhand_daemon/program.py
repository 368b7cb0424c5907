"""The program as the installer put it on this computer: its folder, its link, whom it serves.

``farhandd-program/`` holds a folder per version, the link ``current``, and ``homes``: one line per
machine that the installer set up with it.
"""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = "farhandd-program"
COMPLETE: Final = "complete"  # in a version's folder, once the installer was done with it
_HOMES: Final = "homes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One installation, of all versions. ``link``: what puts it on a person's PATH."""

    folder: Path
    link: Path

    def other_homes(self, home: Path) -> tuple[Path, ...]:
        """Return the machines beside this one that the program is there for."""
        return tuple(
            other for other in self._homes() if other != home and (other / "identity.json").exists()
        )

    def forget(self, home: Path) -> None:
        """Strike a home off the list."""
        left = [other for other in self._homes() if other != home]
        with contextlib.suppress(FileNotFoundError):
            (self.folder / _HOMES).unlink()
        if left:
            (self.folder / _HOMES).write_bytes(b"".join(os.fsencode(home) + b"\n" for home in left))

    def remove(self) -> None:
        """Remove it all. Whoever runs from it goes on with what is loaded."""
        import shutil  # only who leaves needs it

        if self.link.is_symlink() and self.link.readlink().is_relative_to(self.folder):
            self.link.unlink()
        shutil.rmtree(self.folder)

    def _homes(self) -> list[Path]:
        try:
            text = os.fsdecode((self.folder / _HOMES).read_bytes())
        except FileNotFoundError:
            return []
        return [Path(line) for line in text.splitlines() if line]


def is_installed(prefix: Path) -> bool:
    """Tell whether the installer made the Python environment at ``prefix``."""
    return prefix.parent.name == FOLDER and (prefix / COMPLETE).exists()


def installed_program(prefix: Path, account_home: Path) -> Program | None:
    """Return the installation that a Python environment is part of; None when it is none."""
    if not is_installed(prefix):
        return None
    return Program(folder=prefix.parent, link=account_home / ".local" / "bin" / "farhandd")
