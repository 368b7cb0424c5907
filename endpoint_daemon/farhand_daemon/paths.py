"""Where everything of one daemon lives, private to its account.

The home is ``--home``, else ``FARHAND_DAEMON_HOME``, else the platform's data folder. Folders are
0700, files 0600; files that must never be half-written are replaced atomically.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from farhand_shared.errors import InvalidInput, Unavailable

LEFTOVER: Final = re.compile(r"\.[a-z.]+\.[0-9]+\.[0-9a-f]{8}")  # see _new_file


@dataclass(frozen=True, slots=True)
class Home:
    """The files of one daemon. The journal and the spool name their own files beneath ``root``."""

    root: Path

    @property
    def machine_file(self) -> Path:
        """The ceiling, changed only by people on this machine."""
        return self.root / "machine.toml"

    @property
    def identity_file(self) -> Path:
        """Key, certificate and addresses in one file, so that a renewal replaces them as one."""
        return self.root / "identity.json"

    @property
    def pending_file(self) -> Path:
        """The key of an enrolment whose answer has not been stored yet."""
        return self.root / "enrolling.json"

    @property
    def status_file(self) -> Path:
        return self.root / "status.json"

    @property
    def lock_file(self) -> Path:
        return self.root / "daemon.lock"

    @property
    def log_file(self) -> Path:
        return self.root / "daemon.log"


def find_home(option: str | None, environ: Mapping[str, str]) -> Home:
    """Return the home that applies; makes nothing on disk."""
    text = option if option is not None else environ.get("FARHAND_DAEMON_HOME")
    if text is None:
        import platformdirs  # only the default needs it

        return Home(Path(platformdirs.user_data_dir("farhandd", appauthor=False)))
    if not text or "\0" in text:
        raise InvalidInput("cannot use the home given: it is empty or holds NUL; give a folder")
    return Home(Path(text).expanduser().absolute())


def prepare_home(home: Home) -> None:
    """Make the home where it is missing and see that it is ours, private and writable."""
    try:
        home.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = home.root.stat()
        if state.st_uid != os.geteuid():
            raise Unavailable(
                f"cannot use home {home.root}: it belongs to another account; give --home DIR"
            )
        if state.st_mode & 0o077:
            home.root.chmod(0o700)
        descriptor, temporary = _new_file(home.root, "try")
        os.close(descriptor)
        temporary.unlink()
    except OSError as error:
        raise Unavailable(
            f"cannot use home {home.root}: {error.strerror or error}; "
            "make it writable or give --home DIR"
        ) from error


def write_private(path: Path, data: bytes) -> None:
    """Replace ``path`` by ``data`` (0600): after a crash it holds the old bytes or the new ones."""
    descriptor, temporary = _new_file(path.parent, path.name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def remove_leftovers(home: Home) -> None:
    """Remove files that a crash kept from getting their name; only with the home's lock."""
    for path in home.root.iterdir():
        if LEFTOVER.fullmatch(path.name):
            path.unlink(missing_ok=True)


def _new_file(folder: Path, name: str) -> tuple[int, Path]:
    """Make a file of a new name; ``tempfile`` would cost the daemon's start 20 ms."""
    path = folder / f".{name}.{os.getpid()}.{os.urandom(4).hex()}"
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), path
