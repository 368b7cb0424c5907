"""What people read has words of theirs, whatever the vocabularies hold."""

import pytest

from farhand_control_plane.domain.plain_words import end_words, machine_words, stage_words
from farhand_control_plane.domain.words import MachineStatus, Needs, Stage
from farhand_shared.command import TERMINAL, AttemptState, ExitReason


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("needs", ["", *Needs])
def test_every_stage_has_words(stage: Stage, needs: str) -> None:
    said = stage_words(stage, needs=needs, waits_for="laptop")
    assert "_" not in said
    assert said != stage.value


def test_what_a_ticket_waits_for_is_named() -> None:
    assert stage_words("queued", waits_for="laptop") == "waits for laptop"
    assert stage_words("needs_person", needs="answer") == "needs your answer"
    assert stage_words("needs_person") == "needs you"


@pytest.mark.parametrize("status", MachineStatus)
def test_every_machine_has_words(status: MachineStatus) -> None:
    said = machine_words("online", status)
    assert "_" not in said
    assert "active" not in said


def test_an_active_machine_is_only_there_or_not() -> None:
    assert machine_words("online", "active") == "online"
    assert machine_words("offline", "paused") == "offline, paused"


@pytest.mark.parametrize(
    "word",
    [*sorted(TERMINAL - {AttemptState.EXITED}), *sorted(set(ExitReason) - {ExitReason.EXIT})],
)
def test_every_end_has_words(word: str) -> None:
    assert "_" not in end_words(word)
    assert not end_words(word).startswith("ended: "), "a word of its own"
