"""The terminal, or what stands in its place, as a conversation is shown on it."""

import contextlib
import os
import re
import select
import threading
from collections.abc import Iterator
from typing import Final, Protocol

# Control characters but tab and line feed: what a command wrote must not drive the terminal.
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def harmless(text: str) -> str:
    """Return text in which control characters are shown instead of obeyed."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found.group()):02x}", text.replace("\r\n", "\n"))


class Screen(Protocol):
    """Where a conversation is shown. Several threads may use it."""

    @property
    def for_people(self) -> bool:
        """True on a terminal: output is cut and made harmless; False: all its bytes go out."""
        ...

    def progress(self, text: str) -> None:
        """Show that something happens, beside the answer."""
        ...

    def reply(self, text: str) -> None:
        """Show what the agent says."""
        ...

    def output(self, data: bytes) -> None:
        """Show what a command wrote."""
        ...


class TerminalScreen:
    """Progress to stderr, the answer to stdout; control characters never reach a terminal.

    Writes past Python's buffers: what happens is seen at once, also by a program, and a thread that
    is left behind holds no lock of theirs when the process ends.
    """

    def __init__(self) -> None:
        self._people = os.isatty(1)
        self._at_line_start = True  # of stdout: commands need not end their output with a newline
        self._lock = threading.Lock()  # output comes beside the conversation

    @property
    def for_people(self) -> bool:
        return self._people

    def progress(self, text: str) -> None:
        with self._lock:
            if self._people and not self._at_line_start:
                self._write(b"\n")
            self._put(2, f"· {harmless(text)}\n".encode("utf-8", "replace"))

    def reply(self, text: str) -> None:
        line = f"{harmless(text) if self._people else text}\n"
        with self._lock:
            before = "" if self._at_line_start else "\n"
            self._write((before + line).encode("utf-8", "replace"))

    def output(self, data: bytes) -> None:
        if not data:
            return
        if self._people:
            data = harmless(data.decode("utf-8", "replace")).encode("utf-8", "replace")
        with self._lock:
            self._write(data)

    def _write(self, data: bytes) -> None:
        self._at_line_start = data.endswith(b"\n")
        self._put(1, data)

    def _put(self, descriptor: int, data: bytes) -> None:
        put(descriptor, data)


class PromptScreen(TerminalScreen):
    """A terminal on which somebody may be typing: what they have typed stays whole below."""

    def __init__(self) -> None:
        super().__init__()
        self._prompt = ""
        self._shown = False  # the prompt, on the last line

    @contextlib.contextmanager
    def prompting(self, prompt: str) -> Iterator[str]:
        """Give the text of a prompt, for as long as somebody types after it."""
        with self._lock:
            if not self._at_line_start:
                self._write(b"\n")
            if self._people:
                self._prompt, self._shown = prompt, True
        try:
            yield prompt
        except BaseException:  # Ctrl-C, Ctrl-D: the cursor is still behind what was typed
            with self._lock:
                super()._put(1 if self._people else 2, b"\n")
            raise
        finally:
            with self._lock:
                self._prompt, self._shown = "", False

    def _put(self, descriptor: int, data: bytes) -> None:
        if self._shown:
            super()._put(1, b"\r\x1b[K")
            self._shown = False
        super()._put(descriptor, data)
        if self._prompt and data.endswith(b"\n"):
            import readline

            typed = f"{self._prompt}{readline.get_line_buffer()}"
            super()._put(1, typed.encode("utf-8", "replace"))
            self._shown = True


class MutedScreen:
    """A screen that shows nothing more once it is muted."""

    def __init__(self, screen: Screen) -> None:
        self._screen: Screen | None = screen
        self._people = screen.for_people

    def mute(self) -> None:
        self._screen = None

    @property
    def for_people(self) -> bool:
        return self._people

    def progress(self, text: str) -> None:
        if (screen := self._screen) is not None:
            screen.progress(text)

    def reply(self, text: str) -> None:
        if (screen := self._screen) is not None:
            screen.reply(text)

    def output(self, data: bytes) -> None:
        if (screen := self._screen) is not None:
            screen.output(data)


def put(descriptor: int, data: bytes) -> None:
    """Write all of it, whatever the other end's pace."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:  # whoever started us made the pipe so
            select.select([], [descriptor], [])
