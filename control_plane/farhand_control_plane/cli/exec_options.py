"""The arguments of `farhand exec`, read without a parser library: it is the hot path."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from farhand_shared.command import Argv, CommandSpec, Limits, Shell
from farhand_shared.errors import InvalidInput
from farhand_shared.exec_request import ExecBody
from farhand_shared.limits import EXECUTION_TIMEOUT_DEFAULT_MS

HELP = """\
Usage: farhand exec [OPTIONS] MACHINE -- CMD [ARG]…

Run a command on a machine, with its output as it comes and its exit code. Standard input is not
passed on: the command reads nothing.

Options, before the machine:
  --shell            CMD is one string for /bin/sh -c
  --cwd DIR          working directory (default: the first of the machine's roots)
  --timeout SECONDS  end it after so long (default: 1800; 0: never)
  --env K=V          set a variable; may be repeated
  --memory SIZE      memory it may use with all its processes: bytes, or as 512M, 2G
  --processes N      processes and threads it may have at once
  --open-files N     files that each of its processes may have open
  --wait-offline     wait for a machine that is not there, up to a day; says so on standard error
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
    timeout_ms: int = EXECUTION_TIMEOUT_DEFAULT_MS
    env: dict[bytes, bytes] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    wait_offline: bool = False


def parse(arguments: Sequence[str]) -> ExecBody:
    """Return what is asked for; raise InvalidInput in words for whoever typed it."""
    options = _Options()
    rest = _read_options(list(arguments), options)
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
            execution_timeout_ms=options.timeout_ms,
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
        if name in ("--shell", "--wait-offline"):
            if equals:
                raise InvalidInput(f"cannot exec: {name} takes no value")
            if name == "--shell":
                options.shell = True
            else:
                options.wait_offline = True
            continue
        if name not in ("--cwd", "--timeout", "--env", *_LIMITS):
            raise InvalidInput(f"cannot exec: {name} is unknown; see farhand exec --help")
        if not equals:
            if not arguments:
                raise InvalidInput(f"cannot exec: {name} needs a value; see farhand exec --help")
            value = arguments.pop(0)
        match name:
            case "--cwd":
                options.cwd = value
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


_LIMITS = {
    "--memory": "memory_bytes",
    "--processes": "processes",
    "--open-files": "open_files",
}
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


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
