"""``farhandd`` whose minutes are seconds: ``hurried_daemon.py FACTOR VERB …``.

The times of the link are multiplied by FACTOR: how long silence is suffered, how late a look
around may come, how long waits between dials become. And the certificate is due for renewal when
a file ``renew-now`` lies in the home, once. Nothing else is different.
"""

import sys
from pathlib import Path
from types import ModuleType

from farhand_daemon import __main__ as farhandd
from farhand_daemon import channels
from farhand_daemon.identity import MachineCredentials

TIMES = {
    "farhand_daemon.stream": ("SILENT_AFTER_S", "WELCOME_DUE_S"),
    "farhand_daemon.link_client": (
        *("_LOOK_AROUND_S", "_LATE_S", "_SLEPT_S", "_GO_OVER_AGAIN_S", "_NETWORK_SETTLES_S"),
        "BACKOFF_CAP_S",
    ),
    "farhand_shared.backoff": ("BACKOFF_CAP_S", "AFTER_WAKE_JITTER_S"),
}


def hurry(factor: float, home: Path) -> None:
    """Multiply the times, once gRPC may be imported: not before the fork server is there."""
    clean = channels.clean_grpc_environment

    def clean_and_hurry() -> None:
        clean()
        for name, times in TIMES.items():
            module: ModuleType = __import__(name, fromlist=["_"])
            for time in times:
                setattr(module, time, getattr(module, time) * factor)
        from farhand_daemon import renewal

        is_due, flag = renewal.renewal_is_due, home / "renew-now"

        def is_due_now(identity: MachineCredentials) -> bool:
            if not flag.exists():
                return is_due(identity)
            flag.unlink()
            return True

        renewal.renewal_is_due = is_due_now

    channels.clean_grpc_environment = clean_and_hurry


if __name__ == "__main__":
    hurry(float(sys.argv[1]), Path(sys.argv[sys.argv.index("--home") + 1]))
    sys.exit(farhandd.main(sys.argv[2:]))
