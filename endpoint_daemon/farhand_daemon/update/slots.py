"""The installed versions of the program: which one is current, which one is the way back.

A version lies in a folder of its own, named after its wheel's hash, and is never changed once it
is complete: commands go on with the supervisors, and thus the files, of the version that started
them. Two links say what the folders are for: ``current`` and ``previous``.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from farhand_daemon.program import COMPLETE, is_installed

NAME_LENGTH: Final = 16  # of the hash's hex digits; the installer counts the same
_NAME: Final = re.compile(r"[0-9a-f]{16}")
_CURRENT: Final = "current"
_PREVIOUS: Final = "previous"


@dataclass(frozen=True, slots=True)
class Slot:
    """One version's folder."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def program(self) -> Path:
        return self.folder / "bin" / "farhandd"

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def is_complete(self) -> bool:
        """Tell whether whoever installed it was done with it."""
        return (self.folder / COMPLETE).exists() and self.program.exists()

    def version(self) -> str:
        """Return what its wheel calls itself; "unknown" where that cannot be seen."""
        for found in self.folder.glob("lib/python3*/site-packages/farhand_daemon-*.dist-info"):
            return found.name.removeprefix("farhand_daemon-").removesuffix(".dist-info")
        return "unknown"


@dataclass(frozen=True, slots=True)
class Slots:
    """All versions of one installation."""

    folder: Path

    def named(self, sha256: str) -> Slot:
        """Return the slot of the wheel with this hash, whether or not it is there."""
        return Slot(self.folder / sha256[:NAME_LENGTH])

    def current(self) -> Slot | None:
        return self._at(_CURRENT)

    def previous(self) -> Slot | None:
        """Return the version that was current before; None when there is no way back."""
        return self._at(_PREVIOUS)

    def make_current(self, slot: Slot) -> None:
        """Switch; what was current becomes the way back. Broken off, the old one is current."""
        was = self.current()
        if was is not None and was != slot:
            self._point(_PREVIOUS, was)
        self._point(_CURRENT, slot)

    def prune(self, keep: Iterable[str]) -> None:
        """Remove versions that are neither current nor the way back, nor named, nor run from."""
        import shutil  # the daemon itself removes nothing

        kept = {slot.name for slot in (self.current(), self.previous()) if slot is not None}
        kept |= set(keep) | used_by_processes(self.folder)
        for entry in self.folder.iterdir():
            if _NAME.fullmatch(entry.name) and entry.name not in kept and not entry.is_symlink():
                (entry / COMPLETE).unlink(missing_ok=True)  # half of one must not count
                shutil.rmtree(entry, ignore_errors=True)

    def _at(self, link: str) -> Slot | None:
        try:
            slot = Slot(self.folder / (self.folder / link).readlink().name)
        except OSError:
            return None
        return slot if slot.is_complete() else None

    def _point(self, link: str, slot: Slot) -> None:
        new = self.folder / f"{link}.new"
        new.unlink(missing_ok=True)
        new.symlink_to(slot.folder)
        new.replace(self.folder / link)
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def used_by_processes(folder: Path) -> set[str]:
    """Return the names of the versions that processes run from; all of them where none can tell."""
    there = {entry.name for entry in folder.iterdir() if _NAME.fullmatch(entry.name)}
    try:
        processes = [entry for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    except OSError:
        return there  # macOS: the installer removes them, which asks ps
    begins = os.fsencode(folder) + b"/"
    used = set()
    for process in processes:
        try:
            words = (process / "cmdline").read_bytes()
        except OSError:
            continue  # it ended, or it is another account's: those do not run from our folder
        for name in there:
            if begins + name.encode() + b"/" in words:
                used.add(name)
    return used


def own_slot(prefix: Path) -> tuple[Slots, Slot] | None:
    """Return all versions, and the one that this interpreter's ``prefix`` is; None: not installed.

    The prefix may be the link ``current``.
    """
    if not is_installed(prefix):
        return None
    return Slots(prefix.parent), Slot(prefix.parent / prefix.resolve().name)
