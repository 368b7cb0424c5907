"""The arguments of exec."""

import pytest

from farhand_control_plane.cli.exec_options import Attach, HelpAsked, parse
from farhand_shared.command import Argv, Limits, Pty, Shell
from farhand_shared.errors import InvalidInput
from farhand_shared.exec_request import ExecBody
from farhand_shared.limits import EXECUTION_TIMEOUT_DEFAULT_MS


def asked(arguments: list[str]) -> ExecBody:
    body = parse(arguments)
    assert isinstance(body, ExecBody)
    return body


def test_what_follows_the_dashes_is_the_command_whatever_it_looks_like() -> None:
    body = asked(["dev", "--", "--cwd", "--", "-x", ""])
    assert body.machine == "dev"
    assert body.spec.run == Argv(argv=(b"--cwd", b"--", b"-x", b""))
    assert body.spec.cwd is None
    assert body.spec.execution_timeout_ms == EXECUTION_TIMEOUT_DEFAULT_MS
    assert body.wait_offline is False


def test_every_option_before_the_machine_counts() -> None:
    options = ["--shell", "--cwd", "/a", "--timeout=1.5", "--env", "A=1", "--env=B=x=y"]
    body = asked([*options, "--env", "A=2", "--wait-offline", "dev", "--", "echo $A"])
    assert body.spec.run == Shell(script=b"echo $A")
    assert body.spec.cwd == b"/a"
    assert body.spec.execution_timeout_ms == 1500
    assert dict(body.spec.env) == {b"A": b"2", b"B": b"x=y"}
    assert body.wait_offline is True


@pytest.mark.parametrize(("text", "milliseconds"), [("0", 0), ("0.0001", 1), ("3600", 3_600_000)])
def test_no_limit_is_only_what_says_so(text: str, milliseconds: int) -> None:
    assert asked(["--timeout", text, "d", "--", "x"]).spec.execution_timeout_ms == milliseconds


def test_limits_are_counts_and_memory_may_have_a_unit() -> None:
    limits = asked(
        ["--memory", "512M", "--processes=20", "--open-files", "64", "d", "--", "x"]
    ).spec.limits
    assert limits == Limits(memory_bytes=512 << 20, processes=20, open_files=64)
    assert asked(["--memory=2g", "d", "--", "x"]).spec.limits.memory_bytes == 2 << 30
    assert asked(["--memory=8388608", "d", "--", "x"]).spec.limits.memory_bytes == 8 << 20


def test_a_limit_that_no_system_could_hold_names_what_it_could() -> None:
    with pytest.raises(InvalidInput, match="cannot limit memory to 1,024: give 4,194,304 to"):
        parse(["--memory", "1K", "d", "--", "x"])


def test_bytes_that_are_no_text_stay_what_they_are() -> None:
    assert asked(["d", "--", "\udcff"]).spec.run == Argv(argv=(b"\xff",))


def test_input_is_asked_for_and_a_terminal_has_no_time_limit_of_its_own() -> None:
    plain = asked(["dev", "--", "x"]).spec
    assert (plain.stdin, plain.pty, plain.takes_input) == (False, None, False)
    assert asked(["--stdin", "dev", "--", "x"]).spec.stdin
    spec = asked(["--pty", "dev", "--", "x"]).spec
    assert isinstance(spec.pty, Pty)
    assert spec.execution_timeout_ms == 0
    spec = asked(["--pty", "--timeout", "5", "dev", "--", "x"]).spec
    assert spec.execution_timeout_ms == 5000


def test_a_command_that_runs_is_followed_by_its_name_alone() -> None:
    assert parse(["--attach", "3fa"]) == Attach(command="3fa", take=False)
    assert parse(["--take", "--attach=3fa"]) == Attach(command="3fa", take=True)


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--shell", "--help", "nonsense"]])
def test_help_is_asked_for(arguments: list[str]) -> None:
    with pytest.raises(HelpAsked):
        parse(arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--"],
        ["dev"],
        ["dev", "--"],
        ["dev", "ls"],
        ["dev", "--cwd", "/", "--", "ls"],
        ["--cwd"],
        ["--timeout", "nan", "dev", "--", "ls"],
        ["--timeout", "-1", "dev", "--", "ls"],
        ["--timeout", "inf", "dev", "--", "ls"],
        ["--env", "=x", "dev", "--", "ls"],
        ["--shell=yes", "dev", "--", "ls"],
        ["--shell", "dev", "--", "echo", "two"],
        ["--memory", "lots", "dev", "--", "ls"],
        ["--memory", "", "dev", "--", "ls"],
        ["--processes", "4K", "dev", "--", "ls"],
        ["--open-files", "0", "dev", "--", "ls"],
        ["--stdin=x", "dev", "--", "ls"],
        ["--attach"],
        ["--attach", "x", "dev", "--", "ls"],
        ["--attach", "x", "--pty", "--shell"],
        ["--take", "dev", "--", "ls"],
    ],
)
def test_misuse_is_said(arguments: list[str]) -> None:
    with pytest.raises(InvalidInput, match=r"^cannot exec: "):
        parse(arguments)
