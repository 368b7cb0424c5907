"""How long to wait before dialling again: full jitter, so that machines do not come back as one."""

from collections.abc import Callable
from typing import Final

from farhand_shared.limits import BACKOFF_CAP_S, BACKOFF_FIRST_S, BACKOFF_RESET_AFTER_S

# After a wake many machines of one office wake together, so the second try is spread a little.
AFTER_WAKE_JITTER_S: Final = 3.0


class Backoff:
    """Waits of a random length up to 0.5, 1, 2 … 60 s; forgotten after 60 healthy seconds."""

    def __init__(self, *, random: Callable[[], float]) -> None:
        """``random`` returns [0, 1), e.g. ``random.SystemRandom().random``."""
        self._random = random
        self._ceiling_s = BACKOFF_FIRST_S
        self._connected_at: float | None = None  # None while not connected
        self._woken = False  # the next failure is the first after a wake

    def connected(self, now: float) -> None:
        """Note that a connection is up."""
        if self._connected_at is None:
            self._connected_at = now

    def failed(self, now: float) -> float:
        """Note a lost or refused connection; return the seconds to wait before the next try."""
        if self._connected_at is not None and now - self._connected_at >= BACKOFF_RESET_AFTER_S:
            self._ceiling_s = BACKOFF_FIRST_S
        self._connected_at = None
        if self._woken:
            self._woken = False
            return self._random() * AFTER_WAKE_JITTER_S
        wait_s = self._random() * self._ceiling_s
        self._ceiling_s = min(BACKOFF_CAP_S, self._ceiling_s * 2)
        return wait_s

    def at_once(self) -> float:
        """Return 0, the wait after a wake or a network change; the next one is up to 3 s."""
        self._ceiling_s = BACKOFF_FIRST_S
        self._connected_at = None
        self._woken = True
        return 0.0
