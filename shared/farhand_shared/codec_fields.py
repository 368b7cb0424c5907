"""Checks of single fields that came over the wire: each answers with the value or names the field.

Text loses U+0000 and lone surrogates here, because no database column and no terminal wants them.
"""

from collections.abc import Mapping
from typing import Final, NoReturn, TypeVar

from farhand_proto.v1 import link_pb2 as pb
from farhand_shared.errors import ProtocolError
from farhand_shared.ids import is_id
from farhand_shared.link_events import Stream

OFFSET_MAX: Final = 1 << 62  # offset + length stays inside the database's signed 64 bits
_HASH_BYTES: Final = 32

STREAM_TO_PB: Final = {
    Stream.STDOUT: pb.STREAM_STDOUT,
    Stream.STDERR: pb.STREAM_STDERR,
}
STREAM: Final = {int(v): k for k, v in STREAM_TO_PB.items()}

_Value = TypeVar("_Value", int, str, bytes)
_Member = TypeVar("_Member")


def broken(field: str, reason: str) -> NoReturn:
    """Raise the ProtocolError for ``field``."""
    raise ProtocolError(f"cannot read {field}: {reason}") from None


def required(value: _Value, field: str) -> _Value:
    """Return a value that may not be its type's default, which is how proto3 says absent."""
    if not value:
        broken(field, "it is missing")
    return value


def id_of(value: str, field: str) -> str:
    """Return an id in canonical text form."""
    if not is_id(value):
        broken(field, "it is not an id" if value else "it is missing")
    return value


def hash_of(value: bytes, field: str) -> bytes:
    """Return a SHA-256."""
    if len(value) != _HASH_BYTES:
        broken(field, f"it has {len(value)} bytes instead of {_HASH_BYTES}")
    return value


def offset_of(value: int, field: str) -> int:
    """Return an offset, length or counter that the database can hold."""
    if value > OFFSET_MAX:
        broken(field, f"{value} is out of range")
    return value


def member(members: Mapping[int, _Member], value: int, field: str) -> _Member:
    """Return the enum member of a wire number."""
    found = members.get(value)
    if found is None:
        broken(field, f"{value} is unknown" if value else "it is unspecified")
    return found


def text(value: str) -> str:
    """Return text that UTF-8, the database and a terminal can carry."""
    if value.isascii():
        return value if "\0" not in value else value.replace("\0", "\N{REPLACEMENT CHARACTER}")
    value = value.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return value.encode("utf-8", "replace").decode()
