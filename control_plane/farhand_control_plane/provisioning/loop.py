"""The loop that makes environments, destroys them, and finds what nobody wants any more.

Every replica runs it. What is to be done is a row with its intent (`db/environments.py`); who does
it has the row's lease. So a replica that dies between any two steps leaves a row that the next one
goes on with; an environment without a row is found by the provisioner's own list and destroyed.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from farhand_control_plane.db import enrolment, environment_leases, environments
from farhand_control_plane.db.environment_leases import Lease
from farhand_control_plane.db.environments import Watched
from farhand_control_plane.db.listen import ENVIRONMENTS, Listener
from farhand_control_plane.db.pool import Database
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.environments import (
    Offer,
    Standing,
    gives_up,
    retry_after_s,
    why_destroy,
    why_forget,
)
from farhand_control_plane.domain.words import EnvironmentState
from farhand_control_plane.logs import log
from farhand_control_plane.provisioning.provisioner import Found, Provisioner, Redeemed, Request
from farhand_shared.errors import FarhandError, NotAllowed
from farhand_shared.ids import InstanceId, MachineId, ReplicaId
from farhand_shared.redact import Secret

_log = logging.getLogger(__name__)

AT_ONCE: Final = 4  # environments that one replica works on
LIST_WITHIN_S: Final = 60.0  # or nothing would be made or ended while a provisioner hangs
# Longer than the row's own life: who is gone for good cannot destroy it.
OUTLIVES_S: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """How often the loop looks, where nothing wakes it. Tests look more often."""

    look_s: float = 5.0  # tickets that closed, lifetimes that are over
    list_s: float = 30.0  # what is there that should not be, and the other way round
    lease_s: float = 15.0
    renew_s: float = 4.0  # also how late it is seen that what is being made is not wanted


class Provisioning:
    """One replica's work on environments, with the provisioner that this deployment uses."""

    def __init__(
        self,
        database: Database,
        listener: Listener,
        *,
        instance_id: InstanceId,
        replica_id: ReplicaId,
        provisioner: Provisioner,
        offer: Offer,
        rhythm: Rhythm | None = None,
    ) -> None:
        self._database = database
        self._instance_id = instance_id
        self._replica_id = replica_id
        self._provisioner = provisioner
        self.offer = offer
        self._rhythm = rhythm or Rhythm()
        self._wake = asyncio.Event()
        self._work: dict[MachineId, asyncio.Task[None]] = {}
        listener.subscribe(ENVIRONMENTS, lambda _payload: self._wake.set())

    async def run(self, url: str) -> None:
        """Work until cancelled; ``url`` is where environments find the control plane."""
        place = await self._provisioner.place()
        list_at = time.monotonic()
        try:
            while True:
                self._wake.clear()
                if time.monotonic() >= list_at:
                    await self._compare(place)
                    list_at = time.monotonic() + self._rhythm.list_s
                else:
                    await self._judge(place, {})
                await self._take_up(place, url)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._rhythm.look_s):
                        await self._wake.wait()
        finally:
            for task in self._work.values():
                task.cancel()
            await asyncio.gather(*self._work.values(), return_exceptions=True)

    async def destroy_here(self, within_s: float) -> bool:
        """Have every environment of this place destroyed, while the loop runs; False: some stay.

        For whoever stops an instance that is this computer's alone: nothing of it is to run on.
        """
        place = await self._provisioner.place()
        for one in await self._watched(place):
            await self._destroy(one, "Farhand was stopped")
        try:
            async with asyncio.timeout(within_s):
                while await self._watched(place):  # noqa: ASYNC110 - rows tell nobody when they end
                    await asyncio.sleep(0.05)
        except TimeoutError:
            return False
        return True

    # ── what is wanted and what is there ────────────────────────────────────────────────────────

    async def _compare(self, place: str) -> None:
        """Destroy what is there and not wanted; give up what is wanted and not there."""
        # Read in this order, nothing that is being made or destroyed meanwhile is taken for a leak
        # or for lost: a row is there before its environment, and ready only after it.
        before = frozenset(
            one.machine_id
            for one in await self._watched(place)
            if one.standing.state is EnvironmentState.READY
        )
        try:
            async with asyncio.timeout(LIST_WITHIN_S):
                there = {one.environment_id: one for one in await self._provisioner.list_all()}
        except Exception as error:  # as of `_under_lease`; time and work go on all the same
            log(_log, "environments_not_listed", level=logging.WARNING, error=_said(error))
            await self._judge(place, {})
            return
        await self._judge(place, there, listed=before)
        wanted = {one.machine_id for one in await self._watched()}
        for environment_id in map(MachineId, there):
            if environment_id not in wanted and environment_id not in self._work:
                log(_log, "environment_leak_found", environment=environment_id)
                self._work[environment_id] = asyncio.create_task(
                    self._destroy_leak(environment_id), name=f"leak {environment_id}"
                )

    async def _destroy_leak(self, environment_id: MachineId) -> None:
        try:
            await self._provisioner.destroy(environment_id)
        except Exception as error:  # it is found again
            log(
                _log,
                "environment_leak_stays",
                level=logging.WARNING,
                environment=environment_id,
                error=_said(error),
            )
        finally:
            self._wake.set()

    async def _watched(self, place: str | None = None) -> list[Watched]:
        """Return what is not known to be gone; with a place, there."""
        async with self._database.transaction() as tx:
            known = await environments.watched(tx, self._instance_id, self.offer.provisioner)
        return [one for one in known if place is None or one.place == place]

    async def _judge(
        self,
        place: str,
        there: dict[str, Found],
        *,
        listed: frozenset[MachineId] = frozenset(),
    ) -> None:
        """Store the intent to destroy whatever is over; ``listed``: ``there`` speaks of these."""
        for one in await self._watched():
            standing = one.standing
            if one.machine_id in listed:
                standing = _seen(standing, there.get(one.machine_id))
            if (why := why_destroy(standing, self.offer.limits)) is not None:
                await self._destroy(one, why)
            elif (why := why_forget(standing, is_here=one.place in ("", place))) is not None:
                log(_log, "environment_forgotten", environment=one.machine_id, why=why)
                async with self._database.transaction() as tx:
                    await environments.forget(tx, self._instance_id, one.machine_id, why)

    async def _destroy(self, one: Watched, why: str) -> None:
        async with self._database.transaction() as tx:
            told = await environments.destroy(tx, self._instance_id, one.machine_id, why=why)
        if told:
            log(_log, "environment_over", environment=one.machine_id, name=one.name, why=why)

    # ── work ────────────────────────────────────────────────────────────────────────────────────

    async def _take_up(self, place: str, url: str) -> None:
        self._work = {key: task for key, task in self._work.items() if not task.done()}
        free = AT_ONCE - len(self._work)
        if free <= 0:
            return
        async with self._database.transaction() as tx:
            leases = await self._claim(tx, place, limit=free)
        for lease in leases:
            self._work[lease.machine_id] = asyncio.create_task(
                self._do(lease, url), name=f"environment {lease.name}"
            )

    async def _claim(self, tx: Tx, place: str, *, limit: int) -> Sequence[Lease]:
        return await environment_leases.claim(
            tx,
            self._instance_id,
            provisioner=self.offer.provisioner,
            place=place,
            replica_id=self._replica_id,
            lease_s=self._rhythm.lease_s,
            limit=limit,
        )

    async def _do(self, lease: Lease, url: str) -> None:
        """Do what the row wants, under its lease; the row then says what became of it."""
        creating = lease.state is EnvironmentState.CREATING
        doing = (
            self._create(lease, url) if creating else self._provisioner.destroy(lease.machine_id)
        )
        try:
            await self._note(lease, await self._under_lease(lease, doing))
        except asyncio.CancelledError:
            await asyncio.shield(self._note(lease, _BROKEN_OFF))
            raise
        finally:
            self._wake.set()  # there is room again

    async def _under_lease(self, lease: Lease, doing: Coroutine[Any, Any, None]) -> "_Outcome":
        """Do it, for as long as the lease is kept; return what came of it."""
        task = asyncio.create_task(doing, name=f"{lease.state.value} {lease.name}")
        try:
            while True:
                done, _ = await asyncio.wait({task}, timeout=self._rhythm.renew_s)
                if done:
                    task.result()
                    return None
                async with self._database.transaction() as tx:
                    kept = await environment_leases.renew(tx, lease, self._rhythm.lease_s)
                if not kept:
                    return _BROKEN_OFF
        except FarhandError as error:
            return error
        except Exception as error:  # a provisioner may be anybody's: told like any other failure
            _log.exception("provisioner_failed", extra={"farhand_fields": {"name": lease.name}})
            return error
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _create(self, lease: Lease, url: str) -> None:
        async def code() -> Secret:
            async with self._database.transaction() as tx:
                return await environment_leases.make_code(tx, lease)

        async def confirm(said: Redeemed) -> None:
            if said.machine_id != lease.machine_id:
                raise NotAllowed(
                    f"cannot confirm {lease.name}: another machine was enrolled with its code"
                )
            async with self._database.transaction() as tx:
                await enrolment.confirm(
                    tx,
                    lease.instance_id,
                    lease.requester_member_id,
                    lease.machine_id,
                    said.words,
                )

        await self._provisioner.create(
            Request(
                environment_id=lease.machine_id,
                name=lease.name,
                url=url,
                lifetime_s=max(0.0, lease.left_s) + OUTLIVES_S,
                allow_inferred=lease.allow_inferred,
                confirmed=lease.confirmed,
                code=code,
                confirm=confirm,
            )
        )

    async def _note(self, lease: Lease, outcome: "_Outcome") -> None:
        """Store what came of it. When that fails too, the lease ends and somebody goes on."""
        try:
            if isinstance(outcome, Exception):
                await self._note_failure(lease, outcome)
                return
            async with self._database.transaction() as tx:
                if outcome is _BROKEN_OFF:
                    await environment_leases.release(tx, lease)
                elif lease.state is EnvironmentState.CREATING:
                    noted = await environment_leases.ready(tx, lease)
                else:
                    noted = await environment_leases.destroyed(tx, lease)
                if outcome is None and not noted:  # it is wanted otherwise by now
                    await environment_leases.release(tx, lease)
        except FarhandError as error:
            log(_log, "environment_not_noted", level=logging.WARNING, error=str(error))
            return
        event = "broken off" if outcome is _BROKEN_OFF else "done"
        log(
            _log,
            "environment_worked_on",
            environment=lease.machine_id,
            name=lease.name,
            wanted=lease.state.value,
            outcome=event,
        )

    async def _note_failure(self, lease: Lease, error: Exception) -> None:
        tries = lease.tries + 1
        log(
            _log,
            "environment_failed",
            level=logging.WARNING,
            environment=lease.machine_id,
            name=lease.name,
            wanted=lease.state.value,
            tries=tries,
            error=str(error),
        )
        async with self._database.transaction() as tx:
            if not await environment_leases.failed(tx, lease, str(error), retry_after_s(tries)):
                await environment_leases.release(tx, lease)
        is_final = isinstance(error, FarhandError) and not error.retryable
        if gives_up(lease.state, tries, is_final=is_final):
            async with self._database.transaction() as tx:
                await environments.destroy(
                    tx, lease.instance_id, lease.machine_id, why=f"it could not be made: {error}"
                )


class _BrokenOff:
    """The outcome of work whose lease was lost, or that is not wanted any more."""


_BROKEN_OFF: Final = _BrokenOff()
_Outcome = Exception | _BrokenOff | None  # None: it is done


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__


def _seen(standing: Standing, found: Found | None) -> Standing:
    return replace(standing, is_there=found is not None, lives=found is not None and found.lives)
