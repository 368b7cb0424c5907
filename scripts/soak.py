#!/usr/bin/env python3
"""Break everything again and again while commands run, and look whether one is lost or run twice.

    .venv/bin/python scripts/soak.py [--seed N] [--minutes M] [--commands K] [--clients C]

Real Postgres, replica, daemon and `farhand exec` clients of their own; nothing of yours is touched.
Each command appends its id to a file, writes some output and ends with some code. Meanwhile the
daemon, the supervisors' parent, the replica and Postgres are killed (kill -9), the daemon sleeps,
the replica is drained, the database's clock jumps, some clients give up, the machine's disk fills
up (as root: it gets a small one of its own), and its link is cut, frozen, refused, slowed and
delayed. At the end everything is mended, and:

- every command is in a terminal state
- no id is twice in the file; none is there whose command is said not to have run
- none that is said to have ended is missing from it
- what clients, the machine's hashes and the store have of each output is the same

The seed decides the faults and the commands, not the scheduling: a failure may need more than one
run to come again. Exit status 1 and the ids say what did not hold. Linux only.
"""

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak and print the report; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--commands", type=int, default=2000)
    parser.add_argument("--clients", type=int, default=12, help="commands in flight at once")
    options = parser.parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):  # either way nothing is left behind
        signal.signal(number, signal.default_int_handler)
    sys.path.insert(0, str(ROOT))  # its parts are the tests'
    from tests.simulation.soak import MACHINE_PLACES, Soak
    from tests.simulation.stage import stage

    with stage(concurrency=MACHINE_PLACES) as made:
        report = Soak(made, options).run()
        if report.wrong:
            print(made.logs(), file=sys.stderr)
    print(json.dumps({"seed": options.seed, **report.counts, "wrong": report.wrong}, indent=1))
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
