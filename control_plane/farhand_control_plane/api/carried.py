"""The signed releases of the daemon that this server carries: it gives them, it cannot make them.

They lie in the package's folder ``_dist/releases``, one folder per version. Nothing here believes
what a manifest says beyond where to find its files: whoever installs them checks the signature.
"""

import hashlib
import logging
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from farhand_shared.errors import FarhandError, NotFound
from farhand_shared.release import (
    ENVELOPE,
    REQUIREMENTS,
    Release,
    open_envelope,
    parse_manifest,
    version_key,
)
from farhand_shared.requirements_lock import LockedWheel, parse_lock

_log = logging.getLogger(__name__)

RELEASES: Final = "releases"
_LOCK: Final = "requirements.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedRelease:
    release: Release
    envelope: bytes
    folder: Traversable


class Carried:
    """Reads the folder; each version once, for what was signed never changes."""

    def __init__(self, folder: Traversable | None = None) -> None:
        """``folder``: where the package's ``_dist`` is when None."""
        self._folder = folder
        self._known: dict[str, CarriedRelease | None] = {}

    def all(self) -> tuple[CarriedRelease, ...]:
        """Return every release, the newest first. Blocks for I/O."""
        try:
            listed = (self._dist() / RELEASES).iterdir()
            entries = {entry.name: entry for entry in listed if entry.is_dir()}
        except OSError:
            return ()
        for name in self._known.keys() - entries.keys():
            del self._known[name]
        for name, entry in entries.items():
            if name not in self._known:
                self._known[name] = _read(entry)
        found = [one for one in self._known.values() if one is not None]
        return tuple(sorted(found, key=lambda one: version_key(one.release.version), reverse=True))

    def newest(self, channel: str) -> CarriedRelease:
        """Return a channel's newest release; NotFound when it has none."""
        for one in self.all():
            if one.release.channel == channel:
                return one
        raise NotFound(f"cannot find a release of channel {channel[:40]!r}: none is carried here")

    def version(self, version: str) -> CarriedRelease:
        """Return the release of a version; NotFound when it is not carried."""
        for one in self.all():
            if one.release.version == version:
                return one
        has = ", ".join(one.release.version for one in self.all()) or "none"
        raise NotFound(f"cannot find version {version[:40]!r}: carried here: {has}")

    def file(self, sha256: str) -> bytes:
        """Return the file of this hash that some release names; NotFound."""
        for one in self.all():
            for file in one.release.files:
                if file.sha256 != sha256:
                    continue
                content = (one.folder / file.name).read_bytes()
                if hashlib.sha256(content).hexdigest() == sha256:
                    return content
        raise NotFound("cannot find that file: no release that is carried here names it")

    def wheels(self) -> dict[tuple[str, str], LockedWheel]:
        """Return the dependencies that may be needed, by project and file name: those of every
        release, and of the daemon that the installer brings.
        """
        locks = [one.folder / REQUIREMENTS for one in reversed(self.all())]
        return {
            (wheel.project, wheel.name): wheel
            for lock in [*locks, self._dist() / _LOCK]
            if lock.is_file()
            for wheel in parse_lock(lock.read_text(encoding="utf-8"))
        }

    def _dist(self) -> Traversable:
        return self._folder or files("farhand_control_plane") / "_dist"


def _read(folder: Traversable) -> CarriedRelease | None:
    try:
        envelope = (folder / ENVELOPE).read_bytes()
        release = parse_manifest(open_envelope(envelope)[0])
    except (OSError, FarhandError) as error:
        _log.warning("cannot carry the release in %s: %s", folder, error)
        return None
    return CarriedRelease(release=release, envelope=envelope, folder=folder)


carried: Final = Carried()
