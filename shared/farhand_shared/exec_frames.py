"""The frames of a streamed command: the body of ``POST /v1/exec`` and of an attempt's output.

Frame: ``[u8 kind][u32 length, big-endian][length bytes]``. Standard library only: the command
line's hot path imports this module, and it may not pay for more.

A body tells one story: accepted, any number of state, stdout, stderr and omitted, then exit and
committed, or error. Offsets are not in the frames: bytes of a stream follow one another, and
``omitted`` says where some are missing.
"""

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from farhand_shared.command import CommandResult, ExitReason, Note, StreamTotals
from farhand_shared.errors import ProtocolError

PAYLOAD_MAX_BYTES: Final = 4 * 1024 * 1024  # far over what a replica sends in one piece
_HEADER: Final = struct.Struct(">BI")


class FrameKind(IntEnum):
    """What a frame carries. Later kinds are additions, which an older client leaves out."""

    ACCEPTED = 1  # JSON {"command_id", "attempt_id", "machine"}
    STDOUT = 2  # bytes as the command wrote them
    STDERR = 3
    OMITTED = 4  # JSON {"stream", "offset", "length"}
    # JSON {"state", ...}: queued, waiting for machine, started; a machine that went silent with a
    # command: {"state", "machine", "online": false, "since"}, and another one when it is back
    STATE = 5
    EXIT = 6  # JSON {"result": {...}, "committed": bool}
    COMMITTED = 7  # empty: the result is recorded
    ERROR = 8  # JSON {"code", "message"}; nothing follows
    # JSON {"hint": "waits_for_input", "quiet_ms", "reads_terminal", "takes_input"}: it seems so now
    HINT = 12


_KINDS: Final = {int(kind): kind for kind in FrameKind}


@dataclass(frozen=True, slots=True)
class Frame:
    kind: FrameKind
    payload: bytes

    def json(self) -> dict[str, Any]:  # Any: the shape depends on the kind
        """Return the payload's JSON object; ProtocolError when it is none."""
        try:
            value = json.loads(self.payload)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise ProtocolError(f"cannot read a {self.kind.name.lower()} frame: it is not JSON")
        return value


def encode_frame(kind: FrameKind, payload: bytes = b"") -> bytes:
    """Return one frame."""
    return _HEADER.pack(kind, len(payload)) + payload


def encode_json_frame(kind: FrameKind, value: Mapping[str, object]) -> bytes:
    """Return one frame whose payload is ``value`` as JSON."""
    return encode_frame(kind, json.dumps(value, separators=(",", ":")).encode())


class FrameDecoder:
    """Turns chunks of any size into frames; kinds from a newer server are left out."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> list[Frame]:
        """Return the frames completed by ``chunk``; ProtocolError when one is over the limit."""
        buffer = self._buffer
        buffer += chunk
        frames: list[Frame] = []
        at = 0
        while len(buffer) - at >= _HEADER.size:
            number, length = _HEADER.unpack_from(buffer, at)
            if length > PAYLOAD_MAX_BYTES:
                raise ProtocolError(
                    f"cannot read a frame of {length:,} bytes: the limit is {PAYLOAD_MAX_BYTES:,};"
                    " the address may not be a farhand server"
                )
            end = at + _HEADER.size + length
            if end > len(buffer):
                break
            kind = _KINDS.get(number)
            if kind is not None:
                frames.append(Frame(kind, bytes(buffer[at + _HEADER.size : end])))
            at = end
        del buffer[:at]
        return frames

    def close(self) -> None:
        """Raise ProtocolError if the body ended inside a frame."""
        if self._buffer:
            raise ProtocolError("cannot read the rest of the answer: it ends inside a frame")


def decoded(chunks: Iterable[bytes]) -> Iterator[Frame]:
    """Yield the frames of a whole body as they arrive; ProtocolError if it ends inside one."""
    decoder = FrameDecoder()
    for chunk in chunks:
        yield from decoder.feed(chunk)
    decoder.close()


def result_to_json(result: CommandResult) -> dict[str, Any]:
    """Return the result as JSON-ready values; hashes in hexadecimal."""
    return {
        "reason": result.reason.value,
        "exit_code": result.exit_code,
        "signal": result.signal,
        "error_code": result.error_code,
        "error": result.error,
        "stdout": _totals_to_json(result.stdout),
        "stderr": _totals_to_json(result.stderr),
        "stdout_left_open": result.stdout_left_open,
        "wall_ms": result.wall_ms,
        "notes": [{"code": note.code, "text": note.text} for note in result.notes],
    }


def result_from_json(value: Mapping[str, Any]) -> CommandResult:
    """Return what ``result_to_json`` was given; ProtocolError names what is missing or wrong."""
    try:
        return CommandResult(
            reason=ExitReason(value["reason"]),
            exit_code=value["exit_code"],
            signal=value["signal"],
            error_code=value["error_code"],
            error=value["error"],
            stdout=_totals_from_json(value["stdout"]),
            stderr=_totals_from_json(value["stderr"]),
            stdout_left_open=value["stdout_left_open"],
            wall_ms=value["wall_ms"],
            notes=tuple(
                Note(code=note["code"], text=note["text"])
                for note in value.get("notes", ())  # not in results recorded before there were any
            ),
        )
    except (KeyError, ValueError, TypeError) as wrong:
        raise ProtocolError(f"cannot read a result: {wrong!s} is missing or wrong") from wrong


def _totals_to_json(totals: StreamTotals) -> dict[str, Any]:
    return {
        "produced": totals.produced,
        "omitted_from": totals.omitted_from,
        "omitted": totals.omitted,
        "sha256": totals.sha256.hex(),
    }


def _totals_from_json(value: Mapping[str, Any]) -> StreamTotals:
    return StreamTotals(
        produced=value["produced"],
        omitted_from=value["omitted_from"],
        omitted=value["omitted"],
        sha256=bytes.fromhex(value["sha256"]),
    )
