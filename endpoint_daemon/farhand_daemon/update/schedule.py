"""What the resident daemon does about updates: now and then let a short process look for one.

It holds neither HTTP nor cryptography. Everything that costs is done by ``farhandd update
--by-daemon``; here is only when, and the restart into a version that is ready to be tried.
"""

import asyncio
import os
import random
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from farhand_daemon.boot_clock import boot_seconds
from farhand_daemon.event_log import EventLog
from farhand_daemon.machine_file import PROBATION_DEFAULT_S, Ceiling
from farhand_daemon.paths import Home
from farhand_daemon.update.become import allowed_now
from farhand_daemon.update.slots import Slot, Slots, own_slot
from farhand_daemon.update.state import (
    STATE_FILE,
    Doubt,
    Outcome,
    UpdateState,
    change_state,
    load_state,
    problem_of,
)
from farhand_shared.errors import FarhandError

MAX_DOUBTS: Final = 3  # then a version that never connected is bad, wherever the network was
_LOOK_S: Final = 5.0
# Between two looks at the server, and before the first: spread, so that a fleet does not come at
# once, neither on the day of a release nor after a power cut.
_EVERY_S: Final = (4 * 3600.0, 8 * 3600.0)
_FIRST_S: Final = (5 * 60.0, 60 * 60.0)
_BEAT_S: Final = 0.5
_LONGEST_S: Final = 3600.0  # of the process that looks and installs


class Updates:
    """Runs beside the link, in a daemon that the installer put there."""

    def __init__(
        self,
        *,
        slots: Slots,
        own: Slot,
        home: Home,
        ceiling: Ceiling,
        log: EventLog,
        connected: Callable[[], bool],
        restart: Callable[[], None],  # leave, and start again with the trial
        trial_failed: bool,  # a trial could not even be begun: not at once again
    ) -> None:
        self._slots, self._own, self._home, self._ceiling = slots, own, home, ceiling
        self._log, self._connected, self._restart = log, connected, restart
        self._uniform = random.SystemRandom().uniform
        self._began = boot_seconds()
        self._next = self._began + self._uniform(*_FIRST_S)
        self._stamp: tuple[int, int] | None = None
        self.problem = problem_of(load_state(slots.folder))  # for the server and its people
        if trial_failed:
            self._state_changed()

    async def run(self) -> None:
        """Look after updates until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            if self._state_changed() and self._see_to_state():
                return
            if self._connected() and boot_seconds() >= self._next and self._allowed():
                self._next = boot_seconds() + self._uniform(*_EVERY_S)
                await self._let_look()

    def _allowed(self) -> bool:
        return allowed_now(self._slots.folder, self._home.machine_file)

    def connected_now(self) -> None:
        """The link is up: if a version was in doubt because it was not, it is known now."""
        if (self._slots.folder / STATE_FILE).exists():
            state = change_state(self._slots.folder, self._judged)
            self.problem = problem_of(state)

    def _judged(self, state: UpdateState) -> UpdateState:
        state = settled(state, self._own.name)
        doubt = state.doubt
        if doubt is None or doubt.home != str(self._home.root):
            return state
        new = judge(
            doubt, state, after_s=boot_seconds() - self._began, within_s=self._probation_s()
        )
        for bad in new.bad:
            if bad not in state.bad:
                self._log.write("version_is_bad", version=bad.version, reason=bad.reason)
        return new

    def _probation_s(self) -> float:
        try:
            return float(self._ceiling.current().update_probation_s)
        except FarhandError:
            return float(PROBATION_DEFAULT_S)

    def _state_changed(self) -> bool:
        try:
            found = (self._slots.folder / STATE_FILE).stat()
        except OSError:
            return False
        stamp = (found.st_mtime_ns, found.st_ino)
        changed, self._stamp = stamp != self._stamp, stamp
        return changed

    def _see_to_state(self) -> bool:
        """Start again if there is a version to be tried, or another one is current already."""
        state = load_state(self._slots.folder)
        self.problem = problem_of(state)
        current = self._slots.current()
        if state.trial is not None:
            return False  # another machine of this installation tries it: its verdict comes first
        if current is not None and current != self._own:
            why = "another version is current"
        elif state.ready is not None and (state.ready.asked or self._allowed()):
            why = f"{state.ready.version} is ready to be tried"
        else:
            return False
        self._log.write("restarting_for_update", reason=why)
        self._restart()
        return True

    async def _let_look(self) -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "farhand_daemon"),
            *("update", "--by-daemon", "--home", str(self._home.root)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(_LONGEST_S):
                _, said = await process.communicate()
            if process.returncode:
                text = said.decode(errors="replace").strip().removeprefix("farhandd: ")
                self._log.write("update_look_failed", reason=text[-500:])
        except TimeoutError:
            self._log.write("update_look_failed", reason=f"not done within {_LONGEST_S:.0f} s")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def updates_of(
    prefix: Path,
    *,
    home: Home,
    ceiling: Ceiling,
    log: EventLog,
    connected: Callable[[], bool],
    restart: Callable[[], None],
    trial_failed: bool,
) -> Updates | None:
    """Return what looks after the installation that this interpreter is of; None: it is of none."""
    found = own_slot(prefix)
    if found is None:
        return None
    slots, own = found
    return Updates(
        slots=slots,
        own=own,
        home=home,
        ceiling=ceiling,
        log=log,
        connected=connected,
        restart=restart,
        trial_failed=trial_failed,
    )


def settled(state: UpdateState, own: str) -> UpdateState:
    """Return the state without what a kill left of a trial that this version has passed."""
    if state.ready is not None and state.ready.slot == own:
        state = replace(state, ready=None)
    if state.trial is not None and state.trial.candidate.slot == own:
        version, now_ms = state.trial.candidate.version, time.time_ns() // 1_000_000
        last = Outcome(kind="updated", version=version, at_ms=now_ms)
        state = replace(state, trial=None, last=last)
    return state


def judge(doubt: Doubt, state: UpdateState, *, after_s: float, within_s: float) -> UpdateState:
    """Say what not connecting meant, now that the version before is connected (``after_s`` after
    its start): the version's fault, unless the network was away for this one too.
    """
    tries = doubt.candidate.tries + 1
    if after_s <= within_s or tries >= MAX_DOUBTS:
        reason = f"{doubt.reason}; the version before it did"
        return state.with_bad(doubt.candidate, reason, time.time_ns() // 1_000_000)
    return replace(state, doubt=None, ready=replace(doubt.candidate, tries=tries))


async def beat(descriptor: int, connected: Callable[[], bool]) -> None:
    """Tell the version before us, which judges, about once a second that we are connected."""
    link = socket.socket(fileno=os.dup(descriptor))
    link.setblocking(False)
    with link:
        while True:
            if connected():
                try:
                    link.send(b"+")
                except BlockingIOError:
                    pass  # it has plenty
                except OSError:
                    return
            await asyncio.sleep(_BEAT_S)
