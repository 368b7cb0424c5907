"""Every move of an outward effect and of a question; all others raise and change nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farhand_control_plane.domain import questions
from farhand_control_plane.domain.outbox import MOVES, TRIES_MAX, OutboxEvent, settle, step
from farhand_control_plane.domain.words import OutboxState, QuestionState
from farhand_shared.errors import Conflict


@pytest.mark.parametrize("state", OutboxState)
@pytest.mark.parametrize("event", OutboxEvent)
def test_an_outbox_row_moves_as_the_table_says_or_not_at_all(
    state: OutboxState, event: OutboxEvent
) -> None:
    if (state, event) in MOVES:
        assert step(state, event) is MOVES[state, event]
    else:
        with pytest.raises(Conflict, match=f"cannot {event} an outbox row that is {state}"):
            step(state, event)


def test_what_may_have_gone_out_is_never_sent_again_without_proof() -> None:
    to_ready = {pair for pair, reached in MOVES.items() if reached is OutboxState.READY}

    assert to_ready == {
        (OutboxState.DRAFT, OutboxEvent.APPROVE),
        (OutboxState.SENDING, OutboxEvent.ABSENT),
        (OutboxState.UNKNOWN, OutboxEvent.ABSENT),
    }


def test_what_was_sent_or_discarded_stays_so() -> None:
    assert not [pair for pair in MOVES if pair[0] in (OutboxState.SENT, OutboxState.DISCARDED)]


@given(
    st.sampled_from([OutboxState.SENDING, OutboxState.UNKNOWN]),
    st.sampled_from([OutboxEvent.ABSENT, OutboxEvent.UNCLEAR]),
    st.integers(1, 50),
    st.none() | st.floats(0, 1000),
)
def test_a_try_that_did_not_succeed_is_repeated_later_until_a_person_must_look(
    state: OutboxState, event: OutboxEvent, tries: int, retry_after_s: float | None
) -> None:
    settlement = settle(state, event, tries=tries, retry_after_s=retry_after_s)

    if tries >= TRIES_MAX:
        assert settlement.state is OutboxState.DEAD
        assert settlement.retry_in_s is None
    else:
        assert settlement.retry_in_s is not None
        assert settlement.retry_in_s >= max(2, retry_after_s or 0)
        assert settlement.retry_in_s <= max(60, retry_after_s or 0)


@pytest.mark.parametrize("state", QuestionState)
@pytest.mark.parametrize("into", QuestionState)
def test_a_question_is_settled_once(state: QuestionState, into: QuestionState) -> None:
    if state is QuestionState.PENDING and into is not QuestionState.PENDING:
        assert questions.settle(state, into) is into
    else:
        with pytest.raises(Conflict):
            questions.settle(state, into)
