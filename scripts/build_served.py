"""Build what the control plane serves, in a checkout: `_dist`, then `_page`. `farhand up` runs it.

    python scripts/build_served.py [--lifeline FD] [--report FD]

Says what it does in lines of JSON on the report, `{"message": …}`; nothing when both are current.
Why the page could not be built lies in `_page.failed` afterwards, for whoever opens the page. When
the lifeline's other end is gone it ends, with all that it has started.
"""

import argparse
import contextlib
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import build_dashboard
import build_wheels
from building import CannotBuildError

FAILED = build_dashboard.PAGE.with_name("_page.failed")
PATIENCE_S = 5.0  # for removing half of a build


def build_all(report: int) -> int:
    """Build both; return the exit status: 1 when something could not be built."""
    status = 0
    try:
        build_wheels.dist()
    except (CannotBuildError, OSError) as error:
        say(report, f"{error}; until then no machine can be added from the page")
        status = 1
    began = time.monotonic()
    try:
        if not build_dashboard.is_current():
            FAILED.unlink(missing_ok=True)
            say(report, "building the page; its address shows it when it is ready")
            build_dashboard.build()
            say(report, f"page ready ({time.monotonic() - began:.1f} s)")
        FAILED.unlink(missing_ok=True)
    except (CannotBuildError, OSError) as error:
        if isinstance(error, CannotBuildError):
            print(error.output)
        say(report, str(error))
        with contextlib.suppress(OSError):  # where we cannot write, that is what was just said
            FAILED.write_text(f"{error}\n")
        status = 1
    return status


def say(report: int, message: str) -> None:
    """Tell whoever started us, and the log."""
    print(message, flush=True)
    if report >= 0:
        with contextlib.suppress(BrokenPipeError):
            os.write(report, json.dumps({"message": message}).encode() + b"\n")


def end_with(lifeline: int) -> None:
    """End our process group when the lifeline ends; returns at once."""

    def watch() -> None:
        while os.read(lifeline, 512):
            pass
        os.killpg(os.getpgrp(), signal.SIGTERM)
        time.sleep(PATIENCE_S)  # we are ending: this thread goes with us, unless something hangs
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


def stop(number: int, _frame: object) -> None:
    """End by way of the clean-up, which a signal alone would skip."""
    sys.exit(128 + number)


def main() -> int:
    """Build what is not current, without getting in anybody's way."""
    parser = argparse.ArgumentParser(description="Build what the control plane serves.")
    parser.add_argument("--lifeline", type=int, default=-1)
    parser.add_argument("--report", type=int, default=-1)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    if options.lifeline >= 0:
        end_with(options.lifeline)
    os.nice(10)  # commands that people wait for come first
    os.chdir(Path(__file__).resolve().parent.parent)
    return build_all(options.report)


if __name__ == "__main__":
    sys.exit(main())
