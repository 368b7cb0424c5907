"""The engine of one replica: claims sessions that have work and steps them side by side."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from farhand_control_plane.db import leases
from farhand_control_plane.db.connect import is_lost
from farhand_control_plane.db.leases import Claim, FenceLost
from farhand_control_plane.db.listen import SESSIONS, Listener
from farhand_control_plane.db.pool import Database
from farhand_control_plane.domain.words import SessionKind
from farhand_control_plane.engine.contract import Agent
from farhand_control_plane.engine.points import Points, unobserved
from farhand_control_plane.engine.settings import EngineSettings
from farhand_control_plane.engine.step import End, Step
from farhand_shared.errors import FarhandError
from farhand_shared.ids import ReplicaId, SessionId

_log = logging.getLogger(__name__)

_LOCKED_PAUSE_S: Final = 0.02  # a session is due but its row is locked for a moment
_DATABASE_PAUSE_S: Final = 1.0


class Engine:
    """Steps the sessions of the kinds it has agents for, at most ``slots`` at once.

    Any number of engines share a database. A session that waits costs a row there: no task, no
    connection. ``run`` works until ``drain`` is called; being cancelled or killed instead only
    means that other replicas wait for the leases to lapse.
    """

    def __init__(
        self,
        database: Database,
        listener: Listener,
        agents: Mapping[SessionKind, Agent],
        replica_id: ReplicaId,
        slots: int = 16,
        *,
        settings: EngineSettings | None = None,
        points: Points = unobserved,
    ) -> None:
        self._database = database
        self._listener = listener
        self._agents = agents
        self._replica_id = replica_id
        self._slots = slots
        self._settings = settings or EngineSettings()
        self._points = points
        self._wake = asyncio.Event()
        self._draining = False
        self._stopped = asyncio.Event()
        self._stopped.set()
        self._running: dict[asyncio.Task[None], Step] = {}
        self._to_give_back: list[Claim] = []  # leases left over when the database went away
        self._model_failures: dict[SessionId, int] = {}
        self.ended: dict[End, int] = dict.fromkeys(End, 0)  # claims by how they ended

    @property
    def stepping(self) -> int:
        """How many sessions are being stepped now."""
        return len(self._running)

    async def run(self) -> None:
        """Claim and step until drained."""
        self._stopped.clear()
        unsubscribe = self._listener.subscribe(SESSIONS, lambda _: self._wake.set())
        try:
            async with asyncio.TaskGroup() as group:
                renewing = group.create_task(self._renew_leases(), name="engine: renew leases")
                await self._claim_sessions(group)
                await self._finish_steps()
                renewing.cancel()
            try:
                await self._give_back()
            except FarhandError as error:
                _log.warning("leases are left to lapse: %s", error)
        finally:
            unsubscribe()
            self._stopped.set()

    async def drain(self) -> None:
        """Stop claiming, hand every session over to the other replicas, and end ``run``.

        A model call that is on its way is cut off (its messages are still pending); anything else
        gets ``drain_s`` to reach the end of its transaction. Nothing is charged.
        """
        self._draining = True
        self._wake.set()
        await self._stopped.wait()

    # ── claiming ────────────────────────────────────────────────────────────────────────────────

    async def _claim_sessions(self, group: asyncio.TaskGroup) -> None:
        while not self._draining:
            # Cleared before looking: a wake-up during the look makes another look.
            self._wake.clear()
            free = self._slots - len(self._running)
            wait_s: float | None = None  # no slot is free: the end of a step wakes us
            if free > 0:
                wait_s = await self._claim_some(group, free)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()

    async def _claim_some(self, group: asyncio.TaskGroup, free: int) -> float | None:
        """Claim up to ``free`` sessions and start stepping; return how long to wait for more."""
        kinds = [*self._agents]
        try:
            await self._give_back()
            async with self._database.transaction() as tx:
                claims = await leases.claim(
                    tx, self._replica_id, kinds, limit=free, lease_s=self._settings.lease_s
                )
            for claim in claims:
                self._points("claimed")
                self._start(group, claim)
            if len(claims) == free:
                return None
            async with self._database.autocommit() as connection:
                due_s = await leases.due_in(connection, kinds)
        except Exception as error:
            # Whatever it is, this loop is the heart: it says so and tries again.
            if is_lost(error):
                _log.warning("cannot claim sessions: %s", error)
            else:
                _log.exception("cannot claim sessions")
            return _DATABASE_PAUSE_S
        if due_s is None:
            return self._settings.poll_s
        return min(max(due_s, _LOCKED_PAUSE_S), self._settings.poll_s)

    def _start(self, group: asyncio.TaskGroup, claim: Claim) -> None:
        step = Step(
            self._database,
            self._agents[claim.kind],
            claim,
            settings=self._settings,
            points=self._points,
            model_failures=self._model_failures,
            stopping=lambda: self._draining,
        )
        task = group.create_task(self._run_step(step), name=f"step {claim.session_id}")
        self._running[task] = step
        task.add_done_callback(self._forget)

    async def _run_step(self, step: Step) -> None:
        try:
            end = await step.run()
        except asyncio.CancelledError:
            self._to_give_back.append(step.claim)  # harmless if the fence is why it was cancelled
            raise
        self.ended[end] += 1
        if end is End.UNREACHABLE:
            self._to_give_back.append(step.claim)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        self._wake.set()

    # ── keeping and giving back ─────────────────────────────────────────────────────────────────

    async def _renew_leases(self) -> None:
        while True:
            await asyncio.sleep(self._settings.renew_s)
            held = {task: step.claim for task, step in self._running.items()}
            if not held:
                continue
            try:
                async with self._database.transaction() as tx:
                    ours = await leases.renew(
                        tx, self._replica_id, [*held.values()], lease_s=self._settings.lease_s
                    )
            except Exception as error:
                # The steps go on: each of their writes proves the claim for itself.
                _log.warning("cannot renew leases: %s", error)
                continue
            for task, claim in held.items():
                if claim.session_id not in ours and not task.done():
                    _log.warning("session %s: the lease was lost", claim.session_id)
                    task.cancel()

    async def _finish_steps(self) -> None:
        """Bring the running steps to an end, kindly at first."""
        for task, step in self._running.items():
            if step.thinking:
                task.cancel()
        if self._running:
            await asyncio.wait([*self._running], timeout=self._settings.drain_s)
        left = [*self._running]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _give_back(self) -> None:
        """Return leases that no step holds any more."""
        while self._to_give_back:
            claim = self._to_give_back[-1]
            # A little later, not at once: where the step failed for a reason, it would fail again.
            in_s = 0.0 if self._draining else _DATABASE_PAUSE_S
            with suppress(FenceLost):
                async with self._database.transaction() as tx:
                    await leases.put_back(tx, claim, in_s=in_s)
            self._to_give_back.pop()
