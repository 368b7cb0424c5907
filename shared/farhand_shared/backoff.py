"""How long to wait before dialling again: full jitter, so that machines do not come back as one."""

from collections.abc import Callable
from typing import Final

from farhand_shared.limits import BACKOFF_CAP_S, BACKOFF_FIRST_S, BACKOFF_RESET_AFTER_S

# After a wake many machines of one office wake together, so the second try is spread a little.
AFTER_WAKE_JITTER_S: Final = 3.0
# Who says goodbye is usually back within a minute. A refused dial costs a server that is away
# nothing, and one that is back sees its machines spread over this.
BACK_SOON_S: Final = 60.0
BACK_SOON_CAP_S: Final = 4.0
# Health forgets gradually: six halvings, from the longest wait to the first, in the 60 s after
# which nothing is left. So a server restarted twice is not waited for as one that is down for long,
# and one that takes a link and drops it at once still is.
_HALVED_EVERY_S: Final = BACKOFF_RESET_AFTER_S / 6


class Backoff:
    """Waits of a random length up to 0.5, 1, 2 … 60 s; forgotten after 60 healthy seconds."""

    def __init__(self, *, random: Callable[[], float]) -> None:
        """``random`` returns [0, 1), e.g. ``random.SystemRandom().random``."""
        self._random = random
        self._ceiling_s = BACKOFF_FIRST_S
        self._connected_at: float | None = None  # None while not connected
        self._back_soon_until = float("-inf")
        self._woken = False  # the next failure is the first after a wake

    def connected(self, now: float) -> None:
        """Note that a connection is up."""
        if self._connected_at is None:
            self._connected_at = now

    def back_soon(self, now: float) -> None:
        """Note that the other end goes away in order: for a minute waits stay short."""
        self._back_soon_until = now + BACK_SOON_S
        self._ceiling_s = BACKOFF_FIRST_S

    def failed(self, now: float) -> float:
        """Note a lost or refused connection; return the seconds to wait before the next try."""
        if self._connected_at is not None:
            halvings = (now - self._connected_at) / _HALVED_EVERY_S
            self._ceiling_s = max(BACKOFF_FIRST_S, self._ceiling_s / 2 ** min(halvings, 60))
        self._connected_at = None
        if self._woken:
            self._woken = False
            return self._random() * AFTER_WAKE_JITTER_S
        ceiling_s = self._ceiling_s
        self._ceiling_s = min(BACKOFF_CAP_S, ceiling_s * 2)
        if now < self._back_soon_until:
            ceiling_s = min(ceiling_s, BACK_SOON_CAP_S)
        return self._random() * ceiling_s

    def at_once(self) -> float:
        """Return 0, the wait after a wake or a network change; the next one is up to 3 s."""
        self._ceiling_s = BACKOFF_FIRST_S
        self._connected_at = None
        self._woken = True
        return 0.0
