"""What becomes of each attempt when its machine comes back."""

from typing import Any

import pytest

from farhand_shared.command import FINAL, AttemptState
from farhand_shared.link_events import Hello, LiveAttempt, LiveState
from farhand_shared.reconcile import (
    AttemptView,
    Indeterminate,
    Reoffer,
    Resume,
    SendCancel,
    SendGone,
    reconcile,
)
from tests.fakes import hellos

S = AttemptState
DIGEST = b"d" * 32


def a_hello(*live: LiveAttempt, journal_id: str = "j", counter: int = 10) -> Hello:
    return hellos.a_hello(*live, journal_id=journal_id, journal_counter=counter)


def a_view(state: AttemptState, **changes: Any) -> AttemptView:
    values: dict[str, Any] = {
        "attempt_id": "a",
        "state": state,
        "input_digest": DIGEST,
        "acknowledged": state in (S.JOURNALLED, S.STARTED),
        "journal_id": "j",
        "journal_counter": 10,
        "stdout_stored": 7,
    }
    return AttemptView(**values | changes)


def held(state: LiveState = LiveState.STARTED, digest: bytes = DIGEST) -> LiveAttempt:
    return LiveAttempt(attempt_id="a", input_digest=digest, state=state)


RESUME = Resume(attempt_id="a", stdout_offset=7, stderr_offset=0)
CANCEL = SendCancel(attempt_id="a", reason="cancel")


@pytest.mark.parametrize("state", [S.OFFERED, S.AWAITING_OWNER])
def test_an_attempt_never_acknowledged_is_offered_again_to_the_same_journal(
    state: AttemptState,
) -> None:
    assert reconcile([a_view(state)], a_hello()) == (Reoffer(attempt_id="a"),)
    assert reconcile([a_view(state)], a_hello(counter=11)) == (Reoffer(attempt_id="a"),)


@pytest.mark.parametrize("state", [S.OFFERED, S.AWAITING_OWNER, S.STOPPING])
def test_another_journal_or_a_rolled_back_one_makes_it_indeterminate(state: AttemptState) -> None:
    for hello, reason in (
        (a_hello(journal_id="k"), "journal_replaced"),
        (a_hello(counter=9), "journal_rolled_back"),
    ):
        expected = (Indeterminate(attempt_id="a", reason=reason),)
        assert reconcile([a_view(state)], hello) == expected


@pytest.mark.parametrize("state", [S.JOURNALLED, S.STARTED])
def test_an_acknowledged_attempt_that_the_machine_forgot_is_indeterminate(
    state: AttemptState,
) -> None:
    expected = (Indeterminate(attempt_id="a", reason="not_held"),)
    assert reconcile([a_view(state)], a_hello()) == expected
    stopping = a_view(S.STOPPING, acknowledged=True)
    assert reconcile([stopping], a_hello()) == expected


def test_a_stop_that_may_not_have_arrived_is_sent_again() -> None:
    assert reconcile([a_view(S.STOPPING)], a_hello()) == (CANCEL,)
    assert reconcile([a_view(S.STOPPING)], a_hello(held())) == (RESUME, CANCEL)
    finished = a_hello(held(LiveState.FINISHED))
    assert reconcile([a_view(S.STOPPING)], finished) == (RESUME,)


@pytest.mark.parametrize("state", [S.OFFERED, S.JOURNALLED, S.STARTED, S.LOST, S.INDETERMINATE])
def test_what_the_machine_holds_goes_on(state: AttemptState) -> None:
    assert reconcile([a_view(state)], a_hello(held())) == (RESUME,)
    replaced = a_hello(held(), journal_id="k", counter=0)
    assert reconcile([a_view(state)], replaced) == (RESUME,)


def test_a_tombstone_without_digest_is_the_answer_to_a_stop() -> None:
    hello = a_hello(held(LiveState.FINISHED, digest=b""))
    assert reconcile([a_view(S.STOPPING)], hello) == (RESUME,)


def test_the_same_id_with_another_input_is_indeterminate_and_left_alone() -> None:
    expected = (Indeterminate(attempt_id="a", reason="digest_conflict"),)
    assert reconcile([a_view(S.OFFERED)], a_hello(held(digest=b"x" * 32))) == expected


def test_a_recorded_result_whose_acknowledgement_was_lost_resumes() -> None:
    view = a_view(S.EXITED, result_hash=b"h" * 32)
    assert reconcile([view], a_hello(held(LiveState.FINISHED))) == (RESUME,)


@pytest.mark.parametrize("state", sorted(FINAL))
def test_what_ended_without_the_machine_is_gone_for_it(state: AttemptState) -> None:
    assert reconcile([a_view(state)], a_hello(held())) == (SendGone(attempt_id="a"),)


def test_what_the_server_does_not_know_is_gone() -> None:
    assert reconcile([], a_hello(held())) == (SendGone(attempt_id="a"),)


@pytest.mark.parametrize("state", [*sorted(FINAL), S.QUEUED, S.LOST, S.INDETERMINATE])
def test_what_nobody_waits_for_needs_nothing(state: AttemptState) -> None:
    assert reconcile([a_view(state)], a_hello()) == ()
