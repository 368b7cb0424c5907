#!/usr/bin/env python3
"""What it costs a server that all its machines come back at once, and that they are there.

    .venv/bin/python scripts/bench/storm.py [--links N] [--workers N] [--rounds N]

Brings up the whole system in a fresh home, enrols N machines through the real listener, and holds
their links in a few processes (real gRPC, mutual TLS and the product's own link session; no
commands run). All links are cut and all dial again at the same moment:

- how many handshakes a second, and when the machines are ready (from the dial to the Welcome)
- the server's memory per link once nothing happens any more

Server, database and all the machines share this computer's cores, and a client's half of a
handshake costs about what the server's does. Linux only.
"""

import argparse
import asyncio
import gc
import json
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

from plane import ROOT, Plane, Watch, cpu_s, load, p99, plane, pss_mb

sys.path.insert(0, str(ROOT))  # the fake daemon is a test's

from tests.fakes.fake_daemon import FakeDaemon, FakeMachine, enrol

ENROLLED_AT_ONCE = 8
SETTLE_S = 20.0  # past the first pings
TARGET_READY_S, TARGET_LINK_KIB = 4.0, 100.0


# ── the machines, in processes of their own ─────────────────────────────────────────────────────


async def connect(machine: FakeMachine, daemon_ids: dict[str, str]) -> tuple[FakeDaemon, float]:
    daemon = FakeDaemon(machine)
    # The same daemon comes back: another one would first be taken for a copy of the machine.
    daemon.daemon_instance_id = daemon_ids.setdefault(machine.machine_id, daemon.daemon_instance_id)
    began = time.perf_counter()
    await daemon.connect(welcome=False)
    async with asyncio.timeout(120):
        await daemon.welcomed.wait()
    return daemon, time.perf_counter() - began


async def work() -> None:
    """Hold the links of the machines on stdin; do what each further line says."""
    machines = [
        FakeMachine(
            root_pem=one["root"].encode(),
            key_pem=one["key"].encode(),
            certificate_pem=one["certificate"].encode(),
            machine_id=one["id"],
            link_address=one["link"],
        )
        for one in json.loads(sys.stdin.readline())
    ]
    daemons: list[FakeDaemon] = []
    ids: dict[str, str] = {}
    gc.freeze()
    while line := await asyncio.to_thread(sys.stdin.readline):
        took: list[float] = []
        match line.strip():
            case "cut":
                await asyncio.gather(*(daemon.stop() for daemon in daemons))
                daemons = []
            case "connect":
                made = await asyncio.gather(*(connect(machine, ids) for machine in machines))
                daemons, took = [one for one, _ in made], [seconds for _, seconds in made]
        print(json.dumps(took), flush=True)
    await asyncio.gather(*(daemon.stop() for daemon in daemons))


class Worker:
    def __init__(self, machines: list[FakeMachine]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--work"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.pid = self._process.pid
        self.say(
            json.dumps(
                [
                    {
                        "root": one.root_pem.decode(),
                        "key": one.key_pem.decode(),
                        "certificate": one.certificate_pem.decode(),
                        "id": one.machine_id,
                        "link": one.link_address,
                    }
                    for one in machines
                ]
            )
        )

    def say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")

    def hear(self) -> list[float]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("bench: a process of machines ended")
        return list(json.loads(line))

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def all_do(workers: list[Worker], what: str) -> list[float]:
    for worker in workers:
        worker.say(what)
    return [seconds for worker in workers for seconds in worker.hear()]


# ── the server ──────────────────────────────────────────────────────────────────────────────────


async def enrol_all(plane: Plane, count: int) -> list[FakeMachine]:
    """Enrol so many machines through the real listener, confirmed."""
    from farhand_control_plane.db import ca, enrolment
    from farhand_control_plane.db.bootstrap import ensure_instance
    from farhand_control_plane.db.pool import Database
    from farhand_shared.ids import MachineId

    address = f"127.0.0.1:{plane.ports['enrol']}"
    room = asyncio.Semaphore(ENROLLED_AT_ONCE)
    async with Database(plane.dsn) as database:
        async with database.transaction() as tx:
            instance = await ensure_instance(tx)
            root = await ca.newest(tx)
        assert root is not None

        async def one(number: int) -> FakeMachine:
            machine = FakeMachine(root.certificate_pem.encode())
            whose = (instance.instance_id, instance.owner_member_id)
            async with room:
                async with database.transaction() as tx:
                    made = await enrolment.make_code(tx, *whose, f"storm-{number}")
                await enrol(machine, address, made.text)
                async with database.transaction() as tx:
                    await enrolment.confirm(
                        tx, *whose, MachineId(machine.machine_id), machine.words
                    )
            machine.link_address = f"127.0.0.1:{plane.ports['link']}"
            return machine

        return list(await asyncio.gather(*map(one, range(count))))


@dataclass(kw_only=True)
class Storm:
    took: list[float]
    seconds: float  # until the last one was ready
    watch: Watch
    clients_s: float


def storm(plane: Plane, workers: list[Worker]) -> Storm:
    clients = [worker.pid for worker in workers]
    before = cpu_s(clients)
    with Watch(plane) as watch:
        began = time.perf_counter()
        took = all_do(workers, "connect")
        seconds = time.perf_counter() - began
    return Storm(took=took, seconds=seconds, watch=watch, clients_s=cpu_s(clients) - before)


def measure(plane: Plane, options: argparse.Namespace) -> None:
    machines = asyncio.run(enrol_all(plane, options.links + options.links // 10))
    first, machines = machines[options.links :], machines[: options.links]
    share = -(-len(machines) // options.workers)
    workers = [Worker(machines[at : at + share]) for at in range(0, len(machines), share)]
    some = [Worker(first)]
    storms = []
    try:
        all_do([*some, *workers], "nothing")  # they have read what they are
        # What a server needs but once (its pools of connections, its code) it has after these.
        storm(plane, some)
        time.sleep(SETTLE_S)
        before = pss_mb(plane.parts()["server"])
        for number in range(options.rounds):
            if number:
                all_do(workers, "cut")
                time.sleep(1)  # the server has seen all of them go
            storms.append(storm(plane, workers))
        time.sleep(SETTLE_S)
        after = pss_mb(plane.parts()["server"])
    finally:
        for worker in (*some, *workers):
            worker.end()
    print(f"{len(machines)} links in {len(workers)} processes, {load()}")
    for number, one in enumerate(storms, 1):
        used = one.watch.used_s
        print(
            f"storm {number}: {len(one.took) / one.seconds:.0f} handshakes/s; ready p50 "
            f"{statistics.median(one.took):.2f} s, p99 {p99(one.took):.2f} s "
            f"(target {TARGET_READY_S:.0f})"
        )
        each = ", ".join(
            f"{name} {seconds / len(one.took) * 1e3:.1f}"
            for name, seconds in (
                ("server", used["server"]),
                ("postgres", used["postgres"]),
                ("machines", one.clients_s),
            )
        )
        print(f"    CPU ms per link: {each}")
    print(
        f"server PSS {before:.1f} -> {after:.1f} MB: {(after - before) / len(machines) * 1024:.0f} "
        f"KiB per idle link (target {TARGET_LINK_KIB:.0f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--links", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        asyncio.run(work())
        return
    with plane() as made:
        measure(made, options)


if __name__ == "__main__":
    main()
