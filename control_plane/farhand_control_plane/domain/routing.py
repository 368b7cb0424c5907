"""Subscriptions and hand-backs: who gets an event, and what happens when nobody keeps it."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from farhand_control_plane.domain.words import DeliveryState

HAND_BACKS_UNTIL_PERSON: Final = 3  # rounds: all subscribers of a Thread together are one
REDELIVERY_FIRST_S: Final = 2
REDELIVERY_CAP_S: Final = 60

_HELD: Final = (DeliveryState.PENDING, DeliveryState.DELIVERED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """One delivery of an event, as far as its next stop depends on it."""

    state: DeliveryState
    by_subscription: bool  # brought by code before anybody judged it; else a verdict attached it


class NextStop(StrEnum):
    """Where an event goes after a hand-back."""

    OTHER_SUBSCRIBERS = "other_subscribers"  # somebody still holds it
    EVALUATION = "evaluation"
    PERSON = "person"


def subscription_start(last_seq_seen: int) -> int:
    """Return the first thread_seq a Subscription delivers: right after what its Eval saw."""
    return last_seq_seen + 1


def after_hand_back(deliveries: Iterable[Delivered]) -> NextStop:
    """Say where an event goes, given all its deliveries, the latest hand-back included.

    Subscribers are asked by code, all at once: that they all give it back is one round, however
    many they are, and says only that it is something new. Each later round follows a verdict.
    """
    given = list(deliveries)
    if any(delivery.state in _HELD for delivery in given):
        return NextStop.OTHER_SUBSCRIBERS
    back = [delivery for delivery in given if delivery.state is DeliveryState.HANDED_BACK]
    rounds = any(d.by_subscription for d in back) + sum(not d.by_subscription for d in back)
    return NextStop.PERSON if rounds >= HAND_BACKS_UNTIL_PERSON else NextStop.EVALUATION


def redelivery_delay_s(tries: int) -> int:
    """Return how long to wait after the given number of failed tries: 2 s doubling to 60 s."""
    return min(REDELIVERY_FIRST_S << min(max(tries - 1, 0), 10), REDELIVERY_CAP_S)
