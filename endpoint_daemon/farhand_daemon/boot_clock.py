"""Seconds that also pass while the machine sleeps, and the boot they belong to.

``time.monotonic`` stands still in suspend on Linux, so an offer would outlive its deadline there.
"""

import sys
import time

if sys.platform == "linux":

    def boot_seconds() -> float:
        """Return seconds since boot, suspend included; only differences mean something."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:

    def boot_seconds() -> float:
        """Return seconds on a clock that no one sets; only differences mean something."""
        return time.monotonic()


class SleepWatch:
    """Notices that the machine slept, or that its clock was set: wall and monotonic disagree."""

    def __init__(self, *, tolerance_s: float) -> None:
        self._tolerance_s = tolerance_s
        self._offset_s = time.time() - time.monotonic()

    def jumped(self) -> bool:
        """Tell whether the two clocks have parted by more than the tolerance since the last call.

        A slow drift (clock discipline) is followed and never counts.
        """
        offset_s = time.time() - time.monotonic()
        parted = abs(offset_s - self._offset_s) > self._tolerance_s
        self._offset_s = offset_s
        return parted
