"""What stands around one running command: its control group, its limits, what it seems to wait for.

Imported by the fork server: small parts of the standard library only.
"""

from __future__ import annotations

import json

from farhand_daemon.supervisor import wire
from farhand_daemon.supervisor.cgroup import Group, OwnGroup
from farhand_daemon.supervisor.descendants import living_descendants
from farhand_daemon.supervisor.ending import NEVER
from farhand_daemon.supervisor.limits import CommandLimits, limits_of, oom_note
from farhand_daemon.supervisor.quiet import COMPLAINT_BYTES, waits_for_input, wanted_input

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from farhand_daemon.spool import SpoolWriter
    from farhand_daemon.supervisor.process import SupervisorProcess


class Guard:
    """Made for each command; used by `RunningCommand` alone."""

    def __init__(self, process: SupervisorProcess, facts: dict[str, object]) -> None:
        """SpawnFailure: a limit that was asked for cannot be kept here."""
        self._process = process
        self._limits: CommandLimits | None = limits_of(
            facts.get("limits"), process.group_name, process.hierarchies
        )
        hint_ms = facts.get("quiet_ms")
        self._hint_s = hint_ms / 1000 if isinstance(hint_ms, int) and hint_ms else NEVER
        self._quiet_since = 0.0
        self._has_input = False
        self._ooms_before = 0
        self.look_at = NEVER  # when to look whether it waits for somebody to type

    @property
    def fence(self) -> OwnGroup | Group | None:
        """The control group that holds all of the command, and nothing else but perhaps us."""
        own = None if self._limits is None else self._limits.group
        return own or self._process.group

    @property
    def group_name(self) -> str:
        """Its name; empty when there is none."""
        fence = self.fence
        if fence is None:
            return ""
        return fence.group.name if isinstance(fence, OwnGroup) else fence.name

    def spawn(self, go: Callable[[], int]) -> int:
        """Have `go` start the command under its limits, and give the pid. SpawnFailure as `go`."""
        limits = self._limits
        if limits is None:
            return go()
        limits.enter()
        pid = 0
        try:
            pid = go()
        finally:
            own = self._process.group
            limits.leave(pid, None if own is None else own.group)
        return pid

    def began(self, now: float, *, has_input: bool) -> None:
        """Begin to watch a command that was just started."""
        # After the spawn, which it would delay: nothing runs out of memory so early.
        self._ooms_before = self._ooms()
        self._has_input = has_input
        self.wrote(now)

    def wrote(self, now: float) -> None:
        """It wrote, or was given something: whoever waits does not wait for a person yet."""
        self._quiet_since, self.look_at = now, now + self._hint_s

    def look(self, now: float, leader: int) -> bytes:
        """Look what it waits for; give the frame of a hint, once per quiet time, or nothing."""
        quiet_s = now - self._quiet_since
        what = waits_for_input(
            leader, [pid for pid, _ in living_descendants()], has_input=self._has_input
        )
        if what is None:
            self.look_at = now + max(self._hint_s, quiet_s)  # each look reads all of /proc
            return b""
        self.look_at = NEVER
        hint = {
            "quiet_ms": int(quiet_s * 1000),
            "reads_terminal": what == "terminal",
            "takes_input": self._has_input,
        }
        return wire.frame(wire.QUIET, json.dumps(hint).encode())

    def has_run_out_of_memory(self) -> bool:
        """Tell whether the kernel has killed some of it for memory."""
        return self._ooms() > self._ooms_before

    def notes(self, *, reason: str, code: int | None, spool: SpoolWriter) -> list[dict[str, str]]:
        """Say what explains the end beside its reason."""
        complained = b""
        if code:
            complained = spool.last_words(0, COMPLAINT_BYTES) + spool.last_words(1, COMPLAINT_BYTES)
        notes = [] if self._limits is None else self._limits.notes(complained=complained)
        if not any(said["code"] == "out_of_memory" for said in notes):
            # Of a group that others share only the command that died of it is told.
            kills = self._ooms() - self._ooms_before
            if kills > 0 and (reason == "oom" or self.fence is not None):
                notes.append(oom_note(kills))
        if reason == "exit" and not self._has_input and (wanted := wanted_input(complained)):
            notes.append(wanted)
        return notes

    def end(self) -> None:
        """Remove the group of a command that is over."""
        if self._limits is not None:
            self._limits.remove()

    def _ooms(self) -> int:
        group = None if self._limits is None else self._limits.group
        counted = None if group is None else group.oom_kills()
        return self._process.oom.read() if counted is None else counted
