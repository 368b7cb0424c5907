"""What is remembered of updates, and what it means."""

import json
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from farhand_daemon.paths import Home
from farhand_daemon.update.become import candidate_for
from farhand_daemon.update.schedule import MAX_DOUBTS, judge, settled
from farhand_daemon.update.state import (
    STATE_FILE,
    BadVersion,
    Candidate,
    Doubt,
    Outcome,
    Trial,
    UpdateState,
    change_state,
    load_state,
)

NEW = Candidate(slot="b" * 16, version="0.2.0", asked=True, tries=1)


def test_everything_comes_back_from_the_file(tmp_path: Path) -> None:
    full = UpdateState(
        ready=NEW,
        trial=Trial(candidate=NEW, home="/h", pid=7, started=8, boot="x"),
        doubt=Doubt(candidate=NEW, home="/h", reason="why", at_ms=5),
        bad=(BadVersion(slot="c" * 16, version="0.1.9", reason="r", at_ms=4),),
        last=Outcome(kind="updated", version="0.1.0", at_ms=3),
        not_before_ms=2,
        checked_at_ms=1,
        check_result="nothing new",
    )
    change_state(tmp_path, lambda _: full)
    assert load_state(tmp_path) == full
    assert (tmp_path / STATE_FILE).stat().st_mode & 0o777 == 0o600


def test_a_later_versions_additions_are_left_alone_and_damage_is_no_state(tmp_path: Path) -> None:
    change_state(tmp_path, lambda _: UpdateState(ready=NEW))
    document = json.loads((tmp_path / STATE_FILE).read_text())
    document["ready"]["colour"] = "blue"
    (tmp_path / STATE_FILE).write_text(json.dumps(document | {"more": 1}))
    assert load_state(tmp_path).ready == NEW
    for damage in ("", "[]", '{"ready": 3}', '{"ready": {"slot": "x"}}', '{"bad": 1}'):
        (tmp_path / STATE_FILE).write_text(damage)
        assert load_state(tmp_path) == UpdateState()


@pytest.mark.parametrize(
    "text",
    [
        '{"ready": {"slot": 5, "version": "0.3"}}',
        '{"ready": {"slot": {"sha256": "b"}, "version": "0.3"}}',
        '{"trial": {"candidate": {"slot": "b", "version": "0.3"}, "home": "/h", "pid": "7"}}',
        '{"last": {"kind": "updated", "version": "0.3", "at_ms": "yesterday"}}',
        '{"not_before_ms": 1e400}',
        "[" * 100_000,
    ],
    ids=["number", "object", "pid", "time", "for ever", "deep"],
)
def test_what_a_later_version_might_write_otherwise_stops_no_start(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / STATE_FILE).write_text(text)
    assert load_state(tmp_path) == UpdateState()


def test_changes_at_once_lose_nothing(tmp_path: Path) -> None:
    def add() -> None:
        for _ in range(10):
            change_state(tmp_path, lambda old: replace(old, not_before_ms=old.not_before_ms + 1))

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert load_state(tmp_path).not_before_ms == 40


def test_a_bad_version_is_remembered_by_its_hash_and_is_nobodys_candidate() -> None:
    state = UpdateState(ready=NEW).with_bad(NEW, "it ended", 9)
    assert state.ready is None
    bad = state.bad_version(NEW.slot)
    assert bad is not None
    assert (bad.version, bad.reason) == ("0.2.0", "it ended")
    assert state.bad_version("d" * 16) is None
    assert state.last == Outcome(kind="fell_back", version="0.2.0", at_ms=9, reason="it ended")
    for n in range(100):
        state = state.with_bad(replace(NEW, slot=f"{n:016x}"), "x", n)
    assert len(state.bad) == 50
    assert state.bad_version(f"{99:016x}") is not None


def test_one_machine_of_an_installation_tries_a_version_at_a_time() -> None:
    ours, others = Home(Path("/ours")), Home(Path("/others"))
    assert candidate_for(UpdateState(), ours) is None
    assert candidate_for(UpdateState(ready=NEW), ours) == NEW
    on_trial = UpdateState(ready=NEW, trial=Trial(candidate=NEW, home="/ours"))
    assert candidate_for(on_trial, ours) == NEW
    assert candidate_for(on_trial, others) is None


def test_not_connecting_is_the_versions_fault_when_the_one_before_connects_at_once() -> None:
    doubt = Doubt(candidate=replace(NEW, tries=0), home="/h", reason="it did not", at_ms=0)
    state = UpdateState(doubt=doubt)
    blamed = judge(doubt, state, after_s=2, within_s=120)
    assert blamed.bad_version(NEW.slot) is not None
    assert blamed.doubt is None
    # The network was away for both: try again, but not for ever.
    excused = judge(doubt, state, after_s=500, within_s=120)
    assert excused.bad == ()
    assert excused.ready == replace(NEW, tries=1)
    last = replace(doubt, candidate=replace(NEW, tries=MAX_DOUBTS - 1))
    assert judge(last, state, after_s=500, within_s=120).bad_version(NEW.slot) is not None


def test_what_a_kill_left_of_a_passed_trial_is_settled() -> None:
    left = UpdateState(ready=NEW, trial=Trial(candidate=NEW, home="/h"))
    state = settled(left, NEW.slot)
    assert state.trial is None
    assert state.ready is None
    assert state.last is not None
    assert state.last.kind == "updated"
    assert time.time() * 1000 - state.last.at_ms < 60_000
    assert settled(left, "c" * 16) == left
