"""The frames of a streamed command: the body of ``POST /v1/exec`` and of an attempt's output.

Frame: ``[u8 kind][u32 length, big-endian][length bytes]``. Standard library only: the command
line's hot path imports this module.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from farhand_shared.command import CommandResult


class FrameKind(IntEnum):
    ACCEPTED = 1  # JSON {"command_id", "attempt_id", "machine"}
    STDOUT = 2  # bytes as the command wrote them
    STDERR = 3
    OMITTED = 4  # JSON {"stream", "offset", "length"}
    STATE = 5  # JSON {"state", ...}: queued, waiting for machine, started
    EXIT = 6  # JSON {"result": {...}, "committed": bool}
    COMMITTED = 7  # empty: the result is recorded
    ERROR = 8  # JSON {"code", "message"}; nothing follows


@dataclass(frozen=True, slots=True)
class Frame:
    kind: FrameKind
    payload: bytes

    def json(self) -> dict[str, Any]:  # the shape depends on the kind
        raise NotImplementedError


def encode_frame(kind: FrameKind, payload: bytes = b"") -> bytes:
    raise NotImplementedError


def encode_json_frame(kind: FrameKind, value: Mapping[str, object]) -> bytes:
    raise NotImplementedError


class FrameDecoder:
    """Turns chunks of any size into frames; kinds from a newer server are left out."""

    def feed(self, chunk: bytes) -> list[Frame]:
        """Return the frames completed by ``chunk``; ProtocolError when one is over the limit."""
        raise NotImplementedError

    def close(self) -> None:
        """Raise ProtocolError if the body ended inside a frame."""
        raise NotImplementedError


def result_to_json(result: CommandResult) -> dict[str, Any]:
    """Return the result as JSON-ready values; hashes in hexadecimal."""
    raise NotImplementedError


def result_from_json(value: Mapping[str, Any]) -> CommandResult:
    raise NotImplementedError
