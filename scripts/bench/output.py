#!/usr/bin/env python3
"""What much output does to a machine: its pace, the daemon's memory, and whether pings wait.

    .venv/bin/python scripts/bench/output.py [--scale X]

Brings up the whole system in a fresh home and runs, with a client that reads and one that has
gone: 200 MB of zeros, 1 GB of `yes`, one line of 100 MB; `--scale 0.01` makes them smaller. While
each runs the machine is pinged on its work stream again and again (an answer is due within 10 s),
and another command of it is run.
"""

import argparse
import contextlib
import threading
import time

import psycopg
from plane import Plane, Watch, load, ms, plane, result_of

from farhand_shared.exec_frames import FrameKind

MB = 1_000_000
CASES = {
    "200 MB": (200 * MB, "head -c {size} /dev/zero"),
    "1 GB of yes": (1000 * MB, "yes | head -c {size}"),
    "a line of 100 MB": (100 * MB, "head -c {size} /dev/zero | tr '\\0' x"),
}


class Pings:
    """Has the machine pinged on its work stream, and notes how long each answer takes."""

    def __init__(self, plane: Plane, every_s: float = 0.5) -> None:
        self._plane = plane
        self._every_s = every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pings", daemon=True)
        self.took: list[float] = []
        self.commands: list[float] = []

    def __enter__(self) -> "Pings":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with psycopg.connect(self._plane.dsn, autocommit=True) as connection:
            while True:
                self.took.append(self._ping(connection))
                began = time.perf_counter()
                result_of(self._plane.exec("true"))
                self.commands.append(time.perf_counter() - began)
                if self._over.wait(self._every_s):
                    return

    def _ping(self, connection: "psycopg.Connection[tuple[object, ...]]") -> float:
        """Ask as another replica does, and wait until the answer is noted in the machine's row."""
        (asked,) = connection.execute("select farhand_now()").fetchone() or (None,)
        began = time.perf_counter()
        while True:
            # Again and again, as replicas do: what was heard in the same moment is not "since".
            connection.execute(
                "select pg_notify('farhand_machines', %s)", (self._plane.machine_id,)
            )
            row = connection.execute(
                "select seen_at > %s from machines where machine_id = %s",
                (asked, self._plane.machine_id),
            ).fetchone()
            if row is not None and row[0]:
                return time.perf_counter() - began
            time.sleep(0.02)  # between two looks


def silences(plane: Plane) -> int:
    """Return how often the server has given a link up because a ping was not answered in time."""
    return (plane.home / "logs" / "server.log").read_text().count("does not answer")


def run(plane: Plane, script: str, *, attached: bool) -> int:
    """Run it to its end; return how many bytes it wrote."""
    frames = plane.exec(shell=script)
    if attached:
        return int(result_of(frames)["stdout"]["produced"])
    command_id = next(f.json()["command_id"] for f in frames if f.kind is FrameKind.ACCEPTED)
    with contextlib.suppress(GeneratorExit):
        frames.close()  # the client goes; the command stays
    with plane.api() as api:
        while (one := api.get(f"/v1/commands/{command_id}"))["result"] is None:
            time.sleep(0.02)  # between two looks
    return int(one["result"]["stdout"]["produced"])


def measure(plane: Plane, scale: float) -> None:
    result_of(plane.exec("true"))
    print(load())
    for name, (size, script) in CASES.items():
        for attached in (True, False):
            with Pings(plane) as pings, Watch(plane) as watch:
                began = time.perf_counter()
                wrote = run(plane, script.format(size=int(size * scale)), attached=attached)
                seconds = time.perf_counter() - began
            assert wrote == int(size * scale), wrote
            assert not silences(plane), "a ping came too late"
            who = "read" if attached else "nobody reads"
            print(f"{name}, {who}: {wrote / seconds / MB:.0f} MB/s")
            print(f"    daemon        +{watch.growth('daemon'):.1f} MB (limit 64)")
            print(f"    ping          {ms(pings.took)} (due in 10 s)")
            print(f"    another one   {ms(pings.commands)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="of the sizes")
    options = parser.parse_args()
    with plane() as made:
        measure(made, options.scale)


if __name__ == "__main__":
    main()
