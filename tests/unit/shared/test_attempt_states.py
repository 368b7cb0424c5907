"""The states of an attempt: the table, every pair of it, and its picture in the README."""

from itertools import product
from pathlib import Path

import pytest

from farhand_shared.command import (
    FINAL,
    PROVISIONAL,
    TRANSITIONS,
    AttemptEvent,
    AttemptState,
    CommandResult,
    ExitReason,
    event_of_result,
    shell_exit_status,
    step,
)
from farhand_shared.errors import Conflict

README = Path(__file__).parents[3] / "shared" / "README.md"


def draw_states() -> str:
    """Return the table as a Mermaid diagram, one arrow per pair of states."""
    arrows: dict[tuple[AttemptState, AttemptState], list[str]] = {}
    for (state, event), after in TRANSITIONS.items():
        if state is not after:
            arrows.setdefault((state, after), []).append(event.value)
    lines = ["stateDiagram-v2", f"    [*] --> {AttemptState.QUEUED.value}"]
    order = list(AttemptState)
    for state, after in sorted(arrows, key=lambda pair: [order.index(each) for each in pair]):
        events = ", ".join(arrows[state, after])
        lines.append(f"    {state.value} --> {after.value}: {events}")
    lines += [f"    {state.value} --> [*]" for state in order if state in FINAL]
    return "\n".join(lines)


def test_the_picture_in_the_readme_is_drawn_from_the_table() -> None:
    assert f"```mermaid\n{draw_states()}\n```" in README.read_text()


@pytest.mark.parametrize(("state", "event"), list(product(AttemptState, AttemptEvent)))
def test_a_step_follows_the_table_or_raises(state: AttemptState, event: AttemptEvent) -> None:
    if (state, event) in TRANSITIONS:
        assert step(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(Conflict, match=f"cannot {event.value} an attempt that is"):
            step(state, event)


def test_final_states_stay_and_provisional_ones_change_once() -> None:
    for (state, _), after in TRANSITIONS.items():
        assert state not in FINAL
        if state in PROVISIONAL:
            assert after in FINAL


def test_every_result_of_a_machine_ends_an_attempt_it_was_offered() -> None:
    held = [
        AttemptState.OFFERED,
        AttemptState.AWAITING_OWNER,
        AttemptState.JOURNALLED,
        AttemptState.STARTED,
        AttemptState.STOPPING,
    ]
    for reason, state in product(ExitReason, held):
        after = step(state, event_of_result(CommandResult(reason=reason)))
        assert after in FINAL or after is AttemptState.INDETERMINATE


@pytest.mark.parametrize(
    ("result", "event"),
    [
        (CommandResult(reason=ExitReason.CANCEL), AttemptEvent.CANCEL_PROVEN),
        (CommandResult(reason=ExitReason.CANCEL, signal=15), AttemptEvent.EXIT),
        (CommandResult(reason=ExitReason.REFUSED, error_code="expired"), AttemptEvent.EXPIRE),
        (CommandResult(reason=ExitReason.REFUSED, error_code="ceiling"), AttemptEvent.REFUSE),
        (CommandResult(reason=ExitReason.TIMEOUT, signal=9), AttemptEvent.EXIT),
        (CommandResult(reason=ExitReason.INDETERMINATE), AttemptEvent.LOSE_TRACK),
    ],
)
def test_a_result_is_an_event(result: CommandResult, event: AttemptEvent) -> None:
    assert event_of_result(result) is event


@pytest.mark.parametrize(
    ("result", "status"),
    [
        (CommandResult(reason=ExitReason.EXIT, exit_code=3), 3),
        (CommandResult(reason=ExitReason.SIGNAL, signal=9), 137),
        (CommandResult(reason=ExitReason.TIMEOUT, signal=15), 124),
        (CommandResult(reason=ExitReason.SPAWN_ERROR, error_code="not_found"), 127),
        (CommandResult(reason=ExitReason.SPAWN_ERROR, error_code="not_executable"), 126),
        (CommandResult(reason=ExitReason.SPAWN_ERROR, error_code="too_big"), 125),
        (CommandResult(reason=ExitReason.REFUSED), 125),
        (CommandResult(reason=ExitReason.INDETERMINATE), 125),
    ],
)
def test_the_exit_status_is_what_a_shell_user_expects(result: CommandResult, status: int) -> None:
    assert shell_exit_status(result) == status
