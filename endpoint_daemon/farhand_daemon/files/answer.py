"""What an operation says: data on standard output, one line of facts or error on standard error.

Imported by the processes of operations: small parts of the standard library only.
"""

from __future__ import annotations

import binascii
import json
import os

STDIN, STDOUT, STDERR = 0, 1, 2
_GATHER_BYTES = 64 * 1024


class Lines:
    """JSON lines on standard output, gathered; `close` writes the rest."""

    def __init__(self) -> None:
        self._gathered = bytearray()

    def put(self, line: dict[str, object]) -> None:
        self._gathered += encode(line)
        if len(self._gathered) >= _GATHER_BYTES:
            self.close()

    def close(self) -> None:
        write_all(STDOUT, self._gathered)
        self._gathered = bytearray()


def report(facts: dict[str, object]) -> None:
    """Write the one line on standard error."""
    write_all(STDERR, encode(facts))


def encode(value: dict[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def write_all(fd: int, data: bytes | bytearray | memoryview) -> None:
    """Write everything; a reader that is slow is waited for."""
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


def named(key: str, value: bytes) -> dict[str, object]:
    """Give bytes as the text of a key; what is no UTF-8 also exactly, as KEY_base64."""
    try:
        return {key: value.decode()}
    except UnicodeDecodeError:
        exact = binascii.b2a_base64(value, newline=False).decode()
        return {key: value.decode("utf-8", "replace"), f"{key}_base64": exact}
