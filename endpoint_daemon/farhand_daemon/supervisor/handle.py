"""One attempt as the daemon sees it: its state, its output, and what can be done to it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from farhand_daemon.spool import BytesGone, DamagedSpool, SpoolReader
from farhand_daemon.supervisor import wire
from farhand_daemon.supervisor.records import (
    ExitRecord,
    Started,
    StopReason,
    Stream,
    SupervisorLoss,
    started_from,
)

if TYPE_CHECKING:
    from farhand_daemon.supervisor.connection import SupervisorConnection
    from farhand_daemon.supervisor.pool import SupervisorPool


class HandleState(StrEnum):
    """Where an attempt is, as far as this daemon knows."""

    PREPARED = "prepared"  # a supervisor has it; nothing runs before `go`
    RUNNING = "running"  # GO was sent, or a supervisor of an earlier daemon has it running
    EXITED = "exited"  # `record` says how
    LOST = "lost"  # `loss` says what is known


class CommandHandle:
    """Made by `SupervisorPool.prepare` or by adoption. Methods belong to the event loop's thread
    and none of them blocks on the command.
    """

    def __init__(
        self, pool: SupervisorPool, attempt_id: str, input_digest: bytes, spool_path: Path
    ) -> None:
        self.attempt_id = attempt_id
        self.input_digest = input_digest  # empty when the journal has lost it
        self.spool_path = spool_path
        self.state = HandleState.PREPARED
        self.started: Started | None = None
        self.record: ExitRecord | None = None
        self.loss: SupervisorLoss | None = None
        self.adopted = False
        # How far its input has come: what its supervisor has, what the command has taken.
        self.input_received: int | None = 0  # None while an earlier supervisor has not told
        self.input_taken = 0
        self.input_closed = False
        # For the pool only.
        self.connection: SupervisorConnection | None = None
        self.request = b""
        self.go_wanted = False
        self.go_sent = False
        self.stop_wanted: StopReason | None = None
        self.tries = 0
        self.sync_timer: asyncio.TimerHandle | None = None
        self._pool = pool
        self._produced = [0, 0]
        self._acked = [0, 0]
        self._short = [b"", b""]  # how each stream begins, when the supervisor has told it
        self._input_waiting: list[bytes] = []  # frames for a supervisor that is not there yet
        self._reader: SpoolReader | None = None
        self._ended: asyncio.Future[ExitRecord | SupervisorLoss] = pool.loop.create_future()

    def go(self) -> None:
        """Start the command now: the journal entry is on disk. A second call changes nothing."""
        if self.go_wanted or self.stop_wanted is not None:
            return
        self.go_wanted = True
        if self.connection is not None and self.connection.ready:
            self.send_go(self.connection)

    def cancel(self, reason: StopReason) -> None:
        """End the command: TERM, the grace period, KILL until nothing is left.

        Before the start nothing is started at all. The end is told by `command_exited` as always.
        Of a lost command what is still provably ours is ended in the same way.
        """
        if self.stop_wanted is not None or self.state is HandleState.EXITED:
            return
        self.stop_wanted = reason
        if self.state is HandleState.LOST:
            self._pool.orphans.end(self.attempt_id)
        elif self.connection is not None:
            self.connection.send(wire.frame(wire.CANCEL, reason.value.encode()))

    def ack(self, stream: Stream, offset: int) -> None:
        """The server has everything below `offset`; a command held back by a full spool goes on."""
        index = stream - 1
        if offset <= self._acked[index]:
            return
        self._acked[index] = offset
        if self.state is HandleState.RUNNING and self.connection is not None:
            self.connection.send(wire.offset_frame(wire.ACK, stream, offset))

    def give_input(self, offset: int, data: bytes, *, end: bool) -> None:
        """Pass on the next bytes of its input; what it has had before is left out.

        Never blocks: what the command does not read waits, at most what the caller's window lets
        through. How far it has come is told by `input_moved`.
        """
        frames = wire.input_frames(offset, data, end=end)
        self.input_received = max(offset + len(data), self.input_received or 0)
        if self.connection is not None and self.state is HandleState.RUNNING:
            self.connection.send(frames)
        elif self.state in (HandleState.PREPARED, HandleState.RUNNING):
            self._input_waiting.append(frames)

    def resize(self, rows: int, columns: int) -> None:
        """Set the size of its terminal; a command without one is not disturbed."""
        if self.connection is not None and self.state is HandleState.RUNNING:
            self.connection.send(wire.frame(wire.RESIZE, wire.WINDOW.pack(rows, columns)))

    def produced(self, stream: Stream) -> int:
        """Give how many bytes the stream has had so far."""
        return self._produced[stream - 1]

    def read(self, stream: Stream, offset: int, max_bytes: int) -> bytes:
        """Give output from the spool; empty at the end of what is there.

        Raises BytesGone when the byte at `offset` was dropped: its `next_offset` is where it goes
        on. Works until `release`, also for lost commands. The last 48 MiB can always be read.
        """
        if offset < len(self._short[stream - 1]):
            return self._short[stream - 1][offset : offset + max_bytes]
        reader = self._open_reader()
        if reader is None:
            return b""
        data = reader.read(stream, offset, max_bytes)
        if not data and self.record is not None:
            total = self.record.total_bytes[stream - 1]
            if offset < total:  # a full disk took no more: the rest was counted and lost
                raise BytesGone(total)
        return data

    def omitted(self, stream: Stream) -> tuple[tuple[int, int], ...]:
        """Give the gaps [low, high) that the server will never get, the newest last.

        Normally none or one: dropping goes on without holes until an acknowledgement passes it.
        """
        reader = self._open_reader()
        if reader is None:
            return ()
        gaps = reader.omitted(stream)
        stored = reader.produced(stream)
        if self.record is not None and self.record.total_bytes[stream - 1] > stored:
            gaps += ((stored, self.record.total_bytes[stream - 1]),)
        return gaps

    def omitted_bytes(self, stream: Stream) -> int:
        """Give how many bytes of a stream the server will never get."""
        if self.record is not None:
            return self.record.omitted_bytes[stream - 1]
        reader = self._open_reader()
        return 0 if reader is None else reader.omitted_bytes(stream)

    async def ended(self) -> ExitRecord | SupervisorLoss:
        """Wait for the end and give it."""
        return await asyncio.shield(self._ended)

    def release(self) -> None:
        """Forget the attempt: the server has its result. `remove_spool` belongs to it, later."""
        if self.sync_timer is not None:
            self.sync_timer.cancel()
        self.close()
        self._pool.forget(self)

    def remove_spool(self) -> None:
        """Remove the output and the exit record; once the receipt cannot be lost any more."""
        self.spool_path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the files of this handle; the spool stays."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # -- for the pool ------------------------------------------------------------------------------

    def send_go(self, connection: SupervisorConnection) -> None:
        """Send GO. When the supervisor is gone nothing was started, and the pool tries another."""
        if connection.send(wire.frame(wire.GO)):
            self.go_sent = True
            self.state = HandleState.RUNNING
            self._send_waiting(connection)

    def attach(self, connection: SupervisorConnection) -> None:
        """Take the connection to the supervisor and tell it what it has missed."""
        self.connection = connection
        connection.handle = self
        for stream in Stream:
            if self._acked[stream - 1]:
                connection.send(wire.offset_frame(wire.ACK, stream, self._acked[stream - 1]))
        if self.stop_wanted is not None:
            connection.send(wire.frame(wire.CANCEL, self.stop_wanted.value.encode()))
        self._send_waiting(connection)

    def _send_waiting(self, connection: SupervisorConnection) -> None:
        if self._input_waiting:
            connection.send(b"".join(self._input_waiting))
            self._input_waiting.clear()

    def note_input(self, *, taken: int, closed: bool, received: int | None = None) -> None:
        """Note how far the input has come, as its supervisor says."""
        self.input_taken, self.input_closed = taken, closed
        self.input_received = max(taken, received or 0, self.input_received or 0)

    def note_produced(self, stream: Stream, produced: int) -> bool:
        """Note an offset; False when it says nothing new."""
        new = produced > self._produced[stream - 1]
        if new:
            self._produced[stream - 1] = produced
        return new

    def note_short(self, stream: Stream, output: bytes) -> bool:
        """Note all that a stream has produced so far, which is short; False when it is no news."""
        self._short[stream - 1] = output
        return self.note_produced(stream, len(output))

    def note_exit(self, record: ExitRecord) -> None:
        self.state, self.record = HandleState.EXITED, record
        self.connection = None
        self.started = self.started or record.started
        for stream in Stream:
            self.note_produced(stream, record.total_bytes[stream - 1])
        if not self._ended.done():
            self._ended.set_result(record)

    def note_loss(self, loss: SupervisorLoss) -> None:
        self.state, self.loss = HandleState.LOST, self._pool.orphans.keep(self.attempt_id, loss)
        self.connection = None
        self.started = self.started or loss.started
        self.refresh_from_spool()
        if self.stop_wanted is not None:  # it was being ended when its supervisor died
            self._pool.orphans.end(self.attempt_id)
        if not self._ended.done():
            self._ended.set_result(self.loss)

    def refresh_from_spool(self) -> None:
        """Take the facts that the supervisor wrote into the spool."""
        reader = self._open_reader()
        if reader is None:
            return
        started = reader.started()
        if started is not None:
            self.started = started_from(started)
        for stream in Stream:
            self.note_produced(stream, reader.produced(stream))

    def exit_record_in_spool(self) -> ExitRecord | None:
        """Give the exit record if the supervisor managed to write it."""
        reader = self._open_reader()
        text = None if reader is None else reader.exit_record()
        return None if text is None else ExitRecord.from_json(text)

    def _open_reader(self) -> SpoolReader | None:
        if self._reader is None:
            with contextlib.suppress(FileNotFoundError, DamagedSpool):
                self._reader = SpoolReader(os.fspath(self.spool_path))
        return self._reader
