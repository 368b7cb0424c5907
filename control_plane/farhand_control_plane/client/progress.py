"""How far a transfer is, on one line of a terminal; nowhere else."""

import os
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from farhand_control_plane.client.screen import harmless, put

_EVERY_S: Final = 0.2
_FIRST_S: Final = 1.0  # what is quicker needs no line
_NAME_MAX: Final = 40  # characters


class Progress:
    """A line of standard error that says how much of a file has gone over."""

    def __init__(self, name: str, total: int, done: int = 0) -> None:
        """``done``: what was there before, of a transfer that goes on."""
        shown = harmless(name).replace("\n", " ")
        self._name = shown if len(shown) <= _NAME_MAX else f"…{shown[1 - _NAME_MAX :]}"
        self._total = total
        self._done = self._first = done
        self._began = time.monotonic()
        self._due = self._began + _FIRST_S
        self._on_terminal = os.isatty(2)
        self._shown = False
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def follow(self, position: Callable[[], int]) -> None:
        """Ask how far it is, until `close`: for a transfer that others do."""
        if self._on_terminal:
            threading.Thread(
                target=self._ask, args=(position,), name="progress", daemon=True
            ).start()

    def _ask(self, position: Callable[[], int]) -> None:
        while not self._closed.wait(_EVERY_S):
            with self._lock:
                if not self._closed.is_set():
                    self._done = position()
                    self._show()

    def add(self, count: int) -> None:
        """Count bytes that have gone over."""
        self._done += count
        if self._on_terminal:
            with self._lock:
                self._show()

    def say(self, line: str) -> None:
        """Write a line of its own, above this one."""
        with self._lock:
            self._clear()
            put(2, f"{harmless(line)}\n".encode("utf-8", "replace"))

    def close(self) -> None:
        """Take the line away for good."""
        self._closed.set()
        with self._lock:
            self._clear()

    def _clear(self) -> None:
        if self._shown:
            put(2, b"\r\x1b[K")
            self._shown = False

    def _show(self) -> None:
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + _EVERY_S
        rate = (self._done - self._first) / max(now - self._began, 0.001)
        percent = f"{100 * self._done // self._total} %" if self._total else ""
        line = f"{self._name}  {amount(self._done)} of {amount(self._total)}  {percent}  "
        put(2, f"\r\x1b[K{line}{amount(round(rate))}/s".encode())
        self._shown = True


def amount(count: int) -> str:
    """Return a number of bytes for people."""
    size = float(count)
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
