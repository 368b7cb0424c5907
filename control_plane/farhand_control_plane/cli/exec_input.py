"""The input side of `farhand exec`: pipes, a terminal that is lent to the command, and watching.

Imported only when a command is given input, or watched.
"""

import os
import select
import signal
import threading
from typing import Final

from farhand_control_plane.cli import terminal
from farhand_control_plane.cli.input_writer import READ_BYTES, InputWriter, start_thread
from farhand_control_plane.cli.leaving import Left
from farhand_control_plane.client.api import Target

_END: Final = b"."
_DETACH: Final = b"d"
_TAKE: Final = b"t"
_SUSPEND: Final = b"\x1a"


class ExecInput:
    """What goes from here to one command; everything that changes this terminal is undone.

    ``writes`` False: it is only watched, until the input is taken over.
    """

    def __init__(self, target: Target, *, writes: bool, take: bool) -> None:
        self._target = target
        self._writes = writes
        self._take = take
        self._writer: InputWriter | None = None
        self._terminal: terminal.Terminal | None = None
        self._kind, self._command_id = "none", ""
        self._ends = False
        self.taken_over = False  # somebody else writes now
        self._escapes = terminal.Escapes()

    @property
    def writes(self) -> bool:
        """Whether the command's input is ours now."""
        return self._writes

    @property
    def has_raw_terminal(self) -> bool:
        """Whether keys go to the command, and lines must be ended by hand."""
        return self._terminal is not None and self._terminal.is_raw

    def begin(self, command_id: str, attempt_id: str, kind: str) -> None:
        """Begin to read and to send. ``kind``: terminal, pipe or none, as the command has it."""
        self._command_id, self._kind = command_id, kind
        if kind != "none":
            self._writer = InputWriter(self._target, attempt_id, on_loss=self._lost)
            self._writer.start()
        lends = kind == "terminal" or not self._writes
        if lends and os.isatty(0):
            self._lend()
        if self._writer is not None and self._writes:
            if self._take:
                self._writer.take()
            if kind == "terminal":
                self._writer.resize(*terminal.window_size())
            if self._terminal is None:
                self._writer.read_from(0)

    def leave(self) -> None:
        """Put the terminal back before the command has ended, as it was before we came."""
        self._ignore_keys()
        if self._terminal is not None:
            self._terminal.restore(tidy=True)

    def close(self) -> None:
        """Put the terminal back. Idempotent."""
        self._ignore_keys()
        if self._terminal is not None:
            self._terminal.restore()

    def say(self, text: str) -> None:
        """Write a line to people, whatever the terminal is like."""
        end = b"\r\n" if self.has_raw_terminal and os.isatty(2) else b"\n"
        lines = f"farhand: {text}".encode("utf-8", "replace").splitlines()
        try:
            os.write(2, b"".join(line + end for line in lines))
        except OSError:  # nobody reads it
            return

    # The terminal

    def _lend(self) -> None:
        self._terminal = terminal.Terminal(self._resized)
        self._terminal.open()
        signal.signal(signal.SIGUSR1, self._raise_left)
        signal.signal(signal.SIGQUIT, signal.getsignal(signal.SIGTERM))
        if self._writes:
            self._terminal.raw()
        else:
            self._terminal.watch()
        start_thread(self._read_keys, name="keyboard")

    def _read_keys(self) -> None:
        while True:
            try:
                data = os.read(0, READ_BYTES)
            except BlockingIOError:
                select.select([0], [], [])
                continue
            except OSError:
                data = b""
            if not data:  # the terminal has gone; its hang-up is a signal of its own
                return
            passed, escapes = self._escapes.feed(data)
            if passed and self._writes and self._writer is not None:
                self._writer.type(passed)
            for key in escapes:
                self._escape(key)

    def _escape(self, key: bytes) -> None:
        if key in (_END, _DETACH):
            self._ends = key == _END and self._writes
            main = threading.main_thread().ident
            if main is not None:
                signal.pthread_kill(main, signal.SIGUSR1)
        elif key == _TAKE:
            self._take_over()
        elif key == _SUSPEND:
            if self._terminal is not None:
                self._terminal.suspend()
        else:
            self.say(f"This is command {self._command_id}.\n{terminal.ESCAPES}")

    def _take_over(self) -> None:
        if self._writer is None or self._terminal is None or self._kind != "terminal":
            self.say("cannot take the input over: the command has no terminal")
            return
        self._writes, self.taken_over = True, False
        self._terminal.raw()
        self._writer.take()
        self._writer.resize(*terminal.window_size())
        self.say("the input is yours now")

    def _lost(self, reason: str, held: bool) -> None:
        """Another one writes now, or nothing can be written: from here on it is watched."""
        self._writes = False
        self.taken_over = held
        if self._terminal is not None:
            self._terminal.watch()
            if held:
                reason += ", or with ~t"
        self.say(reason)

    def _resized(self, rows: int, columns: int) -> None:
        if self._writes and self._writer is not None and self._kind == "terminal":
            self._writer.resize(rows, columns)

    def _raise_left(self, number: int, frame: object) -> None:
        raise Left(ends=self._ends)

    def _ignore_keys(self) -> None:
        if self._terminal is not None:
            for number in (signal.SIGUSR1, signal.SIGWINCH):
                signal.signal(number, signal.SIG_IGN)
            for number in (signal.SIGTSTP, signal.SIGCONT):
                signal.signal(number, signal.SIG_DFL)
