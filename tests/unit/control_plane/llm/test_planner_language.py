"""The sentences of the offline planner (design: experience, "The two commands")."""

import pytest

from farhand_control_plane.llm.planner.language import (
    FRESH_ENVIRONMENT,
    THIS_MACHINE,
    AskMachines,
    AskStatus,
    Look,
    NotUnderstood,
    Run,
    Stop,
    Work,
    machine_named,
    understand,
)


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("run uname -a on this machine", [("uname -a", THIS_MACHINE)]),
        ("Run uname -a on laptop.", [("uname -a", "laptop")]),
        ("run make", [("make", "")]),
        ("run echo on the way", [("echo on the way", "")]),
        ("run echo on the way on laptop", [("echo on the way", "laptop")]),
        ("on laptop: make test", [("make test", "laptop")]),
        ("on this machine: echo a: b", [("echo a: b", THIS_MACHINE)]),
        ("run a on x\non y: b\n\n", [("a", "x"), ("b", "y")]),
        ("run make test on a fresh environment.", [("make test", FRESH_ENVIRONMENT)]),
        ("on a new environment: id", [("id", FRESH_ENVIRONMENT)]),
        ("run id on kind=on_demand", [("id", FRESH_ENVIRONMENT)]),
        (
            "run echo on a fresh environment variable on vm",
            [("echo on a fresh environment variable", "vm")],
        ),
        (
            "on vm:\nfor i in 1 2; do\n  echo $i\ndone\n",
            [("for i in 1 2; do\n  echo $i\ndone", "vm")],
        ),
    ],
)
def test_requests_are_split_at_the_last_on(text: str, runs: list[tuple[str, str]]) -> None:
    assert understand(text) == Work(runs=tuple(Run(command=c, machine=m) for c, m in runs))


@pytest.mark.parametrize(
    ("text", "look"),
    [
        ("read src/a.py on laptop", ("read", "src/a.py", "laptop")),
        ("Read ~/x on this machine.", ("read", "~/x", THIS_MACHINE)),
        ("list . on laptop!", ("list", ".", "laptop")),
        ('read "my file.txt" on laptop', ("read", "my file.txt", "laptop")),
        ("list 'it on me' on laptop", ("list", "it on me", "laptop")),
    ],
)
def test_files_and_folders_are_one_word_or_quoted(text: str, look: tuple[str, str, str]) -> None:
    verb, path, machine = look
    understood = understand(text)
    assert isinstance(understood, Work)
    (one,) = understood.runs
    assert isinstance(one, Look)
    assert (one.verb, one.path, one.machine) == (verb, path, machine)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("stop", Stop(ticket=None)),
        ("stop ticket 0199abcd", Stop(ticket="0199abcd")),
        ("status", AskStatus()),
        ("which machines do I have?", AskMachines()),
        ("list my machines", AskMachines()),
    ],
)
def test_other_forms_are_told_apart(text: str, meaning: object) -> None:
    assert understand(text) == meaning


@pytest.mark.parametrize(
    "text",
    [
        "",
        "please fix the bug",
        "run",
        "run  on laptop",
        "run x on laptop\nand then rest",
        "read a.py",
        "read the docs on monday",
        "list on laptop",
        "read '' on laptop",
    ],
)
def test_anything_else_is_not_guessed_at(text: str) -> None:
    assert understand(text) == NotUnderstood()


@pytest.mark.parametrize(
    ("answer", "machine"),
    [
        ("laptop", "laptop"),
        ("on laptop.", "laptop"),
        ("This machine", THIS_MACHINE),
        ("no idea!", None),
    ],
)
def test_a_short_answer_names_a_machine(answer: str, machine: str | None) -> None:
    assert machine_named(answer) == machine
