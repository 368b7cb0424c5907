"""Try a new version of the daemon, as the process that the version before it becomes.

The daemon that works executes this in its own place (same pid, same terminal, same service), so
what judges the new version is code that has proven itself, and ``current`` still names it: after a
kill or a power cut at any point it is what starts again. The new version runs as a child, for its
probation. If it passes, it becomes ``current`` and takes this process over; else the old one does.
"""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NoReturn

from farhand_daemon.command_line import parse
from farhand_daemon.event_log import EventLog
from farhand_daemon.machine_file import PROBATION_DEFAULT_S, load_machine_file
from farhand_daemon.paths import Home, find_home
from farhand_daemon.process_identity import boot_id, is_alive, start_time
from farhand_daemon.status import read_status
from farhand_daemon.update.become import NO_TRIAL, candidate_for
from farhand_daemon.update.child import Child
from farhand_daemon.update.probation import Failed, Passed, Probation
from farhand_daemon.update.slots import Slot, Slots, own_slot
from farhand_daemon.update.state import (
    Candidate,
    Doubt,
    Outcome,
    Trial,
    UpdateState,
    change_state,
    load_state,
)
from farhand_shared.errors import FarhandError

MAX_TRIES: Final = 3  # trials that were broken off: then it is the version, whatever else it was
_AGAIN_S: Final = 1.0  # before a version that ended is started again
_EXIT_NOT_WANTED: Final = 3
_ORDERS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Stopped:
    """It was told to stop, in order: that says nothing about the version."""

    status: int


class TrialRun:
    """One trial, from the first start to the verdict."""

    def __init__(
        self,
        slots: Slots,
        home: Home,
        candidate: Candidate,
        words: Sequence[str],
        *,
        length_s: float,
        clock: Callable[[], float] = time.monotonic,  # stands still while the machine sleeps
    ) -> None:
        self._slots, self._home, self._candidate, self._words = slots, home, candidate, words
        self._length_s, self._clock = length_s, clock
        self._order: int | None = None
        self._child: Child | None = None

    def run(self) -> Passed | Failed | Stopped:
        """Run it; the child has left when this returns, and when it raises."""
        try:
            return self._run()
        finally:
            if self._child is not None and self._child.status() is None:
                self._child.leave()

    def _run(self) -> Passed | Failed | Stopped:
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in _ORDERS:
            signal.signal(number, self._ordered)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # it only wakes us
        probation = Probation(self._clock(), self._length_s)
        child = self._start()
        while True:
            verdict = probation.verdict(self._clock())
            if isinstance(verdict, Failed):
                verdict = replace(verdict, reason=self._with_status(verdict.reason))
            if verdict is not None:
                child.leave(self._length_s / 4)
                return verdict
            wait_s = max(0.0, probation.end - self._clock())
            readable = select.select([*child.descriptors, reading], [], [], wait_s)[0]
            if reading in readable:
                os.read(reading, 4096)
            if readable != [reading] and child.beats():
                probation.beat(self._clock())
            if self._order is not None:
                return Stopped(child.wait())
            status = child.status()
            if status is None:
                continue
            child.wait()
            if status == 0:  # somebody else told it to stop
                return Stopped(status)
            if status == _EXIT_NOT_WANTED:  # the version before will hear the same, or not
                return Failed(self._with_status("the server did not want it"), ended=False)
            failed = probation.ended(_how(status))
            if failed is not None:
                return failed
            time.sleep(_AGAIN_S)  # what it ran into may pass
            child = self._start()

    def _start(self) -> Child:
        child = self._child = Child(self._slots.named(self._candidate.slot), self._words)
        trial = Trial(
            candidate=self._candidate,
            home=str(self._home.root),
            pid=child.pid,
            started=start_time(child.pid) or 0,
            boot=boot_id(),
        )
        change_state(self._slots.folder, lambda state: replace(state, trial=trial))
        if self._order is not None:  # it came while there was no child
            child.pass_on(self._order)
        return child

    def _with_status(self, reason: str) -> str:
        """Add what the version itself said last, when that tells more."""
        last = read_status(self._home)
        if last is None or last.state not in ("offline", "ended") or not last.reason:
            return reason
        return f"{reason}: {last.reason}"

    def _ordered(self, number: int, _frame: object) -> None:
        self._order = number
        if self._child is not None:
            self._child.pass_on(number)


def _how(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


def main(words: Sequence[str]) -> NoReturn:
    """Try what there is to try, then be whichever version is to go on."""
    found = own_slot(Path(sys.prefix))
    if found is None:
        sys.exit(f"farhandd: cannot try a version: {sys.prefix} is not an installed one")
    slots, own = found
    home = find_home(parse(words).home, os.environ)
    log = EventLog(home.log_file)
    try:
        _be(_tried(slots, own, home, words, log), words)
    except Exception as error:
        # Such as a full disk. Whatever it is, the version that works goes on.
        log.write("update_trial_impossible", reason=repr(error))
        _be(own, [*words, NO_TRIAL])


def _tried(slots: Slots, own: Slot, home: Home, words: Sequence[str], log: EventLog) -> Slot:
    """Try what there is to try; return the version that is to go on."""
    candidate = _taken(slots, own, home)
    if candidate is None:
        return own
    log.write("update_trial", version=candidate.version, slot=candidate.slot)
    result = TrialRun(slots, home, candidate, words, length_s=_probation_s(home)).run()
    now_ms = time.time_ns() // 1_000_000
    match result:
        case Stopped(status):
            _settle(slots, candidate)
            log.write("update_trial_stopped", version=candidate.version, status=status)
            sys.exit(status if status >= 0 else 128 - status)
        case Passed():
            slots.make_current(slots.named(candidate.slot))
            outcome = Outcome(kind="updated", version=candidate.version, at_ms=now_ms)
            change_state(
                slots.folder,
                lambda state: replace(
                    state,
                    ready=None,
                    trial=None,
                    doubt=None,
                    last=outcome,
                    bad=tuple(one for one in state.bad if one.slot != candidate.slot),
                ),
            )
            log.write("updated", version=candidate.version, slot=candidate.slot)
            slots.prune(())
            return slots.named(candidate.slot)
        case Failed(reason, ended):
            change_state(
                slots.folder, lambda state: failed(state, candidate, home, reason, ended, now_ms)
            )
            log.write("update_failed", version=candidate.version, reason=reason)
            return own


def failed(
    state: UpdateState, candidate: Candidate, home: Home, reason: str, ended: bool, now_ms: int
) -> UpdateState:
    """Return the state after a trial that was lost: a bad version, or one in doubt."""
    if ended:
        return state.with_bad(candidate, reason, now_ms)
    doubt = Doubt(candidate=candidate, home=str(home.root), reason=reason, at_ms=now_ms)
    return replace(state, ready=None, trial=None, doubt=doubt)


def _taken(slots: Slots, own: Slot, home: Home) -> Candidate | None:
    """Take what is to be tried, counting a trial that was broken off; None: nothing (any more)."""
    state = load_state(slots.folder)
    candidate = candidate_for(state, home)
    if candidate is None or candidate.slot == own.name:
        return None
    if not slots.named(candidate.slot).is_complete():
        return None
    trial = state.trial
    if trial is None:
        return candidate
    if trial.pid and is_alive(trial.pid, trial.started, trial.boot):
        with contextlib.suppress(ProcessLookupError):
            os.kill(trial.pid, signal.SIGKILL)
        while is_alive(trial.pid, trial.started, trial.boot):
            time.sleep(0.05)  # not our child: nothing tells when it is gone
    candidate = replace(candidate, tries=candidate.tries + 1)
    if candidate.tries < MAX_TRIES:
        return candidate
    reason = f"its trial was broken off {candidate.tries} times"
    now_ms = time.time_ns() // 1_000_000
    change_state(slots.folder, lambda state: state.with_bad(candidate, reason, now_ms))
    return None


def _settle(slots: Slots, candidate: Candidate) -> None:
    """The trial was ended in order: it is begun anew when the daemon is started again."""
    change_state(slots.folder, lambda state: replace(state, trial=None, ready=candidate))


def _probation_s(home: Home) -> float:
    try:
        return float(load_machine_file(home.machine_file).update_probation_s)
    except FarhandError:
        return float(PROBATION_DEFAULT_S)


def _be(slot: Slot, words: Sequence[str]) -> NoReturn:
    """Become the daemon of a version."""
    for number in (*_ORDERS, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    os.execv(slot.program, [str(slot.program), *words])


if __name__ == "__main__":
    main(sys.argv[1:])
