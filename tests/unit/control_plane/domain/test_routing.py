"""Where an event goes when executors give it back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farhand_control_plane.domain.routing import (
    HAND_BACKS_UNTIL_PERSON,
    Delivered,
    NextStop,
    after_hand_back,
    redelivery_delay_s,
    subscription_start,
)
from farhand_control_plane.domain.words import DeliveryState

BACK, HELD = DeliveryState.HANDED_BACK, DeliveryState.DELIVERED


def attached(*states: DeliveryState) -> list[Delivered]:
    """Deliveries that verdicts made."""
    return [Delivered(state=state, by_subscription=False) for state in states]


def subscribed(*states: DeliveryState) -> list[Delivered]:
    """Deliveries that code made to subscribers, before any verdict."""
    return [Delivered(state=state, by_subscription=True) for state in states]


@pytest.mark.parametrize(
    ("deliveries", "then"),
    [
        (attached(BACK), NextStop.EVALUATION),
        (attached(BACK, BACK), NextStop.EVALUATION),
        (attached(BACK, BACK, BACK), NextStop.PERSON),
        (attached(BACK, BACK, BACK, BACK), NextStop.PERSON),
        (attached(BACK, HELD), NextStop.OTHER_SUBSCRIBERS),
        (attached(BACK, BACK, BACK, HELD), NextStop.OTHER_SUBSCRIBERS),
        (attached(BACK, DeliveryState.PENDING), NextStop.OTHER_SUBSCRIBERS),
        (attached(BACK, DeliveryState.FAILED), NextStop.EVALUATION),
        (subscribed(BACK, BACK, BACK, BACK), NextStop.EVALUATION),
        (subscribed(BACK, BACK) + attached(BACK), NextStop.EVALUATION),
        (subscribed(BACK, BACK) + attached(BACK, BACK), NextStop.PERSON),
        (subscribed(BACK, HELD), NextStop.OTHER_SUBSCRIBERS),
    ],
)
def test_an_event_is_judged_again_until_three_rounds_gave_it_back(
    deliveries: list[Delivered], then: NextStop
) -> None:
    assert after_hand_back(deliveries) is then


@given(
    st.lists(
        st.builds(Delivered, state=st.sampled_from(DeliveryState), by_subscription=st.booleans())
    )
)
def test_an_event_that_nobody_holds_always_goes_somewhere(deliveries: list[Delivered]) -> None:
    then = after_hand_back(deliveries)
    states = [delivery.state for delivery in deliveries]

    if HELD not in states and DeliveryState.PENDING not in states:
        assert then is not NextStop.OTHER_SUBSCRIBERS
    if states.count(BACK) < HAND_BACKS_UNTIL_PERSON:
        assert then is not NextStop.PERSON


def test_a_subscription_starts_right_after_what_its_eval_saw() -> None:
    assert subscription_start(7) == 8


def test_redelivery_waits_two_seconds_doubling_to_a_minute() -> None:
    assert [redelivery_delay_s(tries) for tries in range(1, 8)] == [2, 4, 8, 16, 32, 60, 60]
    assert redelivery_delay_s(10_000) == 60
