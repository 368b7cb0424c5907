"""The environment of commands: captured from the login shell, without ours and secrets."""

import asyncio
import os
import pwd
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from farhand_daemon.command_env import (
    CommandEnvironment,
    basic_environment,
    capture_login_environment,
    parse_environment,
    without_secrets,
)


def test_secrets_are_left_out_unless_the_machine_allows_them() -> None:
    env = {b"PATH": b"/bin", b"GITHUB_TOKEN": b"x", b"db_password": b"y", b"X\xff_KEY": b"z"}
    assert without_secrets(env, ()) == {b"PATH": b"/bin"}
    assert set(without_secrets(env, ("GITHUB_TOKEN", os.fsdecode(b"X\xff_KEY")))) == {
        b"PATH",
        b"GITHUB_TOKEN",
        b"X\xff_KEY",
    }


def test_what_a_command_adds_wins_and_is_never_dropped() -> None:
    environment = CommandEnvironment({b"PATH": b"/x", b"LANG": b"C"})
    env = dict(environment.with_added([(b"A", b"1"), (b"A", b"2"), (b"MY_TOKEN", b"t")], ()))
    assert env[b"A"] == b"2"
    assert env[b"MY_TOKEN"] == b"t"
    assert env[b"PATH"] == b"/x"


def test_nobody_is_asked_unless_somebody_sits_at_a_terminal() -> None:
    environment = CommandEnvironment({b"PATH": b"/x"})
    environment._base[b"SSH_ASKPASS"] = b"/usr/bin/ssh-askpass"  # as a desktop's login has it
    alone, attended = (dict(environment.with_added((), (), attended=a)) for a in (False, True))
    assert alone[b"GIT_TERMINAL_PROMPT"] == b"0"
    assert alone[b"SSH_ASKPASS_REQUIRE"] == b"never"
    assert b"SSH_ASKPASS" not in alone
    assert not {b"GIT_TERMINAL_PROMPT", b"SSH_ASKPASS_REQUIRE"} & set(attended)
    assert attended[b"SSH_ASKPASS"] == b"/usr/bin/ssh-askpass"


def test_what_the_account_says_of_prompts_stays() -> None:
    environment = CommandEnvironment({b"PATH": b"/x"})
    environment._base[b"GIT_TERMINAL_PROMPT"] = b"1"
    assert dict(environment.with_added((), ()))[b"GIT_TERMINAL_PROMPT"] == b"1"


def test_basic_environment_has_the_account_and_a_locale() -> None:
    env = basic_environment({b"PATH": b"/x", b"FARHAND_URL": b"u", b"SECRET": b"s"})
    account = pwd.getpwuid(os.geteuid())
    assert env[b"PATH"] == b"/x"
    assert env[b"HOME"] == os.fsencode(account.pw_dir)
    assert env[b"LANG"] == b"C.UTF-8"
    assert not {b"FARHAND_URL", b"SECRET"} & set(env)


async def test_commands_may_have_another_home_than_the_account(tmp_path: Path) -> None:
    daemon_env = {b"PATH": b"/usr/bin:/bin", b"FARHAND_COMMANDS_HOME": os.fsencode(tmp_path)}
    assert basic_environment(daemon_env)[b"HOME"] == os.fsencode(tmp_path)
    captured = await capture_login_environment(daemon_env)
    assert captured is not None
    assert captured[b"HOME"] == os.fsencode(tmp_path)
    assert b"FARHAND_COMMANDS_HOME" not in captured


def test_a_locale_that_is_set_is_kept() -> None:
    env = basic_environment({b"LC_CTYPE": b"de_DE.UTF-8"})
    assert env[b"LC_CTYPE"] == b"de_DE.UTF-8"
    assert b"LANG" not in env


def test_values_keep_their_bytes_and_shell_state_goes() -> None:
    env = parse_environment(b"PATH=/bin\0A=\xff=\n\0SHLVL=1\0FARHAND_X=1\0broken\0")
    assert env == {b"PATH": b"/bin", b"A": b"\xff=\n", b"LANG": b"C.UTF-8"}


def test_a_list_without_a_path_is_no_environment() -> None:
    assert parse_environment(b"A=1\0") is None
    assert parse_environment(b"") is None


def _login_shell(monkeypatch: pytest.MonkeyPatch, folder: Path, body: str) -> None:
    """Make a script the account's login shell, as ``getpwuid`` tells it."""
    shell = folder / "shell"
    shell.write_text(f"#!/bin/sh\n{body}\n")
    shell.chmod(0o700)
    account = pwd.getpwuid(os.geteuid())
    fields = [*account[:6], str(shell)]
    monkeypatch.setattr(pwd, "getpwuid", lambda _: pwd.struct_passwd(fields))


async def test_the_login_shell_decides_and_may_print_and_ask(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    body = 'echo hello; read x; export FROM_PROFILE=yes; shift 2; eval "$1"'
    _login_shell(monkeypatch, tmp_path, body)
    env = await capture_login_environment(
        {b"PATH": os.environb[b"PATH"], b"FARHAND_TOKEN": b"t", b"PYTHONPATH": b"/p"}
    )
    assert env is not None
    assert env[b"FROM_PROFILE"] == b"yes"
    assert not {b"FARHAND_TOKEN", b"PYTHONPATH"} & set(env)


async def test_a_profile_that_hangs_or_fails_gives_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _login_shell(monkeypatch, tmp_path, "exec sleep 60")
    begun = time.monotonic()
    assert await capture_login_environment(os.environb, timeout_s=0.2) is None
    assert time.monotonic() - begun < 10
    _login_shell(monkeypatch, tmp_path, "exit 3")
    assert await capture_login_environment(os.environb) is None


async def test_it_is_captured_again_when_a_profile_has_changed_and_only_then(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    profile = tmp_path / ".profile"
    profile.write_text("export TOOLS=old")
    _login_shell(
        monkeypatch, tmp_path, f'. {profile}; echo x >>{tmp_path}/runs; shift 2; eval "$1"'
    )
    daemon_env = {b"PATH": os.environb[b"PATH"], b"FARHAND_COMMANDS_HOME": os.fsencode(tmp_path)}
    environment = CommandEnvironment(daemon_env)
    assert not await environment.refresh()  # the first one has a time of its own
    assert await environment.capture()
    assert not await environment.refresh()
    assert dict(environment.with_added((), ()))[b"TOOLS"] == b"old"
    profile.write_text("export TOOLS=new")
    os.utime(profile, ns=(1, 1))
    assert await environment.refresh()
    assert dict(environment.with_added((), ()))[b"TOOLS"] == b"new"
    assert (tmp_path / "runs").read_text() == "x\nx\n"


async def test_a_capture_that_failed_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _login_shell(monkeypatch, tmp_path, "exit 3")
    environment = CommandEnvironment({b"PATH": os.environb[b"PATH"]})
    assert not await environment.capture()
    _login_shell(monkeypatch, tmp_path, 'export FROM_PROFILE=yes; shift 2; eval "$1"')
    assert await environment.refresh()
    assert dict(environment.with_added((), ()))[b"FROM_PROFILE"] == b"yes"


async def test_an_agent_that_keeps_the_pipe_open_does_not_hold_the_capture(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _login_shell(monkeypatch, tmp_path, 'sleep 30 & shift 2; eval "$1"')
    begun = time.monotonic()
    assert await capture_login_environment(os.environb) is not None
    assert time.monotonic() - begun < 10


async def test_a_profile_that_is_given_up_may_clean_up_after_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lock = tmp_path / "lock"
    body = f"trap 'rm {lock}' EXIT; trap 'exit 1' TERM; touch {lock}; sleep 60 & wait"
    _login_shell(monkeypatch, tmp_path, body)
    await _cancel_when(lock.exists)
    assert not lock.exists()


async def test_a_profile_that_is_nearly_done_is_let_finish(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lock = tmp_path / "lock"
    _login_shell(monkeypatch, tmp_path, f"touch {lock}; sleep 0.2; rm {lock}; exec sleep 60")
    await _cancel_when(lock.exists)
    assert not lock.exists()


async def test_a_profile_that_ignores_everything_does_not_outlive_the_daemon(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = tmp_path / "pid"
    body = f"trap '' TERM; echo $$ > {told}.new; mv {told}.new {told}; while :; do sleep 60; done"
    _login_shell(monkeypatch, tmp_path, body)
    await _cancel_when(told.exists)
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()), 0)


async def _cancel_when(condition: Callable[[], bool]) -> None:
    """Begin a capture and cancel it once the profile is so far."""
    capture = asyncio.create_task(capture_login_environment(os.environb))
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)  # nothing announces it
    capture.cancel()
    with pytest.raises(asyncio.CancelledError):
        await capture
