"""The arguments of `farhand exec`, read without a parser library: it is the hot path."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from farhand_shared.command import Argv, CommandSpec, Limits, Pty, Shell
from farhand_shared.errors import InvalidInput
from farhand_shared.exec_request import ExecBody
from farhand_shared.limits import EXECUTION_TIMEOUT_DEFAULT_MS

HELP = """\
Usage: farhand exec [OPTIONS] MACHINE -- CMD [ARG]…
       farhand exec --attach COMMAND [--take]

Run a command on a machine, with its output as it comes and its exit code. Standard input is not
passed on unless asked: the command reads nothing.

Options, before the machine:
  --shell            CMD is one string for /bin/sh -c
  --stdin            pass standard input on, as fast as the command reads it
  --pty              give it a terminal, and lend it this one: for shells, editors and whatever
                     asks for a password. Both outputs are one. ~. at the beginning of a line
                     ends it, ~d leaves it running, ~? lists more. Without a terminal here, as in
                     a script, standard input is passed on as it is, and its end is a Ctrl-D
  --cwd DIR          working directory (default: the first of the machine's roots)
  --timeout SECONDS  end it after so long (default: 1800, with --pty never; 0: never)
  --env K=V          set a variable; may be repeated
  --memory SIZE      memory it may use with all its processes: bytes, or as 512M, 2G
  --processes N      processes and threads it may have at once
  --open-files N     files that each of its processes may have open
  --wait-offline     wait for a machine that is not there, up to a day; says so on standard error
  --attach COMMAND   follow a command that runs and show what it shows; Ctrl-C leaves it running.
                     Its id, the end of it, or the machine if no other command runs there
  --take             with --attach: write to it from here; whoever did is told and goes on watching
  --help             show this

Exit codes: the command's own; 128+n when signal n ended it, 127 not found, 126 not executable,
124 timed out, 130 Ctrl-C, 125 our own failure.
"""


class HelpAsked(Exception):
    """--help was given."""


@dataclass(slots=True)
class _Options:
    shell: bool = False
    cwd: str | None = None
    timeout_ms: int | None = None
    env: dict[bytes, bytes] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    wait_offline: bool = False
    stdin: bool = False
    pty: bool = False
    attach: str | None = None
    take: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Attach:
    """Follow a command that runs; with ``take`` also write to it."""

    command: str  # its id, or the end of it
    take: bool


def parse(arguments: Sequence[str]) -> ExecBody | Attach:
    """Return what is asked for; raise InvalidInput in words for whoever typed it.

    A terminal's size and kind are left to whoever knows the window.
    """
    options = _Options()
    rest = _read_options(list(arguments), options)
    if options.attach is not None:
        if rest or options != _Options(attach=options.attach, take=options.take):
            raise InvalidInput(
                "cannot exec: --attach takes no machine, no command and no option but --take"
            )
        return Attach(command=options.attach, take=options.take)
    if options.take:
        raise InvalidInput("cannot exec: --take goes with --attach COMMAND")
    if not rest:
        raise InvalidInput("cannot exec: no machine is named; farhand exec MACHINE -- CMD")
    machine, *rest = rest
    if not rest or rest[0] != "--":
        raise InvalidInput(
            "cannot exec: the command must follow --, and options come before the machine; "
            f"farhand exec {machine} -- CMD"
        )
    command = [os.fsencode(argument) for argument in rest[1:]]
    if not command:
        raise InvalidInput(f"cannot exec: no command is given; farhand exec {machine} -- CMD")
    if options.shell and len(command) != 1:
        raise InvalidInput(
            f"cannot exec: --shell takes one string, not {len(command)}; quote the whole of it"
        )
    limits = Limits(**options.limits)
    limits.check()
    return ExecBody(
        machine=machine,
        spec=CommandSpec(
            run=Shell(script=command[0]) if options.shell else Argv(argv=tuple(command)),
            cwd=None if options.cwd is None else os.fsencode(options.cwd),
            env=tuple(options.env.items()),
            execution_timeout_ms=_timeout_ms(options),
            stdin=options.stdin,
            pty=Pty(rows=24, columns=80) if options.pty else None,
            limits=limits,
        ),
        wait_offline=options.wait_offline,
    )


def _read_options(arguments: list[str], options: _Options) -> list[str]:
    """Take the options off the front and return the rest."""
    while arguments and arguments[0].startswith("-") and arguments[0] not in ("-", "--"):
        name, equals, value = arguments.pop(0).partition("=")
        if name in ("--help", "-h"):
            raise HelpAsked
        if name in _FLAGS:
            if equals:
                raise InvalidInput(f"cannot exec: {name} takes no value")
            setattr(options, _FLAGS[name], True)
            continue
        if name not in ("--cwd", "--timeout", "--env", "--attach", *_LIMITS):
            raise InvalidInput(f"cannot exec: {name} is unknown; see farhand exec --help")
        if not equals:
            if not arguments:
                raise InvalidInput(f"cannot exec: {name} needs a value; see farhand exec --help")
            value = arguments.pop(0)
        match name:
            case "--cwd":
                options.cwd = value
            case "--attach":
                options.attach = value
            case "--timeout":
                options.timeout_ms = _milliseconds(value)
            case "--memory" | "--processes" | "--open-files":
                options.limits[_LIMITS[name]] = _count(name, value)
            case _:
                key, equals, text = value.partition("=")
                if not equals or not key:
                    raise InvalidInput(f"cannot exec: --env {value!r} is not NAME=VALUE")
                options.env[os.fsencode(key)] = os.fsencode(text)
    return arguments


def _count(name: str, text: str) -> int:
    """Read a limit; of memory also with a unit, each 1,024 of the one before."""
    unit = 1
    digits = text
    if name == "--memory" and text[-1:].upper() in _UNITS:
        unit, digits = _UNITS[text[-1:].upper()], text[:-1]
    if not digits.isascii() or not digits.isdecimal() or int(digits) == 0:
        what = "a size such as 512M or 2G" if name == "--memory" else "a number above 0"
        raise InvalidInput(f"cannot exec: {name} {text!r} is not {what}")
    return int(digits) * unit


_FLAGS = {
    "--shell": "shell",
    "--wait-offline": "wait_offline",
    "--stdin": "stdin",
    "--pty": "pty",
    "--take": "take",
}
_LIMITS = {
    "--memory": "memory_bytes",
    "--processes": "processes",
    "--open-files": "open_files",
}
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def _timeout_ms(options: _Options) -> int:
    """Return the limit asked for; a person at a terminal is not cut off in the middle of it."""
    if options.timeout_ms is not None:
        return options.timeout_ms
    return 0 if options.pty else EXECUTION_TIMEOUT_DEFAULT_MS


def _milliseconds(text: str) -> int:
    try:
        seconds = float(text)
        if not 0 <= seconds <= 10**9:  # also false for a NaN
            raise ValueError
    except ValueError:
        raise InvalidInput(
            f"cannot exec: --timeout {text!r} is not a number of seconds; 0 means no limit"
        ) from None
    # A tiny wish is not the wish for no limit.
    return max(1, round(seconds * 1000)) if seconds else 0
