"""Moments as people say them, whatever the zone and however its clocks are turned."""

import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from farhand_control_plane.client.moments import near, span


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


NOW = datetime.fromisoformat("2026-11-30T19:02:00+00:00")  # 14:02 there


@pytest.mark.parametrize(
    ("moment", "said"),
    [
        ("2026-11-30T19:02:00+00:00", "14:02"),
        ("2026-12-01T04:59:00+00:00", "23:59"),
        ("2026-12-01T05:00:00+00:00", "tomorrow 00:00"),
        ("2026-12-01T19:02:00Z", "tomorrow 14:02"),
        ("2026-11-30T04:59:59+00:00", "yesterday 23:59"),
        ("2026-12-07T19:02:00+00:00", "2026-12-07 14:02"),
        ("2026-11-28T19:02:00+00:00", "2026-11-28 14:02"),
    ],
)
def test_a_moment_is_as_short_as_it_stays_clear(new_york: None, moment: str, said: str) -> None:
    assert near(moment, NOW) == said


def test_a_day_over_the_change_of_clocks_ends_at_another_hour(new_york: None) -> None:
    """24 hours are 24 hours: on 2026-11-01 the clocks there go back by one."""
    now = datetime.fromisoformat("2026-10-31T14:02:00-04:00")
    until = "2026-11-01T18:02:00+00:00"
    assert span(now.isoformat(), until, now) == "since 14:02, until tomorrow 13:02"
