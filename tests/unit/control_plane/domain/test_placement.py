"""Which machine work goes to: the order, and why not for each of the others."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farhand_control_plane.domain.environments import Offer
from farhand_control_plane.domain.placement import (
    Candidate,
    Placement,
    Survey,
    compare_versions,
    place,
    version_numbers,
)
from farhand_control_plane.domain.selector import Operator, parse
from farhand_control_plane.domain.words import MachineKind, MachineStatus
from farhand_shared.ids import MachineId

SURVEY = Survey(
    disk_free_bytes=200 * 10**9,
    gpus=("NVIDIA A10",),
    tools={"docker": "24.0.7", "git": "2.39.2", "odd": ""},
    repositories=("github.com/acme/web",),
)


def a_machine(name: str, **changes: object) -> Candidate:
    base = Candidate(
        machine_id=MachineId(f"id-{name}"),
        name=name,
        os="linux",
        arch="x86_64",
        cpus=8,
        memory_bytes=16_500_000_000,
        labels={"build": "", "team": "infra"},
        survey=SURVEY,
    )
    return replace(base, **changes)  # type: ignore[arg-type] # the fields that a test names


def why(placement: Placement, name: str) -> tuple[str, ...]:
    return next(answer.reasons for answer in placement.machines if answer.name == name)


def chosen(selector: str, *machines: Candidate) -> str | None:
    found = place(parse(selector), machines).chosen
    return None if found is None else found.removeprefix("id-")


def test_a_named_machine_is_taken_whatever_else_there_is() -> None:
    busy = a_machine("a", online=False, open_commands=9)
    placement = place(parse("machine=a"), [a_machine("b"), busy])
    assert placement.chosen == "id-a"
    assert placement.waits
    assert placement.summary == (
        "a is named; it is offline, so the work waits and starts by itself"
    )
    assert why(placement, "b") == ("another machine is named",)
    assert chosen("machine=id-a", busy) == "a"
    assert chosen("machine=A", busy) == "a"
    assert chosen("machine=A", busy, a_machine("A")) == "A"


def test_an_offline_machine_with_the_repository_comes_before_an_online_one_without() -> None:
    bare = a_machine("bare", survey=replace(SURVEY, repositories=()))
    placement = place(parse("repo:acme/web"), [bare, a_machine("home", online=False)])
    assert placement.chosen == "id-home"
    assert placement.waits
    assert placement.summary == "the work waits for home and starts by itself: it alone fits"
    assert why(placement, "bare") == ("no working copy of acme/web lies beneath its roots",)
    assert why(placement, "home") == (
        "has a working copy of github.com/acme/web",
        "offline",
        "idle",
    )


def test_of_those_that_fit_an_online_one_is_taken_then_the_least_busy() -> None:
    asleep = a_machine("asleep", online=False)
    full = a_machine("full", open_commands=4)
    half = a_machine("half", open_commands=4, concurrency=8)
    assert chosen("gpu", asleep, full, half) == "half"
    assert chosen("gpu", asleep, full) == "full"
    assert chosen("gpu", asleep) == "asleep"
    assert chosen("gpu", a_machine("b"), a_machine("a")) == "a"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"status": MachineStatus.PENDING}, "six words"),
        ({"status": MachineStatus.PAUSED}, "it is paused"),
        ({"status": MachineStatus.QUARANTINED}, "quarantine"),
        ({"status": MachineStatus.REVOKED}, "revoked"),
        ({"is_askers": False}, "another member"),
        ({"takes_commands": False}, "trust level off"),
        ({"os": "macos"}, "os is macos"),
        ({"os": ""}, "os is not told"),
        ({"survey": None}, "it has not told yet whether it has gpu"),
        ({"survey": replace(SURVEY, gpus=())}, "it has no GPU"),
    ],
)
def test_what_is_against_a_machine_is_said(changes: dict[str, object], reason: str) -> None:
    placement = place(parse("os=linux gpu"), [a_machine("a", **changes)])
    assert placement.chosen is None
    assert any(reason in text for text in why(placement, "a")), placement


def test_everything_that_is_against_a_machine_is_said_in_the_order_of_choice() -> None:
    placement = place(
        parse("label=fast memory>=32G tool:docker>=25 tool:podman repo:acme/app"), [a_machine("a")]
    )
    assert why(placement, "a") == (
        "no working copy of acme/app lies beneath its roots",
        "has docker 24.0.7, asked for tool:docker>=25",
        "it has no podman",
        "it has no label fast",
        "16.5 GB of memory, asked for (memory>=32G)",
    )
    assert placement.summary.startswith("no machine fits")


@pytest.mark.parametrize(
    "selector",
    ["label=build", "label:team=infra", "cpu>=8", "cpu<9", "memory>=16G", "disk>=100G", "plugged",
     "repo:github.com/acme/web", "tool:git", "tool:odd", "os=Linux", "tool:docker=24"],
)  # fmt: skip
def test_needs_that_the_machine_meets(selector: str) -> None:
    assert chosen(selector, a_machine("a")) == "a"


@pytest.mark.parametrize(
    "selector",
    ["label:team=web", "label:build=yes", "cpu>8", "repo:cme/web", "repo:gitlab.com/acme/web",
     "tool:odd>=1", "tool:docker>24", "disk>=1T"],
)  # fmt: skip
def test_needs_that_it_does_not_meet(selector: str) -> None:
    assert chosen(selector, a_machine("a")) is None


def test_a_paused_machine_is_taken_only_when_it_is_named() -> None:
    paused = a_machine("a", status=MachineStatus.PAUSED)
    placement = place(parse("machine=a"), [paused])
    assert (placement.chosen, placement.waits) == ("id-a", True)
    assert "until it is resumed" in placement.summary
    assert chosen("gpu", paused) is None


def test_without_machines_or_with_an_unknown_name_the_next_step_is_said() -> None:
    assert "farhand machines add" in place(parse("gpu"), []).summary
    assert "no machine named x" in place(parse("machine=x"), [a_machine("a")]).summary


def test_versions_are_compared_as_precisely_as_they_are_asked() -> None:
    assert version_numbers("v24.0.7-ce") == (24, 0, 7)
    assert version_numbers("stable") == ()
    for sign, holds in zip(Operator, (True, True, False, False, True), strict=True):
        assert compare_versions((24, 0, 7), sign, (24,)) is holds, sign
    assert compare_versions((3, 9), Operator.LESS, (3, 11))
    assert compare_versions((3,), Operator.EQUAL, (3, 0))


_candidates = st.lists(
    st.builds(
        a_machine,
        name=st.sampled_from("abcdefgh"),
        online=st.booleans(),
        open_commands=st.integers(0, 6),
        concurrency=st.integers(0, 4),
        status=st.sampled_from(MachineStatus),
        survey=st.sampled_from([None, SURVEY, Survey()]),
    ),
    max_size=8,
    unique_by=lambda machine: machine.name,
)


@given(_candidates, st.sampled_from(["gpu", "machine=a", "repo:acme/web tool:git"]), st.randoms())
def test_the_choice_fits_is_first_and_does_not_depend_on_the_order_of_the_machines(
    machines: list[Candidate], text: str, randomness: random.Random
) -> None:
    placement = place(parse(text), machines)
    assert len(placement.machines) == len(machines)
    assert all(answer.reasons for answer in placement.machines)
    assert (placement.chosen is not None) == any(answer.fits for answer in placement.machines)
    if placement.chosen is not None:
        first = placement.machines[0]
        assert (first.machine_id, first.fits) == (placement.chosen, True)
        if not first.online:
            assert not any(answer.fits and answer.online for answer in placement.machines)
    randomness.shuffle(machines)
    assert place(parse(text), machines) == placement


ON_DEMAND = MachineKind.ON_DEMAND
OFFER = Offer(provisioner="local_process", os="linux", arch="x86_64")


def test_an_environment_is_taken_by_work_that_asks_for_one_alone() -> None:
    mine = a_machine("env-1", kind=ON_DEMAND)
    desk = a_machine("desk", open_commands=9)
    assert chosen("os=linux", mine, desk) == "desk"
    assert chosen("kind=on-demand os=linux", mine, desk) == "env-1"
    assert chosen("machine=env-1", mine, desk) == "env-1"
    placement = place(parse("os=linux"), [mine])
    assert why(placement, "env-1") == (
        "it is an environment on demand: name it, or ask for kind=on-demand",
    )


def test_an_environment_of_another_ticket_is_never_taken_and_a_fresh_one_is_made() -> None:
    placement = place(
        parse("kind=on-demand"), [a_machine("env-1", kind=ON_DEMAND, of_other_work=True)], OFFER
    )
    assert (placement.chosen, placement.makes, placement.waits) == (None, "local_process", True)
    assert placement.summary == "local_process makes a fresh environment"
    assert why(placement, "env-1") == ("it was made for other work",)


def test_an_environment_that_is_being_made_is_waited_for() -> None:
    coming = a_machine("env-1", kind=ON_DEMAND, status=MachineStatus.PENDING, online=False)
    placement = place(parse("kind=on-demand"), [coming], OFFER)
    assert (placement.chosen, placement.waits, placement.makes) == ("id-env-1", True, None)


def test_nothing_is_made_for_work_that_asks_for_what_no_fresh_one_is_known_to_have() -> None:
    for selector, against in {
        "kind=on-demand os=darwin": "its os would be linux",
        "kind=on-demand gpu": "gpu is not known of an environment before it is there",
        "kind=on-demand tool:docker>=24 arch=x86_64": (
            "tool:docker>=24 is not known of an environment before it is there"
        ),
    }.items():
        placement = place(parse(selector), [], OFFER)
        assert (placement.makes, placement.waits, placement.summary) == (None, False, against)


def test_without_a_provisioner_it_is_said_how_to_have_one() -> None:
    placement = place(parse("kind=on-demand"), [a_machine("desk")])
    assert placement.makes is None
    assert placement.summary.endswith("no provisioner is configured; set FARHAND_PROVISIONER")
    assert why(placement, "desk") == ("it is personal",)


def test_a_kind_is_a_need_like_any_other() -> None:
    managed = a_machine("ci", kind=MachineKind.MANAGED)
    assert chosen("kind=managed", a_machine("desk"), managed) == "ci"
    assert chosen("kind=personal", a_machine("desk"), managed) == "desk"
