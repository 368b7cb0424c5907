"""The embedded Postgres of one home: start it, find one that runs already, stop it.

The story that shaped it: `up` was killed, its server runs on. The next `up` must neither start a
second server nor wait for a person; and when the server was killed too, or the machine lost
power, what is left of it must not be in the way. So nothing is decided by a process id. First we
connect: a server that answers on our socket, with our password, and reads its own `postmaster.pid`
to us is ours, and has just told us its process id.
"""

import contextlib
import errno
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote

import psycopg

from farhand_control_plane.postgres.account import spawn_options, unprivileged_account
from farhand_control_plane.postgres.binaries import Binaries, copy_binaries, find_binaries
from farhand_control_plane.postgres.cluster import SUPERUSER, Cluster, explained
from farhand_control_plane.postgres.errors import ClusterNotWritable, DiskFull, PostgresError
from farhand_control_plane.postgres.processes import (
    POLL_S,
    belongs,
    cluster_processes,
    end_orphans,
    send,
    wait_until_gone,
)

# Where root keeps clusters: the server's user must reach them, and root's home is closed to it.
SYSTEM_FOLDER = Path("/var/lib/farhand")
DATABASE = "farhand"
PORT = 5432  # names the socket's file only: nothing listens on a network
MAX_LOG_BYTES = 5 << 20
KEPT_LOG_BYTES = 1 << 20

# For one person's machine: few processes, little memory, and no promise about durability given up.
SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "port": str(PORT),
    "cluster_name": "farhand",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",
    "wal_level": "minimal",  # nothing replicates from here
    "max_wal_senders": "0",
    "max_logical_replication_workers": "0",
    "io_method": "sync",  # the default keeps three idle worker processes
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    # Statements and their parameters are the user's data: they do not belong into a log.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_parameter_max_length_on_error": "0",
}


class EmbeddedPostgres:
    """A private server for one home. Blocking: call it before the event loop, or in a thread.

    `start` may be called again after the server has died. Two objects on one home share one
    server, and the first `stop` stops it: whoever runs a home holds a lock of its own.
    """

    def __init__(
        self,
        home: Path,
        *,
        system_folder: Path = SYSTEM_FOLDER,
        settings: Mapping[str, str] = MappingProxyType({}),
        start_timeout_s: float = 120,
    ) -> None:
        self._home = home.absolute()
        self._system_folder = system_folder
        self._settings = settings  # of PostgreSQL, over our own; tests give durability up for speed
        self._start_timeout_s = start_timeout_s  # generous: recovery after a power cut takes time
        self._cluster: Cluster | None = None  # None until the first start
        self._pid: int | None = None  # None while no server of ours is known to run
        self._child: subprocess.Popen[bytes] | None = None  # None when it was found running

    @property
    def dsn(self) -> str:
        """The address of our database, for psycopg and SQLAlchemy alike; it holds the password."""
        if self._cluster is None:
            raise PostgresError("cannot tell the address of the embedded Postgres: start it first")
        return _dsn(self._cluster, DATABASE)

    @property
    def pid(self) -> int:
        """The process id of the running postmaster."""
        if self._pid is None:
            raise PostgresError("the embedded Postgres is not running; start it first")
        return self._pid

    @property
    def adopted(self) -> bool:
        """Whether the server was found running rather than started by us."""
        return self._pid is not None and self._child is None

    def is_running(self) -> bool:
        """Whether the server that was started or found is still there."""
        if self._child is not None:
            return self._child.poll() is None
        if self._cluster is None or self._pid is None:
            return False
        return belongs(self._pid, self._cluster.data)

    def start(self) -> str:
        """Return the address of a database that accepts connections, starting what is needed."""
        try:
            cluster, binaries = self._prepare()
            with cluster.lock():
                cluster.ensure(binaries)
                cluster.make_socket_folder()
                self._pid, self._child = self._find_or_launch(cluster, binaries)
                self._cluster = cluster
                _ensure_database(cluster)
        except OSError as error:
            raise explained_os_error(error, self._home) from error
        except psycopg.Error as error:
            reason = " ".join(str(error).split())
            raise PostgresError(f"cannot use the embedded Postgres: {reason}") from error
        return self.dsn

    def stop(self) -> None:
        """Leave no process, socket or lock behind; the data stays. Nothing to stop is fine."""
        cluster = self._cluster
        if cluster is None:
            return
        with cluster.lock():
            # Ask again who serves: what we knew may have died and another taken its number.
            alive = self._child is not None and self._child.poll() is None
            pid = self._child.pid if self._child and alive else _ask_pid(cluster)
            if pid is not None:
                self._end(cluster, pid)
            end_orphans(cluster_processes(cluster.data), cluster.data)
            _forget_dead_server(cluster)
            with contextlib.suppress(OSError):  # not empty: then it is not ours to remove
                cluster.sockets.rmdir()
        self._pid = self._child = None

    def trim_log(self) -> None:
        """Keep the server's log bounded, also while it runs: it appends, so cutting is safe."""
        if self._cluster is not None:
            _trim(self._cluster.log)

    def _prepare(self) -> tuple[Cluster, Binaries]:
        """Find out where the cluster lies and with which programs, and make its folder."""
        self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
        account = unprivileged_account()
        if account is None:
            folder = self._home / "postgres"
            folder.mkdir(mode=0o700, exist_ok=True)
            return Cluster(folder=folder.resolve(), account=None), find_binaries()
        # Others may pass through, not look: each cluster's parts are private by themselves.
        folder = self._system_folder / home_id(self._home)
        for path in (self._system_folder, folder):
            with contextlib.suppress(FileExistsError):
                path.mkdir(mode=0o711)
                path.chmod(0o711)  # whatever the umask says
        binaries = copy_binaries(find_binaries(), self._system_folder)
        return Cluster(folder=folder.resolve(), account=account), binaries

    def _find_or_launch(
        self, cluster: Cluster, binaries: Binaries
    ) -> tuple[int, subprocess.Popen[bytes] | None]:
        deadline = time.monotonic() + self._start_timeout_s
        while True:
            if (pid := _ask_pid(cluster)) is not None:
                return pid, self._child if self._child and self._child.pid == pid else None
            living = cluster_processes(cluster.data)
            postmaster = _recorded_pid(cluster)
            if postmaster not in living:
                end_orphans(living, cluster.data)
                _forget_dead_server(cluster)
                if self._child is not None:
                    self._child.poll()  # it is dead, and nobody else can reap it
                child = self._launch(cluster, binaries, deadline)
                return child.pid, child
            # It is starting, recovering or stopping for a parent that is gone: it will answer
            # or end, and tells nobody when.
            if time.monotonic() > deadline:
                raise PostgresError(
                    f"cannot reach the embedded Postgres that runs as process {postmaster} on "
                    f"{cluster.data}: it does not answer; end it with kill -9 {postmaster}"
                )
            time.sleep(POLL_S)

    def _launch(
        self, cluster: Cluster, binaries: Binaries, deadline: float
    ) -> subprocess.Popen[bytes]:
        _trim(cluster.log)
        sockets = '"' + str(cluster.sockets).replace('"', '""') + '"'  # a list, so quoted
        settings = SETTINGS | dict(self._settings) | {"unix_socket_directories": sockets}
        command: list[str | Path] = [binaries.program("postgres"), "-D", cluster.data]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        descriptor = os.open(cluster.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "ab") as log:
            said_before = log.tell()
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **spawn_options(cluster.account),
            )
        try:
            while not _says_ready(cluster):
                if child.poll() is not None:
                    with cluster.log.open(errors="replace") as log_text:
                        log_text.seek(said_before)
                        said = log_text.read()
                    raise explained("cannot start the embedded Postgres", said, cluster.folder)
                if time.monotonic() > deadline:
                    raise PostgresError(
                        "cannot start the embedded Postgres: it was not ready after "
                        f"{self._start_timeout_s:g} s; see {cluster.log}"
                    )
                time.sleep(POLL_S)  # the server tells its state in a file only
        except BaseException:
            child.send_signal(signal.SIGQUIT)
            child.wait()
            raise
        return child

    def _end(self, cluster: Cluster, pid: int) -> None:
        """Fast shutdown: open transactions end, data is flushed; harder only if that hangs."""
        for step, patience_s in ((signal.SIGINT, 30), (signal.SIGQUIT, 10), (signal.SIGKILL, 10)):
            send(pid, step)
            if self._child is not None and self._child.pid == pid:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._child.wait(patience_s)
                    return
            elif wait_until_gone(pid, cluster.data, patience_s):
                return


def home_id(home: Path) -> str:
    """Return the random name of this home, made at the first call and kept in it.

    Not derived from the path: a new home at an old path must not find the old one's data.
    """
    path = home / "home_id"
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        fresh = path.with_name(f"home_id.{os.getpid()}")
        fresh.write_text(secrets.token_hex(8) + "\n")
        try:
            path.hardlink_to(fresh)  # unlike a rename it never replaces another's
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
        return path.read_text().strip()


def _dsn(cluster: Cluster, database: str) -> str:
    folder = quote(str(cluster.sockets), safe="")
    return (
        f"postgresql://{SUPERUSER}:{quote(cluster.password, safe='')}@/{database}"
        f"?host={folder}&port={PORT}"
    )


def _ask_pid(cluster: Cluster) -> int | None:
    """Return the process id of the server that answers for this cluster, told by itself."""
    try:
        with psycopg.connect(_dsn(cluster, "postgres"), connect_timeout=2) as connection:
            row = connection.execute(
                "SELECT current_setting('data_directory'), pg_read_file('postmaster.pid')"
            ).fetchone()
    except (psycopg.OperationalError, FileNotFoundError):
        return None
    if row is None or row[0] != str(cluster.data):
        return None
    return int(row[1].split("\n", 1)[0])


def _recorded_pid(cluster: Cluster) -> int | None:
    try:
        return int((cluster.data / "postmaster.pid").read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        return None


def _says_ready(cluster: Cluster) -> bool:
    """Whether the server's state file, written by the one we started, says that it is ready."""
    try:
        lines = (cluster.data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return False
    return len(lines) > 7 and lines[7].strip() == "ready"


def _forget_dead_server(cluster: Cluster) -> None:
    """Remove the files that name a server which is not there: its number may be another's now."""
    for path in (
        cluster.data / "postmaster.pid",
        cluster.sockets / f".s.PGSQL.{PORT}",
        cluster.sockets / f".s.PGSQL.{PORT}.lock",
    ):
        path.unlink(missing_ok=True)


def _ensure_database(cluster: Cluster) -> None:
    with psycopg.connect(_dsn(cluster, "postgres"), autocommit=True) as connection:
        known = connection.execute(
            "SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]
        ).fetchone()
        if known is None:
            connection.execute(f"CREATE DATABASE {DATABASE}")


def _trim(log: Path) -> None:
    """Cut a log that has grown too long to its newest part."""
    if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
        with log.open("r+b") as file:
            file.seek(-KEPT_LOG_BYTES, os.SEEK_END)
            newest = file.read()
            file.seek(0)
            file.truncate()
            file.write(newest)


def explained_os_error(error: OSError, home: Path) -> PostgresError:
    """Return the one-line error for a folder or file that could not be used."""
    path = error.filename or home
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"cannot write {path}: the disk is full; free some space")
    return ClusterNotWritable(
        f"cannot keep a database under {home}: {path}: {error.strerror}; "
        "make it writable, or set FARHAND_HOME to a folder that is"
    )
