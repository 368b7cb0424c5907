"""This computer's terminal while a command elsewhere has it: raw, and put back on every way out.

Imported only when there is a terminal to lend.
"""

import contextlib
import os
import signal
import termios
import threading
from collections.abc import Callable
from typing import Any, Final

_SIZE_UNKNOWN: Final = (24, 80)
_IFLAG, _OFLAG, _CFLAG, _LFLAG, _CC = 0, 1, 2, 3, 6
# What a program may have left switched on that nobody would switch off after us: colours, a hidden
# cursor, the other screen, bracketed paste, the mouse.
_SANE: Final = (
    b"\x1b[0m\x1b[?25h\x1b[?1049l\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b>"
)
# Whoever pastes a line that begins with the sign does not mean us: keys come one at a time.
_TYPED_MAX_BYTES: Final = 8

ESCAPES: Final = """\
Escapes at the beginning of a line:
  ~.   end the command and leave
  ~d   leave; the command goes on
  ~t   take the input over, or back
  ~^Z  suspend farhand
  ~~   a ~ for the command
  ~?   this list
"""


def window_size() -> tuple[int, int]:
    """Return rows and columns of the window we are shown in."""
    for descriptor in (0, 1, 2):
        with contextlib.suppress(OSError):
            columns, rows = os.get_terminal_size(descriptor)
            if rows > 0 and columns > 0:
                return rows, columns
    return _SIZE_UNKNOWN


class Terminal:
    """The terminal at standard input. ``restore`` may be called at any time and from any thread."""

    def __init__(self, on_size: Callable[[int, int], None]) -> None:
        self._on_size = on_size
        self._before: list[Any] = termios.tcgetattr(0)  # as termios has them
        self._wanted: list[Any] | None = None  # None: as before
        self._lock = threading.RLock()
        self.is_raw = False

    def open(self) -> None:
        """Follow the window's size and being suspended. For the main thread."""
        signal.signal(signal.SIGWINCH, lambda number, frame: self._on_size(*window_size()))
        signal.signal(signal.SIGTSTP, lambda number, frame: self.suspend())
        signal.signal(signal.SIGCONT, lambda number, frame: self._resumed())

    def raw(self) -> None:
        """Hand every key on as it is, Ctrl-C among them; what is shown comes from elsewhere."""
        wanted = [*self._before[:_CC], list(self._before[_CC])]
        wanted[_IFLAG] &= ~(
            termios.BRKINT
            | termios.ICRNL
            | termios.INLCR
            | termios.IGNCR
            | termios.INPCK
            | termios.ISTRIP
            | termios.IXON
            | termios.PARMRK
        )
        wanted[_OFLAG] &= ~termios.OPOST
        wanted[_CFLAG] = (wanted[_CFLAG] & ~(termios.CSIZE | termios.PARENB)) | termios.CS8
        wanted[_LFLAG] &= ~(
            termios.ECHO | termios.ECHONL | termios.ICANON | termios.IEXTEN | termios.ISIG
        )
        wanted[_CC][termios.VMIN], wanted[_CC][termios.VTIME] = 1, 0
        self._set(wanted, raw=True)

    def watch(self) -> None:
        """Show none of the keys, and hear each; Ctrl-C is ours."""
        wanted = [*self._before[:_CC], list(self._before[_CC])]
        wanted[_LFLAG] &= ~(termios.ECHO | termios.ICANON)
        wanted[_CC][termios.VMIN], wanted[_CC][termios.VTIME] = 1, 0
        self._set(wanted, raw=False)

    def restore(self, *, tidy: bool = False) -> None:
        """Put it back as it was. ``tidy``: also what the program behind it may have switched on."""
        with self._lock:
            was_ours = self._wanted is not None
            self._set(None, raw=False)
        if tidy and was_ours and os.isatty(1):
            with contextlib.suppress(OSError):
                os.write(1, _SANE)

    def suspend(self) -> None:
        """Stop like any other program: the shell gets its terminal back as it was."""
        self._apply(self._before)
        os.kill(os.getpid(), signal.SIGSTOP)

    def _resumed(self) -> None:
        with self._lock:
            if self._wanted is not None:
                self._apply(self._wanted)
        self._on_size(*window_size())

    def _set(self, wanted: list[Any] | None, *, raw: bool) -> None:
        with self._lock:
            if wanted is None and self._wanted is None:
                return
            self._wanted, self.is_raw = wanted, raw
            self._apply(self._before if wanted is None else wanted)

    def _apply(self, attributes: list[Any]) -> None:
        with contextlib.suppress(termios.error):  # it has gone
            termios.tcsetattr(0, termios.TCSADRAIN, attributes)


class Escapes:
    """Finds what is typed for us among what is typed for the command."""

    def __init__(self) -> None:
        self._at_start = True
        self._held = False  # a ~ at the beginning of a line waits for what follows

    def feed(self, data: bytes) -> tuple[bytes, list[bytes]]:
        """Return what is the command's, and the escapes in it, each by its second byte."""
        if len(data) > _TYPED_MAX_BYTES:
            data, self._held = (b"~" if self._held else b"") + data, False
            self._at_start = data[-1:] in (b"\r", b"\n")
            return data, []
        passed, found = bytearray(), []
        for byte in data:
            key = bytes((byte,))
            if self._held:
                self._held = False
                if key in b".dt?\x1a":
                    found.append(key)
                    self._at_start = True
                    continue
                passed += b"~" if key == b"~" else b"~" + key
                self._at_start = key in b"\r\n"
            elif key == b"~" and self._at_start:
                self._held = True
            else:
                passed += key
                self._at_start = key in b"\r\n"
        return bytes(passed), found
