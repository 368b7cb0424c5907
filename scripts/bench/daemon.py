#!/usr/bin/env python3
"""What a daemon costs on a machine that people leave it on: start, memory, idle CPU.

    .venv/bin/python scripts/bench/daemon.py [--idle SECONDS] [--starts N]

Installs the daemon's wheel alone into a fresh environment, brings up a control plane in a fresh
home, enrols a second machine through the real enrolment, and then measures that machine's daemon:

- start → connected: from spawn to the line that says it is connected (median of N starts)
- PSS of all its processes, idle (link, fork server, warm supervisors)
- CPU seconds of all its processes over the idle time, given per minute

Beside them the start of a bare interpreter in the same run, for a ratio. Linux only (reads /proc).
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cluster import forget_cluster

ROOT = Path(__file__).resolve().parents[2]
FARHAND = [sys.executable, "-m", "farhand_control_plane"]


def family(pid: int) -> list[int]:
    """Return a process and everything below it."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        one = todo.pop()
        found.append(one)
        todo += parents.get(one, [])
    return found


def pss_mb(pids: list[int]) -> float:
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1024


def cpu_s(pids: list[int]) -> float:
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class ControlPlane:
    """A whole `farhand up` in a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "control"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("FARHAND_")}
        self.env["FARHAND_HOME"] = str(self.home)
        self._process = subprocess.Popen(
            [*FARHAND, "up"], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        deadline = time.monotonic() + 120
        while True:
            done = self.farhand("machines", "list", "--json", check=False)
            if done.returncode == 0:
                items = json.loads(done.stdout)["items"]
                if any(m["presence"] == "online" for m in items):
                    break
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise SystemExit(f"bench: `farhand up` did not come up: {done.stderr}")
            time.sleep(0.2)
        self.url = json.loads((self.home / "local.json").read_text())["url"]

    def farhand(self, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*FARHAND, *args], env=self.env, capture_output=True, text=True, check=check
        )

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(60)


def install_daemon(folder: Path) -> Path:
    """Build the daemon's wheel and install it alone; return its `farhandd`."""
    wheels = folder / "wheels"
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", wheels, ROOT / "endpoint_daemon"], check=True)
    venv = folder / "daemon-venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    (wheel,) = wheels.glob("farhand_daemon-*.whl")
    subprocess.run([*pip, "--python", venv, "install", wheel], check=True)
    return venv / "bin" / "farhandd"


def enrol(plane: ControlPlane, farhandd: Path, home: Path) -> None:
    """Redeem a code, confirm with the words that the machine shows."""
    made = json.loads(plane.farhand("machines", "add", "--name", "bench", "--json").stdout)
    command = [farhandd, "enroll", plane.url, "--home", home, "--code-stdin", "--json", "--no-wait"]
    done = subprocess.run(
        [*command, "--trust", "trusted", "--chosen-by", "up"],
        input=made["code"] + "\n",
        capture_output=True,
        text=True,
        env=plane.env,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"bench: cannot enrol: {done.stderr}")
    redeemed = json.loads(done.stdout.splitlines()[0])
    plane.farhand("machines", "confirm", "bench", "--words", " ".join(redeemed["words"]))


def start(farhandd: Path, home: Path) -> tuple[subprocess.Popen[str], float]:
    """Start the daemon; return it and the seconds until it says that it is connected."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [farhandd, "run", "--home", home],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "connected" in line:
            return process, time.perf_counter() - began
    raise SystemExit("bench: the daemon ended before it was connected")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--idle", type=float, default=60, help="seconds to sit idle")
    parser.add_argument("--starts", type=int, default=7)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="farhand-bench-"))
    folder.chmod(0o711)
    try:
        farhandd = install_daemon(folder)
        plane = ControlPlane(folder)
        try:
            home = folder / "daemon"
            enrol(plane, farhandd, home)
            bare = []
            starts = []
            for number in range(options.starts + 1):
                began = time.perf_counter()
                subprocess.run([farhandd.parent / "python", "-c", "pass"], check=True)
                bare.append(time.perf_counter() - began)
                process, seconds = start(farhandd, home)
                if number:  # the first one compiles its modules
                    starts.append(seconds)
                if number < options.starts:
                    process.send_signal(signal.SIGTERM)
                    process.wait(30)
            for _ in range(20):  # it has worked before it idles
                plane.farhand("exec", "bench", "--", "true")
            time.sleep(35)  # idle supervisors retire after 30 s
            before = {pid: cpu_s([pid]) for pid in family(process.pid)}
            time.sleep(options.idle)
            pids = family(process.pid)
            used = sum(cpu_s([pid]) - before.get(pid, 0.0) for pid in pids)
            per_minute = used * 60 / options.idle
            print(f"bare interpreter           {statistics.median(bare) * 1000:7.0f} ms")
            print(
                f"start to connected         {statistics.median(starts) * 1000:7.0f} ms"
                f"   ({statistics.median(starts) / statistics.median(bare):.1f} x bare)"
            )
            print(f"PSS idle, {len(pids)} processes     {pss_mb(pids):7.1f} MB")
            print(f"CPU per idle minute        {per_minute:7.3f} s")
            process.send_signal(signal.SIGTERM)
            process.wait(30)
        finally:
            plane.stop()
    finally:
        forget_cluster(folder / "control")
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
