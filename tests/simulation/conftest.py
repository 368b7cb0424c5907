"""A stage per module; a test may break it, and finds it whole."""

from collections.abc import Iterator

import pytest

from tests.simulation.stage import Stage, stage


@pytest.fixture(scope="module")
def whole() -> Iterator[Stage]:
    with stage() as made:
        yield made


@pytest.fixture
def system(whole: Stage) -> Iterator[Stage]:
    """A system in which everything works; what a test does to it is undone."""
    yield whole
    print(whole.logs())  # shown when the test failed
    whole.link.heal()
    whole.mend()
    # Not `is_online`, which may still be true of a link that was cut a moment ago.
    assert whole.exec("true", options=("--wait-offline",)).ended().status == 0
