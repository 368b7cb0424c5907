"""Our own search in files, for machines without ripgrep; and what both kinds of search speak of.

Imported by the processes of operations: small parts of the standard library only.
"""

from __future__ import annotations

import os
import re

from farhand_daemon.files.fault import Fault
from farhand_daemon.files.patterns import PATTERN_MAX_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_CHUNK_BYTES = 1024 * 1024
_LINE_MAX_BYTES = 16 * 1024 * 1024  # what follows such a line in its file is not searched


class Wanted:
    """What is looked for."""

    __slots__ = ("fixed", "ignore_case", "pattern")

    def __init__(self, pattern: bytes, *, fixed: bool, ignore_case: bool) -> None:
        """Fault bad_pattern for what can be on no line."""
        if b"\n" in pattern:
            raise Fault("bad_pattern", "its pattern holds a line end, and it is held against lines")
        if len(pattern) > PATTERN_MAX_BYTES:
            raise Fault("bad_pattern", f"its pattern is longer than {PATTERN_MAX_BYTES:,} bytes")
        self.pattern, self.fixed, self.ignore_case = pattern, fixed, ignore_case


class Candidate:
    """A file to search in, open, at its begin."""

    __slots__ = ("fd", "path")

    def __init__(self, path: bytes, fd: int) -> None:
        self.path, self.fd = path, fd


class Hit:
    """A line that matches, without its end. ``column`` counts characters, from 1."""

    __slots__ = ("column", "line", "number", "path")

    def __init__(self, path: bytes, number: int, column: int, line: bytes) -> None:
        self.path, self.number, self.column, self.line = path, number, column, line


class OwnSearch:
    """Searches line by line with Python's regular expressions."""

    def __init__(self, wanted: Wanted) -> None:
        text = wanted.pattern.decode("utf-8", "surrogateescape")
        flags = re.IGNORECASE if wanted.ignore_case else re.NOFLAG
        try:
            self._expression = re.compile(re.escape(text) if wanted.fixed else text, flags)
        except (re.error, OverflowError, RecursionError) as error:
            raise Fault("bad_pattern", f"its pattern is no regular expression: {error}") from None
        self.given_up = 0  # files with a line that is too long
        # A file without the plain text need not be looked at line by line.
        self._plain = wanted.pattern if wanted.fixed and not wanted.ignore_case else b""

    def search(self, batch: list[Candidate]) -> Iterator[Hit]:
        for candidate in batch:
            number = 0
            os.lseek(candidate.fd, 0, os.SEEK_SET)
            for block in self._blocks(candidate.fd):
                if self._plain and self._plain not in block:
                    number += block.count(b"\n")
                    continue
                for line in block.removesuffix(b"\n").split(b"\n"):
                    number += 1
                    line = line.removesuffix(b"\r")
                    found = self._expression.search(line.decode("utf-8", "surrogateescape"))
                    if found is not None:
                        yield Hit(candidate.path, number, found.start() + 1, line)

    def _blocks(self, fd: int) -> Iterator[bytes]:
        """Give a file in pieces that end with a line end, the last one perhaps without."""
        rest = b""
        try:
            while chunk := os.read(fd, _CHUNK_BYTES):
                if b"\0" in chunk:  # no text after all
                    return
                end = chunk.rfind(b"\n") + 1
                if end:
                    yield rest + chunk[:end]
                    rest = chunk[end:]
                else:
                    rest += chunk
                    if len(rest) > _LINE_MAX_BYTES:
                        self.given_up += 1
                        return
        except OSError:
            return
        if rest:
            yield rest
