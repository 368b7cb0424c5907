"""The spool file of one attempt: output rings with absolute offsets, start and exit records.

One sparse file per attempt, named by the attempt, so that creating and removing it is one system
call each and whatever daemon comes next can read it:

    0      header     magic, sizes of the rings, supervisor, attempt (JSON, written once)
    1024   started    pid, start time, boot id of the command (JSON, written once)
    2048   state      offsets of both streams, rewritten for each chunk, with a checksum
    4096   exit       the exit record (JSON, written once)
    16384  stdout     head area, then tail ring
    ...    stderr     head area, then tail ring

The head area holds the first `head` bytes for good. What follows goes round in the tail ring, so
the last `tail` bytes are there whatever was acknowledged. Bytes leave the ring only by being
overwritten: by more output after their acknowledgement, or, with the link down, without it; the
second kind is *omitted* and counted. `front` is the end of what has been overwritten and is
written before the bytes are, so a reader that finds `front` unmoved afterwards read true bytes.

Nothing is synced here: the page cache outlives every process. Imported by the fork server, so it
needs only small parts of the standard library.
"""

from __future__ import annotations

import binascii
import fcntl
import json
import os
import struct

HEADER_AT, STARTED_AT, STATE_AT, EXIT_AT, DATA_AT = 0, 1024, 2048, 4096, 16384
_MAGIC = "farhand-spool-1"
_BLOB = struct.Struct("<II")  # length, crc32
_STREAM = struct.Struct("<QQQQI")  # produced, acked, front, omitted in all, number of gaps
_GAP = struct.Struct("<QQ")
GAPS_KEPT = 16  # newest per stream; at most one is not wholly acknowledged, see RingState.write
_STATE_BYTES = 2 * (_STREAM.size + GAPS_KEPT * _GAP.size)
DEFAULT_HEAD_BYTES = 16 << 20
DEFAULT_TAIL_BYTES = 48 << 20
_SUFFIX = ".spool"

if DATA_AT - EXIT_AT < 4096 or STATE_AT + 4 + _STATE_BYTES > EXIT_AT:
    raise AssertionError("the areas of a spool file overlap")


class BytesGone(Exception):
    """The bytes asked for were dropped; the next ones that exist start at `next_offset`."""

    def __init__(self, next_offset: int) -> None:
        super().__init__(f"cannot read output: dropped up to offset {next_offset}; go on there")
        self.next_offset = next_offset


class DamagedSpool(Exception):
    """The file is not a whole spool: a crash of the machine came before it reached the disk."""


class RingState:
    """The offsets of one stream; knows what may be written and what each write drops."""

    __slots__ = ("acked", "front", "gaps", "head", "omitted", "produced", "tail")

    def __init__(self, head: int, tail: int) -> None:
        self.head, self.tail = head, tail
        self.produced = 0  # bytes written so far: the offset of the next one
        self.acked = 0  # everything below is stored by the server
        self.front = head  # bytes in [head, front) have been overwritten
        self.omitted = 0  # bytes that were overwritten before they were acknowledged
        self.gaps: list[tuple[int, int]] = []  # the newest of them, ascending, apart

    def room(self) -> int:
        """Give how many bytes can be written without dropping one that is not acknowledged."""
        return max(self.acked, self.head) + self.tail - self.produced

    def overwrite(self, count: int) -> bool:
        """Make place for `count` more bytes; True if old ones have to go first.

        Dropping runs on without holes until an acknowledgement passes the front. So a new gap
        begins only above the acknowledged offset, with all earlier gaps below it: forgetting the
        oldest gaps never loses one that a reader still has to hear of.
        """
        front = max(self.head, self.produced + count - self.tail)
        if front <= self.front:
            return False
        low = max(self.front, self.acked)
        if low < front:
            self.omitted += front - low
            if self.gaps and self.gaps[-1][1] == low:
                low = self.gaps.pop()[0]
            self.gaps.append((low, front))
            del self.gaps[:-GAPS_KEPT]
        self.front = front
        return True

    def pieces(self, offset: int, count: int) -> list[tuple[int, int]]:
        """Give (position in the stream's area, length) of each piece of a range, in order."""
        pieces = []
        while count > 0:
            if offset < self.head:
                position, length = offset, min(count, self.head - offset)
            else:
                in_ring = (offset - self.head) % self.tail
                position, length = self.head + in_ring, min(count, self.tail - in_ring)
            pieces.append((position, length))
            offset += length
            count -= length
        return pieces

    def encode(self) -> bytes:
        packed = [
            _STREAM.pack(self.produced, self.acked, self.front, self.omitted, len(self.gaps)),
            *(_GAP.pack(low, high) for low, high in self.gaps),
        ]
        return b"".join(packed).ljust(_STREAM.size + GAPS_KEPT * _GAP.size, b"\0")

    def decode(self, packed: bytes) -> None:
        self.produced, self.acked, self.front, self.omitted, gaps = _STREAM.unpack_from(packed)
        self.gaps = [
            _GAP.unpack_from(packed, _STREAM.size + index * _GAP.size) for index in range(gaps)
        ]


class SpoolWriter:
    """The supervisor's end. `rings` are (stdout, stderr); call `sync` only when no daemon lives."""

    def __init__(
        self, path: str, attempt_id: str, supervisor: dict[str, object], *, head: int, tail: int
    ) -> None:
        """Create the file; FileExistsError means the attempt id was used before."""
        self.path = path
        self.rings = (RingState(head, tail), RingState(head, tail))
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        header = {
            "magic": _MAGIC,
            "attempt_id": attempt_id,
            "head": head,
            "tail": tail,
            "supervisor": supervisor,
        }
        # The whole front is written at once: later writes to it need no new block on a full disk.
        front = bytearray(DATA_AT)
        _put_blob(front, HEADER_AT, _dumps(header))
        state = self._state()
        front[STATE_AT : STATE_AT + len(state)] = state
        os.pwrite(self._fd, front, 0)

    def append(self, stream: int, data: memoryview) -> None:
        """Write a chunk (at most `tail` bytes) of stream 0 or 1.

        OSError (disk full): nothing was counted as produced and the same chunk can be tried again;
        what had to go to make place for it stays gone, and is counted once.
        """
        ring = self.rings[stream]
        if ring.overwrite(len(data)):
            self._put_state()
        base = DATA_AT + stream * (ring.head + ring.tail)
        done = 0
        for position, length in ring.pieces(ring.produced, len(data)):
            piece, at = data[done : done + length], base + position
            while piece:  # a disk that fills up takes a part
                written = os.pwrite(self._fd, piece, at)
                piece, at = piece[written:], at + written
            done += length
        ring.produced += len(data)
        self._put_state()

    def last_words(self, stream: int, count: int) -> bytes:
        """Give the last bytes of stream 0 or 1, at most `count`; none when the disk fails."""
        ring = self.rings[stream]
        start = max(0, ring.produced - min(count, ring.tail))
        base = DATA_AT + stream * (ring.head + ring.tail)
        try:
            return b"".join(
                os.pread(self._fd, length, base + position)
                for position, length in ring.pieces(start, ring.produced - start)
            )
        except OSError:
            return b""

    def acknowledge(self, stream: int, offset: int) -> None:
        ring = self.rings[stream]
        ring.acked = max(ring.acked, min(offset, ring.produced))

    def put_started(self, started: dict[str, object]) -> None:
        self._put(STARTED_AT, _dumps(started))

    def put_exit(self, record: bytes) -> None:
        self._put_state()
        self._put(EXIT_AT, record)

    def sync(self) -> None:
        sync_file(self._fd)

    def close(self) -> None:
        os.close(self._fd)

    def _put(self, at: int, blob: bytes) -> None:
        os.pwrite(self._fd, _BLOB.pack(len(blob), binascii.crc32(blob)) + blob, at)

    def _put_state(self) -> None:
        os.pwrite(self._fd, self._state(), STATE_AT)

    def _state(self) -> bytes:
        state = self.rings[0].encode() + self.rings[1].encode()
        return binascii.crc32(state).to_bytes(4, "little") + state


class SpoolReader:
    """The daemon's end, usable while the supervisor writes and after both have died.

    Streams are numbered 1 (stdout) and 2 (stderr), like their file descriptors.
    """

    def __init__(self, path: str) -> None:
        """Open the spool; FileNotFoundError when there is none, DamagedSpool when not whole."""
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            header = json.loads(self._blob(HEADER_AT) or b"{}")
            if header.get("magic") != _MAGIC:
                raise DamagedSpool(f"cannot read {path}: not a whole spool file")
            self.attempt_id = str(header["attempt_id"])
            self.supervisor: dict[str, object] = header["supervisor"]
            self._head, self._tail = int(header["head"]), int(header["tail"])
        except BaseException:
            os.close(self._fd)
            raise

    def started(self) -> dict[str, object] | None:
        """Give the command's identity, or None when it was never started."""
        blob = self._blob(STARTED_AT)
        return None if blob is None else json.loads(blob)

    def exit_record(self) -> bytes | None:
        """Give the exit record as the supervisor wrote it, or None while there is none."""
        return self._blob(EXIT_AT)

    def produced(self, stream: int) -> int:
        return self._ring(stream).produced

    def omitted(self, stream: int) -> tuple[tuple[int, int], ...]:
        """Give the newest gaps [low, high): bytes dropped before they were acknowledged."""
        return tuple(self._ring(stream).gaps)

    def omitted_bytes(self, stream: int) -> int:
        return self._ring(stream).omitted

    def read(self, stream: int, offset: int, max_bytes: int) -> bytes:
        """Give up to `max_bytes` from `offset`; empty at the end of what was produced.

        Raises BytesGone when the byte at `offset` has been dropped.
        """
        ring = self._ring(stream)
        if ring.head <= offset < ring.front:
            raise BytesGone(ring.front)
        count = min(max_bytes, ring.produced - offset)
        if offset < ring.head < ring.front:  # never read across the edge of a dropped range
            count = min(count, ring.head - offset)
        if count <= 0:
            return b""
        base = DATA_AT + (stream - 1) * (ring.head + ring.tail)
        data = b"".join(
            os.pread(self._fd, length, base + position)
            for position, length in ring.pieces(offset, count)
        )
        if offset + count <= ring.head:
            return data
        front = self._ring(stream).front  # the writer may have passed us while we read
        if front <= max(offset, ring.head):
            return data
        if offset < ring.head:
            return data[: ring.head - offset]
        raise BytesGone(front)

    def sync(self) -> None:
        """Flush everything to the disk; blocks for as long as that takes."""
        sync_file(self._fd)

    def close(self) -> None:
        os.close(self._fd)

    def _ring(self, stream: int) -> RingState:
        size = _STATE_BYTES // 2
        for _ in range(100):  # a torn read is over in microseconds
            packed = os.pread(self._fd, 4 + _STATE_BYTES, STATE_AT)
            if binascii.crc32(packed[4:]).to_bytes(4, "little") == packed[:4]:
                ring = RingState(self._head, self._tail)
                ring.decode(packed[4 + (stream - 1) * size :])
                return ring
        raise DamagedSpool(f"cannot read {self.path}: its offsets fail their checksum")

    def _blob(self, at: int) -> bytes | None:
        size, crc = _BLOB.unpack(os.pread(self._fd, _BLOB.size, at).ljust(_BLOB.size, b"\0"))
        if not 0 < size < DATA_AT:
            return None
        blob = os.pread(self._fd, size, at + _BLOB.size)
        return blob if len(blob) == size and binascii.crc32(blob) == crc else None


def spool_path(folder: str, attempt_id: str) -> str:
    """Give the path of an attempt's spool; ValueError for an id that is no plain file name."""
    plain = attempt_id.replace("-", "").replace("_", "")
    if not (plain.isascii() and plain.isalnum() and len(attempt_id) <= 100):
        raise ValueError(f"cannot name a spool: {attempt_id!r} is not a plain attempt id")
    return os.path.join(folder, attempt_id + _SUFFIX)


def spooled_attempts(folder: str) -> list[str]:
    """Give the ids of all attempts that have a spool."""
    return sorted(
        name.removesuffix(_SUFFIX) for name in os.listdir(folder) if name.endswith(_SUFFIX)
    )


def sync_file(fd: int) -> None:
    """Flush a file's data to the disk itself; macOS needs its own call for that (not tried)."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        fcntl.fcntl(fd, full)
    else:
        os.fdatasync(fd)


def _dumps(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _put_blob(target: bytearray, at: int, blob: bytes) -> None:
    packed = _BLOB.pack(len(blob), binascii.crc32(blob)) + blob
    if len(packed) > STARTED_AT - HEADER_AT:
        raise ValueError("cannot create a spool: its header is too long")
    target[at : at + len(packed)] = packed
