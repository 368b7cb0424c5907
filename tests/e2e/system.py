"""The installed product as a user meets it: programs in an environment, a home, processes.

Nothing of ours is imported: what is tested is what the wheels hold.
"""

import contextlib
import json
import os
import pwd
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PATIENCE_S = 90.0  # for whatever takes a second or two on a quiet computer


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Whose account the programs run as."""

    name: str
    uid: int
    gid: int

    @classmethod
    def named(cls, name: str) -> "User":
        entry = pwd.getpwnam(name)
        return cls(name=name, uid=entry.pw_uid, gid=entry.pw_gid)

    @classmethod
    def current(cls) -> "User":
        return cls.named(pwd.getpwuid(os.getuid()).pw_name)

    def options(self) -> dict[str, Any]:
        """What Popen needs to become this user."""
        if self.uid == os.getuid():
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


@dataclass(slots=True, kw_only=True)
class Ended:
    """A program that has ended."""

    status: int
    stdout: bytes
    stderr: bytes

    @property
    def out(self) -> str:
        return self.stdout.decode("utf-8", "replace")

    @property
    def err(self) -> str:
        return self.stderr.decode("utf-8", "replace")

    def json(self) -> Any:
        return json.loads(self.stdout)


@dataclass(slots=True)
class Running:
    """A program that runs; its lines are read as they come."""

    process: subprocess.Popen[bytes]
    lines: list[str] = field(default_factory=list)  # of both outputs, as they came
    out: list[str] = field(default_factory=list)  # of standard output alone
    _news: "queue.SimpleQueue[None]" = field(default_factory=queue.SimpleQueue)
    _readers: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                reader = threading.Thread(target=self._read, args=(stream,), daemon=True)
                reader.start()
                self._readers.append(reader)

    def _read(self, stream: Any) -> None:
        with stream:
            for line in stream:
                text = line.decode("utf-8", "replace").rstrip("\n")
                if stream is self.process.stdout:
                    self.out.append(text)
                self.lines.append(text)
                self._news.put(None)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, part: str, *, times: int = 1) -> str:
        """Return the line that holds ``part``, waiting for it (the n-th of them)."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = [line for line in list(self.lines) if part in line]
            if len(found) >= times:
                return found[times - 1]
            if self.process.poll() is not None and not any(r.is_alive() for r in self._readers):
                raise AssertionError(f"ended without {part!r}:\n{self.text}")
            assert time.monotonic() < deadline, f"no {part!r} within {PATIENCE_S} s:\n{self.text}"
            with contextlib.suppress(queue.Empty):
                self._news.get(timeout=0.1)

    def ended(self) -> int:
        """Return its exit status, waiting for it."""
        status = self.process.wait(PATIENCE_S)
        for reader in self._readers:
            reader.join(PATIENCE_S)
        return status


@dataclass(slots=True, kw_only=True)
class System:
    """One home of the product and the programs that work on it."""

    bin: Path
    home: Path
    user: User
    folder: Path  # this user's own: HOME
    environ: dict[str, str] = field(default_factory=dict)
    started: list[Running] = field(default_factory=list)

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "FARHAND_HOME": str(self.home),
            **self.environ,
            **(more or {}),
        }

    def start(self, program: str, *arguments: str, stdin: Any = subprocess.DEVNULL) -> Running:
        running = Running(
            subprocess.Popen(
                [self.bin / program, *arguments],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self.environment(),
                cwd=self.folder,
                **self.user.options(),
            )
        )
        self.started.append(running)
        return running

    def run(
        self, program: str, *arguments: str | bytes, stdin: bytes = b"", **environ: str
    ) -> Ended:
        done = subprocess.run(
            [self.bin / program, *arguments],
            input=stdin,
            capture_output=True,
            env=self.environment(environ),
            cwd=self.folder,
            timeout=PATIENCE_S,
            check=False,
            **self.user.options(),
        )
        return Ended(status=done.returncode, stdout=done.stdout, stderr=done.stderr)

    def run_shell(self, line: str) -> Ended:
        """Run a line as a person types it, in a folder that has nothing to do with us."""
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            capture_output=True,
            env=self.environment(),
            cwd="/",
            timeout=PATIENCE_S,
            check=False,
            **self.user.options(),
        )
        return Ended(status=done.returncode, stdout=done.stdout, stderr=done.stderr)

    def farhand(self, *arguments: str | bytes, stdin: bytes = b"", **environ: str) -> Ended:
        return self.run("farhand", *arguments, stdin=stdin, **environ)

    @contextlib.contextmanager
    def up(self) -> Iterator[Running]:
        """Run `farhand up` until the block ends; it must stop cleanly unless it is gone by then."""
        running = self.start("farhand", "up")
        try:
            running.wait_for("Ctrl-C stops everything")
            yield running
            if running.process.poll() is None:
                running.process.send_signal(signal.SIGINT)
                assert running.ended() == 0, running.text
        except BaseException:
            print(running.text, self.logs(), self.processes(), sep="\n")
            raise
        finally:
            if running.process.poll() is None:
                self.kill_everything(running.process.pid)

    def logs(self) -> str:
        """Return the ends of all logs, for a test that failed."""
        ends = []
        for path in sorted(self.home.rglob("*.log")):
            lines = path.read_text(errors="replace").splitlines()[-30:]
            ends.append(f"── {path.name}\n" + "\n".join(lines))
        return "\n".join(ends)

    def end(self) -> None:
        """End whatever was started and whatever still runs on this home."""
        for running in self.started:
            if running.process.poll() is None:
                running.process.kill()
            running.ended()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    # ── what runs ───────────────────────────────────────────────────────────────────────────────

    def processes(self) -> dict[int, str]:
        """Return the living processes that work on this home, with their command lines.

        A process is known by its environment (commands too: they inherit no name of ours, but the
        HOME of this test), its command line or its open database.
        """
        marks = [str(self.folder).encode(), *self._cluster_marks()]
        found: dict[int, str] = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal() or int(entry.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                state = (entry / "stat").read_bytes().rpartition(b")")[2].split()[0]
                line = (entry / "cmdline").read_bytes()
                known = line + (entry / "environ").read_bytes()
                if state != b"Z" and any(mark in known for mark in marks):
                    found[int(entry.name)] = line.replace(b"\0", b" ").decode(errors="replace")
        return found

    def _cluster_marks(self) -> list[bytes]:
        with contextlib.suppress(OSError):
            return [(self.home / "home_id").read_text().strip().encode()]
        return []

    def pid_of(self, kind: str) -> int:
        """Return the process id of the server, daemon or database of this home."""
        part = {
            "server": "farhand_control_plane serve",
            "daemon": "farhand_daemon run",
            "database": "bin/postgres -D",
        }[kind]
        found = [pid for pid, line in self.processes().items() if part in line]
        assert len(found) == 1, (kind, self.processes())
        return found[0]

    def kill_everything(self, *pids: int) -> None:
        """kill -9 whatever is ours: the programs, not the commands that they started."""
        for pid in {*pids, *self.ours()}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def ours(self) -> dict[int, str]:
        """Return the processes that are the product's own; its commands and supervisors are not."""
        parts = ("farhand up", "farhand_control_plane", "farhand_daemon run", "postgres")
        return {
            pid: line
            for pid, line in self.processes().items()
            if any(part in line for part in parts)
        }

    def sockets(self) -> list[str]:
        """Return what listens or lies about as a socket for this home."""
        found = [str(path) for path in self.home.rglob("*") if path.is_socket()]
        with contextlib.suppress(OSError):
            cluster = Path("/var/lib/farhand") / (self.home / "home_id").read_text().strip()
            found += [str(path) for path in cluster.rglob("*") if path.is_socket()]
        return found


def until(what: str, condition: Callable[[], Any], *, within_s: float = PATIENCE_S) -> Any:
    """Return the first true answer; fail when it does not come."""
    deadline = time.monotonic() + within_s
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(0.05)  # between two looks, not for timing
    return answer
