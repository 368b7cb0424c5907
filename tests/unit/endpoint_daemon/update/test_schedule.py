"""When the resident daemon changes to another version, and when it does not."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from farhand_daemon.boot_clock import boot_seconds
from farhand_daemon.event_log import EventLog
from farhand_daemon.machine_file import Ceiling
from farhand_daemon.paths import Home
from farhand_daemon.update.schedule import Updates
from farhand_daemon.update.slots import Slots
from farhand_daemon.update.state import (
    Candidate,
    Doubt,
    Trial,
    UpdateState,
    change_state,
    load_state,
)

OLD, NEW = "a" * 16, "b" * 16
CANDIDATE = Candidate(slot=NEW, version="0.2.0")


class Installation:
    """Two versions, of which the old one is current and runs over one home."""

    def __init__(self, folder: Path) -> None:
        self.slots = Slots(folder / "farhandd-program")
        for name in (OLD, NEW):
            (self.slots.folder / name / "bin").mkdir(parents=True)
            (self.slots.folder / name / "bin" / "farhandd").touch()
            (self.slots.folder / name / "complete").touch()
        self.slots.make_current(self.slots.named(OLD))
        self.home = Home(folder / "home")
        self.home.root.mkdir()
        self.allow()
        self.restarts = 0

    def allow(self, *, update: str = "stable") -> None:
        self.home.machine_file.write_text(f'trust_level = "trusted"\nupdate = "{update}"\n')

    def knows(self, **changes: object) -> None:
        change_state(self.slots.folder, lambda _: replace(UpdateState(), **changes))

    def updates(self, *, trial_failed: bool = False) -> Updates:
        def restart() -> None:
            self.restarts += 1

        return Updates(
            slots=self.slots,
            own=self.slots.named(OLD),
            home=self.home,
            ceiling=Ceiling(self.home.machine_file),
            log=EventLog(self.home.log_file),
            connected=lambda: True,
            restart=restart,
            trial_failed=trial_failed,
        )

    def restarts_for_what_it_sees(self, updates: Updates) -> bool:
        return updates._state_changed() and updates._see_to_state()


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation(tmp_path)


def test_a_version_that_is_ready_is_changed_to_once_it_is_seen(installation: Installation) -> None:
    updates = installation.updates()
    assert not installation.restarts_for_what_it_sees(updates)
    installation.knows(ready=CANDIDATE)
    assert installation.restarts_for_what_it_sees(updates)
    assert installation.restarts == 1
    assert not installation.restarts_for_what_it_sees(updates)


@pytest.mark.parametrize(
    "forbid",
    [
        pytest.param(lambda one: one.allow(update="off"), id="off"),
        pytest.param(lambda one: one.home.machine_file.write_text("wrong"), id="wrong file"),
        pytest.param(
            lambda one: one.knows(
                ready=CANDIDATE, not_before_ms=time.time_ns() // 1_000_000 + 3_600_000
            ),
            id="not now",
        ),
    ],
)
def test_what_nobody_asked_for_waits_while_the_machine_says_no(
    installation: Installation, forbid: Callable[[Installation], None]
) -> None:
    installation.knows(ready=CANDIDATE)
    forbid(installation)
    assert not installation.restarts_for_what_it_sees(installation.updates())
    # A person on the machine decides.
    installation.knows(ready=replace(CANDIDATE, asked=True))
    assert installation.restarts_for_what_it_sees(installation.updates())


def test_another_machine_of_the_installation_tries_it_first_and_this_one_follows(
    installation: Installation,
) -> None:
    updates = installation.updates()
    installation.knows(ready=CANDIDATE, trial=Trial(candidate=CANDIDATE, home="/another"))
    assert not installation.restarts_for_what_it_sees(updates)
    installation.slots.make_current(installation.slots.named(NEW))
    installation.knows()
    assert installation.restarts_for_what_it_sees(updates)


def test_a_trial_that_cannot_even_be_begun_is_not_begun_again_and_again(
    installation: Installation,
) -> None:
    installation.knows(ready=CANDIDATE)
    assert not installation.restarts_for_what_it_sees(installation.updates(trial_failed=True))


@pytest.mark.parametrize("away", [False, True])
def test_a_doubt_is_settled_by_when_the_version_before_connects(
    installation: Installation, away: bool
) -> None:
    doubt = Doubt(
        candidate=CANDIDATE, home=str(installation.home.root), reason="it did not", at_ms=0
    )
    installation.knows(doubt=doubt)
    updates = installation.updates()
    if away:  # since longer than a probation
        updates._began -= 600
    updates.connected_now()
    state = load_state(installation.slots.folder)
    assert state.doubt is None
    if away:
        assert state.ready == replace(CANDIDATE, tries=1)
        assert updates.problem == ""
    else:
        assert state.bad_version(NEW) is not None
        assert updates.problem == "0.2.0 failed: it did not; the version before it did"


def test_another_machines_doubt_is_left_to_it(installation: Installation) -> None:
    doubt = Doubt(candidate=CANDIDATE, home="/another", reason="it did not", at_ms=0)
    installation.knows(doubt=doubt)
    installation.updates().connected_now()
    assert load_state(installation.slots.folder).doubt == doubt


def test_looks_at_the_server_are_spread(installation: Installation) -> None:
    first = sorted(installation.updates()._next - boot_seconds() for _ in range(200))
    assert first[0] > 5 * 60 - 5
    assert first[-1] < 60 * 60 + 5
    assert first[-1] - first[0] > 30 * 60
