"""When a new version has proven itself, over a clock of the test's own."""

import pytest

from farhand_daemon.update.probation import MAX_STARTS, Failed, Passed, Probation

LENGTH_S = 120.0


def judged(beats: list[float], *, at: float = LENGTH_S) -> Passed | Failed | None:
    probation = Probation(0.0, LENGTH_S)
    for now in beats:
        probation.beat(now)
    return probation.verdict(at)


def every(step: float, begin: float, end: float) -> list[float]:
    return [begin + step * n for n in range(int((end - begin) / step) + 1)]


def test_a_version_that_is_connected_to_the_end_passes_and_not_before() -> None:
    assert judged(every(1, 3, 119)) == Passed()
    assert judged(every(1, 3, 118), at=119.9) is None


def test_a_short_break_is_no_fault() -> None:
    assert judged([*every(1, 3, 50), *every(1, 80, 119)]) == Passed()


@pytest.mark.parametrize(
    ("beats", "why"),
    [
        ([], "it did not connect within 120 s"),
        (every(1, 3, 70), "it connected, and did not stay connected"),
        (every(1, 100, 119), "it was connected for 20 s only of 120 s"),
        ([*every(1, 3, 50), *every(1, 95, 119)], "it was connected for 25 s only of 120 s"),
    ],
)
def test_what_is_not_connected_at_the_end_fails_and_may_be_the_networks_fault(
    beats: list[float], why: str
) -> None:
    assert judged(beats) == Failed(why, ended=False)


def test_a_version_that_ends_again_and_again_fails_by_its_own_fault() -> None:
    probation = Probation(0.0, LENGTH_S)
    for _ in range(MAX_STARTS - 1):
        assert probation.ended("exit status 1") is None
    failed = probation.ended("exit status 1")
    assert failed is not None
    assert failed.ended
    assert "exit status 1" in failed.reason
