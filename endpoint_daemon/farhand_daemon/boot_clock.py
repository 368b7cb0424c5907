"""Seconds that also pass while the machine sleeps, and the boot they belong to.

``time.monotonic`` stands still in suspend on Linux and macOS, so an offer would outlive its
deadline there.
"""

import sys
import time

if sys.platform == "linux":

    def boot_seconds() -> float:
        """Return seconds since boot, suspend included; only differences mean something."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

elif sys.platform == "darwin":  # not verified: its manual says that this one counts sleep

    def boot_seconds() -> float:
        """Return seconds since boot, suspend included; only differences mean something."""
        return time.clock_gettime(time.CLOCK_MONOTONIC)

else:

    def boot_seconds() -> float:
        """Return seconds on a clock that no one sets; only differences mean something."""
        return time.monotonic()


class SleepWatch:
    """Notices that the machine slept, that this process stood still, or that the clock was set.

    Asked regularly, and before anything that came meanwhile is acted on. Wall and monotonic clock
    part in a suspend and when the clock is set; a look that comes far too late tells of the rest,
    such as a stopped process or a frozen virtual machine.
    """

    def __init__(self, *, late_s: float, tolerance_s: float) -> None:
        """``late_s``: after the last look, this one is too late. ``tolerance_s``: by which the two
        clocks may part."""
        self._late_s = late_s
        self._tolerance_s = tolerance_s
        self._offset_s = time.time() - time.monotonic()
        self._looked_at = boot_seconds()

    def slept(self) -> bool:
        """Tell whether any of it happened since the last look; each is told once.

        A slow drift (clock discipline) is followed and never counts.
        """
        now, offset_s = boot_seconds(), time.time() - time.monotonic()
        parted = abs(offset_s - self._offset_s) > self._tolerance_s
        late = now - self._looked_at > self._late_s
        self._looked_at, self._offset_s = now, offset_s
        return parted or late
