"""What people are told of updates: one line for ``status`` and ``doctor``."""

import sys
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Final

from farhand_daemon.machine_file import UPDATE_OFF, load_machine_file
from farhand_daemon.paths import Home
from farhand_daemon.update.slots import own_slot
from farhand_daemon.update.state import UpdateState, load_state
from farhand_shared.errors import FarhandError
from farhand_shared.release import PublicKey, parse_keys

_KEYS: Final = "release_keys.txt"  # in this package: pinned by whoever installed this version


def pinned_keys() -> tuple[PublicKey, ...]:
    """Return the release keys that came with this version."""
    return parse_keys((files(__package__) / _KEYS).read_text(encoding="utf-8"))


def tell(home: Home) -> tuple[str, str]:
    """Return (how it is, what to do); the second is empty when nothing is wrong."""
    found = own_slot(Path(sys.prefix))
    if found is None:
        return "it changes with what brought it here, not by farhandd update", ""
    state = load_state(found[0].folder)
    happening = _happening(state)
    if happening:
        return happening, ""
    fault, step = _fault(state)
    if fault:
        return fault, step
    return _rule(home, state), ""


def _happening(state: UpdateState) -> str:
    if state.trial is not None:
        return f"{state.trial.candidate.version} is on trial"
    if state.ready is not None:
        return f"{state.ready.version} is installed and is tried when the daemon starts again"
    return ""


def _fault(state: UpdateState) -> tuple[str, str]:
    if state.doubt is not None:
        version = state.doubt.candidate.version
        return (
            f"{version} did not connect here ({state.doubt.reason}); whether that was its fault "
            "shows when this version connects",
            "see that the control plane can be reached",
        )
    last = state.last
    if last is not None and last.kind == "fell_back":
        return (
            f"{last.version} failed here on {_day(last.at_ms)} ({last.reason}), and the version "
            "before it goes on",
            f"wait for a later one, or try it again: farhandd update --to {last.version}",
        )
    return "", ""


def _rule(home: Home, state: UpdateState) -> str:
    if not pinned_keys():
        return "the install line changes it (this build has no release key)"
    try:
        channel = load_machine_file(home.machine_file).update
    except FarhandError:
        return "it does not change by itself while the machine file is wrong"
    if channel == UPDATE_OFF:
        return "it does not change by itself: the machine's file says off"
    text = f"signed releases of {channel} are installed by themselves"
    if state.not_before_ms > datetime.now(UTC).timestamp() * 1000:
        text += f", not before {_day(state.not_before_ms, time=True)}"
    if state.checked_at_ms:
        text += f"; {_day(state.checked_at_ms, time=True)}: {state.check_result}"
    return text


def _day(at_ms: int, *, time: bool = False) -> str:
    moment = datetime.fromtimestamp(at_ms / 1000, tz=UTC).astimezone()
    return f"{moment:%Y-%m-%d %H:%M}" if time else f"{moment:%Y-%m-%d}"
