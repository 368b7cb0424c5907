"""Whether a new version has proven itself: it connects in time and is still connected at the end.

The version on trial sends a byte about once a second while it is connected (``beat``); silence
means that it is not, or that it hangs. It is judged by the version before it.
"""

from dataclasses import dataclass
from typing import Final

MAX_STARTS: Final = 3  # a version that ends this often within its probation is not started again
_STEADY: Final = 1 / 4  # of the probation: connected without a break at its end
_SILENT: Final = 1 / 3  # of the probation: no sign for so long is a break


@dataclass(frozen=True, slots=True)
class Passed:
    """The version is connected, and has been for a while."""


@dataclass(frozen=True, slots=True)
class Failed:
    """``ended``: it is the version's own fault; else the network may have been away."""

    reason: str
    ended: bool


class Probation:
    """The rules, over a clock that the caller reads (seconds, not counting sleep)."""

    def __init__(self, now: float, length_s: float) -> None:
        self._began = now
        self._length = length_s
        self._since = 0.0  # when the present connection was first seen
        self._last = -1.0  # the last sign; negative: none yet
        self._starts = 1

    @property
    def end(self) -> float:
        """When the verdict is due."""
        return self._began + self._length

    def beat(self, now: float) -> None:
        """It says that it is connected."""
        if self._last < 0 or now - self._last > self._length * _SILENT:
            self._since = now
        self._last = now

    def ended(self, how: str) -> Failed | None:
        """Its process ended; None: start it again."""
        if self._starts >= MAX_STARTS:
            return Failed(f"it ended {self._starts} times, the last time with {how}", ended=True)
        self._starts += 1
        return None

    def verdict(self, now: float) -> Passed | Failed | None:
        """Return the verdict; None before the end."""
        if now < self.end:
            return None
        if self._last < 0:
            return Failed(f"it did not connect within {self._length:.0f} s", ended=False)
        if now - self._last > self._length * _SILENT:
            return Failed("it connected, and did not stay connected", ended=False)
        if now - self._since < self._length * _STEADY:
            return Failed(
                f"it was connected for {now - self._since:.0f} s only of {self._length:.0f} s",
                ended=False,
            )
        return Passed()
