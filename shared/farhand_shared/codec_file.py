"""File operations to their message and back; what no machine could do is refused on both ways.

Who asks gets InvalidInput, who is asked ProtocolError, in the same words. A value and its message
have the same fields; those that differ in form are the three in `_into` and `_out_of`.
"""

from dataclasses import fields
from typing import Any, Final, assert_never

from farhand_proto.v1 import files_pb2 as pb
from farhand_shared.codec_fields import OFFSET_MAX, broken
from farhand_shared.errors import InvalidInput
from farhand_shared.file_operation import (
    ABSENT,
    ANY,
    LIMIT_MAX,
    MODE_MAX,
    EditFile,
    Expect,
    FileOperation,
    GlobFiles,
    ListFolder,
    MakeFolder,
    MoveFile,
    PutFile,
    ReadFile,
    RemoveFile,
    Replacement,
    SearchFiles,
    StatFile,
    WriteFile,
)

_KINDS: Final[dict[str, type[FileOperation]]] = {
    "stat": StatFile,
    "list": ListFolder,
    "glob": GlobFiles,
    "search": SearchFiles,
    "read": ReadFile,
    "write": WriteFile,
    "edit": EditFile,
    "put": PutFile,
    "make_folder": MakeFolder,
    "move": MoveFile,
    "remove": RemoveFile,
}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}
_SHA256_BYTES: Final = 32
_INCLUDE_MAX: Final = 64


HEAD_BYTES: Final = 8  # of a specification: enough for ``operation_in``


def operation_in(spec_head: bytes) -> str | None:
    """Return the name of the file operation that an encoded specification is; None: it is none.

    Its first HEAD_BYTES are enough, so that a listing need not read what a write carries: what is
    run has the lowest field numbers of CommandSpec, and what is encoded in order comes first.
    """
    if spec_head[:1] != _SPEC_FILE:
        return None
    at = 1
    while at < len(spec_head) and spec_head[at] & 0x80:  # the message's length, a varint
        at += 1
    tags = spec_head[at + 1 : at + 2]
    field = pb.FileOperation.DESCRIPTOR.fields_by_number.get(tags[0] >> 3) if tags else None
    return None if field is None else str(field.name)


_SPEC_FILE: Final = bytes([3 << 3 | 2])  # the tag of CommandSpec.file


def file_message(operation: FileOperation) -> pb.FileOperation:
    """Return the message; InvalidInput for what no machine could do."""
    fault = fault_of(operation)
    if fault is not None:
        raise InvalidInput(f"cannot ask for this file operation: {fault}")
    out = pb.FileOperation()
    message = getattr(out, _NAMES[type(operation)])
    message.SetInParent()
    for field in fields(operation):
        _into(message, field.name, getattr(operation, field.name))
    return out


def file_of(message: pb.FileOperation) -> FileOperation:
    """Return the value; ProtocolError for one that is unknown here or cannot be done."""
    name = message.WhichOneof("operation")
    if name is None:
        broken("command.file", "it is missing or of a kind this version does not know")
    kind = _KINDS[name]
    said = getattr(message, name)
    values = {field.name: _out_of(said, field.name) for field in fields(kind)}
    operation = kind(**values)
    fault = fault_of(operation)
    if fault is not None:
        broken("command.file", fault)
    return operation


def _into(message: Any, name: str, value: Any) -> None:
    """Put one field. ``Any``: a message of any kind, and the type its field has there."""
    match name:
        case "expect":
            if value is not ANY:
                message.expect.absent = value == ABSENT
                message.expect.sha256 = value
        case "mode":
            message.has_mode = value is not None
            message.mode = value or 0
        case "edits":
            message.edits.extend(
                pb.FileOperation.Replacement(old=one.old, new=one.new, all=one.all) for one in value
            )
        case "include":
            message.include.extend(value)
        case _:
            setattr(message, name, value)


def _out_of(message: Any, name: str) -> Any:
    """Return what `_into` put."""
    value = getattr(message, name)
    match name:
        case "expect":
            return ABSENT if value.absent else value.sha256 or ANY
        case "mode":
            return value if message.has_mode else None
        case "edits":
            return tuple(Replacement(old=one.old, new=one.new, all=one.all) for one in value)
        case "include":
            return tuple(value)
        case _:
            return value


def fault_of(operation: FileOperation) -> str | None:
    """Return what keeps an operation from being done on any machine, or None."""
    return _path_fault(operation.path) or _own_fault(operation)


def _own_fault(operation: FileOperation) -> str | None:
    match operation:
        case StatFile(put_sha256=sha256, hash_bytes=hash_bytes):
            return _hash_fault(sha256) or _size_fault("hash_bytes", hash_bytes)
        case RemoveFile(expected_sha256=sha256):
            return _hash_fault(sha256)
        case ListFolder(limit=limit):
            return _limit_fault(limit)
        case GlobFiles(pattern=pattern, limit=limit):
            return _pattern_fault(pattern) or _limit_fault(limit)
        case SearchFiles(pattern=pattern, include=include, limit=limit):
            if len(include) > _INCLUDE_MAX:
                return f"it includes {len(include)} globs, the limit is {_INCLUDE_MAX}"
            faults = (_pattern_fault(one) for one in (pattern, *include))
            return next(filter(None, faults), None) or _limit_fault(limit)
        case ReadFile(offset=offset, length=length):
            return _size_fault("offset", offset) or _size_fault("length", length)
        case WriteFile(expect=expect, mode=mode):
            return _expect_fault(expect) or _mode_fault(mode)
        case EditFile(edits=edits, expected_sha256=sha256):
            if not edits or not all(one.old for one in edits):
                return "an edit needs the text that it replaces; to fill an empty file use write"
            return _hash_fault(sha256)
        case PutFile(size=size, resume_offset=resume_offset):
            if not operation.sha256:
                return "a put needs the SHA-256 of what it puts"
            if resume_offset > size:
                return f"resume_offset {resume_offset:,} is past the size {size:,}"
            return (
                _size_fault("size", size)
                or _hash_fault(operation.sha256)
                or _expect_fault(operation.expect)
                or _mode_fault(operation.mode)
            )
        case MoveFile(to=to):
            return _path_fault(to)
        case MakeFolder():
            return None
        case _:
            assert_never(operation)


def _path_fault(path: bytes) -> str | None:
    if not path:
        return "a path is empty; . is the folder it is asked in"
    return "a path holds NUL, which no name can" if b"\0" in path else None


def _pattern_fault(pattern: bytes) -> str | None:
    return None if pattern and b"\0" not in pattern else "a pattern is empty or holds NUL"


def _expect_fault(expect: Expect) -> str | None:
    return None if expect is None else _hash_fault(expect)


def _hash_fault(sha256: bytes) -> str | None:
    if sha256 and len(sha256) != _SHA256_BYTES:
        return f"a SHA-256 has {len(sha256)} bytes instead of {_SHA256_BYTES}"
    return None


def _limit_fault(limit: int) -> str | None:
    return None if 0 <= limit <= LIMIT_MAX else f"limit {limit:,} is not 0 to {LIMIT_MAX:,}"


def _size_fault(name: str, size: int) -> str | None:
    return None if 0 <= size <= OFFSET_MAX else f"{name} {size} is out of range"


def _mode_fault(mode: int | None) -> str | None:
    if mode is None or 0 <= mode <= MODE_MAX:
        return None
    return f"mode {mode:o} is not 0 to {MODE_MAX:o}"
