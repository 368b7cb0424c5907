"""The body of ``POST /v1/exec``: one command in JSON, its bytes intact.

Arguments, paths and values are bytes. In JSON they are text in UTF-8; a byte that is not UTF-8 is
written as the escape of a lone surrogate (``\\udc80`` to ``\\udcff``), as Python does for file
names, so every byte sequence has exactly one form and ordinary text is itself. Standard library
only: the command line's hot path imports this module.
"""

import json
from dataclasses import dataclass
from typing import Any

from farhand_shared.command import Argv, CommandSpec, Limits, Pty, Shell
from farhand_shared.errors import InvalidInput
from farhand_shared.file_operation import text_of
from farhand_shared.limits import EXECUTION_TIMEOUT_MAX_MS

_FIELDS = frozenset(
    {"machine", "argv", "script", "cwd", "env", "timeout_ms", "wait_offline", "limits"}
    | {"stdin", "pty"}
)
_LIMITS = ("memory_bytes", "processes", "open_files")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecBody:
    """What a direct command asks for. ``machine`` is a name or an id."""

    machine: str
    spec: CommandSpec
    wait_offline: bool = False  # wait for a machine that is not there, instead of failing


def encode_exec_body(body: ExecBody) -> bytes:
    """Return the JSON; ``decode_exec_body`` gives the same value back."""
    spec = body.spec
    value: dict[str, Any] = {"machine": body.machine, "timeout_ms": spec.execution_timeout_ms}
    match spec.run:
        case Argv(argv=argv):
            value["argv"] = [_text(argument) for argument in argv]
        case Shell(script=script):
            value["script"] = _text(script)
        case operation:
            raise InvalidInput(
                f"cannot write the request: {text_of(operation)!r} is no command line; "
                "file operations have requests of their own"
            )
    if spec.cwd is not None:
        value["cwd"] = _text(spec.cwd)
    if spec.env:
        value["env"] = {_text(name): _text(text) for name, text in spec.env}
    if limits := {name: n for name in _LIMITS if (n := getattr(spec.limits, name))}:
        value["limits"] = limits
    if spec.stdin:
        value["stdin"] = True
    if spec.pty is not None:
        pty = {"rows": spec.pty.rows, "columns": spec.pty.columns}
        value["pty"] = pty | ({"term": _text(spec.pty.term)} if spec.pty.term else {})
    if body.wait_offline:
        value["wait_offline"] = True
    return json.dumps(value).encode("ascii")


def decode_exec_body(content: bytes) -> ExecBody:
    """Return what a client asks for; raise InvalidInput naming the field that is wrong."""
    value = json_object(content)
    if unknown := sorted(value.keys() - _FIELDS):
        raise InvalidInput(f"cannot read the request: {unknown[0]!r} is not a field of it")
    machine = value.get("machine")
    if not isinstance(machine, str) or not machine:
        raise InvalidInput("cannot read the request: machine is missing; give a name or an id")
    wait_offline = value.get("wait_offline", False)
    if not isinstance(wait_offline, bool):
        raise InvalidInput("cannot read the request: wait_offline is neither true nor false")
    options: dict[str, Any] = {}  # only what was given: the rest has the specification's defaults
    if value.get("cwd") is not None:
        options["cwd"] = _bytes(value["cwd"], "cwd")
    if "timeout_ms" in value:
        timeout = value["timeout_ms"]
        if type(timeout) is not int or not 0 <= timeout <= EXECUTION_TIMEOUT_MAX_MS:
            raise InvalidInput(
                "cannot read the request: timeout_ms is not a count of milliseconds up to "
                f"{EXECUTION_TIMEOUT_MAX_MS:,} (a year); 0 means none"
            )
        options["execution_timeout_ms"] = timeout
    if "stdin" in value:
        options["stdin"] = value["stdin"]
        if not isinstance(value["stdin"], bool):
            raise InvalidInput("cannot read the request: stdin is neither true nor false")
    if "pty" in value:
        options["pty"] = _pty(value["pty"])
    if "limits" in value:
        options["limits"] = _limits(value["limits"])
    spec = CommandSpec(run=_run(value), env=_env(value.get("env", {})), **options)
    return ExecBody(machine=machine, spec=spec, wait_offline=wait_offline)


def json_object(content: bytes) -> dict[str, Any]:  # Any: nothing in it has been checked
    """Return the object that a request's body is; raise InvalidInput when it is none."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):  # also when it is not UTF-8, or nested without end
        raise InvalidInput("cannot read the request: the body is not JSON") from None
    if not isinstance(value, dict):
        raise InvalidInput("cannot read the request: the body is not a JSON object")
    return value


def _pty(value: Any) -> Pty:
    if not isinstance(value, dict) or value.keys() - {"rows", "columns", "term"}:
        raise InvalidInput(
            "cannot read the request: pty is not an object of rows, columns and term"
        )
    for name in ("rows", "columns"):
        if type(value.get(name)) is not int or not 1 <= value[name] <= 65_535:
            raise InvalidInput(f"cannot read the request: pty.{name} is not a number up to 65,535")
    term = _bytes(value.get("term", ""), "pty.term")
    return Pty(rows=value["rows"], columns=value["columns"], term=term)


def _limits(value: Any) -> Limits:
    if not isinstance(value, dict):
        raise InvalidInput("cannot read the request: limits is not an object")
    if unknown := sorted(value.keys() - set(_LIMITS)):
        raise InvalidInput(f"cannot read the request: {unknown[0]!r} is not one of the limits")
    for name, number in value.items():
        if type(number) is not int:
            raise InvalidInput(f"cannot read the request: limits.{name} is not a whole number")
    limits = Limits(**value)
    limits.check()
    return limits


def _run(value: dict[str, Any]) -> Argv | Shell:
    if ("argv" in value) == ("script" in value):
        raise InvalidInput("cannot read the request: give either argv or script")
    if "script" in value:
        return Shell(script=_bytes(value["script"], "script"))
    argv = value["argv"]
    if not isinstance(argv, list) or not argv:
        raise InvalidInput("cannot read the request: argv is not a list with a program in it")
    return Argv(argv=tuple(_bytes(argument, f"argv[{n}]") for n, argument in enumerate(argv)))


def _env(value: Any) -> tuple[tuple[bytes, bytes], ...]:
    if not isinstance(value, dict):
        raise InvalidInput("cannot read the request: env is not an object of names and values")
    return tuple((_bytes(name, "env"), _bytes(text, f"env {name}")) for name, text in value.items())


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def _bytes(text: Any, field: str) -> bytes:
    if not isinstance(text, str):
        raise InvalidInput(f"cannot read the request: {field} is not text")
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise InvalidInput(
            f"cannot read the request: {field} holds a surrogate that stands for no byte"
        ) from None
