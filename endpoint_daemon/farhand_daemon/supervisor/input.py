"""Move a command's input from the daemon into its pipe or terminal, as fast as it is read.

Imported by the fork server: small parts of the standard library only.
"""

from __future__ import annotations

import os
import select

from farhand_daemon.supervisor import wire

# What was taken is told when so much has gathered, or when nothing more is taken just now: the
# daemon passes it on only as fast as the link's window needs it.
_TELL_BYTES = 64 * 1024


class InputFeed:
    """The input of one running command: `taken <= received`, in bytes from its first one on.

    What the command does not read waits here, at most a window of the link; the socket to the
    daemon is read whatever the command does, so that a cancel never waits behind input. The end of
    the daemon is not the end of the input.
    """

    def __init__(self, fd: int, poller: select.poll) -> None:
        """`fd` is the writing end, not blocking, and ours to close."""
        self.fd = fd  # -1 once it is closed
        self.received = self.taken = 0
        self.closed = False  # nothing more is taken: delivered to the end, or nobody reads
        self._poller = poller
        self._pending: list[bytes] = []
        self._ended = False
        self._waiting = False
        self._told = 0
        self._closed_told = False
        self._last = b"\n"  # the newest byte that was received

    @property
    def untold(self) -> bool:
        """Whether the daemon should hear how far the command has come."""
        if self.closed:
            return not self._closed_told
        behind = self.taken - self._told
        return behind >= _TELL_BYTES or (behind > 0 and (self._waiting or not self._pending))

    def receive(self, payload: bytes) -> None:
        """Take a frame's bytes; what came before is left out."""
        offset, end = wire.INPUT_HEADER.unpack_from(payload)
        data = payload[wire.INPUT_HEADER.size + self.received - offset :]
        if offset > self.received or self._ended or self.closed:
            return
        if data:
            self.received += len(data)
            self._last = data[-1:]
            self._pending.append(data)
        if end:
            self._ended = True
            if (last := self.last_word()) and not self.closed:
                self._pending.append(last)
        self.write()

    def write(self) -> None:
        """Write what the pipe takes now; at the end close it."""
        while self._pending:
            chunk = self._pending[0]
            try:
                size = os.write(self.fd, chunk)
            except BlockingIOError:
                self._wait()
                return
            except OSError:  # the command has closed it, or is gone
                self._pending.clear()
                self.close()
                return
            self.taken = min(self.taken + size, self.received)
            if size == len(chunk):
                del self._pending[0]
            else:
                self._pending[0] = chunk[size:]
        if self._ended:
            self.close()
        elif self._waiting:
            self._poller.unregister(self.fd)
            self._waiting = False

    def last_word(self) -> bytes:
        """Give what the end of the input looks like to the command; a pipe is only closed."""
        return b""

    def frame(self) -> bytes:
        """Give what the daemon has to be told."""
        self._told, self._closed_told = self.taken, self.closed
        return wire.frame(wire.TAKEN, wire.TAKEN_FACTS.pack(self.taken, self.closed))

    def snapshot(self) -> dict[str, object]:
        """Give what a new daemon has to know."""
        self._told, self._closed_told = self.taken, self.closed
        return {"received": self.received, "taken": self.taken, "closed": self.closed}

    def close(self) -> None:
        """Close our end: the command reads what there is, then its end. Idempotent."""
        self.closed = True
        if self.fd >= 0:
            if self._waiting:
                self._poller.unregister(self.fd)
                self._waiting = False
            os.close(self.fd)
            self.fd = -1

    def _wait(self) -> None:
        if not self._waiting:
            self._poller.register(self.fd, select.POLLOUT)
            self._waiting = True


def make_input_pipe() -> tuple[int, int]:
    """Make the pipe of a command's stdin: its reading end, and ours, which never blocks."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    return reading, writing
