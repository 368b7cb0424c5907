"""The terminal, or what stands in its place, as a conversation is shown on it."""

import os
import re
import sys
import threading
from typing import Final

# Control characters but tab and line feed: what a command wrote must not drive the terminal.
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def harmless(text: str) -> str:
    """Return text in which control characters are shown instead of obeyed."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found.group()):02x}", text.replace("\r\n", "\n"))


class TerminalScreen:
    """Progress to stderr, the answer to stdout; control characters never reach a terminal."""

    def __init__(self) -> None:
        self._people = os.isatty(1)
        self._at_line_start = True  # of stdout: commands need not end their output with a newline
        self._lock = threading.Lock()  # `up` tells of its children while a chat goes on

    @property
    def for_people(self) -> bool:
        return self._people

    def progress(self, text: str) -> None:
        with self._lock:
            sys.stderr.write(f"· {harmless(text)}\n")
            sys.stderr.flush()

    def reply(self, text: str) -> None:
        line = f"{harmless(text) if self._people else text}\n"
        self._write(
            ("" if self._at_line_start else "\n").encode() + line.encode("utf-8", "replace")
        )

    def heading(self, text: str) -> None:
        self.reply(text)

    def output(self, data: bytes) -> None:
        if not data:
            return
        if self._people:
            data = harmless(data.decode("utf-8", "replace")).encode("utf-8", "replace")
        self._write(data)

    def _write(self, data: bytes) -> None:
        with self._lock:
            self._at_line_start = data.endswith(b"\n")
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
