"""One byte form per JSON value, so that a hash names the value and nothing else.

Close to RFC 8785 (JCS), narrowed to what we sign: objects with keys sorted by UTF-16 code units,
arrays, NFC text, integers within ±(2^53-1), booleans and null. Anything else is refused rather than
written in a form that another implementation would write differently.
"""

import hashlib
import json
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Final

from farhand_shared.errors import InvalidInput

_INTEGER_MAX: Final = 2**53 - 1


def canonical_json(value: object) -> bytes:
    """Return the canonical UTF-8 bytes of a JSON value; raise InvalidInput for any other value."""
    return _write(value).encode("utf-8")


def canonical_hash(value: object) -> bytes:
    """Return the SHA-256 of the canonical bytes."""
    return hashlib.sha256(canonical_json(value)).digest()


def _write(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if abs(value) > _INTEGER_MAX:
            raise InvalidInput(f"cannot write canonical JSON: {value} is beyond ±(2^53-1)")
        return str(int(value))
    if isinstance(value, str):
        return json.dumps(_text(value), ensure_ascii=False)
    if isinstance(value, Mapping):
        return _write_object(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return "[" + ",".join(_write(member) for member in value) + "]"
    raise InvalidInput(f"cannot write canonical JSON: {type(value).__name__} has no canonical form")


def _write_object(value: Mapping[object, object]) -> str:
    members: dict[str, object] = {}
    for key, member in value.items():
        if not isinstance(key, str):
            raise InvalidInput("cannot write canonical JSON: a key is not text")
        name = _text(key)
        if name in members:
            raise InvalidInput(f"cannot write canonical JSON: two keys are {name!r}")
        members[name] = member
    ordered = sorted(members, key=lambda name: name.encode("utf-16-be"))
    return (
        "{"
        + ",".join(
            json.dumps(name, ensure_ascii=False) + ":" + _write(members[name]) for name in ordered
        )
        + "}"
    )


def _text(value: str) -> str:
    normal = unicodedata.normalize("NFC", value)
    if any(0xD800 <= ord(character) <= 0xDFFF for character in normal):
        raise InvalidInput("cannot write canonical JSON: a text holds a lone surrogate")
    return normal
