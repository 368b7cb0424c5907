"""Writing what machines say into the database, one writer per attempt, in order.

Facts and output wait up to the flush time for company, so that a short command is one statement;
a result is written at once. While the database is away nothing is acknowledged, so the machine
stops sending when its window is full, and everything is tried again.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from psycopg.errors import DeadlockDetected

from farhand_control_plane.db import attempts, events, output
from farhand_control_plane.db.attempts import Standing
from farhand_control_plane.db.command_end import announce, lock_sessions
from farhand_control_plane.db.links import hold
from farhand_control_plane.db.pool import Database
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.machines.attempt_run import AttemptRun
from farhand_control_plane.machines.limits import OutputLimits
from farhand_control_plane.machines.machine_link import MachineLink
from farhand_control_plane.machines.news import AttemptNews
from farhand_shared.command import PROVISIONAL, TERMINAL, AttemptState
from farhand_shared.errors import Unavailable
from farhand_shared.link_events import Result, Stream

_log = logging.getLogger(__name__)

RETRY_FIRST_S: Final = 0.2
RETRY_CAP_S: Final = 5.0
NO_RESULT: Final = bytes(32)  # acknowledges a result that is refused: nothing is kept of it

_Answer = TypeVar("_Answer")


class Fenced(Exception):
    """The link is another's by now: nothing more may be written through it."""


class Recorder:
    """Stores progress and results of the runs of all links of this replica."""

    def __init__(
        self, *, results: Database, output: Database, news: AttemptNews, limits: OutputLimits
    ) -> None:
        """Output goes over other connections than results, so that bulk delays no end."""
        self._results = results
        self._output = output
        self._news = news
        self.limits = limits
        self._tasks: set[asyncio.Task[None]] = set()

    def due(self, link: MachineLink, run: AttemptRun) -> None:
        """Have whatever is new about a run written, now or when the flush time has passed."""
        if run.writing or not link.is_open:
            return
        if run.result is not None or run.unstored_bytes >= self.limits.row_bytes:
            self._start(link, run)
        elif run.timer is None and run.is_dirty:
            loop = asyncio.get_running_loop()
            run.timer = loop.call_later(self.limits.flush_s, self._start, link, run)

    def _start(self, link: MachineLink, run: AttemptRun) -> None:
        if run.timer is not None:
            run.timer.cancel()
            run.timer = None
        if run.writing or not link.is_open:
            return
        run.writing = True
        task = asyncio.create_task(self._write(link, run), name=f"record-{run.ref.attempt_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Wait for writes under way."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _write(self, link: MachineLink, run: AttemptRun) -> None:
        try:
            while link.is_open:
                result = run.result
                if result is not None and run.unstored_bytes <= self.limits.write_bytes:
                    await self._record(link, run, result)
                    return
                if not run.is_dirty:
                    return
                await self._advance(link, run)
                if run.result is None and run.unstored_bytes < self.limits.row_bytes:
                    return
        except Fenced:
            link.close_superseded()
        except Exception:
            # Never a half-written story: the next link starts from what is stored.
            _log.exception("cannot record attempt %s", run.ref.attempt_id)
            link.fail("cannot record an attempt")
        finally:
            run.writing = False
            if run.ended is None:
                self.due(link, run)

    async def _advance(self, link: MachineLink, run: AttemptRun) -> None:
        progress, token = run.progress(time.monotonic())

        async def write() -> AttemptState | None:
            if run.ref.ticket_id is None or progress.started_ago_s is None:
                async with self._output.autocommit() as connection:
                    return await attempts.advance(connection, link.held, progress)
            async with self._output.transaction() as tx:
                state = await attempts.advance(tx, link.held, progress)
                if state is not None:
                    await self._emit_started(tx, link, run)
                return state

        if await self._retrying(link, write) is None:
            standing = await self._standing(link, run)
            if standing.state is None or standing.state in TERMINAL - PROVISIONAL:
                # Ended meanwhile by a person's act or a revocation: its output is not wanted.
                run.written(token)
                return
            raise RuntimeError(f"attempt {run.ref.attempt_id} is not where it was: {standing}")
        run.written(token)
        link.acknowledge(run)
        self._note(run)

    async def _emit_started(self, tx: Tx, link: MachineLink, run: AttemptRun) -> None:
        await events.emit(
            tx,
            link.held.instance_id,
            "command_started",
            subject_id=run.ref.command_id,
            ticket_id=run.ref.ticket_id,
            payload={
                "command_id": run.ref.command_id,
                "machine": link.name,
                "title": run.ref.title,
                "state": AttemptState.STARTED.value,
                "exit_status": None,
            },
        )

    async def _record(self, link: MachineLink, run: AttemptRun, result: Result) -> None:
        await self._store_tails(link, run)
        ending = run.ending(result, time.monotonic())

        async def write() -> AttemptState | None:
            if run.ref.session_id is None and run.ref.ticket_id is None:
                async with self._results.autocommit() as connection:
                    return await attempts.record(connection, link.held, ending)
            async with self._results.transaction() as tx:
                if run.ref.session_id is not None:
                    await lock_sessions(tx, link.held.instance_id, [run.ref.session_id])
                before = await attempts.lock_state(tx, link.held, run.ref.attempt_id)
                state = await attempts.record(tx, link.held, ending)
                if state is not None:
                    if ending.progress.started_ago_s is not None and run.ref.ticket_id is not None:
                        await self._emit_started(tx, link, run)
                    late = before in PROVISIONAL
                    end = attempts.ended(
                        link.held, link.name, run.ref, state, result.result, late=late
                    )
                    await announce(tx, [end])
                return state

        state = await self._retrying(link, write)
        if state is not None:
            link.recorded(run, result.result_hash, state)
        else:
            standing = await self._standing(link, run)
            if standing.result_hash is not None and standing.result_hash != result.result_hash:
                _log.error("attempt %s: a second, other result is refused", run.ref.attempt_id)
            if standing.result_hash is None and standing.state in attempts.OPEN_STATES:
                raise RuntimeError(f"attempt {run.ref.attempt_id} is not where it was: {standing}")
            link.recorded(
                run, standing.result_hash or NO_RESULT, standing.state or AttemptState.LOST
            )
        self._note(run)

    def _note(self, run: AttemptRun) -> None:
        if time.monotonic() >= run.quiet_until:
            self._news.note(run.ref.attempt_id)

    async def _store_tails(self, link: MachineLink, run: AttemptRun) -> None:
        """Store what the tail files hold, in batches of ``write_bytes``."""
        rows: list[tuple[Stream, int, bytes]] = []
        size = 0

        async def write() -> None:
            async with self._output.transaction() as tx:
                if not await hold(tx, link.held):
                    raise Fenced
                for stream in Stream:
                    chunks = [(offset, data) for kind, offset, data in rows if kind is stream]
                    if chunks:
                        await output.store(
                            tx, link.held.instance_id, run.ref.attempt_id, stream, chunks
                        )

        for row in run.tail_rows():
            rows.append(row)
            size += len(row[2])
            if size >= self.limits.write_bytes:
                await self._retrying(link, write)
                rows.clear()
                size = 0
        if rows:
            await self._retrying(link, write)

    async def _standing(self, link: MachineLink, run: AttemptRun) -> Standing:
        async def read() -> Standing:
            async with self._results.autocommit() as connection:
                return await attempts.standing(connection, link.held, run.ref.attempt_id)

        standing = await self._retrying(link, read)
        if not standing.held:
            raise Fenced
        return standing

    async def _retrying(self, link: MachineLink, call: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """Run ``call`` until the database answers; each is safe to repeat (compare-and-set)."""
        wait_s = RETRY_FIRST_S
        while True:
            try:
                return await call()
            except (Unavailable, DeadlockDetected) as error:
                if not link.is_open:
                    raise Fenced from error
                _log.warning("cannot write to the database, trying again: %s", error)
            await asyncio.sleep(wait_s)  # back-off
            wait_s = min(wait_s * 2, RETRY_CAP_S)
