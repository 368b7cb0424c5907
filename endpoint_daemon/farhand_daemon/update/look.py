"""Look for a release, install it, and have it tried: all of it in a short process of its own."""

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from farhand_daemon.discovery import discover
from farhand_daemon.identity import load_identity
from farhand_daemon.machine_file import UPDATE_OFF, load_machine_file
from farhand_daemon.paths import Home
from farhand_daemon.program import Program
from farhand_daemon.update.become import allowed_now
from farhand_daemon.update.decide import Asked, Install, Leave, decide
from farhand_daemon.update.fetch import ReleaseServer
from farhand_daemon.update.install import BrokenRelease, install_release
from farhand_daemon.update.slots import Slot, Slots, own_slot
from farhand_daemon.update.state import Candidate, UpdateState, change_state, load_state
from farhand_daemon.update.told import pinned_keys
from farhand_shared.errors import Conflict, FarhandError, NotAllowed, NotFound
from farhand_shared.release import verify


def installation() -> tuple[Slots, Slot]:
    """Return the installation that this program is of; NotAllowed when it is of none."""
    found = own_slot(Path(sys.prefix))
    if found is None:
        raise NotAllowed(
            "cannot update: this program was not put here by the installer; update it with what "
            f"brought it ({sys.prefix})"
        )
    return found


def look(home: Home, asked: Asked) -> Install | Leave:
    """Ask the control plane and return the verdict; nothing is changed. Raises our errors."""
    slots, own = installation()
    keys = pinned_keys()
    if not keys:
        return Leave(
            "this program was built without a release key, so no release is believed",
            "run the install line again to change the version",
        )
    identity = load_identity(home)
    channel = load_machine_file(home.machine_file).update
    if channel == UPDATE_OFF and asked.version is None:
        return Leave("updates are off on this machine", "farhandd update --channel stable")
    server = ReleaseServer(identity.server_url)
    try:
        envelope = server.newest(channel) if asked.version is None else server.named(asked.version)
    except NotFound:
        if asked.version is not None:
            raise
        return Leave(f"the control plane carries no release of {channel}")
    release = verify(envelope, keys)
    current = slots.current() or own
    return decide(
        release,
        installed=current.version(),
        slot=current.name,
        channel=channel,
        server_capability=discover(identity.server_url).capability,
        state=load_state(slots.folder),
        asked=asked,
    )


def install(home: Home, verdict: Install, asked: Asked) -> Candidate:
    """Install what was found and have the daemon try it; return what is to be tried."""
    slots, _ = installation()
    _refuse_for_others(slots, home, asked)
    release = verdict.release
    slot = slots.named(release.wheel.sha256)
    candidate = Candidate(slot=slot.name, version=release.version, asked=asked.by_person)
    try:
        install_release(slots, release, ReleaseServer(load_identity(home).server_url))
    except BrokenRelease as error:
        reason, now_ms = str(error), time.time_ns() // 1_000_000
        change_state(slots.folder, lambda state: state.with_bad(candidate, reason, now_ms))
        raise
    have_tried(slots, candidate)
    return candidate


def have_tried(slots: Slots, candidate: Candidate) -> None:
    """Let the daemon try an installed version; it looks every few seconds, and at its start."""

    def ready(state: UpdateState) -> UpdateState:
        if state.trial is not None and state.trial.candidate.slot != candidate.slot:
            raise Conflict(
                f"cannot update: {state.trial.candidate.version} is on trial now; wait for its end"
            )
        not_before_ms = 0 if candidate.asked else state.not_before_ms
        return replace(state, ready=candidate, doubt=None, not_before_ms=not_before_ms)

    change_state(slots.folder, ready)


def look_by_daemon(home: Home) -> None:
    """Look and install without a person, and note for people what came of it."""
    slots, _ = installation()
    if not allowed_now(slots.folder, home.machine_file):
        return
    asked = Asked(by_person=False)
    os.nice(10)  # pip unpacks while somebody works on this computer

    def note(result: str) -> None:
        now_ms = time.time_ns() // 1_000_000
        change_state(
            slots.folder,
            lambda state: replace(state, checked_at_ms=now_ms, check_result=result),
        )

    try:
        verdict = look(home, asked)
        if isinstance(verdict, Install):
            install(home, verdict, asked)
            note(f"{verdict.release.version} was installed to be tried")
        else:
            note(verdict.reason)
    except FarhandError as error:
        note(str(error))
        raise


def _refuse_for_others(slots: Slots, home: Home, asked: Asked) -> None:
    """The program is shared: a machine of it that says off is not updated by another's clock."""
    if asked.by_person:
        return
    program = Program(folder=slots.folder, link=slots.folder)
    for other in program.other_homes(home.root):
        try:
            off = load_machine_file(Home(other).machine_file).update == UPDATE_OFF
        except FarhandError:
            off = True
        if off:
            raise NotAllowed(
                f"cannot update: the machine in {other} shares this program and its file says off; "
                "a person can do it with farhandd update"
            )
