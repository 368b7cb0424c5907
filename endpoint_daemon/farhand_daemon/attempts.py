"""Every attempt this machine knows: journal, spool and supervisors seen as one.

The daemon's other parts use this and nothing below it. On one event loop.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from farhand_daemon.journal import Decision, Journal, Told, nothing
from farhand_daemon.journal_file import EntryState
from farhand_daemon.supervisor.fork_client import SPOOL_FOLDER, ForkServer
from farhand_daemon.supervisor.handle import CommandHandle, HandleState
from farhand_daemon.supervisor.listener import CommandListener
from farhand_daemon.supervisor.pool import SupervisorPool
from farhand_daemon.supervisor.records import (
    ExitRecord,
    Quiet,
    SpawnSpec,
    Started,
    StopReason,
    Stream,
    SupervisorLoss,
)
from farhand_shared.limits import (
    FREE_DISK_MIN_BYTES,
    SPOOL_HEAD_BYTES,
    SPOOL_TAIL_BYTES,
    SPOOL_TOTAL_BYTES,
)

__all__ = ["AttemptState", "AttemptStatus", "Attempts", "Decision"]

_JOURNAL = "journal"


class AttemptState(StrEnum):
    """Where an attempt stands; answered alike before and after a restart."""

    UNKNOWN = "unknown"
    TOMBSTONED = "tombstoned"  # cancelled before it came; will never start
    JOURNALLED = "journalled"  # about to start
    STARTED = "started"
    FINISHED = "finished"  # its result waits for the server
    INDETERMINATE = "indeterminate"  # may have run; nobody can say how it ended
    RECEIPTED = "receipted"  # the server has its result


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStatus:
    """What can be said of one attempt. Fields are None where the state has no such fact."""

    state: AttemptState
    input_digest: bytes | None = None
    started: Started | None = None
    record: ExitRecord | None = None
    loss: SupervisorLoss | None = None
    result_hash: bytes | None = None


class Attempts:
    """Open with `Attempts.open`; `close` when done."""

    def __init__(self, journal: Journal, listener: CommandListener, spool_dir: Path) -> None:
        self._journal, self._listener, self._spool_dir = journal, listener, spool_dir
        self._pool: SupervisorPool
        self._forgotten: set[str] = set()

    @classmethod
    async def open(
        cls,
        state_dir: Path,
        fork_server: ForkServer,
        listener: CommandListener,
        *,
        head_bytes: int = SPOOL_HEAD_BYTES,
        tail_bytes: int = SPOOL_TAIL_BYTES,
        warm: int = 1,
        idle_s: float = 30.0,
    ) -> Attempts:
        """Read the journal and take over what earlier daemons left. Only one per `state_dir`.

        `live` holds it all afterwards: running commands, results nobody acknowledged, and attempts
        of which only the journal knows (these have a `loss`: the start may have happened).
        """
        journal = Journal.open(state_dir / _JOURNAL)
        attempts = cls(journal, listener, state_dir / SPOOL_FOLDER)
        attempts._pool = SupervisorPool(
            fork_server,
            _Filter(attempts),
            head_bytes=head_bytes,
            tail_bytes=tail_bytes,
            warm=warm,
            idle_s=idle_s,
        )
        await attempts._pool.open(digest_of=attempts._digest_of)
        attempts._reconcile()
        return attempts

    @property
    def journal_id(self) -> str:
        """Random, made with the journal; another one means that facts were lost."""
        return self._journal.journal_id

    @property
    def counter(self) -> int:
        """How many facts the journal has had; lower than before means a restored home."""
        return self._journal.counter

    @property
    def live(self) -> Mapping[str, CommandHandle]:
        """All attempts without a receipt: running, over but not acknowledged, indeterminate."""
        return self._pool.handles

    @property
    def orphans(self) -> list[str]:
        """The attempts whose process lives though its supervisor was killed; receipted or not."""
        return self._pool.orphans.living

    @property
    def ending_orphans(self) -> bool:
        """Whether one of them is being ended."""
        return self._pool.orphans.ending

    def on_orphan_end(self, told: Callable[[], None]) -> None:
        """Have `told` called whenever one of them is over."""
        self._pool.orphans.on_end = told

    def start(
        self, attempt_id: str, input_digest: bytes, spec: SpawnSpec, told: Told = nothing
    ) -> Decision:
        """Start an attempt unless its id was seen before; nothing is executed before the journal
        is on disk. The id is taken from now on; start, output and end are told to the listener.

        With STARTED, `told` is called once, before the listener: at the start itself, or with the
        error when the journal cannot be written. Then, and when this raises OSError (no socket, no
        room for a large request), nothing was started and the id is free again.
        """
        decision = self._journal.decide(attempt_id, input_digest)
        if decision is not Decision.STARTED:
            return decision
        # The supervisor prepares itself while the disk works.
        handle = self._pool.prepare(attempt_id, spec, input_digest)

        def settled(error: OSError | None) -> None:
            if error is None:
                handle.go()
            else:
                self._forgotten.add(attempt_id)
                handle.cancel(StopReason.CANCEL)
            told(error)

        # Told by the flush itself: a task that waits for it would be a little later.
        self._journal.record_start(attempt_id, input_digest, settled)
        return Decision.STARTED

    def cancel(self, attempt_id: str, reason: StopReason, told: Told = nothing) -> None:
        """End an attempt: its end is told to the listener as always.

        An unknown id will never start; `told` is called once its tombstone is on disk, or with the
        error. The process of one that was lost is ended too; nothing more is told of it.
        """
        handle = self.live.get(attempt_id)
        if handle is not None:
            handle.cancel(reason)
        elif attempt_id in self.orphans:
            self._pool.orphans.end(attempt_id)
        else:
            self._journal.record_tombstone(attempt_id, reason.value, told)

    def status(self, attempt_id: str) -> AttemptStatus:
        """Say where an attempt stands."""
        entry = self._journal.entries.get(attempt_id)
        handle = self.live.get(attempt_id)
        if handle is not None:
            state = {
                HandleState.PREPARED: AttemptState.JOURNALLED,
                HandleState.RUNNING: AttemptState.STARTED
                if handle.started is not None
                else AttemptState.JOURNALLED,
                HandleState.EXITED: AttemptState.FINISHED,
                HandleState.LOST: AttemptState.INDETERMINATE,
            }[handle.state]
            return AttemptStatus(
                state=state,
                input_digest=handle.input_digest,
                started=handle.started,
                record=handle.record,
                loss=handle.loss,
            )
        if entry is None:
            return AttemptStatus(state=AttemptState.UNKNOWN)
        if entry.state is EntryState.TOMBSTONED:
            return AttemptStatus(state=AttemptState.TOMBSTONED)
        return AttemptStatus(
            state=AttemptState.RECEIPTED,
            input_digest=entry.input_digest,
            result_hash=entry.result_hash,
        )

    def is_receipted(self, attempt_id: str) -> bool:
        """Say whether the server has acknowledged the result of this attempt."""
        return self.status(attempt_id).state is AttemptState.RECEIPTED

    def acknowledge_result(self, attempt_id: str, result_hash: bytes) -> None:
        """The server has the result: keep a receipt, remove the spool. Unknown ids are ignored.

        Only for attempts that are over; a running one keeps running and is not touched.
        """
        handle = self.live.get(attempt_id)
        if handle is None or handle.state not in (HandleState.EXITED, HandleState.LOST):
            return
        handle.release()
        self._journal.record_receipt(attempt_id, result_hash, handle.remove_spool)

    def forget(self, attempt_id: str) -> None:
        """The server keeps nothing of it: end it if it runs, and tell the listener nothing more."""
        self._pool.orphans.end(attempt_id)
        handle = self.live.get(attempt_id)
        if handle is None:
            return
        if handle.state in (HandleState.EXITED, HandleState.LOST):
            self.acknowledge_result(attempt_id, b"")
        else:
            self._forgotten.add(attempt_id)
            handle.cancel(StopReason.CANCEL)

    def link_state(self, *, up: bool) -> None:
        """Say whether output can be delivered. Down: full spools drop their middle, counted."""
        self._pool.link_state(up=up)

    def space_problem(
        self,
        *,
        total_bytes: int = SPOOL_TOTAL_BYTES,
        free_bytes: int = FREE_DISK_MIN_BYTES,
    ) -> str | None:
        """Say why nothing should be started for lack of space, or None when there is enough."""
        return space_problem(self._spool_dir, total_bytes=total_bytes, free_bytes=free_bytes)

    async def close(self, *, quit_leftovers: bool = False) -> None:
        """Let go of everything; running commands go on and are found by the next `open`.

        `quit_leftovers` also ends supervisors that only keep the pipes of background processes.
        """
        await self._pool.close(quit_leftovers=quit_leftovers)
        await self._journal.close()

    # -- for the pool ------------------------------------------------------------------------------

    def drop_if_forgotten(self, handle: CommandHandle) -> bool:
        """Remove the end of an attempt nobody wants to hear of; True when it was one."""
        if handle.attempt_id not in self._forgotten:
            return False
        self._forgotten.discard(handle.attempt_id)
        if handle.attempt_id in self._journal.entries:
            self.acknowledge_result(handle.attempt_id, b"")
        else:
            handle.release()
            handle.remove_spool()
        return True

    @property
    def listener(self) -> CommandListener:
        return self._listener

    def _digest_of(self, attempt_id: str) -> bytes:
        entry = self._journal.entries.get(attempt_id)
        return b"" if entry is None else entry.input_digest

    def _reconcile(self) -> None:
        """Bring journal and spools together, once, after the pool has found what is there."""
        for attempt_id, handle in list(self.live.items()):
            entry = self._journal.entries.get(attempt_id)
            if entry is not None and entry.state is EntryState.RECEIPTED:
                handle.release()  # the crash came between receipt and removal
                handle.remove_spool()
            elif entry is None and handle.state is HandleState.LOST and handle.started is None:
                # Prepared, never journalled: GO cannot have been sent. A spool with a start is
                # kept even so: then it is the journal that has lost something.
                handle.release()
                handle.remove_spool()
        for attempt_id, entry in self._journal.entries.items():
            if entry.state is EntryState.JOURNALLED and attempt_id not in self.live:
                self._pool.add_lost(attempt_id, entry.input_digest)
        self._pool.orphans.release_all_but(set(self.live))


class _Filter(CommandListener):
    """Passes events on, but not the end of an attempt that was forgotten meanwhile."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts

    def command_started(self, handle: CommandHandle, started: Started) -> None:
        self._attempts.listener.command_started(handle, started)

    def output_produced(self, handle: CommandHandle, stream: Stream, produced_bytes: int) -> None:
        self._attempts.listener.output_produced(handle, stream, produced_bytes)

    def input_moved(self, handle: CommandHandle) -> None:
        self._attempts.listener.input_moved(handle)

    def command_quiet(self, handle: CommandHandle, quiet: Quiet) -> None:
        self._attempts.listener.command_quiet(handle, quiet)

    def command_exited(self, handle: CommandHandle, record: ExitRecord) -> None:
        if not self._attempts.drop_if_forgotten(handle):
            self._attempts.listener.command_exited(handle, record)

    def supervisor_lost(self, handle: CommandHandle, loss: SupervisorLoss) -> None:
        if not self._attempts.drop_if_forgotten(handle):
            self._attempts.listener.supervisor_lost(handle, loss)


def space_problem(spool_dir: Path, *, total_bytes: int, free_bytes: int) -> str | None:
    """Say what keeps this disk from taking another spool: our own share, or what is free."""
    disk = os.statvfs(spool_dir)  # as shutil.disk_usage, whose import takes 15 ms
    free = disk.f_bavail * disk.f_frsize
    if free < free_bytes:
        return (
            f"cannot start commands: {free:,} bytes are free on the disk of {spool_dir}, "
            f"{free_bytes:,} are needed; make room there"
        )
    used = 0
    for entry in os.scandir(spool_dir):
        try:
            used += entry.stat().st_blocks * 512  # spools are sparse
        except FileNotFoundError:  # removed meanwhile
            continue
    if used >= total_bytes:
        return (
            f"cannot start commands: output that the server has not taken yet fills "
            f"{used:,} of {total_bytes:,} bytes in {spool_dir}; see that the machine is connected"
        )
    return None
