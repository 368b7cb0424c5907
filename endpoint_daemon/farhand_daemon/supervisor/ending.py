"""The ladder that ends a command: TERM, a grace period, KILL again and again until nothing lives.

Imported by the fork server: small parts of the standard library only.
"""

from __future__ import annotations

import signal

from farhand_daemon.supervisor.descendants import count_living, signal_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from farhand_daemon.supervisor.cgroup import Group, OwnGroup

NEVER = float("inf")
_LOOK_S = 0.01  # between two looks at what lives: each reads all of /proc; grows to the second
_LOOK_MAX_S = 0.2
_KILL_GIVES_UP_S = 10.0  # KILL ends everything but processes stuck in the kernel


class Ending:
    """Ends the process group and all descendants of a command, and knows when none is left."""

    def __init__(
        self,
        group: int,
        grace_s: float,
        *,
        hang_up: bool = False,
        fence: OwnGroup | Group | None = None,
    ) -> None:
        """`fence`: the control group that all of it is in. `hang_up`: the command has a terminal,
        and is told first that nobody is there: a shell that talks to a person ignores TERM.
        """
        self.reason: str | None = None  # set by `begin`; the first one stays
        self.emptied_at = NEVER  # when nothing was left, or KILL was given up
        self.survivors = 0  # what lived when KILL was given up
        self._group, self._grace_s, self._hang_up = group, grace_s, hang_up
        self._fence = fence
        self._kill_at = self._look_at = self._give_up_at = NEVER
        self._pause = _LOOK_S

    @property
    def due(self) -> float:
        """When `step` has something to do."""
        return min(self._kill_at, self._look_at)

    def begin(self, reason: str, now: float) -> None:
        """Ask everything to end. A second call changes nothing."""
        if self.reason is not None:
            return
        self.reason = reason
        self._kill_at = now + self._grace_s
        self._give_up_at = self._kill_at + _KILL_GIVES_UP_S
        self._look_at = now + _LOOK_S
        if self._hang_up:
            signal_all(self._group, signal.SIGHUP)
        signal_all(self._group, signal.SIGTERM)
        signal_all(self._group, signal.SIGCONT)  # a stopped process cannot act on the first one

    def look_soon(self, now: float) -> None:
        """Something ended: see soon whether it was the last."""
        if self.reason is not None and self.emptied_at == NEVER:
            self._pause = _LOOK_S
            self._look_at = min(self._look_at, now + _LOOK_S)

    def step(self, now: float, *, exited: bool) -> None:
        """Do what is due. `exited`: the command's own process is over."""
        if self.emptied_at != NEVER or now < self.due:
            return
        killing = now >= self._kill_at
        living = self._kill() if killing else count_living(self._group)
        if self._fence is not None:
            living = max(living, len(self._fence.members()))
        if living == 0 and exited:
            self._settle(now)
        elif now >= self._give_up_at:
            self.survivors = max(1, living)
            self._settle(now)
        else:
            self._look_at = now + self._pause
            if killing:
                self._kill_at = self._look_at
            self._pause = min(self._pause * 1.5, _LOOK_MAX_S)

    def _kill(self) -> int:
        if self._fence is not None:
            self._fence.kill()
        return signal_all(self._group, signal.SIGKILL)

    def _settle(self, now: float) -> None:
        self.emptied_at = now
        self._kill_at = self._look_at = NEVER
