"""What benches share: a whole `farhand up` in a fresh home, and looking at its processes.

Linux only (reads /proc).
"""

import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cluster import forget_cluster

from farhand_control_plane.client.api import Api, Target
from farhand_control_plane.postgres.server import EmbeddedPostgres
from farhand_shared.exec_frames import Frame, FrameDecoder, FrameKind
from farhand_shared.redact import Secret

ROOT = Path(__file__).resolve().parents[2]
FARHAND = [sys.executable, "-m", "farhand_control_plane"]
PARTS = ("server", "daemon", "postgres")
_UP_WITHIN_S = 120.0


class Plane:
    """A whole `farhand up` in a home of its own, with this computer as its machine."""

    def __init__(self, folder: Path, *, concurrency: int = 4) -> None:
        self.home = folder / "home"
        self._log = folder / "up.log"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("FARHAND_")}
        self.env["FARHAND_HOME"] = str(self.home)
        self._start()
        if concurrency != 4:
            # The machine's own file decides how much it runs at once.
            self.stop()
            set_concurrency(self.home / "daemon" / "machine.toml", concurrency)
            self._start()

    def _start(self) -> None:
        with self._log.open("w") as log:
            self.process = subprocess.Popen([*FARHAND, "up"], env=self.env, stdout=log, stderr=log)
        deadline = time.monotonic() + _UP_WITHIN_S
        while not (online := self._online()):
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise SystemExit(f"bench: `farhand up` did not come up: {self._log.read_text()}")
            time.sleep(0.2)  # between two looks
        self.machine, self.machine_id = str(online["name"]), str(online["id"])
        self.url = str(json.loads((self.home / "local.json").read_text())["url"])
        self.ports: dict[str, int] = json.loads((self.home / "ports.json").read_text())
        self.token = (self.home / "token").read_text().strip()

    def _online(self) -> dict[str, Any]:  # JSON
        done = self.farhand("machines", "list", "--json", check=False)
        items = json.loads(done.stdout)["items"] if done.returncode == 0 else []
        return next((one for one in items if one["presence"] == "online"), {})

    def farhand(self, *arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """Run the command line against it."""
        return subprocess.run(
            [*FARHAND, *arguments], env=self.env, capture_output=True, text=True, check=check
        )

    @contextmanager
    def api(self) -> Iterator[Api]:
        """Give a client of the product, as the command line uses it."""
        api = Api(Target(url=self.url, token=Secret(self.token.encode()), this_machine=None))
        try:
            yield api
        finally:
            api.close()

    def exec(self, *argv: str, shell: str = "") -> Iterator[Frame]:
        """Run a command and yield its frames as they come."""
        asked = {"machine": self.machine} | ({"script": shell} if shell else {"argv": argv})
        with self.api() as api:
            body = api.open("POST", "/v1/exec", json.dumps(asked).encode(), timeout_s=None)
            with contextlib.closing(body):
                decoder = FrameDecoder()
                for chunk in body.chunks():
                    yield from decoder.feed(chunk)

    @property
    def dsn(self) -> str:
        """Return the address of its database."""
        database = EmbeddedPostgres(self.home)
        database.start()  # it runs: that only finds it
        return database.dsn

    def parts(self) -> dict[str, list[int]]:
        """Return its processes by what they are; those of commands are none of them."""
        found: dict[str, list[int]] = {part: [] for part in PARTS}
        for pid in family(self.process.pid):
            try:
                line = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if b"postgres" in line.split(b"\0")[0]:
                found["postgres"].append(pid)
            elif b"farhand_daemon" in line or b"farhandd" in line:
                found["daemon"].append(pid)
            elif b"serve" in line.split(b"\0"):
                found["server"].append(pid)
        return found

    def said(self) -> str:
        """Return the ends of its logs, for a bench that failed."""
        logs = [self._log, *sorted((self.home / "logs").glob("*.log"))]
        ends = [path.read_text(errors="replace").splitlines()[-30:] for path in logs]
        return "\n".join(
            f"── {path.name}\n" + "\n".join(end) for path, end in zip(logs, ends, strict=True)
        )

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)


@contextmanager
def plane(*, concurrency: int = 4) -> Iterator[Plane]:
    """Bring the whole system up, and leave nothing of it behind."""
    folder = Path(tempfile.mkdtemp(prefix="farhand-bench-"))
    folder.chmod(0o711)  # root's database runs as another user, who passes through
    try:
        made = Plane(folder, concurrency=concurrency)
        try:
            yield made
        except BaseException:
            print(made.said(), file=sys.stderr)
            raise
        finally:
            made.stop()
    finally:
        forget_cluster(folder / "home")
        shutil.rmtree(folder, ignore_errors=True)


def set_concurrency(machine_file: Path, places: int) -> None:
    """Change how many commands a machine runs at once; read at its daemon's next decision."""
    kept = [line for line in machine_file.read_text().splitlines() if "concurrency" not in line]
    machine_file.write_text("\n".join([f"concurrency = {places}", *kept]) + "\n")


def result_of(frames: Iterator[Frame]) -> dict[str, Any]:  # JSON
    """Read a command's frames to the end and return its result."""
    for frame in frames:
        if frame.kind is FrameKind.EXIT:
            return dict(frame.json()["result"])
        if frame.kind is FrameKind.ERROR:
            raise SystemExit(f"bench: {frame.json()['message']}")
    raise SystemExit("bench: the stream ended before the command")


# ── processes ───────────────────────────────────────────────────────────────────────────────────


def family(pid: int) -> list[int]:
    """Return a process and everything below it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        one = todo.pop()
        found.append(one)
        todo += children.get(one, [])
    return found


def pss_mb(pids: list[int]) -> float:
    """Return the memory of processes, shared pages divided among who shares them."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended meanwhile
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
    return total / 1024


def cpu_s(pids: list[int]) -> float:
    """Return the processor time that processes have used."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class Watch:
    """Memory and processor time of a plane's parts while something runs."""

    def __init__(self, plane: Plane, every_s: float = 0.25) -> None:
        self._plane = plane
        self._every_s = every_s
        self._over = threading.Event()
        self.before: dict[str, float] = {}
        self.peak: dict[str, float] = {}
        self.used_s: dict[str, float] = {}

    def __enter__(self) -> "Watch":
        parts = self._plane.parts()
        self.before = {part: pss_mb(parts[part]) for part in PARTS}
        self.peak = dict(self.before)
        self._cpu = {part: cpu_s(parts[part]) for part in PARTS}
        self._thread = threading.Thread(target=self._look, name="watch", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        parts = self._plane.parts()
        self.used_s = {part: cpu_s(parts[part]) - self._cpu[part] for part in PARTS}

    def _look(self) -> None:
        while not self._over.wait(self._every_s):
            parts = self._plane.parts()
            for part in PARTS:
                self.peak[part] = max(self.peak[part], pss_mb(parts[part]))

    def growth(self, part: str) -> float:
        return self.peak[part] - self.before[part]


# ── words ───────────────────────────────────────────────────────────────────────────────────────


def ms(values: list[float]) -> str:
    """Return the middle, the edge and the end of some seconds, in milliseconds."""
    ordered = sorted(values)
    return (
        f"p50 {statistics.median(ordered) * 1e3:.1f} ms   p99 {p99(ordered) * 1e3:.1f} ms   "
        f"max {ordered[-1] * 1e3:.1f} ms"
    )


def p99(values: list[float]) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


def load() -> str:
    """Return how busy the computer is besides: a figure without it says little."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
