"""What the pool of supervisors tells whoever uses it."""

from __future__ import annotations

from typing import Protocol

from farhand_daemon.supervisor.handle import CommandHandle
from farhand_daemon.supervisor.records import ExitRecord, Quiet, Started, Stream, SupervisorLoss


class CommandListener(Protocol):
    """What the pool tells. Called on the event loop; must not block and should not raise."""

    def command_started(self, handle: CommandHandle, started: Started) -> None:
        """The process exists. Comes before every other event of the command, or never."""

    def output_produced(self, handle: CommandHandle, stream: Stream, produced_bytes: int) -> None:
        """There is output up to this offset; offsets of a stream only grow."""

    def input_moved(self, handle: CommandHandle) -> None:
        """The command has taken some of its input, or takes no more: `handle.input_…` says."""

    def command_quiet(self, handle: CommandHandle, quiet: Quiet) -> None:
        """It writes nothing and seems to wait for somebody to type. A hint, and no more."""

    def command_exited(self, handle: CommandHandle, record: ExitRecord) -> None:
        """It is over and all its output is in the spool. Once per handle."""

    def supervisor_lost(self, handle: CommandHandle, loss: SupervisorLoss) -> None:
        """Its supervisor died: the outcome is indeterminate. Once, instead of `command_exited`."""
