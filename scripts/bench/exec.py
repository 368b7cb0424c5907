#!/usr/bin/env python3
"""What one direct command costs, end to end: round trip, where the time goes, commands per second.

    .venv/bin/python scripts/bench/exec.py [--rounds N] [--seconds S]

Brings up the whole system in a fresh home (`farhand up`: Postgres, server, this machine's daemon),
raises the machine's concurrency, and speaks HTTP over kept connections as any client may:

- round trip of `sh -c 'echo hi'`, in rounds that alternate with spawning `true` here; the ratio of
  the two medians is the figure to compare between machines. `true` is spawned in two ways: by
  asyncio from this client, as benches of other systems do it whose client is asynchronous too, and
  by `subprocess`, the least a spawn costs. Compare a ratio only with one over the same way.
- where the time goes, from the client's clock and the times on record
- commands per second with 1, 8 and 64 in flight, with the CPU each part takes

Client, server, daemon, Postgres and the commands share this machine's cores. Linux only.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import time
from dataclasses import dataclass, field
from datetime import datetime

from plane import PARTS, Plane, cpu_s, plane

from farhand_shared.exec_frames import FrameDecoder, FrameKind

CONCURRENCY = 64


@dataclass
class Times:
    """When a client saw what, in seconds from its request; ``asked_at`` is wall time."""

    asked_at: float = 0.0
    command_id: str = ""
    exit: float = 0.0
    committed: float = 0.0


class Connection:
    """One kept HTTP connection: a request, and its streamed answer."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def open(self) -> "Connection":
        self._reader, self._writer = await asyncio.open_connection(
            "127.0.0.1", self._plane.ports["http"], limit=1 << 20
        )
        return self

    def close(self) -> None:
        self._writer.close()

    async def exec(self, argv: list[str]) -> Times:
        plane, decoder = self._plane, FrameDecoder()
        body = json.dumps({"machine": plane.machine, "argv": argv}).encode()
        times = Times(asked_at=time.time())
        began = time.perf_counter()
        self._writer.write(
            (
                "POST /v1/exec HTTP/1.1\r\nhost: localhost\r\n"
                f"authorization: Bearer {plane.token}\r\ncontent-length: {len(body)}\r\n\r\n"
            ).encode()
            + body
        )
        head = await self._reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head[:16]:
            raise SystemExit(f"bench: {head!r}")
        while True:
            size = int(await self._reader.readline(), 16)
            chunk = await self._reader.readexactly(size + 2)
            if not size:
                return times
            now = time.perf_counter() - began
            for frame in decoder.feed(chunk[:-2]):
                match frame.kind:
                    case FrameKind.ACCEPTED:
                        times.command_id = frame.json()["command_id"]
                    case FrameKind.EXIT:
                        times.exit = now
                        assert frame.json()["result"]["exit_code"] == 0, frame
                    case FrameKind.COMMITTED:
                        times.committed = now
                    case FrameKind.ERROR:
                        raise SystemExit(f"bench: {frame.payload!r}")

    async def recorded(self) -> dict[str, dict[str, str]]:
        """Return the newest commands as recorded, by id."""
        self._writer.write(
            b"GET /v1/commands?limit=100 HTTP/1.1\r\nhost: localhost\r\n"
            b"authorization: Bearer " + self._plane.token.encode() + b"\r\n\r\n"
        )
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if b"content-length" in line)
        body = json.loads(await self._reader.readexactly(int(length.split(b":")[1])))
        return {item["id"]: item for item in body["items"]}

    async def nothing(self) -> float:
        """Have a request refused after its token was checked: what HTTP costs alone."""
        began = time.perf_counter()
        self._writer.write(
            b"POST /v1/exec HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n"
            b"authorization: Bearer " + self._plane.token.encode() + b"\r\n\r\n"
        )
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if b"content-length" in line)
        await self._reader.readexactly(int(length.split(b":")[1]))
        return time.perf_counter() - began


@dataclass
class Rounds:
    spawns: list[float] = field(default_factory=list)
    async_spawns: list[float] = field(default_factory=list)
    shells: list[float] = field(default_factory=list)
    nothings: list[float] = field(default_factory=list)
    times: list[Times] = field(default_factory=list)
    steps: dict[str, list[float]] = field(default_factory=dict)


def spawn(argv: list[str], n: int) -> list[float]:
    times = []
    for _ in range(n):
        began = time.perf_counter()
        subprocess.run(argv, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - began)
    return times


async def async_spawn(argv: list[str], n: int) -> list[float]:
    times = []
    for _ in range(n):
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec(*argv)
        await process.wait()
        times.append(time.perf_counter() - began)
    return times


async def round_trips(plane: Plane, rounds: int) -> Rounds:
    found = Rounds()
    connection = await Connection(plane).open()
    argv = ["/bin/sh", "-c", "echo hi"]
    for _ in range(50):
        await connection.exec(argv)
    for _ in range(rounds):
        found.spawns += spawn(["/bin/true"], 40)
        found.async_spawns += await async_spawn(["/bin/true"], 40)
        found.shells += spawn(argv, 20)
        found.nothings += [await connection.nothing() for _ in range(20)]
        times = [await connection.exec(argv) for _ in range(100)]
        found.times += times
        recorded = await connection.recorded()
        for one in times:
            if one.command_id in recorded:
                add_steps(found.steps, one, recorded[one.command_id])
    connection.close()
    return found


def add_steps(steps: dict[str, list[float]], times: Times, row: dict[str, str]) -> None:
    """Split one round trip at the moments on record; all clocks are this machine's."""
    moments = [times.asked_at]
    moments += [datetime.fromisoformat(row[k]).timestamp() for k in ("queued_at", "started_at")]
    moments += [datetime.fromisoformat(row["ended_at"]).timestamp()]
    moments += [times.asked_at + times.exit, times.asked_at + times.committed]
    request, queued, back, recording, told, committed = moments
    for name, value in (
        ("request to the statement that stores the command", queued - request),
        ("its commit, link, journal, spawn, sh, link back", back - queued),
        ("message back to the statement that stores the result", recording - back),
        ("message back to exit told", told - back),
        ("that statement's start to committed told", committed - recording),
    ):
        steps.setdefault(name, []).append(value)


def middle(values: list[float]) -> str:
    ordered = sorted(values)
    p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    return f"p50 {statistics.median(ordered) * 1e3:6.2f} ms   p95 {p95 * 1e3:6.2f} ms"


async def rate(plane: Plane, in_flight: int, seconds: float) -> None:
    connections = [await Connection(plane).open() for _ in range(in_flight)]
    until = time.perf_counter() + seconds
    times: list[float] = []

    async def work(connection: Connection) -> None:
        while time.perf_counter() < until:
            times.append((await connection.exec(["/bin/true"])).committed)

    pids = plane.parts()
    before = {part: cpu_s(pids[part]) for part in PARTS}
    own, began = time.process_time(), time.perf_counter()
    await asyncio.gather(*map(work, connections))
    elapsed = time.perf_counter() - began
    each = {part: (cpu_s(pids[part]) - before[part]) / len(times) * 1e3 for part in PARTS}
    each["client"] = (time.process_time() - own) / len(times) * 1e3
    for connection in connections:
        connection.close()
    spent = ", ".join(f"{name} {value:.2f}" for name, value in each.items())
    print(
        f"{in_flight:3} in flight   {len(times) / elapsed:6.0f}/s   {middle(times)}   "
        f"CPU ms: {spent}"
    )


async def measure(plane: Plane, rounds: int, seconds: float) -> None:
    found = await round_trips(plane, rounds)
    floors = [statistics.median(times) for times in (found.async_spawns, found.spawns)]
    exits = [times.exit for times in found.times]
    ends = [times.committed for times in found.times]
    print(f"spawn true, asyncio      {middle(found.async_spawns)}")
    print(f"spawn true, subprocess   {middle(found.spawns)}")
    print(f"spawn sh -c 'echo hi'    {middle(found.shells)}   (part of every round trip)")
    print(f"a refused request        {middle(found.nothings)}   (HTTP and token alone)")
    for name, times in (("exit told       ", exits), ("result committed", ends)):
        of_asyncio, of_subprocess = (statistics.median(times) / floor for floor in floors)
        print(
            f"{name}         {middle(times)}   "
            f"{of_asyncio:.1f} x spawn by asyncio, {of_subprocess:.1f} x by subprocess"
        )
    print("steps:")
    for name, values in found.steps.items():
        print(f"  {name:52} {middle(values)}")
    for in_flight in (1, 8, 64):
        await rate(plane, in_flight, seconds)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--seconds", type=float, default=4.0)
    asked = options.parse_args()
    with plane(concurrency=CONCURRENCY) as made:
        asyncio.run(measure(made, asked.rounds, asked.seconds))


if __name__ == "__main__":
    main()
