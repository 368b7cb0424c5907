"""The environment of commands: captured from the login shell, without ours and secrets."""

import os
import pwd
import time
from pathlib import Path

import pytest

from farhand_daemon.command_env import (
    basic_environment,
    capture_login_environment,
    looks_secret,
    parse_environment,
    without_secrets,
)


@pytest.mark.parametrize(
    "name",
    [
        b"GITHUB_TOKEN",
        b"TOKEN",
        b"OPENAI_API_KEY",
        b"AWS_SECRET_ACCESS_KEY",
        b"AWS_ACCESS_KEY_ID",
        b"CLIENT_SECRET",
        b"PGPASSWORD",
        b"DB_PASSWORD_FILE",
        b"MYSQL_PWD",
        b"github_token",
        b"GH_PAT",
        b"SENTRY_DSN",
    ],
)
def test_names_of_secrets_are_dropped(name: bytes) -> None:
    assert looks_secret(name)
    assert without_secrets({name: b"x"}, ()) == {}
    assert without_secrets({name: b"x"}, (name.decode(),)) == {name: b"x"}


@pytest.mark.parametrize(
    "name",
    [b"PATH", b"PWD", b"OLDPWD", b"SSH_AUTH_SOCK", b"KEYBOARD", b"MONKEY", b"LANG", b"PATTERN"],
)
def test_ordinary_names_stay(name: bytes) -> None:
    assert not looks_secret(name)


def test_basic_environment_has_the_account_and_a_locale() -> None:
    env = basic_environment({b"PATH": b"/x", b"FARHAND_URL": b"u", b"SECRET": b"s"})
    account = pwd.getpwuid(os.geteuid())
    assert env[b"PATH"] == b"/x"
    assert env[b"HOME"] == os.fsencode(account.pw_dir)
    assert env[b"LANG"] == b"C.UTF-8"
    assert not {b"FARHAND_URL", b"SECRET"} & set(env)


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


async def test_an_agent_that_keeps_the_pipe_open_does_not_hold_the_capture(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _login_shell(monkeypatch, tmp_path, 'sleep 30 & shift 2; eval "$1"')
    begun = time.monotonic()
    assert await capture_login_environment(os.environb) is not None
    assert time.monotonic() - begun < 10
