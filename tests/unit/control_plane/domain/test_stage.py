"""A Ticket's stage: the nine cases in their order."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farhand_control_plane.domain.stage import StageFacts, StageView, stage_of
from farhand_control_plane.domain.words import Needs, ReportKind, Stage, TicketOutcome

# In order of precedence: what brings a case about, and the stage it gives.
ORDER: list[tuple[str, dict[str, Any], StageView]] = [
    ("closed", {"outcome": TicketOutcome.DONE}, StageView(stage=Stage.CLOSED)),
    (
        "delivery",
        {"undelivered": True},
        StageView(stage=Stage.NEEDS_PERSON, needs=Needs.DELIVERY),
    ),
    (
        "answer",
        {"open_question": True},
        StageView(stage=Stage.NEEDS_PERSON, needs=Needs.ANSWER),
    ),
    (
        "review",
        {"draft_waiting": True},
        StageView(stage=Stage.NEEDS_PERSON, needs=Needs.REVIEW),
    ),
    (
        "blocked",
        {"latest_report": ReportKind.BLOCKED, "human_since_report": False},
        StageView(stage=Stage.NEEDS_PERSON, needs=Needs.BLOCKED),
    ),
    ("failed", {"tombstoned": True}, StageView(stage=Stage.NEEDS_PERSON, needs=Needs.FAILED)),
    (
        "queued",
        {"open_commands": 2, "waiting_commands": 2},
        StageView(stage=Stage.QUEUED),
    ),
    ("idle", {"assigned": False}, StageView(stage=Stage.IDLE)),
]


@pytest.mark.parametrize(
    ("changes", "expected"), [case[1:] for case in ORDER], ids=[case[0] for case in ORDER]
)
def test_each_case_alone(changes: dict[str, Any], expected: StageView) -> None:
    assert stage_of(replace(StageFacts(), **changes)) == expected


def test_a_ticket_with_a_busy_session_works() -> None:
    assert stage_of(StageFacts()) == StageView(stage=Stage.WORKING)


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_the_first_case_wins_over_all_later_ones_together(first: int) -> None:
    facts = StageFacts()
    for _, changes, _ in reversed(ORDER[first:]):
        facts = replace(facts, **changes)

    assert stage_of(facts) == ORDER[first][2]


@pytest.mark.parametrize("outcome", TicketOutcome)
def test_every_outcome_is_closed(outcome: TicketOutcome) -> None:
    assert stage_of(StageFacts(outcome=outcome, open_question=True)).stage is Stage.CLOSED


def test_a_ready_report_that_names_something_waits_for_review() -> None:
    ready = StageFacts(latest_report=ReportKind.READY, names_something_to_accept=True)

    assert stage_of(ready).needs is Needs.REVIEW
    # A delivered one waits on, and a person's message alone does not accept it.
    delivered = replace(ready, report_delivered=True, human_since_report=True)
    assert stage_of(delivered).needs is Needs.REVIEW


def test_a_ready_report_that_names_nothing_is_on_its_way_to_people() -> None:
    ready = StageFacts(latest_report=ReportKind.READY, session_busy=False)

    assert stage_of(ready) == StageView(stage=Stage.WORKING)


@pytest.mark.parametrize("kind", [ReportKind.BLOCKED, ReportKind.FAILED])
def test_a_persons_message_releases_blocked_and_failed(kind: ReportKind) -> None:
    reported = StageFacts(latest_report=kind)

    assert stage_of(reported).needs == Needs(kind.value)
    assert stage_of(replace(reported, human_since_report=True)).stage is Stage.WORKING


def test_a_persons_message_does_not_wake_a_tombstone() -> None:
    facts = StageFacts(latest_report=ReportKind.FAILED, human_since_report=True, tombstoned=True)

    assert stage_of(facts).needs is Needs.FAILED


def test_a_ticket_without_any_assignment_is_queued() -> None:
    assert stage_of(StageFacts(ever_assigned=False, assigned=False)).stage is Stage.QUEUED


def test_a_ticket_that_runs_elsewhere_works_though_one_machine_is_away() -> None:
    facts = StageFacts(open_commands=2, waiting_commands=1, session_busy=False)

    assert stage_of(facts).stage is Stage.WORKING


def test_a_sleeping_session_with_nothing_open_is_idle() -> None:
    assert stage_of(StageFacts(session_busy=False)).stage is Stage.IDLE
    assert stage_of(StageFacts(session_busy=False, open_commands=1)).stage is Stage.WORKING


anything = st.builds(
    StageFacts,
    outcome=st.none() | st.sampled_from(TicketOutcome),
    undelivered=st.booleans(),
    open_question=st.booleans(),
    draft_waiting=st.booleans(),
    latest_report=st.none() | st.sampled_from(ReportKind),
    names_something_to_accept=st.booleans(),
    report_delivered=st.booleans(),
    human_since_report=st.booleans(),
    ever_assigned=st.booleans(),
    assigned=st.booleans(),
    tombstoned=st.booleans(),
    session_busy=st.booleans(),
    open_commands=st.integers(0, 3),
    waiting_commands=st.integers(0, 3),
)


@given(anything)
def test_a_stage_says_what_it_needs_exactly_when_it_needs_a_person(facts: StageFacts) -> None:
    view = stage_of(facts)

    assert (view.needs is not None) == (view.stage is Stage.NEEDS_PERSON)
    assert (view.stage is Stage.CLOSED) == (facts.outcome is not None)


@given(anything)
def test_nothing_that_a_person_must_do_is_hidden_in_an_open_ticket(facts: StageFacts) -> None:
    if facts.outcome is None and (
        facts.undelivered or facts.open_question or facts.draft_waiting or facts.tombstoned
    ):
        assert stage_of(facts).stage is Stage.NEEDS_PERSON
