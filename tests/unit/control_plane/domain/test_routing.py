"""Where an event goes when executors give it back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farhand_control_plane.domain.routing import (
    HAND_BACKS_UNTIL_PERSON,
    NextStop,
    after_hand_back,
    redelivery_delay_s,
    subscription_start,
)
from farhand_control_plane.domain.words import DeliveryState

BACK, HELD = DeliveryState.HANDED_BACK, DeliveryState.DELIVERED


@pytest.mark.parametrize(
    ("states", "then"),
    [
        ([BACK], NextStop.EVALUATION),
        ([BACK, BACK], NextStop.EVALUATION),
        ([BACK, BACK, BACK], NextStop.PERSON),
        ([BACK, BACK, BACK, BACK], NextStop.PERSON),
        ([BACK, HELD], NextStop.OTHER_SUBSCRIBERS),
        ([BACK, BACK, BACK, HELD], NextStop.OTHER_SUBSCRIBERS),
        ([BACK, DeliveryState.PENDING], NextStop.OTHER_SUBSCRIBERS),
        ([BACK, DeliveryState.FAILED], NextStop.EVALUATION),
    ],
)
def test_an_event_is_judged_again_until_it_came_back_three_times(
    states: list[DeliveryState], then: NextStop
) -> None:
    assert after_hand_back(states) is then


@given(st.lists(st.sampled_from(DeliveryState)))
def test_an_event_that_nobody_holds_always_goes_somewhere(states: list[DeliveryState]) -> None:
    then = after_hand_back(states)

    if HELD not in states and DeliveryState.PENDING not in states:
        assert then is not NextStop.OTHER_SUBSCRIBERS
    if states.count(BACK) < HAND_BACKS_UNTIL_PERSON:
        assert then is not NextStop.PERSON


def test_a_subscription_starts_right_after_what_its_eval_saw() -> None:
    assert subscription_start(7) == 8


def test_redelivery_waits_two_seconds_doubling_to_a_minute() -> None:
    assert [redelivery_delay_s(tries) for tries in range(1, 8)] == [2, 4, 8, 16, 32, 60, 60]
    assert redelivery_delay_s(10_000) == 60
