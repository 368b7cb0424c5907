"""Waits between tries."""

from farhand_shared.backoff import Backoff


def longest() -> float:
    return 1.0


def test_waits_double_up_to_the_cap() -> None:
    backoff = Backoff(random=longest)
    waits = [backoff.failed(now=0.0) for _ in range(10)]
    assert waits == [0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_the_jitter_is_full() -> None:
    assert Backoff(random=lambda: 0.0).failed(now=0.0) == 0.0
    assert Backoff(random=lambda: 0.5).failed(now=0.0) == 0.25


def test_a_minute_of_health_forgets_the_past() -> None:
    backoff = Backoff(random=longest)
    for _ in range(5):
        backoff.failed(now=0.0)
    backoff.connected(now=100.0)
    assert backoff.failed(now=159.0) == 16
    backoff.connected(now=200.0)
    assert backoff.failed(now=260.0) == 0.5


def test_a_wake_dials_at_once_and_then_within_three_seconds() -> None:
    backoff = Backoff(random=longest)
    for _ in range(5):
        backoff.failed(now=0.0)
    assert backoff.at_once() == 0.0
    assert backoff.failed(now=1.0) == 3.0
    assert backoff.failed(now=2.0) == 0.5
