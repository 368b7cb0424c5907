"""A terminal of a command's own: stdin, stdout and stderr in one, and what controls its session.

Imported by the fork server: small parts of the standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import struct
import termios

from farhand_daemon.supervisor.input import InputFeed
from farhand_daemon.supervisor.spawning import SpawnFailure

_WINDOW = struct.Struct("HHHH")  # rows, columns, and the size in pixels, which nobody knows
_IUTF8 = 0x4000  # Linux and macOS: a backspace takes a whole character; since Python 3.13
_LOCAL_FLAGS, _INPUT_FLAGS, _CHARACTERS = 3, 0, 6  # in what tcgetattr gives


class Terminal:
    """Both ends of a pseudo-terminal; SpawnFailure when the system has none to give."""

    def __init__(self, rows: int, columns: int) -> None:
        try:
            self.master, self._slave = os.openpty()
            self.path = os.ttyname(self._slave)
        except OSError as error:
            raise SpawnFailure(
                "no_terminal",
                f"cannot start: the machine gives no terminal: {error.strerror}; "
                "run it without --pty, or see that /dev/pts is there",
                errno=error.errno,
            ) from None
        os.set_blocking(self.master, False)
        attributes = termios.tcgetattr(self._slave)
        attributes[_INPUT_FLAGS] |= _IUTF8
        termios.tcsetattr(self._slave, termios.TCSANOW, attributes)
        self.resize(rows, columns)

    def resize(self, rows: int, columns: int) -> None:
        """Set the size; the programs in front of the terminal get SIGWINCH."""
        # The command that it controlled may have ended, and with it the terminal.
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._slave, termios.TIOCSWINSZ, _WINDOW.pack(rows, columns, 0, 0))

    def feed(self, poller: select.poll) -> InputFeed:
        """Give the way in. Its descriptor is its own: the other is polled for output."""
        return _TerminalFeed(os.dup(self.master), poller)

    def close(self) -> None:
        """Close the command's end; the master is the output's.

        It stays open until then, so that the terminal is there for a command that closes all it
        has of it and opens it anew. What shows that all is over is the end of the command: then
        the system hangs up, and nobody can write to it any more.
        """
        os.close(self._slave)

    def discard(self) -> None:
        """Close both ends: nothing was started on it."""
        self.close()
        os.close(self.master)


class _TerminalFeed(InputFeed):
    """Input that is typed. It cannot be closed: its end is the character that says so."""

    def last_word(self) -> bytes:
        """Give the end-of-file character, twice after half a line: the first only hands that on."""
        attributes = termios.tcgetattr(self.fd)
        character = attributes[_CHARACTERS][termios.VEOF]
        if not isinstance(character, bytes) or character == b"\0":
            return b""
        by_line = attributes[_LOCAL_FLAGS] & termios.ICANON
        return character * 2 if by_line and self._last != b"\n" else character
