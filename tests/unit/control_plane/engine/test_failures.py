"""The rules for steps that failed."""

import itertools

import pytest

from farhand_control_plane.domain.words import SessionKind
from farhand_control_plane.engine import failures
from farhand_control_plane.engine.settings import EngineSettings

SETTINGS = EngineSettings()


def test_a_worker_has_five_resumes_and_the_router_never_runs_out():
    spent = [failures.is_spent(SessionKind.WORKER, n, SETTINGS) for n in range(8)]
    assert spent == [False] * 6 + [True] * 2
    assert not failures.is_spent(SessionKind.ROUTER, 1000, SETTINGS)


@pytest.mark.parametrize("pending", range(1, 65))
def test_the_router_halves_until_one_message_is_alone_and_parks_it_after_three_failures(pending):
    sizes = []
    charged = 0
    while not failures.is_poison(SessionKind.ROUTER, pending, charged, SETTINGS):
        sizes.append(failures.batch_size(SessionKind.ROUTER, pending, charged))
        charged += 1
    assert sizes[0] == pending
    assert sizes[-3:] == [1, 1, 1]
    assert all(later <= earlier for earlier, later in itertools.pairwise(sizes))
    assert len(sizes) <= 9


def test_a_worker_always_reads_the_whole_batch_and_parks_nothing():
    assert failures.batch_size(SessionKind.WORKER, 64, 5) == 64
    assert not failures.is_poison(SessionKind.WORKER, 1, 5, SETTINGS)


def test_a_batch_that_can_be_halved_is_retried_at_once_and_one_message_later_and_later():
    retry = [failures.retry_in_s(SessionKind.ROUTER, 4, n, SETTINGS) for n in range(1, 5)]
    assert retry == [0.0, 4.0, 8.0, 16.0]
    assert failures.retry_in_s(SessionKind.WORKER, 4, 30, SETTINGS) == SETTINGS.retry_cap_s


def test_a_model_that_stays_away_is_asked_less_and_less_often():
    waits = [failures.model_retry_in_s(2.0, n, SETTINGS) for n in range(1, 8)]
    assert waits == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
