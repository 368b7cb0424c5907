"""The last bytes of a long output stream, in a file that nobody can name.

Past the head nothing is stored until the command ends; then the tail is, once. Until then it lies
in an unlinked temporary file used as a ring, so that memory stays bounded.
"""

import os
import tempfile
from typing import IO


class TailFile:
    """Keeps the newest ``size`` bytes of one stream. Offsets are the stream's."""

    def __init__(self, size: int, start: int) -> None:
        """``start``: offset of the first byte that will come."""
        self._size = size
        # Open for as long as the command runs; ``close`` is called by the run.
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - outlives this call
        self._first = start
        self.end = start

    @property
    def start(self) -> int:
        """Offset of the oldest byte that is still kept."""
        return max(self._first, self.end - self._size)

    def append(self, data: bytes) -> None:
        """Keep what comes next. Raises OSError when the disk is full."""
        view = memoryview(data)[-self._size :]
        at = self.end + len(data) - len(view)
        while view:
            place = at % self._size
            n = os.pwrite(self._file.fileno(), view[: self._size - place], place)
            view, at = view[n:], at + n
        self.end += len(data)

    def skip_to(self, offset: int) -> None:
        """Forget everything: the stream goes on at ``offset``, what lies between never comes."""
        self._first = self.end = offset

    def read(self, offset: int, limit: int) -> bytes:
        """Return up to ``limit`` kept bytes from ``offset``; b"" when that is outside."""
        if not self.start <= offset < self.end:
            return b""
        place = offset % self._size
        n = min(limit, self.end - offset, self._size - place)
        return os.pread(self._file.fileno(), n, place)

    def close(self) -> None:
        self._file.close()
