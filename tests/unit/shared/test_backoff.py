"""Waits between tries."""

import pytest

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
    for _ in range(9):
        backoff.failed(now=0.0)
    backoff.connected(now=100.0)
    assert backoff.failed(now=160.0) == pytest.approx(60 / 64)
    backoff.connected(now=200.0)
    assert backoff.failed(now=260.0) == 0.5


def test_less_health_forgets_less_and_none_forgets_nothing() -> None:
    backoff = Backoff(random=longest)
    for _ in range(9):
        backoff.failed(now=0.0)
    backoff.connected(now=100.0)
    assert backoff.failed(now=100.0) == 60, "a server that takes and drops at once is spared"
    backoff.connected(now=200.0)
    assert backoff.failed(now=220.0) == 15


def test_two_restarts_in_a_row_are_not_waited_for_as_one_long_absence() -> None:
    backoff = Backoff(random=longest)
    for restart_at in (0.0, 20.0):
        backoff.connected(now=restart_at)
        backoff.back_soon(now=restart_at + 10)
        waits = [backoff.failed(now=restart_at + 10) for _ in range(6)]
        assert waits == [0.5, 1, 2, 4, 4, 4]
    assert backoff.failed(now=91.0) == 32, "it does not come back: not for ever"


def test_a_wake_dials_at_once_and_then_within_three_seconds() -> None:
    backoff = Backoff(random=longest)
    for _ in range(5):
        backoff.failed(now=0.0)
    assert backoff.at_once() == 0.0
    assert backoff.failed(now=1.0) == 3.0
    assert backoff.failed(now=2.0) == 0.5
