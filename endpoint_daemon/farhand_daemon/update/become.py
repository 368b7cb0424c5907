"""What a daemon of the installer's does at its start and when it starts again: be another process.

Small and without imports of weight: every start of the daemon passes through here.
"""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from farhand_daemon.machine_file import UPDATE_OFF, load_machine_file
from farhand_daemon.paths import Home
from farhand_daemon.update.slots import own_slot
from farhand_daemon.update.state import Candidate, UpdateState, load_state
from farhand_shared.errors import FarhandError

TRIAL_MODULE: Final = "farhand_daemon.update.trial"
NO_TRIAL: Final = "--no-trial"  # of `farhandd run`


def candidate_for(state: UpdateState, home: Home) -> Candidate | None:
    """Return the version that this home's daemon should try now."""
    if state.trial is None:
        return state.ready
    # One machine of an installation at a time; what a kill left behind is its own to take up.
    return state.trial.candidate if state.trial.home == str(home.root) else None


def try_what_is_ready(home: Home, words: Sequence[str]) -> None:
    """Become the trial of a version that is ready; return when there is none. ``words``: ours."""
    found = own_slot(Path(sys.prefix))
    if found is None:
        return
    slots, own = found
    candidate = candidate_for(load_state(slots.folder), home)
    if candidate is None or candidate.slot == own.name or slots.current() != own:
        return
    if not slots.named(candidate.slot).is_complete():
        return
    if not candidate.asked and not allowed_now(slots.folder, home.machine_file):
        return
    # Exec keeps the process: pid, terminal and service are the same.
    os.execv(sys.executable, [sys.executable, "-P", "-m", TRIAL_MODULE, *words])


def allowed_now(folder: Path, machine_file: Path) -> bool:
    """Tell whether a machine's own file, and what a person said, let versions change by themselves.

    A file that cannot be used allows nothing.
    """
    try:
        off = load_machine_file(machine_file).update == UPDATE_OFF
    except FarhandError:
        return False
    return not off and time.time() * 1000 >= load_state(folder).not_before_ms


def start_again(home: Home, words: Sequence[str], notify: str | None) -> NoReturn:
    """Become the trial, or the version that is current by now. ``notify``: the service manager's
    address, which was taken out of the environment.
    """
    if notify is not None:
        os.environ["NOTIFY_SOCKET"] = notify
    sys.stdout.flush()
    sys.stderr.flush()
    words = [word for word in words if word != NO_TRIAL]
    try_what_is_ready(home, words)
    found = own_slot(Path(sys.prefix))
    current = None if found is None else found[0].current()
    if current is None:  # half removed: what runs is all there is
        os.execv(sys.executable, [sys.executable, "-P", "-m", "farhand_daemon", *words])
    os.execv(current.program, [str(current.program), *words])
