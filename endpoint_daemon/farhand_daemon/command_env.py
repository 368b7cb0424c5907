"""The environment that commands get: the account's login environment, without ours and secrets.

Service managers give a daemon a bare PATH, so the environment is captured from the account's login
shell, in the background once the link is up: a slow profile must not delay the start. Until then
(or when the shell fails) commands get a basic environment with the daemon's PATH. It is captured
again when a file that shells read at their start has changed.
"""

import asyncio
import contextlib
import os
import pwd
import re
import signal
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from farhand_shared.limits import MIB
from farhand_shared.redact import looks_secret

Environment = dict[bytes, bytes]

CAPTURE_TIMEOUT_S: Final = 10.0
_DEFAULT_PATH: Final = b"/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
# What a person's shell would have from the system even without a profile.
_BASIC: Final = (b"PATH", b"TZ", b"TMPDIR", b"XDG_RUNTIME_DIR", b"SSH_AUTH_SOCK", b"DISPLAY")
# The HOME of commands where it is not the account's: an environment on demand has one of its own.
_COMMANDS_HOME: Final = b"FARHAND_COMMANDS_HOME"
_OURS: Final = re.compile(rb"(FARHAND|GRPC)_")
_OURS_OR_PYTHON: Final = re.compile(rb"(FARHAND_|GRPC_|PYTHON|__PYVENV)")
# Nobody sits there to answer: what would ask fails at once instead, also on a desktop, where it
# would open a window. A terminal to ask on is not there anyway. What the account sets itself stays.
_UNATTENDED: Final = {
    b"GIT_TERMINAL_PROMPT": b"0",
    b"GCM_INTERACTIVE": b"never",
    b"SSH_ASKPASS_REQUIRE": b"never",
}
_ASKS_A_DESKTOP: Final = b"SSH_ASKPASS"  # git asks it too, whatever the above says
# Written by shells themselves; passing them on would tell a command about a shell that is gone.
_SHELL_STATE: Final = frozenset({b"_", b"SHLVL", b"PWD", b"OLDPWD"})
# Of sh, bash, zsh and fish, and of macOS. Folders change when something is put into them.
_STARTUP_OF_ALL: Final = (
    "/etc/profile", "/etc/profile.d", "/etc/environment", "/etc/bash.bashrc", "/etc/zprofile",
    "/etc/zshenv", "/etc/zsh/zprofile", "/etc/zsh/zshenv", "/etc/fish", "/etc/paths",
    "/etc/paths.d",
)  # fmt: skip
_STARTUP_AT_HOME: Final = (
    ".profile", ".bash_profile", ".bash_login", ".bashrc", ".zshenv", ".zprofile", ".zshrc",
    ".zlogin", ".config/fish/config.fish", ".config/fish/conf.d", ".config/fish/fish_variables",
)  # fmt: skip
_END_GRACE_S: Final = 1.0
_CAPTURE_MAX_BYTES: Final = 4 * MIB


def without_secrets(env: Mapping[bytes, bytes], allowed: Iterable[str]) -> Environment:
    """Return ``env`` without what looks like a secret, keeping the names the machine allows."""
    keep = {os.fsencode(name) for name in allowed}
    return {k: v for k, v in env.items() if k in keep or not looks_secret(os.fsdecode(k))}


def basic_environment(daemon_env: Mapping[bytes, bytes]) -> Environment:
    """Return what any command may rely on: account, PATH, locale."""
    account = pwd.getpwuid(os.geteuid())
    env = {k: v for k in _BASIC if (v := daemon_env.get(k))}
    env.setdefault(b"PATH", _DEFAULT_PATH)
    env |= {k: v for k, v in daemon_env.items() if k == b"LANG" or k.startswith(b"LC_")}
    env |= {
        b"HOME": daemon_env.get(_COMMANDS_HOME) or os.fsencode(account.pw_dir),
        b"USER": os.fsencode(account.pw_name),
        b"LOGNAME": os.fsencode(account.pw_name),
        b"SHELL": os.fsencode(account.pw_shell or "/bin/sh"),
    }
    return with_locale(env)


def with_locale(env: Environment) -> Environment:
    """Add ``LANG=C.UTF-8`` where nothing says a locale, so that programs write UTF-8."""
    if not any(env.get(name) for name in (b"LANG", b"LC_ALL", b"LC_CTYPE")):
        return {**env, b"LANG": b"C.UTF-8"}
    return env


async def capture_login_environment(
    daemon_env: Mapping[bytes, bytes], *, timeout_s: float = CAPTURE_TIMEOUT_S
) -> Environment | None:
    """Return the environment of the account's login shell; None when it fails or takes too long.

    The shell starts from the daemon's environment without our variables, as it would from the
    account's session, with no terminal and null stdin: a profile that asks a question gets EOF.
    """
    shell = pwd.getpwuid(os.geteuid()).pw_shell or "/bin/sh"
    base = {k: v for k, v in daemon_env.items() if not _OURS_OR_PYTHON.match(k)}
    marker = os.urandom(16).hex()
    # The interpreter prints it: not every system's env has -0. Quoted for any shell's syntax.
    program = (
        "import os;"
        f"os.write(1,b`{marker}`+b``.join(k+b`=`+v+bytes(1) for k,v in os.environb.items())"
        f"+b`{marker}`)"
    ).replace("`", '"')
    readable, writable = os.pipe()
    with os.fdopen(writable, "wb") as theirs:
        try:
            process = await asyncio.create_subprocess_exec(
                shell,
                "-l",
                "-c",
                f"'{sys.executable}' -I -S -c '{program}'",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=theirs,
                stderr=asyncio.subprocess.DEVNULL,
                env=base | basic_environment(daemon_env),
                start_new_session=True,
            )
        except OSError:
            os.close(readable)
            return None
    try:
        async with asyncio.timeout(timeout_s):
            printed = await _read_between(readable, marker.encode())
            await process.wait()
    except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        await _end(process, signal.SIGTERM, signal.SIGKILL)
        return None
    except asyncio.CancelledError:  # the daemon stops: most shells are done in a moment
        await _end(process, None, signal.SIGTERM, signal.SIGKILL)
        raise
    return parse_environment(printed)


async def _end(process: asyncio.subprocess.Process, *signals: signal.Signals | None) -> None:
    """End the shell and what its profile started, a signal after the other; None only waits.

    Killed at once, a profile leaves its locks behind (``pyenv init`` then blocks every later
    login for a minute).
    """
    if process.returncode is not None:
        return
    # Not asyncio.timeout: before Python 3.11.3 it is no timeout in a task that is being cancelled.
    ended = asyncio.create_task(process.wait(), name="login-shell-end")
    for number in signals:
        if number is not None:
            with contextlib.suppress(ProcessLookupError):  # it ended by itself just now
                os.killpg(process.pid, number)
        await asyncio.wait({ended}, timeout=_END_GRACE_S)
        if ended.done():
            return
    ended.cancel()


async def _read_between(readable: int, marker: bytes) -> bytes:
    """Return what lies between two markers, then close the pipe.

    Not until EOF: an agent that the profile started may hold the other end for ever.
    """
    reader = asyncio.StreamReader(limit=_CAPTURE_MAX_BYTES)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(readable, "rb")
    )
    try:
        await reader.readuntil(marker)
        return (await reader.readuntil(marker)).removesuffix(marker)
    finally:
        transport.close()


def parse_environment(printed: bytes) -> Environment | None:
    """Return the variables of a NUL-ended list; None when they are no usable environment."""
    pairs = (entry.partition(b"=") for entry in printed.rstrip(b"\0").split(b"\0"))
    env = {
        name: value
        for name, equals, value in pairs
        if equals and name and name not in _SHELL_STATE and not _OURS.match(name)
    }
    return with_locale(env) if env.get(b"PATH") else None


def startup_stamp(home: bytes) -> tuple[tuple[str, int], ...]:
    """Return what changes when somebody edits a file that shells read at their start."""
    folder = Path(os.fsdecode(home))
    stamps = []
    for file in (*map(Path, _STARTUP_OF_ALL), *(folder / name for name in _STARTUP_AT_HOME)):
        try:
            stamps.append((str(file), file.stat().st_mtime_ns))
        except OSError:  # most are not there
            continue
    return tuple(stamps)


class CommandEnvironment:
    """The environment commands start from: basic at first, the login shell's once it is known."""

    def __init__(self, daemon_env: Mapping[bytes, bytes]) -> None:
        self._daemon_env = dict(daemon_env)
        self._base = basic_environment(self._daemon_env)
        self._filtered: Environment | None = None
        self._allowed: tuple[str, ...] = ()
        self._asked = False
        self._stamp: tuple[tuple[str, int], ...] | None = None  # None: the shell gave none

    async def refresh(self) -> bool:
        """Capture again when a file that shells read has changed since, or when it failed before;
        tell whether the base is new.
        """
        if not self._asked or self._stamp == startup_stamp(self._base[b"HOME"]):
            return False
        return await self.capture()

    async def capture(self) -> bool:
        """Replace the base by the login shell's environment; False when the shell gave none."""
        self._asked = True
        stamp = startup_stamp(self._base[b"HOME"])
        captured = await capture_login_environment(self._daemon_env)
        self._stamp = None if captured is None else stamp
        if captured is None:
            return False
        captured.setdefault(b"HOME", self._base[b"HOME"])
        self._base = captured
        self._filtered = None
        return True

    def with_added(
        self,
        added: Iterable[tuple[bytes, bytes]],
        allowed: tuple[str, ...],
        *,
        attended: bool = False,
    ) -> tuple[tuple[bytes, bytes], ...]:
        """Return the base without secrets (but ``allowed``), then ``added``; later ones win.

        ``attended``: somebody sits at a terminal of the command and can be asked.
        """
        if self._filtered is None or self._allowed != allowed:
            self._filtered = without_secrets(self._base, allowed)
            self._allowed = allowed
        base = self._filtered
        if not attended:
            base = {**_UNATTENDED, **base}
            base.pop(_ASKS_A_DESKTOP, None)
        return tuple({**base, **dict(added)}.items())
