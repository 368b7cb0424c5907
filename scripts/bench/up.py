#!/usr/bin/env python3
"""How long `scripts/up --once` takes, cold and warm, and where the time goes.

    python3 scripts/bench/up.py [--warm N] [--cold]

Cold: a fresh clone of this checkout in an empty folder, its own environment and home. Warm: the
same again, N times. Each run's own progress lines tell where the time goes; the table is their
median over the warm runs, with the seconds that each line itself names. A bare interpreter's start
in the same run stands beside, for a ratio.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cluster import forget_cluster

ROOT = Path(__file__).resolve().parents[2]
JOB = "run uname -a on this machine"
_TIMED = re.compile(r"^(?P<what>.+?) ready\b.*?\((?P<seconds>[\d.]+) s\)")


def once(checkout: Path, env: dict[str, str]) -> tuple[float, str]:
    began = time.perf_counter()
    done = subprocess.run(
        [checkout / "scripts" / "up", "--once", JOB], env=env, capture_output=True, text=True
    )
    seconds = time.perf_counter() - began
    if done.returncode != 0 or os.uname().sysname not in done.stdout:
        raise SystemExit(f"bench: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return seconds, done.stdout + done.stderr


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--warm", type=int, default=5)
    parser.add_argument("--cold", action="store_true", help="clone first; else use this checkout")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="farhand-bench-"))
    folder.chmod(0o711)
    env = {k: v for k, v in os.environ.items() if not k.startswith("FARHAND_")}
    env["FARHAND_HOME"] = str(folder / "home")
    try:
        checkout = ROOT
        if options.cold:
            checkout = folder / "clone"
            subprocess.run(["git", "clone", "-q", ROOT, checkout], check=True)
        seconds, text = once(checkout, env)
        print(f"{'cold' if options.cold else 'first start, empty home':28} {seconds:6.2f} s")
        print("\n".join(f"    {line}" for line in text.splitlines() if _TIMED.search(line)))
        runs, parts = [], {}
        for _ in range(options.warm):
            seconds, text = once(checkout, env)
            runs.append(seconds)
            for match in filter(None, map(_TIMED.search, text.splitlines())):
                parts.setdefault(match["what"].strip(), []).append(float(match["seconds"]))
        bare = []
        for _ in range(5):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", "pass"], check=True)
            bare.append(time.perf_counter() - began)
        print(
            f"{'warm, median of ' + str(options.warm):28} {statistics.median(runs):6.2f} s"
            f"   ({min(runs):.2f} to {max(runs):.2f}; "
            f"{statistics.median(runs) / statistics.median(bare):.0f} x a bare interpreter)"
        )
        for what, seen in parts.items():
            print(f"    {what:24} {statistics.median(seen):6.2f} s")
    finally:
        forget_cluster(folder / "home")
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
