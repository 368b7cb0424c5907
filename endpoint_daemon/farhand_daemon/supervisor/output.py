"""Move a command's output from its pipes to the spool, without ever losing or inventing a byte.

Imported by the fork server: small parts of the standard library only.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import select
import termios

from farhand_daemon.spool import SpoolWriter
from farhand_daemon.supervisor import wire

Pipes = tuple[int, int, int, int]  # stdout read, write, stderr read, write


class OutputPump:
    """Both output streams of one running command. Streams count 0 and 1 here, 1 and 2 on wires.

    A stream is *paused* (its pipe is not read, so the command blocks when the pipe is full) while
    the spool has no room and the link is up, or while the disk is full.
    """

    def __init__(
        self,
        spool: SpoolWriter,
        pipes: Pipes,
        poller: select.poll,
        buffer: memoryview,
        *,
        link_up: bool,
        terminal_fd: int | None = None,
    ) -> None:
        """`terminal_fd`: the command has a terminal instead of the pipes."""
        # Reading ends not yet at their end → stream.
        self.open = {pipes[0]: 0, pipes[2]: 1} if terminal_fd is None else {terminal_fd: 0}
        self._terminal_fd = terminal_fd
        self._hung_up = False
        self.hashes = (
            hashlib.sha256(usedforsecurity=False),
            hashlib.sha256(usedforsecurity=False),
        )
        self.lost = [0, 0]  # bytes that no disk ever took, counted in the hash and in the total
        self._spool, self._poller, self._buffer = spool, poller, buffer
        self._link_up = link_up
        self._paused: set[int] = set()
        self._due_from_pipe = [0, 0]  # bytes that were in the pipe when the command itself ended
        self._stuck: dict[int, bytes] = {}  # stream → chunk a full disk did not take
        self._untold = [False, False]
        # All that a stream has produced, while that is short and nothing of it was told.
        self._short: list[bytes | None] = [b"", b""]
        for fd in self.open:
            poller.register(fd, select.POLLIN)

    @property
    def stuck(self) -> bool:
        """Whether a full disk holds a chunk back; call `retry` now and then."""
        return bool(self._stuck)

    @property
    def untold(self) -> bool:
        """Whether there is output that `frames` has not given yet."""
        return self._untold[0] or self._untold[1]

    def read(self, fd: int) -> None:
        """Move one chunk of a readable pipe; close the pipe at its end."""
        stream = self.open[fd]
        if stream in self._paused:
            return
        ring = self._spool.rings[stream]
        limit = min(len(self._buffer), ring.tail)
        if self._link_up:
            limit = min(limit, ring.room())
            if limit <= 0:
                self._pause(fd, stream)
                return
        size = self._read_into(fd, self._buffer[:limit])
        if size is None:
            return
        if size == 0:
            self._poller.unregister(fd)
            del self.open[fd]
            os.close(fd)
            return
        chunk = self._buffer[:size]
        self.hashes[stream].update(chunk)
        self._due_from_pipe[stream] -= size
        if self.lost[stream]:
            self.lost[stream] += size
        elif not self._store(stream, chunk):
            self._pause(fd, stream)

    def acknowledge(self, stream: int, offset: int) -> None:
        self._spool.acknowledge(stream, offset)
        self._resume()

    def link_is(self, up: bool) -> None:
        """With the link up a full spool holds the command back; down, it drops the middle."""
        self._link_up = up
        self._resume()

    def retry(self, *, give_up: bool) -> None:
        """Try again what a full disk refused; with `give_up`, count it as lost and read on."""
        for stream, chunk in list(self._stuck.items()):
            if give_up:
                self.lost[stream] += len(chunk)
                del self._stuck[stream]
            elif self._store(stream, memoryview(chunk)):
                del self._stuck[stream]
        self._resume()

    def note_exit(self) -> None:
        """The command itself is over: what is in its pipes now is still its own.

        A terminal is hung up with it, whoever holds it: what it has now is all.
        """
        if self._terminal_fd is not None:
            self._hung_up = True
            return
        for fd, stream in self.open.items():
            waiting = fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4)
            self._due_from_pipe[stream] = int.from_bytes(waiting, "little")

    def read_hung_up(self) -> None:
        """Read the rest of a terminal that was hung up: only reading tells that it is empty."""
        fd = self._terminal_fd
        while self._hung_up and fd in self.open and not self._paused:
            self.read(fd)

    def own_output_read(self) -> bool:
        """Whether all the command itself wrote is in the spool, whoever still holds its pipes."""
        return not self._stuck and all(
            self._due_from_pipe[stream] <= 0 for stream in self.open.values()
        )

    def frames(self) -> bytes:
        """Give what the daemon has to be told of new output, each stream's newest offset once;
        or the output itself, when it is short and the first.
        """
        told = b""
        for stream in (0, 1):
            if self._untold[stream]:
                self._untold[stream] = False
                short, self._short[stream] = self._short[stream], None
                if short is not None:
                    told += wire.frame(wire.SHORT, bytes((stream + 1,)) + short)
                    continue
                produced = self._spool.rings[stream].produced
                told += wire.offset_frame(wire.OUTPUT, stream + 1, produced)
        return told

    def discard_only(self) -> None:
        """From now on pipes are read to keep their writers alive, and nothing is kept."""
        for fd, stream in self.open.items():
            if stream in self._paused:
                self._poller.register(fd, select.POLLIN)
        self._paused.clear()

    def discard(self, fd: int) -> None:
        if self._read_into(fd, self._buffer) == 0:
            self._poller.unregister(fd)
            del self.open[fd]
            os.close(fd)

    def _read_into(self, fd: int, buffer: memoryview) -> int | None:
        """Read what is there: 0 at the end, None when a terminal has nothing to say just now."""
        try:
            return os.readv(fd, [buffer])
        except BlockingIOError:
            return 0 if self._hung_up else None
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return 0  # nobody has the terminal open

    def _store(self, stream: int, chunk: memoryview) -> bool:
        try:
            self._spool.append(stream, chunk)
        except OSError:
            # A full disk holds the command back like a full spool does; nothing is dropped.
            self._stuck.setdefault(stream, bytes(chunk))
            return False
        self._untold[stream] = True
        short = self._short[stream]
        if short is not None:
            fits = len(short) + len(chunk) <= wire.SHORT_MAX_BYTES
            self._short[stream] = short + chunk if fits else None
        return True

    def _pause(self, fd: int, stream: int) -> None:
        self._paused.add(stream)
        self._poller.unregister(fd)

    def _resume(self) -> None:
        if not self._paused:
            return
        for fd, stream in self.open.items():
            if stream not in self._paused or stream in self._stuck:
                continue
            if not self._link_up or self._spool.rings[stream].room() > 0:
                self._paused.discard(stream)
                self._poller.register(fd, select.POLLIN)
