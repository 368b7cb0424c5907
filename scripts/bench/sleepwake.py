#!/usr/bin/env python3
"""How soon a machine that slept works again: from SIGCONT to the result of a command.

    .venv/bin/python scripts/bench/sleepwake.py [--seconds N] [--rounds N]

Brings up the whole system in a fresh home, stops this machine's daemon with everything below it
(SIGSTOP), waits, lets it go on and asks at once for a command that notes its start. 200 s is longer
than any lease; `--seconds 60` is longer than it takes to be shown offline, `--seconds 5` is a lid
that was closed by accident. To the daemon it is a sleep of which no clock tells: it has to find the
link dead by itself.
"""

import argparse
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from plane import Plane, family, load, plane, result_of

TARGET_S = 10.0


def send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def sleep(plane: Plane, seconds: float) -> tuple[float, str]:
    """Put the machine to sleep; return the seconds from its waking to a result, and its presence
    at that moment."""
    asleep = sorted({one for pid in plane.parts()["daemon"] for one in family(pid)})
    note = plane.home.with_name("starts")
    send(asleep, signal.SIGSTOP)
    time.sleep(seconds)  # the sleep itself
    with plane.api() as api:
        presence = str(api.get(f"/v1/machines/{plane.machine_id}")["presence"])
    before = lines(note)
    woke = time.perf_counter()
    send(asleep, signal.SIGCONT)
    done = plane.farhand(
        "exec", "--wait-offline", "--shell", plane.machine, "--",
        f"echo awake >> '{note}'; printf awake",
    )  # fmt: skip
    took = time.perf_counter() - woke
    assert done.stdout == "awake", done.stderr
    assert lines(note) == before + 1, "it ran more than once"
    return took, presence


def lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=200.0, help="of sleep")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    with plane() as made:
        result_of(made.exec("true"))
        began = time.perf_counter()
        made.farhand("exec", made.machine, "--", "true")
        awake = time.perf_counter() - began
        print(f"{load()}; an exec on a machine that is awake takes {awake:.2f} s")
        for _ in range(options.rounds):
            took, presence = sleep(made, options.seconds)
            print(
                f"asleep {options.seconds:.0f} s, shown {presence}: {took:.2f} s to the result "
                f"(target {TARGET_S:.0f})"
            )


if __name__ == "__main__":
    main()
