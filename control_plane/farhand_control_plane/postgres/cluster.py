"""One cluster on disk: where its parts lie, how it is made, whether this version may open it."""

import fcntl
import hashlib
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from farhand_control_plane.postgres.account import Account, spawn_options
from farhand_control_plane.postgres.binaries import Binaries
from farhand_control_plane.postgres.errors import DiskFull, PostgresError, WrongMajorVersion

SUPERUSER = "farhand"
# The kernel's limit is 107 bytes on Linux and 103 on macOS; the server appends its file's name.
MAX_SOCKET_FOLDER_BYTES = 103 - len("/.s.PGSQL.5432.lock")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The folder of one home's database. Only `data` and `sockets` belong to the server's user."""

    folder: Path
    account: Account | None

    @property
    def data(self) -> Path:
        """PostgreSQL's own folder; it exists only when it is complete."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """What the server says."""
        return self.folder / "postgres.log"

    @property
    def sockets(self) -> Path:
        """The folder of the server's only listening socket, short enough for any kernel."""
        inside = self.folder / "sockets"
        if len(os.fsencode(inside)) <= MAX_SOCKET_FOLDER_BYTES:
            return inside
        # The uid is in the name, so that another user's folder there is never in our way.
        digest = hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:16]
        return Path("/tmp") / f"farhand-{os.geteuid()}-{digest}"  # noqa: S108 - checked when made

    @property
    def password(self) -> str:
        """The superuser's password, made when the cluster was."""
        return (self.folder / "password").read_text()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the cluster: starting and stopping happen one at a time, in whatever process.

        The file goes when its holder is done, so a waiter may hold a lock on a file that has no
        name any more; it then tries again on the one that has.
        """
        path = self.folder / "lock"
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                try:
                    ours = os.path.samestat(os.fstat(descriptor), path.stat())
                except FileNotFoundError:
                    ours = False
                if ours:
                    try:
                        yield
                    finally:
                        path.unlink(missing_ok=True)
                    return
            finally:
                os.close(descriptor)

    def ensure(self, binaries: Binaries) -> None:
        """Make the data folder if there is none, and refuse one of another major version.

        It is made under another name and renamed when complete: an interrupted making is thrown
        away and done again.
        """
        for leftover in self.folder.glob("making-*"):
            # An initdb whose parent was killed may still write there and soon fail. What it
            # leaves then goes at the next start.
            shutil.rmtree(leftover, ignore_errors=True)
        if not self.data.exists():
            self._make(binaries)
        made_by = (self.data / "PG_VERSION").read_text().strip()
        if made_by != binaries.major:
            raise WrongMajorVersion(
                f"cannot start the embedded Postgres: {self.data} was made by PostgreSQL {made_by} "
                f"and this is {binaries.major}; dump it with the version of Farhand that made it "
                "and load it here, or set FARHAND_DATABASE_URL to a server of your own"
            )

    def _make(self, binaries: Binaries) -> None:
        scratch = Path(tempfile.mkdtemp(dir=self.folder, prefix="making-"))  # 0700
        password = secrets.token_urlsafe(24)
        password_file = self.folder / "password"
        password_file.unlink(missing_ok=True)
        _write_private(password_file, password)
        # initdb reads it as the server's user, who may not read ours.
        readable = scratch / "password"
        _write_private(readable, password)
        fresh = scratch / "data"
        fresh.mkdir(mode=0o700)
        if self.account is not None:
            for path in (scratch, readable, fresh):
                self.account.own(path)
        command: list[str | Path] = [
            *(binaries.program("initdb"), "--pgdata", fresh, "--username", SUPERUSER),
            *("--auth=scram-sha-256", f"--pwfile={readable}", "--encoding=UTF8", "--locale=C"),
            # The same order of text on every system, and no dependence on its locales.
            *("--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-instructions"),
            # Stretching protects words people choose; ours has 192 random bits, and each
            # connection would pay for it.
            *("--set", "scram_iterations=1"),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, **spawn_options(self.account)
        )
        if done.returncode:
            raise explained("cannot make the database", done.stderr, self.folder)
        fresh.rename(self.data)
        _sync(self.folder)
        shutil.rmtree(scratch)

    def make_socket_folder(self) -> None:
        """Make the folder of the socket, open to the server's user alone."""
        path = self.sockets
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
        expected = {os.geteuid()} | ({self.account.uid} if self.account else set())
        if found.st_uid not in expected or found.st_mode & 0o077 or path.is_symlink():
            raise PostgresError(
                f"cannot start the embedded Postgres: {path} is not a private folder of ours; "
                "remove it"
            )
        if self.account is not None:
            self.account.own(path)


def explained(what: str, output: str, folder: Path) -> PostgresError:
    """Return the one-line error for what a program of PostgreSQL said when it failed."""
    if "No space left on device" in output:
        return DiskFull(f"{what}: the disk that holds {folder} is full; free some space")
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if "FATAL:" in line or "error:" in line]
    reason = (telling or lines or ["it said nothing"])[-1]
    reason = reason.rpartition("FATAL:")[2].rpartition("error:")[2].strip()
    return PostgresError(f"{what} in {folder}: {reason}; see {folder / 'postgres.log'}")


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Make a rename in this folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
