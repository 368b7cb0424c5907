"""Specifications and results of commands to bytes and back."""

from hashlib import sha256
from typing import Final

from google.protobuf.message import DecodeError

from farhand_proto.v1 import link_pb2 as pb
from farhand_shared.codec_fields import broken, member, offset_of, text
from farhand_shared.codec_file import file_message, file_of
from farhand_shared.command import (
    Argv,
    CommandResult,
    CommandSpec,
    ExitReason,
    Limits,
    Note,
    Pty,
    Shell,
    StreamTotals,
)
from farhand_shared.errors import InvalidInput, TooLarge
from farhand_shared.file_operation import FileOperation, PutFile
from farhand_shared.limits import SPEC_MAX_BYTES

_REASON_TO_PB: Final = {
    ExitReason.EXIT: pb.CommandResult.REASON_EXIT,
    ExitReason.SIGNAL: pb.CommandResult.REASON_SIGNAL,
    ExitReason.TIMEOUT: pb.CommandResult.REASON_TIMEOUT,
    ExitReason.CANCEL: pb.CommandResult.REASON_CANCEL,
    ExitReason.SHUTDOWN: pb.CommandResult.REASON_SHUTDOWN,
    ExitReason.OOM: pb.CommandResult.REASON_OOM,
    ExitReason.SPAWN_ERROR: pb.CommandResult.REASON_SPAWN_ERROR,
    ExitReason.REFUSED: pb.CommandResult.REASON_REFUSED,
    ExitReason.INDETERMINATE: pb.CommandResult.REASON_INDETERMINATE,
}
_REASON: Final = {int(v): k for k, v in _REASON_TO_PB.items()}


def encode_spec(spec: CommandSpec) -> bytes:
    """Return the opaque bytes that an offer carries; TooLarge past SPEC_MAX_BYTES."""
    out = pb.CommandSpec(
        execution_timeout_ms=spec.execution_timeout_ms,
        grace_ms=spec.grace_ms,
        env=[pb.EnvVar(name=name, value=value) for name, value in spec.env],
        stdin=spec.stdin,
    )
    if spec.pty is not None:
        rows, columns = spec.pty.rows, spec.pty.columns
        if not is_window(rows, columns):
            raise InvalidInput(
                f"cannot make a terminal of {rows} rows and {columns} columns: "
                f"each is 1 to {_WINDOW_MAX:,}"
            )
        out.pty.CopyFrom(pb.Pty(rows=rows, columns=columns, term=spec.pty.term))
    if spec.limits != _UNLIMITED:
        out.limits.CopyFrom(_limits_message(spec.limits))
    match spec.run:
        case Shell(script=script):
            out.shell.script = script
        case Argv(argv=argv):
            if not argv:
                raise InvalidInput("cannot run an empty argv: name a program")
            out.argv.argv.extend(argv)
        case operation:
            if isinstance(operation, PutFile) and not spec.takes_input:
                raise InvalidInput("cannot ask for a put without stdin: its bytes come over it")
            out.file.CopyFrom(file_message(operation))
    if spec.cwd is not None:
        out.cwd = spec.cwd
        out.has_cwd = True
    encoded = out.SerializeToString(deterministic=True)
    if len(encoded) > SPEC_MAX_BYTES:
        raise TooLarge(
            "the command", len(encoded), SPEC_MAX_BYTES, "put large data into a file first"
        )
    return encoded


def decode_spec(spec: bytes) -> CommandSpec:
    """Return what ``encode_spec`` was given; ProtocolError for a kind of command we do not know."""
    try:
        parsed = pb.CommandSpec.FromString(spec)
    except DecodeError:
        broken("command.spec", "it is not a CommandSpec")
    run: Shell | Argv | FileOperation
    match parsed.WhichOneof("run"):
        case "shell":
            run = Shell(script=parsed.shell.script)
        case "argv":
            run = Argv(argv=tuple(parsed.argv.argv))
            if not run.argv:
                broken("command.argv", "it is empty")
        case "file":
            run = file_of(parsed.file)
        case _:
            broken("command.run", "it is missing or of a kind this version does not know")
    return CommandSpec(
        run=run,
        cwd=parsed.cwd if parsed.has_cwd else None,
        env=tuple((var.name, var.value) for var in parsed.env),
        execution_timeout_ms=parsed.execution_timeout_ms,
        grace_ms=parsed.grace_ms,
        stdin=parsed.stdin,
        pty=_pty(parsed.pty) if parsed.HasField("pty") else None,
        limits=_limits(parsed.limits),
    )


def is_window(rows: int, columns: int) -> bool:
    """Tell whether a terminal can have this size: the system keeps each in sixteen bits."""
    return 1 <= rows <= _WINDOW_MAX and 1 <= columns <= _WINDOW_MAX


def _pty(message: pb.Pty) -> Pty:
    if not is_window(message.rows, message.columns):
        broken("command.pty", f"{message.rows} rows and {message.columns} columns are no size")
    return Pty(rows=message.rows, columns=message.columns, term=message.term)


_WINDOW_MAX: Final = 65_535


def _limits_message(limits: Limits) -> pb.Limits:
    limits.check()
    return pb.Limits(
        memory_bytes=limits.memory_bytes,
        processes=limits.processes,
        open_files=limits.open_files,
    )


def _limits(message: pb.Limits) -> Limits:
    return Limits(
        memory_bytes=offset_of(message.memory_bytes, "command.limits.memory_bytes"),
        processes=message.processes,
        open_files=message.open_files,
    )


_UNLIMITED: Final = Limits()


def input_digest(spec: bytes) -> bytes:
    """Return SHA-256 of the encoded specification."""
    return sha256(spec).digest()


def encode_result(result: CommandResult) -> bytes:
    """Return the result's bytes, as the daemon's journal and ``result_hash`` use them."""
    out = pb.CommandResult()
    put_result(out, result)
    return out.SerializeToString(deterministic=True)


def decode_result(result: bytes) -> CommandResult:
    """Return what ``encode_result`` was given."""
    try:
        parsed = pb.CommandResult.FromString(result)
    except DecodeError:
        broken("result", "it is not a CommandResult")
    return result_of(parsed)


def result_hash(result: CommandResult) -> bytes:
    """Return SHA-256 of ``encode_result``.

    Made once, by the machine, then only compared: a receiver that re-encoded a newer machine's
    result would lose the fields it does not know and find another hash.
    """
    return sha256(encode_result(result)).digest()


def put_result(out: pb.CommandResult, result: CommandResult) -> None:
    out.reason = _REASON_TO_PB[result.reason]
    if result.exit_code is not None:
        out.has_exit_code = True
        out.exit_code = result.exit_code
    if result.signal is not None:
        out.signal = result.signal
    out.error_code = text(result.error_code)
    out.error = text(result.error)
    for totals, into in ((result.stdout, out.stdout), (result.stderr, out.stderr)):
        if totals != _NOTHING:
            into.produced = totals.produced
            into.omitted_from = totals.omitted_from
            into.omitted = totals.omitted
            into.sha256 = totals.sha256
    out.stdout_left_open = result.stdout_left_open
    out.wall_ms = result.wall_ms
    for note in result.notes:
        out.notes.add(code=text(note.code), text=text(note.text))


_NOTHING: Final = StreamTotals()


def result_of(message: pb.CommandResult) -> CommandResult:
    return CommandResult(
        reason=member(_REASON, message.reason, "result.reason"),
        exit_code=message.exit_code if message.has_exit_code else None,
        signal=message.signal or None,
        error_code=text(message.error_code),
        error=text(message.error),
        stdout=_totals(message.stdout, "result.stdout"),
        stderr=_totals(message.stderr, "result.stderr"),
        stdout_left_open=message.stdout_left_open,
        wall_ms=offset_of(message.wall_ms, "result.wall_ms"),
        notes=tuple(Note(code=text(n.code), text=text(n.text)) for n in message.notes),
    )


def _totals(message: pb.StreamTotals, field: str) -> StreamTotals:
    return StreamTotals(
        produced=offset_of(message.produced, field + ".produced"),
        omitted_from=offset_of(message.omitted_from, field + ".omitted_from"),
        omitted=offset_of(message.omitted, field + ".omitted"),
        sha256=message.sha256,
    )
