"""Be process 1 of a container, when the daemon was started as that.

Whatever loses its parent in a container becomes a child of process 1, and stays a zombie for ever
unless that one asks for it. So process 1 does nothing else, and the daemon is its child.
"""

import os
import signal
import sys
from types import FrameType
from typing import Final

_PASSED_ON: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def stay_as_init() -> int | None:
    """Return None to go on as the daemon; as process 1, its exit status once it is over."""
    if os.getpid() != 1:
        return None
    child = os.fork()
    if child == 0:
        return None
    # Process 1 has no default for signals: what it does not handle does not arrive.
    from_terminal = sys.stdin is not None and sys.stdin.isatty()

    def pass_on(number: int, frame: FrameType | None) -> None:
        if number != signal.SIGINT or not from_terminal:  # else it has been told itself
            os.kill(child, number)

    for number in _PASSED_ON:
        signal.signal(number, pass_on)
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
