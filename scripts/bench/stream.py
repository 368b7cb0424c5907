#!/usr/bin/env python3
"""How fast much output reaches a client that is attached, and how soon a little.

    .venv/bin/python scripts/bench/stream.py [--mib N] [--rounds N] [--lines N]

Brings up the whole system in a fresh home and runs `head -c N /dev/zero | base64` (200 MiB of
zeros are 283 MB of text). Checked in each round: every byte reached the client (the machine's
hash), and head, tail and the length between them are stored. Then a command writes the time every
quarter of a second, and the client says how old each line is.

Beside them the same command into a plain pipe, for a ratio. Client, server, daemon, Postgres and
the command share this machine's cores.
"""

import argparse
import hashlib
import os
import statistics
import subprocess
import time
from dataclasses import dataclass

from plane import Plane, Watch, load, ms, plane, result_of

from farhand_shared.exec_frames import FrameDecoder, FrameKind
from farhand_shared.limits import SPOOL_HEAD_BYTES, SPOOL_TAIL_BYTES


def command(mib: int) -> str:
    return f"head -c {mib << 20} /dev/zero | base64 -w 76"


@dataclass(kw_only=True)
class Round:
    rate: float  # MB/s from the request to the last byte
    watch: Watch
    size: int


def into_a_pipe(mib: int) -> float:
    """Return the MB/s of the command alone."""
    began, size = time.perf_counter(), 0
    with subprocess.Popen(["/bin/sh", "-c", command(mib)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while chunk := os.read(process.stdout.fileno(), 1 << 20):
            size += len(chunk)
    return size / (time.perf_counter() - began) / 1e6


def to_a_client(plane: Plane, mib: int) -> Round:
    hashed, size, attempt_id, result = hashlib.sha256(), 0, "", {}
    last = began = time.perf_counter()
    with Watch(plane) as watch:
        for frame in plane.exec(shell=command(mib)):
            match frame.kind:
                case FrameKind.ACCEPTED:
                    attempt_id = frame.json()["attempt_id"]
                case FrameKind.STDOUT:
                    hashed.update(frame.payload)
                    size += len(frame.payload)
                    last = time.perf_counter()
                case FrameKind.EXIT:
                    result = frame.json()["result"]
                case FrameKind.ERROR | FrameKind.OMITTED:
                    raise SystemExit(f"bench: {frame.payload!r}")
    assert result["stdout"]["sha256"] == hashed.hexdigest(), "not the bytes that were written"
    assert stored(plane, attempt_id) == min(size, SPOOL_HEAD_BYTES + SPOOL_TAIL_BYTES)
    return Round(rate=size / (last - began) / 1e6, watch=watch, size=size)


def stored(plane: Plane, attempt_id: str) -> int:
    """Return how many bytes a later reader gets."""
    with plane.api() as api:
        body, decoder = api.open("GET", f"/v1/attempts/{attempt_id}/output"), FrameDecoder()
        frames = [frame for chunk in body.chunks() for frame in decoder.feed(chunk)]
        body.close()
    return sum(len(frame.payload) for frame in frames if frame.kind is FrameKind.STDOUT)


def ages(plane: Plane, lines: int) -> list[float]:
    """Return how old each of some lines is when the client has it."""
    program = (
        "import time\n"
        f"for _ in range({lines}):\n"
        "    print(time.time_ns(), flush=True)\n"
        "    time.sleep(0.25)\n"
    )
    found = []
    for frame in plane.exec("python3", "-c", program):
        if frame.kind is FrameKind.STDOUT:
            found.append((time.time_ns() - int(frame.payload.split()[-1])) / 1e9)
    return found


def measure(plane: Plane, options: argparse.Namespace) -> None:
    result_of(plane.exec("true"))
    floor = [into_a_pipe(options.mib) for _ in range(options.rounds)]
    rounds = [to_a_client(plane, options.mib) for _ in range(options.rounds)]
    rates = [one.rate for one in rounds]
    rate = statistics.median(rates)
    print(f"{rounds[0].size / 1e6:.0f} MB, {load()}")
    print(f"into a plain pipe      {statistics.median(floor):6.0f} MB/s")
    print(
        f"live to a client       {rate:6.1f} MB/s   ({min(rates):.1f} to {max(rates):.1f}; "
        f"a plain pipe is {statistics.median(floor) / rate:.1f} x)"
    )
    for part in ("daemon", "server", "postgres"):
        before = statistics.median(one.watch.before[part] for one in rounds)
        growth = max(one.watch.growth(part) for one in rounds)
        per_gb = statistics.median(one.watch.used_s[part] / one.size * 1e9 for one in rounds)
        print(f"{part:10} PSS {before:6.1f} MB, at most +{growth:.1f}   CPU {per_gb:.1f} s per GB")
    print(f"age of a line          {ms(ages(plane, options.lines))}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=int, default=200, help="of zeros; 4/3 of that is text")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lines", type=int, default=40)
    options = parser.parse_args()
    with plane() as made:
        measure(made, options)


if __name__ == "__main__":
    main()
