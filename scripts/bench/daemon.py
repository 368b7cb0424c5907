#!/usr/bin/env python3
"""What a daemon costs on a machine that people leave it on: start, memory, idle CPU.

    .venv/bin/python scripts/bench/daemon.py [--idle SECONDS] [--starts N] [--running N]

Installs the daemon's wheel alone into a fresh environment, brings up a control plane in a fresh
home, enrols a second machine through the real enrolment, and then measures that machine's daemon:

- start → connected: from spawn to the line that says it is connected (median of N starts)
- PSS of all its processes, idle (link, fork server, warm supervisors)
- CPU seconds of all its processes over the idle time, given per minute
- PSS with N commands running (`sleep`, whose own memory is not counted), and what each of them adds

Beside them the start of a bare interpreter in the same run, for a ratio. Linux only (reads /proc).
"""

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from plane import FARHAND, ROOT, Plane, cpu_s, family, load, plane, pss_mb, set_concurrency

CONCURRENCY = 16


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


def enrol(plane: Plane, farhandd: Path, home: Path) -> None:
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


def with_running(plane: Plane, daemon: int, count: int) -> float:
    """Return the memory of a daemon with so many commands running, without theirs."""
    commands = [
        subprocess.Popen(
            [*FARHAND, "exec", "bench", "--", "sleep", "600"],
            env=plane.env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(count)
    ]
    try:
        deadline = time.monotonic() + 60
        while len(running := [pid for pid in family(daemon) if is_sleep(pid)]) < count:
            if time.monotonic() > deadline:
                raise SystemExit(f"bench: only {len(running)} of {count} commands run")
            time.sleep(0.2)  # between two looks
        time.sleep(3)  # what starting needed has settled
        return pss_mb([pid for pid in family(daemon) if pid not in running])
    finally:
        for command in commands:
            command.send_signal(signal.SIGINT)
        for command in commands:
            command.wait(60)


def is_sleep(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep\0")
    except OSError:
        return False


def measure(plane: Plane, folder: Path, options: argparse.Namespace) -> None:
    farhandd = install_daemon(folder)
    home = folder / "daemon"
    enrol(plane, farhandd, home)
    set_concurrency(home / "machine.toml", CONCURRENCY)
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
    try:
        for _ in range(20):  # it has worked before it idles
            plane.farhand("exec", "bench", "--", "true")
        time.sleep(35)  # idle supervisors retire after 30 s
        before = {pid: cpu_s([pid]) for pid in family(process.pid)}
        time.sleep(options.idle)
        pids = family(process.pid)
        used = sum(cpu_s([pid]) - before.get(pid, 0.0) for pid in pids)
        per_minute = used * 60 / options.idle
        idle = pss_mb(pids)
        busy = with_running(plane, process.pid, options.running)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    print(f"bare interpreter           {statistics.median(bare) * 1000:7.0f} ms   ({load()})")
    print(
        f"start to connected         {statistics.median(starts) * 1000:7.0f} ms"
        f"   ({statistics.median(starts) / statistics.median(bare):.1f} x bare)"
    )
    print(f"PSS idle, {len(pids)} processes     {idle:7.1f} MB")
    print(f"CPU per idle minute        {per_minute:7.3f} s")
    print(
        f"PSS, {options.running} commands running  {busy:7.1f} MB"
        f"   ({(busy - idle) / options.running:.2f} MB each)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--idle", type=float, default=60, help="seconds to sit idle")
    parser.add_argument("--starts", type=int, default=7)
    parser.add_argument("--running", type=int, default=10, help=f"at most {CONCURRENCY}")
    options = parser.parse_args()
    with plane() as made, tempfile.TemporaryDirectory(prefix="farhand-bench-") as folder:
        measure(made, Path(folder), options)


if __name__ == "__main__":
    main()
