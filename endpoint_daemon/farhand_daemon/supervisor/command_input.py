"""What one command reads from: the null device, a pipe that is fed, or a terminal of its own.

Imported by the fork server: small parts of the standard library only.
"""

from __future__ import annotations

import os

from farhand_daemon.supervisor import wire
from farhand_daemon.supervisor.input import InputFeed, make_input_pipe
from farhand_daemon.supervisor.spawning import Launch, SpawnFailure
from farhand_daemon.supervisor.terminal import Terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from farhand_daemon.supervisor.output import Pipes
    from farhand_daemon.supervisor.process import SupervisorProcess


class CommandInput:
    """Made before the start; `feed` is None for a command that is given nothing."""

    def __init__(self, process: SupervisorProcess, facts: dict[str, object]) -> None:
        """SpawnFailure: the system has no pipe or terminal to give; nothing is left open."""
        self.feed: InputFeed | None = None
        self.terminal: Terminal | None = None
        self._process = process
        self._given: int | None = None  # the command's end of a pipe, until it has it
        window = facts.get("terminal")
        try:
            if isinstance(window, list):
                rows, columns = window
                self.terminal = Terminal(int(rows), int(columns))
                self.feed = self.terminal.feed(process.poller)
            elif facts.get("stdin"):
                self._given, ours = make_input_pipe()
                self.feed = InputFeed(ours, process.poller)
        except SpawnFailure:
            self.discard()
            raise
        except OSError as error:
            self.discard()
            raise SpawnFailure(
                "other",
                f"cannot start: no pipe for its input: {error.strerror}; "
                "run farhandd doctor on the machine",
                errno=error.errno,
            ) from None

    def spawn(self, launch: Launch, pipes: Pipes) -> int:
        """Start the command with it, and give the pid; SpawnFailure as the launch."""
        if self.terminal is not None:
            return launch.go_on_terminal(self.terminal.path)
        stdin_fd = self._process.null_fd if self._given is None else self._given
        return launch.go(stdin_fd, pipes[1], pipes[3])

    def is_given(self) -> None:
        """The command has its end, or never will: ours of it is not needed any more."""
        if self._given is not None:
            os.close(self._given)
            self._given = None

    def obey(self, kind: int, payload: bytes) -> None:
        """Do what the daemon says of input; of a command without it that means nothing."""
        if kind == wire.INPUT and self.feed is not None:
            self.feed.receive(payload)
        elif kind == wire.RESIZE and self.terminal is not None:
            self.terminal.resize(*wire.WINDOW.unpack(payload))

    def close(self) -> None:
        """Let go of it when the command is over."""
        self.is_given()
        if self.feed is not None:
            self.feed.close()
        if self.terminal is not None:
            self.terminal.close()

    def discard(self) -> None:
        """Let go of it before any start."""
        self.is_given()
        if self.feed is not None:
            self.feed.close()
            self.feed = None
        if self.terminal is not None:
            self.terminal.discard()
            self.terminal = None
