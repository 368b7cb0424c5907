"""A whole system in which anything may be killed or cut off: database, replica, link, machine.

All of it is real: the embedded Postgres, `farhand serve`, `farhandd run`, `farhand exec`, each a
process of its own. Nothing watches over them as `farhand up` does: who kills something starts it
again, or lets `mend` do it.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import psycopg
from psycopg.rows import dict_row

from farhand_control_plane.client.api import Api, Target
from farhand_control_plane.postgres.errors import PostgresError
from farhand_control_plane.postgres.server import EmbeddedPostgres
from farhand_control_plane.up import enrol
from farhand_shared.errors import FarhandError
from farhand_shared.exec_frames import Frame, FrameDecoder
from farhand_shared.limits import FREE_DISK_MIN_BYTES
from farhand_shared.redact import Secret
from tests.fakes.bad_link import BadLink

PATIENCE_S: Final = 120.0  # for whatever takes some seconds on a quiet computer
DISK_ROOM_BYTES: Final = 96 << 20  # over what a daemon wants free
# The machine lives on an address of its own, so that also what the server says of its listeners
# leads over the bad links.
SERVER, MACHINES_SIDE = "127.0.0.1", "127.0.0.2"
# What a kill of the postmaster must not lose is written; the disk itself does not fail here.
_DURABLE_ENOUGH = {"fsync": "off"}
_PYTHON = [sys.executable, "-P", "-m"]
FARHAND: Final = (*_PYTHON, "farhand_control_plane")


class NotInTime(AssertionError):
    """Something that was waited for did not come."""


def until(what: str, condition: Callable[[], Any], *, within_s: float = PATIENCE_S) -> Any:
    """Return the first true answer; fail when it does not come."""
    deadline = time.monotonic() + within_s
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise NotInTime(f"not within {within_s} s: {what}")
        time.sleep(0.05)  # between two looks, not for timing
    return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """How one `farhand` ended."""

    status: int
    stdout: bytes
    stderr: str


class Client:
    """One running `farhand`; its outputs go into files, which tests read as they grow."""

    def __init__(self, command: list[str | bytes], environ: dict[str, str], folder: Path) -> None:
        name = os.urandom(6).hex()
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environ, cwd=folder
            )

    @property
    def stdout(self) -> bytes:
        return self._out.read_bytes()

    @property
    def stderr(self) -> str:
        return self._err.read_text(errors="replace")

    def ended(self, *, within_s: float = PATIENCE_S) -> Told:
        """Wait for its end."""
        try:
            status = self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise NotInTime(f"it runs on after {within_s} s: {self.stderr}") from None
        return Told(status=status, stdout=self.stdout, stderr=self.stderr)

    def forget(self) -> None:
        """End it if it runs, and remove its files."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for path in (self._out, self._err):
            path.unlink(missing_ok=True)


class Stage:
    """One of each. Use `stage()`, which also ends and removes everything."""

    def __init__(self, folder: Path, stack: ExitStack, *, concurrency: int = 4) -> None:
        self.folder = folder
        self.work = folder / "work"  # where clients run and commands write
        self.home, self.daemon_home = folder / "server home", folder / "machine"
        for path in (self.work, self.home):
            path.mkdir(mode=0o700)
        self.postgres = EmbeddedPostgres(
            folder / "database", system_folder=folder / "system", settings=_DURABLE_ENOUGH
        )
        self.replica: subprocess.Popen[bytes] | None = None
        self.daemon: subprocess.Popen[bytes] | None = None
        self.clients: list[Client] = []
        stack.callback(self._end)
        self.postgres.start()
        self.start_replica()
        self.ports = until("the replica knows its ports", self._read_ports)
        self.link = stack.enter_context(
            BadLink(self.ports["link"], SERVER, listen=MACHINES_SIDE),
        )
        self._enrolment = stack.enter_context(
            BadLink(self.ports["enrol"], SERVER, listen=MACHINES_SIDE),
        )
        until("the replica answers", self.answers)
        self.has_own_disk = self._mount_disk(stack)
        with self.api() as api:
            self.machine = enrol.enrol_own_machine(
                api, self.daemon_home, self._machine_environ(), replace=False
            )
        file = self.daemon_home / "machine.toml"
        kept = [line for line in file.read_text().splitlines() if "concurrency" not in line]
        file.write_text("\n".join([f"concurrency = {concurrency}", *kept]) + "\n")
        self.start_daemon()
        until("the machine is online", self.is_online)

    def _mount_disk(self, stack: ExitStack) -> bool:
        """Give the machine's home a small disk of its own that may be filled; only root can."""
        self.daemon_home.mkdir(mode=0o700)
        if os.geteuid() != 0 or sys.platform != "linux":
            return False
        size = f"size={(FREE_DISK_MIN_BYTES + DISK_ROOM_BYTES) >> 10}k,mode=700"
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", size, "farhand-stage", self.daemon_home],
            capture_output=True,
            check=False,
        )
        if done.returncode == 0:
            stack.callback(lambda: subprocess.run(["umount", "-l", self.daemon_home], check=True))
        return done.returncode == 0

    # ── its parts ───────────────────────────────────────────────────────────────────────────────

    def start_replica(self) -> None:
        environ = {
            **self._environ(),
            "FARHAND_HOME": str(self.home),
            "FARHAND_DATABASE_URL": self.postgres.dsn,
            "FARHAND_PUBLIC_HOST": MACHINES_SIDE,
        }
        self.replica = self._start(
            "replica", "farhand_control_plane", "serve", "--local", **environ
        )

    def start_daemon(self) -> None:
        self.daemon = self.start_copy(self.daemon_home)

    def start_copy(self, home: Path) -> "subprocess.Popen[bytes]":
        """Start a daemon on a home of the caller's, who ends it; all write to one log."""
        return self._start(
            "daemon", "farhand_daemon", "run", "--home", str(home),
            "--link-address", self.link.address, "--enrol-address", self._enrolment.address,
            **self._machine_environ(),
        )  # fmt: skip

    def _start(
        self, name: str, module: str, *arguments: str, **environ: str
    ) -> "subprocess.Popen[bytes]":
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [*_PYTHON, module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environ,
                cwd="/",
                start_new_session=True,
            )

    def _environ(self) -> dict[str, str]:
        environ = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.work),
            "LANG": "C.UTF-8",
        }
        if "PYTHONPATH" in os.environ:  # another checkout than the installed one is meant
            environ["PYTHONPATH"] = os.environ["PYTHONPATH"]
        return environ

    def _machine_environ(self) -> dict[str, str]:
        return {**self._environ(), "SHELL": "/bin/sh"}

    def _read_ports(self) -> dict[str, int] | None:
        assert self.replica is not None, "it was started"
        assert self.replica.poll() is None, self.logs()
        with contextlib.suppress(OSError, ValueError):
            ports: dict[str, int] = json.loads((self.home / "ports.json").read_text())
            return ports
        return None

    # ── faults ──────────────────────────────────────────────────────────────────────────────────

    def kill_replica(self) -> None:
        assert self.replica is not None, "it was started"
        self.replica.kill()
        self.replica.wait()

    def kill_daemon(self) -> None:
        assert self.daemon is not None, "it was started"
        self.daemon.kill()
        self.daemon.wait()

    def kill_database(self) -> None:
        """kill -9 of the postmaster; its backends notice and go."""
        os.kill(self.postgres.pid, signal.SIGKILL)
        until("the postmaster is gone", lambda: not self.postgres.is_running())

    def kill_fork_server(self) -> bool:
        """kill -9 of the supervisors' parent; False when none was found."""
        assert self.daemon is not None, "it was started"
        for pid, line in processes(str(self.daemon_home)).items():
            if "forkserver.py" in line and parent_of(pid) == self.daemon.pid:
                os.kill(pid, signal.SIGKILL)
                return True
        return False

    def fill_disk(self, left_bytes: int = 0) -> None:
        """Leave this much of the machine's disk; needs one of its own."""
        assert self.has_own_disk, "nobody else's disk is filled"
        free = shutil.disk_usage(self.daemon_home).free - left_bytes
        with (self.daemon_home / "ballast").open("ab") as ballast, contextlib.suppress(OSError):
            os.posix_fallocate(ballast.fileno(), 0, max(free, 1))

    def empty_disk(self) -> None:
        (self.daemon_home / "ballast").unlink(missing_ok=True)

    def mend(self) -> list[str]:
        """Start again what has died; return what it was."""
        assert self.replica is not None, "it was started"
        assert self.daemon is not None, "it was started"
        mended = []
        if not self.postgres.is_running():
            with contextlib.suppress(PostgresError):  # the next look tries again
                self.postgres.start()
                mended.append("database")
        if self.replica.poll() is not None and self.postgres.is_running():
            self.start_replica()
            mended.append("replica")
        if self.daemon.poll() is not None:
            self.start_daemon()
            mended.append("daemon")
        return mended

    # ── people ──────────────────────────────────────────────────────────────────────────────────

    @property
    def url(self) -> str:
        return f"http://{SERVER}:{self.ports['http']}"

    @contextmanager
    def api(self) -> Iterator[Api]:
        token = Secret((self.home / "token").read_bytes().strip())
        api = Api(Target(url=self.url, token=token, this_machine=None))
        try:
            yield api
        finally:
            api.close()

    def answers(self) -> bool:
        with contextlib.suppress(FarhandError, OSError), self.api() as api:
            api.get("/v1/machines")
            return True
        return False

    def is_online(self) -> bool:
        with self.api() as api:
            return enrol.presence(api, self.machine.machine_id) == "online"

    def frames(self, method: str, path: str, body: bytes | None = None) -> list[Frame]:
        """Return the frames of a streamed answer, to its end."""
        with self.api() as api:
            answer = api.open(method, path, body)
            with contextlib.closing(answer):
                decoder = FrameDecoder()
                return [frame for chunk in answer.chunks() for frame in decoder.feed(chunk)]

    def exec(self, *command: str | bytes, options: tuple[str, ...] = ()) -> Client:
        """Start `farhand exec` on the machine."""
        return self.farhand("exec", *options, self.machine.name, "--", *command)

    def farhand(self, *arguments: str | bytes) -> Client:
        """Start `farhand` as a person would."""
        client = Client([*FARHAND, *arguments], self.client_environ(), self.work)
        self.clients.append(client)
        return client

    def client_environ(self) -> dict[str, str]:
        """Return the environment in which a person's `farhand` finds the replica."""
        return {
            **self._environ(),
            "FARHAND_HOME": str(self.folder / "nobody's home"),
            "FARHAND_URL": self.url,
            "FARHAND_TOKEN": (self.home / "token").read_text().strip(),
        }

    def shell(self, script: str, options: tuple[str, ...] = ()) -> Client:
        return self.exec(script, options=("--shell", *options))

    database_errors: ClassVar = (psycopg.OperationalError, PostgresError)  # while it is away

    def sql(self, statement: str, *arguments: Any) -> list[dict[str, Any]]:
        with psycopg.connect(self.postgres.dsn, row_factory=dict_row) as connection:
            return connection.execute(statement.encode(), arguments).fetchall()

    def logs(self) -> str:
        """Return the ends of the logs, for a run that failed."""
        ends = []
        for path in (
            *sorted(self.folder.glob("*.log")),
            *sorted(self.daemon_home.glob("*.log")),
        ):
            lines = path.read_text(errors="replace").splitlines()[-40:]
            ends.append(f"── {path.name}\n" + "\n".join(lines))
        return "\n".join(ends)

    def _end(self) -> None:
        for client in self.clients:
            client.forget()
        for process, number in ((self.daemon, signal.SIGINT), (self.replica, signal.SIGTERM)):
            if process is not None and process.poll() is None:
                process.send_signal(number)
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        with contextlib.suppress(PostgresError):
            self.postgres.stop()
        for pid in processes(str(self.folder)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def stage(*, concurrency: int = 4) -> Iterator[Stage]:
    """Set the whole system up; its logs are printed if the block fails."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="farhand-stage-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o711)  # root's database runs as another user, who passes through
        made = Stage(folder, stack, concurrency=concurrency)
        try:
            yield made
        except BaseException:
            print(made.logs(), file=sys.stderr)
            raise


def processes(mark: str) -> dict[int, str]:
    """Return the living processes that have ``mark`` in their command line or environment."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            line = (entry / "cmdline").read_bytes()
            state = (entry / "stat").read_bytes().rpartition(b")")[2].split()[0]
            if state != b"Z" and mark.encode() in line + (entry / "environ").read_bytes():
                found[int(entry.name)] = line.replace(b"\0", b" ").decode(errors="replace")
    return found


def parent_of(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0
