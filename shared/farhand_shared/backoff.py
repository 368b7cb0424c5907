"""How long to wait before dialling again: full jitter, so that machines do not come back as one."""

from collections.abc import Callable


class Backoff:
    """Waits of a random length up to 0.5, 1, 2 … 60 s; forgotten after 60 healthy seconds."""

    def __init__(self, *, random: Callable[[], float]) -> None:
        """``random`` returns [0, 1), e.g. ``random.SystemRandom().random``."""
        raise NotImplementedError

    def connected(self, now: float) -> None:
        """Note that a connection is up."""
        raise NotImplementedError

    def failed(self, now: float) -> float:
        """Note a lost or refused connection; return the seconds to wait before the next try."""
        raise NotImplementedError

    def at_once(self) -> float:
        """Return the wait after a wake or a network change: 0, then up to 3 s; resets the rest."""
        raise NotImplementedError
