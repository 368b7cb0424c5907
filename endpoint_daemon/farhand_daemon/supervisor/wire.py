"""The frames between daemon, fork server and supervisor: [kind u8][length u32][payload].

A byte stream with our own frames instead of SEQPACKET: macOS has no SEQPACKET for local sockets,
and one code path is tried by every test. A daemon may meet the supervisor of an older daemon, so
kinds and JSON fields are only ever added (`VERSION` is told in the snapshot).

Imported by the fork server, so it needs only small parts of the standard library.
"""

from __future__ import annotations

import json
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = 1
HEADER = struct.Struct("<BI")

# daemon → fork server
FORK = ord("F")  # with one descriptor: the new supervisor's end of its channel

# daemon → supervisor
PREPARE = ord("P")  # encode_request(...)
PREPARE_FILE = ord("Q")  # path of a file that holds the same; the supervisor removes it
GO = ord("G")  # start now: the journal entry is on disk
ACK = ord("A")  # OFFSET: stream, everything below is stored
CANCEL = ord("C")  # reason as text
INPUT = ord("I")  # INPUT_HEADER, then the bytes
RESIZE = ord("R")  # WINDOW: the terminal has this size now
LINK = ord("L")  # one byte: 1 the link is up, 0 down
QUIT = ord("E")  # stop draining the output of processes that a finished command left behind

# supervisor → daemon
HELLO = ord("H")  # the process exists and can be found by a later daemon
STARTED = ord("S")  # JSON: pid, start_time, boot_id, at_ms
OUTPUT = ord("O")  # OFFSET: stream, bytes produced so far
SHORT = ord("D")  # stream (u8), then all it has produced so far, up to SHORT_MAX_BYTES
QUIET = ord("W")  # JSON: quiet_ms, reads_terminal, takes_input
TAKEN = ord("T")  # TAKEN_FACTS: how much of its input the command has
EXIT = ord("X")  # one byte: 1 when the supervisor takes another command; then the exit record
SNAPSHOT = ord("N")  # JSON, first frame after adoption: attempt_id, started, produced, state

OFFSET = struct.Struct("<BQ")
INPUT_HEADER = struct.Struct("<QB")  # offset of the first byte; 1: nothing follows
TAKEN_FACTS = struct.Struct("<QB")  # bytes; 1: it takes no more
WINDOW = struct.Struct("<HH")  # rows, columns
SHORT_MAX_BYTES = 4 * 1024  # what is read from a frame need not be read from the spool
INPUT_MAX_BYTES = 32 * 1024  # in one frame: about what is received at once
INLINE_MAX_BYTES = 48 * 1024  # larger requests go by file: the socket buffer must never block us
_MAX_FRAME_BYTES = 1 << 20
_LENGTHS = struct.Struct("<III")


def frame(kind: int, payload: bytes = b"") -> bytes:
    return HEADER.pack(kind, len(payload)) + payload


def offset_frame(kind: int, stream: int, offset: int) -> bytes:
    return HEADER.pack(kind, OFFSET.size) + OFFSET.pack(stream, offset)


def input_frames(offset: int, data: bytes, *, end: bool) -> bytes:
    """Give the frames of some input, each small enough to be received at once."""
    frames: list[bytes] = []
    at = 0
    while at < len(data) or not frames:
        part = data[at : at + INPUT_MAX_BYTES]
        last = at + len(part) == len(data)
        frames.append(frame(INPUT, INPUT_HEADER.pack(offset + at, end and last) + part))
        at += len(part)
    return b"".join(frames)


class FrameReader:
    """Cuts a byte stream into (kind, payload) frames; keeps what is not whole yet."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Take bytes, give the frames that are now whole. ValueError: the stream is no use."""
        buffer = self._buffer + data if self._buffer else data
        at = 0
        frames = []
        while len(buffer) - at >= HEADER.size:
            kind, length = HEADER.unpack_from(buffer, at)
            if length > _MAX_FRAME_BYTES:
                raise ValueError(f"cannot read frame: {length} bytes announced")
            if len(buffer) - at - HEADER.size < length:
                break
            at += HEADER.size
            frames.append((kind, buffer[at : at + length]))
            at += length
        self._buffer = buffer[at:]
        return iter(frames)


def encode_request(
    facts: dict[str, object], argv: list[bytes], env: list[tuple[bytes, bytes]], cwd: bytes
) -> bytes:
    """Pack what to run. Bytes stay bytes, each with its length: even a NUL arrives as it was."""
    head = json.dumps(facts, separators=(",", ":")).encode()
    items = [*argv, *(item for pair in env for item in pair), cwd]
    lengths = struct.pack(f"<{len(items)}I", *map(len, items))
    return b"".join((_LENGTHS.pack(len(head), len(argv), len(env)), head, lengths, *items))


def decode_request(
    packed: bytes,
) -> tuple[dict[str, object], list[bytes], list[tuple[bytes, bytes]], bytes]:
    """Unpack `encode_request`: facts, argv, env, cwd."""
    head, argv_count, env_count = _LENGTHS.unpack_from(packed)
    at = _LENGTHS.size
    facts = json.loads(packed[at : at + head])
    at += head
    count = argv_count + 2 * env_count + 1
    lengths = struct.unpack_from(f"<{count}I", packed, at)
    at += 4 * count
    items = []
    for length in lengths:
        items.append(packed[at : at + length])
        at += length
    pairs = items[argv_count:-1]
    return facts, items[:argv_count], list(zip(pairs[::2], pairs[1::2], strict=True)), items[-1]
