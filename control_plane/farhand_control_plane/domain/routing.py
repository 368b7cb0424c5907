"""Subscriptions and hand-backs: who gets an event, and what happens when nobody keeps it."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from farhand_control_plane.domain.words import DeliveryState

HAND_BACKS_UNTIL_PERSON: Final = 3
REDELIVERY_FIRST_S: Final = 2
REDELIVERY_CAP_S: Final = 60

_HELD: Final = (DeliveryState.PENDING, DeliveryState.DELIVERED)


class NextStop(StrEnum):
    """Where an event goes after a hand-back."""

    OTHER_SUBSCRIBERS = "other_subscribers"  # somebody still holds it
    EVALUATION = "evaluation"
    PERSON = "person"


def subscription_start(last_seq_seen: int) -> int:
    """Return the first thread_seq a Subscription delivers: right after what its Eval saw."""
    return last_seq_seen + 1


def after_hand_back(deliveries: Iterable[DeliveryState]) -> NextStop:
    """Say where an event goes, given all its deliveries, the latest hand-back included."""
    states = list(deliveries)
    if any(state in _HELD for state in states):
        return NextStop.OTHER_SUBSCRIBERS
    if states.count(DeliveryState.HANDED_BACK) >= HAND_BACKS_UNTIL_PERSON:
        return NextStop.PERSON
    return NextStop.EVALUATION


def redelivery_delay_s(tries: int) -> int:
    """Return how long to wait after the given number of failed tries: 2 s doubling to 60 s."""
    return min(REDELIVERY_FIRST_S << min(max(tries - 1, 0), 10), REDELIVERY_CAP_S)
