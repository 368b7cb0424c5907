"""JSON as ``jsonb`` columns hold it: every text survives, also what jsonb refuses.

jsonb takes neither U+0000 nor a lone surrogate (Python's stand-in for a byte that is not UTF-8),
yet both occur in command output and in what models write. Each becomes U+0001 and four hexadecimal
digits, U+0001 itself included, so that the text read back is the text written. The pool installs
this on its connections: callers hand over ``Jsonb(value)`` and read plain values.
"""

import json
import re
from typing import Any

_REFUSED = re.compile("[\x00\x01\ud800-\udfff]")
_ESCAPED = re.compile("\x01([0-9a-f]{4})")

JsonValue = Any  # whatever json.dumps takes; the shape belongs to whoever stores it


def dumps(value: JsonValue) -> bytes:
    """Return ``value`` as JSON that jsonb accepts, in UTF-8."""
    try:
        text = _encode(value).encode()
    except UnicodeEncodeError:  # a lone surrogate
        return _encode(_mapped(value, _escape)).encode()
    # Both show up as \u000X in the JSON text; almost no value has either, and then one pass is all.
    if b"\\u0000" in text or b"\\u0001" in text:
        return _encode(_mapped(value, _escape)).encode()
    return text


def loads(data: str | bytes) -> JsonValue:
    """Return the value that ``dumps`` was given."""
    value = json.loads(data)
    mark = b"\\u0001" if isinstance(data, bytes) else "\\u0001"
    return _mapped(value, _restore) if mark in data else value  # type: ignore[operator]


def _encode(value: JsonValue) -> str:
    # Not a number is not JSON: refused here with a plain error, not by the server.
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _escape(text: str) -> str:
    return _REFUSED.sub(lambda match: f"\x01{ord(match[0]):04x}", text)


def _restore(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


def _mapped(value: JsonValue, change: Any) -> JsonValue:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {
            change(key) if isinstance(key, str) else key: _mapped(inner, change)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_mapped(inner, change) for inner in value]
    return value
