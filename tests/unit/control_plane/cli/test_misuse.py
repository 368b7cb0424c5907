"""What is wrong with a use of the command line is said in one line that names it."""

import pytest

from farhand_control_plane.cli import main as cli


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["machines", "list", "--colour"], "--colour"),
        (["machines", "list", "-x"], "-x"),
        (["--bogus"], "--bogus"),
        (["tickets", "--jason"], "--jason"),
        (["paint"], "'paint'"),
        (["tickets", "show"], "'TICKET'"),
        (["chat", "a", "b"], "(b)"),
        (["tokens", "create", "ci", "--scope", "bogus"], "'bogus' is not one of 'chat', 'read'"),
        (["tokens", "create", "ci"], "'--scope'"),
        (["tickets", "list", "--stage", "bogus"], "'bogus' is not one of 'needs_person'"),
        (["tickets", "list", "--limit", "0"], "'--limit'"),
        (["up", "--bogus"], "'--bogus'"),
        (["serve", "--bogus"], "'--bogus'"),
    ],
)
def test_misuse_names_what_is_wrong_and_exits_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert cli.main(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("farhand: cannot ")
    assert err.count("\n") == 1
    assert said in err
    assert "--help" in err


def test_misuse_of_exec_exits_125_like_every_failure_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["exec", "--bogus", "m", "--", "ls"]) == 125
    assert capsys.readouterr().err == (
        "farhand: cannot exec: --bogus is unknown; see farhand exec --help\n"
    )


@pytest.mark.parametrize("arguments", [[], ["tickets"], ["machines"], ["files"], ["tokens"]])
def test_a_group_alone_shows_its_help_and_exits_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert cli.main(arguments) == 2
    shown = "".join(capsys.readouterr())
    assert shown.startswith("Usage: farhand")
    assert "cannot" not in shown


@pytest.mark.parametrize(
    "verb",
    [
        ["up"],
        ["serve"],
        ["exec"],
        ["migrate"],
        ["chat"],
        ["doctor"],
        *(["machines", verb] for verb in ("list", "show", "add", "confirm", "revoke")),
        *(
            ["files", verb]
            for verb in (
                "stat",
                "list",
                "glob",
                "search",
                "read",
                "write",
                "edit",
                "get",
                "put",
                "make-folder",
                "move",
                "remove",
            )
        ),
        *(["tokens", verb] for verb in ("list", "create", "revoke")),
        *(
            ["tickets", verb]
            for verb in ("list", "questions", "show", "watch", "answer", "accept", "stop")
        ),
    ],
)
def test_every_help_has_one_look_and_names_values_in_words(
    capsys: pytest.CaptureFixture[str], verb: list[str]
) -> None:
    assert cli.main([*verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: farhand {' '.join(verb)}")
    assert not set(shown) & set("{}<>│"), shown
    assert max(map(len, shown.splitlines())) <= 100


def test_exec_says_that_standard_input_is_not_passed_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["exec", "--help"]) == 0
    assert "Standard input is not\npassed on" in capsys.readouterr().out
