"""A file operation as a list of byte strings: how a supervisor is handed one, and what is hashed.

The first holds everything in JSON, with ``{"#": N}`` in the place of bytes; the N-th after it holds
these. Imported by the processes of operations: small parts of the standard library only.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from farhand_shared.file_operation import FileOperation


def pack(
    operation: FileOperation, *, roots: Sequence[bytes], own: Sequence[bytes]
) -> tuple[bytes, ...]:
    """Give the strings. ``own``: the daemon's folders, which no operation enters."""
    blobs: list[bytes] = []

    def stand_in(value: object) -> dict[str, object]:
        if isinstance(value, bytes):
            blobs.append(value)
            return {"#": len(blobs)}
        return _fields(value)

    document = {
        "operation": type(operation).__name__,
        "fields": _fields(operation),
        "roots": list(roots),
        "own": list(own),
    }
    head = json.dumps(document, default=stand_in, separators=(",", ":")).encode()
    return (head, *blobs)


def unpack(argv: Sequence[bytes]) -> dict[str, Any]:
    """Give operation (the name of its class), fields, roots and own. ``Any``: as JSON has it."""

    def restored(value: dict[str, Any]) -> object:
        return argv[value["#"]] if "#" in value else value

    document: dict[str, Any] = json.loads(argv[0], object_hook=restored)
    return document


def _fields(value: object) -> dict[str, object]:
    names: Sequence[str] = getattr(value, "__dataclass_fields__")  # noqa: B009 - of any dataclass
    return {name: getattr(value, name) for name in names}
