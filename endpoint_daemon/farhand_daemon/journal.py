"""The journal: which attempts this machine has decided to start, flushed to disk before it does.

It is what makes a start happen at most once: an id is in the journal on disk before its command is
executed, and an id in the journal is never started again. Use from one event loop.
"""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from farhand_daemon.journal_file import (
    EntryState,
    JournalEntry,
    read_journal,
    receipt_line,
    start_line,
    tombstone_line,
    write_journal,
)
from farhand_daemon.spool import sync_file

# Longer than any offer may wait for its machine (7 days), so no receipt goes while its id can come.
_KEEP_MS = 30 * 24 * 3600 * 1000
_COMPACT_BYTES = 8 << 20  # rewriting fewer is not worth a file
_RECEIPTS_WAIT_S = 1.0  # a receipt lost in a crash has the server asked once more, no more


# Called once: None when it is on disk, else why it never will be.
Told = Callable[[OSError | None], None]
_Waiting = tuple[str, bytes, Told]  # attempt, line


def nothing(error: OSError | None) -> None:
    """Do nothing: for who has nothing to be told."""


class Decision(StrEnum):
    """What to do with an offered attempt."""

    STARTED = "started"  # new here: journalled and told to start
    EXISTING = "existing"  # the same again: the attempt that exists is the answer
    CONFLICT = "conflict"  # the same id with another input
    TOMBSTONED = "tombstoned"  # cancelled before it came


class Journal:
    """Open with `Journal.open`; `close` when done."""

    def __init__(self, path: Path, journal_id: str, counter: int, size: int) -> None:
        self.journal_id = journal_id
        self.counter = counter  # facts ever written; never goes back
        self.entries: dict[str, JournalEntry] = {}
        self._path, self._size = path, size
        self._compacted_size = size
        self._fd = _append_to(path)
        self._torn = False  # bytes after `_size` are of a write that failed
        self._waiting: list[_Waiting] = []
        self._receipts: list[tuple[bytes, Callable[[], None]]] = []
        self._flushing: asyncio.Future[None] | None = None
        self._receipt_timer: asyncio.TimerHandle | None = None

    @classmethod
    def open(cls, path: Path, *, now_ms: int | None = None) -> Journal:
        """Read the journal, or make one; forget receipts older than 30 days. Blocks briefly.

        A line that a crash cut off at the end was never promised to anybody and goes. Damage
        anywhere else may hide a started attempt: the journal then takes a new id, which tells the
        server not to offer anything again that it has ever offered under the old one.
        """
        image = read_journal(path)
        entries = _kept(image.entries, _now_ms() if now_ms is None else now_ms)
        journal_id, size = image.journal_id, image.good_bytes
        rewrite = not journal_id or image.damaged or len(entries) < len(image.entries)
        if image.damaged or not journal_id:
            journal_id = str(uuid.uuid4())
        if rewrite or size > _COMPACT_BYTES:
            size = write_journal(path, journal_id, image.counter, entries.items())
        elif path.stat().st_size > size:
            os.truncate(path, size)
        journal = cls(path, journal_id, image.counter, size)
        journal.entries = entries
        return journal

    def decide(self, attempt_id: str, input_digest: bytes) -> Decision:
        """Say what an offer is. STARTED means: unknown, `record_start` may follow."""
        entry = self.entries.get(attempt_id)
        if entry is None:
            return Decision.STARTED
        if entry.state is EntryState.TOMBSTONED:
            return Decision.TOMBSTONED
        if entry.input_digest != input_digest:
            return Decision.CONFLICT
        return Decision.EXISTING

    def record_start(self, attempt_id: str, input_digest: bytes, told: Told) -> None:
        """Write that this attempt is started; `told` is called the moment that is on disk.

        Told an error: it is not in the journal and must not be started. The id is taken from the
        moment of the call, so that a second offer meanwhile is already EXISTING.
        """
        if attempt_id in self.entries:
            raise ValueError(f"cannot journal {attempt_id}: it is in the journal already")
        entry = self._new(EntryState.JOURNALLED, input_digest=input_digest)
        self._record(attempt_id, entry, start_line(attempt_id, entry), told)

    def record_tombstone(self, attempt_id: str, reason: str, told: Told) -> None:
        """Write that this attempt must never start. An id that is known stays what it is."""
        if attempt_id in self.entries:
            told(None)
            return
        entry = self._new(EntryState.TOMBSTONED, reason=reason)
        self._record(attempt_id, entry, tombstone_line(attempt_id, entry), told)

    def record_receipt(self, attempt_id: str, result_hash: bytes, then: Callable[[], None]) -> None:
        """Note that the server has the result; `then` is called once that is on disk.

        It gets there with the next start, or after a second. Until `then` the spool has to stay,
        or a power cut could leave neither result nor receipt.
        """
        known = self.entries.get(attempt_id)
        entry = JournalEntry(
            state=EntryState.RECEIPTED,
            input_digest=b"" if known is None else known.input_digest,
            counter=self.counter if known is None else known.counter,
            at_ms=_now_ms(),
            result_hash=result_hash,
        )
        self.entries[attempt_id] = entry
        self._receipts.append((receipt_line(attempt_id, entry), then))
        if self._receipt_timer is None:
            self._receipt_timer = asyncio.get_running_loop().call_later(
                _RECEIPTS_WAIT_S, self._begin_flush
            )

    async def close(self) -> None:
        """Flush everything and close the file. A disk that takes no receipt now is left alone."""
        while self._flushing is not None:
            await asyncio.wait({self._flushing})
        if self._receipts:
            self._begin_flush()
            while self._flushing is not None:
                await asyncio.wait({self._flushing})
        if self._receipt_timer is not None:
            self._receipt_timer.cancel()
        os.close(self._fd)

    # -- writing -----------------------------------------------------------------------------------

    def _new(
        self, state: EntryState, *, input_digest: bytes = b"", reason: str = ""
    ) -> JournalEntry:
        self.counter += 1
        return JournalEntry(
            state=state,
            input_digest=input_digest,
            counter=self.counter,
            at_ms=_now_ms(),
            reason=reason,
        )

    def _record(self, attempt_id: str, entry: JournalEntry, line: bytes, told: Told) -> None:
        self.entries[attempt_id] = entry
        self._waiting.append((attempt_id, line, told))
        self._begin_flush()

    def _begin_flush(self) -> None:
        """Flush soon: whoever comes in the same turn of the loop shares the flush."""
        if self._flushing is None:
            loop = asyncio.get_running_loop()
            self._flushing = loop.create_future()
            loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Write all that waits, and sync once for all of it.

        For one start alone right here: 0.3 ms, to which a thread would add another 0.3. For
        several in a thread, and whoever comes meanwhile shares the next one.
        """
        if self._receipt_timer is not None:
            self._receipt_timer.cancel()
            self._receipt_timer = None
        starts, self._waiting = self._waiting, []
        receipts, self._receipts = self._receipts, []
        batch = _Batch(starts, receipts)
        content = b"".join([line for _, line, _ in starts] + [line for line, _ in receipts])
        compact = self._size - self._compacted_size > _COMPACT_BYTES
        if len(starts) == 1 and not compact:
            self._settle(batch, self._write(content, None))
        else:
            if compact:  # also what a daemon that runs for months remembers has an end
                self.entries = _kept(self.entries, _now_ms())
            entries = list(self.entries.items()) if compact else None
            asyncio.get_running_loop().run_in_executor(
                None, self._write, content, entries
            ).add_done_callback(lambda done: self._settle(batch, done.result()))

    def _write(
        self, content: bytes, compact: list[tuple[str, JournalEntry]] | None
    ) -> OSError | None:
        """Append and sync; or put `compact`, which has the same facts, in place of the file.

        Gives the error instead of raising it. What was written in part is taken back: it would
        stand in the middle of the file later.
        """
        try:
            if compact is not None:
                self._size = write_journal(self._path, self.journal_id, self.counter, compact)
                self._compacted_size = self._size
                os.close(self._fd)
                self._fd = _append_to(self._path)
                return None
            if self._torn:
                os.ftruncate(self._fd, self._size)
                self._torn = False
            self._torn = True
            written = 0
            while written < len(content):
                written += os.write(self._fd, content[written:])
            sync_file(self._fd)
        except OSError as error:
            return error
        self._torn = False
        self._size += len(content)
        return None

    def _settle(self, batch: _Batch, error: OSError | None) -> None:
        """Tell those who wait how the flush went, and flush for those who came meanwhile."""
        flushing, self._flushing = self._flushing, None
        for attempt_id, _, told in batch.starts:
            if error is not None:
                del self.entries[attempt_id]
            told(error)
        if error is None:
            for _, then in batch.receipts:
                then()
        else:
            self._receipts = [*batch.receipts, *self._receipts]
        if self._waiting:
            self._begin_flush()
        elif self._receipts and self._receipt_timer is None:
            self._receipt_timer = asyncio.get_running_loop().call_later(
                _RECEIPTS_WAIT_S, self._begin_flush
            )
        if flushing is not None:
            flushing.set_result(None)


class _Batch:
    """What one flush makes durable: starts and tombstones that wait for it, and receipts."""

    __slots__ = ("receipts", "starts")

    def __init__(
        self,
        starts: list[_Waiting],
        receipts: list[tuple[bytes, Callable[[], None]]],
    ) -> None:
        self.starts, self.receipts = starts, receipts


def _kept(entries: dict[str, JournalEntry], now_ms: int) -> dict[str, JournalEntry]:
    """Return the entries without receipts and tombstones that are too old to be asked for."""
    return {
        attempt_id: entry
        for attempt_id, entry in entries.items()
        if entry.state is EntryState.JOURNALLED or entry.at_ms >= now_ms - _KEEP_MS
    }


def _append_to(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
