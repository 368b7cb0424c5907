"""Take the survey of this machine and print it: ``python -m farhand_daemon.survey ROOT…``.

A process of its own, so that the daemon neither waits nor keeps what this imports and finds.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Final

from farhand_daemon.survey.hardware import disk_of, gpus, power
from farhand_daemon.survey.remotes import find_repositories
from farhand_daemon.survey.tools import find_tools

_NICE: Final = 10
_ENDED: Final = 128 + signal.SIGTERM


def main() -> int:
    """Print the survey as JSON; paths keep their bytes."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_ENDED))  # the tool that runs is ended too
    os.nice(_NICE)
    roots = [Path(root) for root in sys.argv[1:]] or [Path.home()]
    disk_bytes, disk_free_bytes = disk_of(roots[0])
    has_battery, on_battery, battery_percent = power(os.environ)
    found = {
        "disk_bytes": disk_bytes,
        "disk_free_bytes": disk_free_bytes,
        "gpus": gpus(),
        "has_battery": has_battery,
        "on_battery": on_battery,
        "battery_percent": battery_percent,
        "tools": find_tools(os.environ),
        "repositories": [(remote, os.fsdecode(path)) for remote, path in find_repositories(roots)],
    }
    sys.stdout.buffer.write(json.dumps(found).encode())  # ASCII: \uXXXX for what is no UTF-8
    return 0


if __name__ == "__main__":
    sys.exit(main())
