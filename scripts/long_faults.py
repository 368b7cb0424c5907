#!/usr/bin/env python3
"""The faults that take minutes, at their full length: sleep, silence, an idle link.

    .venv/bin/python scripts/long_faults.py [sleep] [silence] [stopped] [idle] [--scale X]

Real Postgres, replica, daemon and network of their own; nothing of yours is touched. All take
25 minutes; ``--scale 0.1`` makes the faults shorter, but not the link's own times.

    sleep     the daemon's processes are stopped for 200 s; right: its stream is new within 10 s of
              going on, and what was asked for meanwhile runs exactly once
    silence   the network swallows everything for 10 min; right: noticed within 25 s, linked again
              within 60 s of its end
    stopped   stopped for 60 s in such a network; right: a new connection within 15 s of going on
    idle      nobody asks for anything for 10 min; right: the stream is the same one

What is right is from reports of other systems; tests/README.md names them. Exit status 1 and a line
say what did not hold. Linux only.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.simulation.stage import Stage

ROOT: Final = Path(__file__).resolve().parent.parent
_LOOK_S: Final = 0.1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases and print a line for each; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--scale", type=float, default=1.0, help="of the faults' lengths")
    options = parser.parse_args(arguments)
    if unknown := set(options.cases) - set(CASES):
        parser.error(f"there is no case {', '.join(unknown)}: take some of {', '.join(CASES)}")
    for number in (signal.SIGINT, signal.SIGTERM):  # either way nothing is left behind
        signal.signal(number, signal.default_int_handler)
    sys.path.insert(0, str(ROOT))  # its parts are the tests'
    from tests.simulation.stage import stage

    wrong = 0
    with stage() as made:
        for name in options.cases or CASES:
            said, right = CASES[name](made, options.scale)
            wrong += not right
            print(f"{'ok   ' if right else 'WRONG'} {name:8} {said}", flush=True)
    return 1 if wrong else 0


def _sleep(stage: "Stage", scale: float) -> tuple[str, bool]:
    starts = stage.work / f"starts-{os.urandom(4).hex()}"
    before = _epoch(stage)
    _signal(stage, signal.SIGSTOP)
    time.sleep(200 * scale)  # the sleep itself
    waiting = stage.shell(f"echo x >> {starts}; printf awake", ("--wait-offline",))
    woken = time.monotonic()
    _signal(stage, signal.SIGCONT)
    linked_s = _seconds(lambda: _epoch(stage) > before, since=woken)
    told = waiting.ended()
    done_s = time.monotonic() - woken
    right = linked_s <= 10 and told.stdout == b"awake" and starts.read_text() == "x\n"
    return f"a new stream {linked_s:.1f} s after going on, the result after {done_s:.1f} s", right


def _silence(stage: "Stage", scale: float) -> tuple[str, bool]:
    begun = time.monotonic()
    taken = stage.link.taken
    stage.link.freeze()
    noticed_s = _seconds(lambda: stage.link.taken > taken, since=begun)
    time.sleep(max(0.0, 600 * scale - noticed_s))  # the silence itself
    before, thawed = _epoch(stage), time.monotonic()
    stage.link.thaw()
    linked_s = _seconds(lambda: _epoch(stage) > before, since=thawed)
    works = stage.exec("true", options=("--wait-offline",)).ended().status == 0
    said = f"noticed after {noticed_s:.1f} s, linked {linked_s:.1f} s after its end"
    # A first dial may wait half a second, and this looks ten times a second.
    return said, noticed_s <= 25 + 1 and linked_s <= 60 and works


def _stopped(stage: "Stage", scale: float) -> tuple[str, bool]:
    _signal(stage, signal.SIGSTOP)
    stage.link.freeze()
    time.sleep(60 * scale)  # the sleep itself
    taken, woken = stage.link.taken, time.monotonic()
    _signal(stage, signal.SIGCONT)
    dialled_s = _seconds(lambda: stage.link.taken > taken, since=woken)
    stage.link.thaw()
    works = stage.exec("true", options=("--wait-offline",)).ended().status == 0
    return f"a new connection {dialled_s:.1f} s after going on", dialled_s <= 15 and works


def _idle(stage: "Stage", scale: float) -> tuple[str, bool]:
    before, taken = _epoch(stage), stage.link.taken
    time.sleep(600 * scale)  # that nothing happens takes time
    streams, connections = _epoch(stage) - before, stage.link.taken - taken
    return f"{streams} new streams, {connections} new connections", streams == connections == 0


CASES: Final[dict[str, Callable[["Stage", float], tuple[str, bool]]]] = {
    "sleep": _sleep,
    "silence": _silence,
    "stopped": _stopped,
    "idle": _idle,
}


def _signal(stage: "Stage", number: signal.Signals) -> None:
    """Send it to the daemon and all its processes."""
    assert stage.daemon is not None, "it was started"
    os.killpg(stage.daemon.pid, number)


def _epoch(stage: "Stage") -> int:
    (row,) = stage.sql("select epoch from machine_connections")
    return int(row["epoch"])


def _seconds(condition: Callable[[], bool], *, since: float) -> float:
    """Wait until it holds, for two minutes at most; return the seconds."""
    while not condition() and time.monotonic() - since < 120:
        time.sleep(_LOOK_S)  # nothing announces it
    return time.monotonic() - since


if __name__ == "__main__":
    sys.exit(main())
