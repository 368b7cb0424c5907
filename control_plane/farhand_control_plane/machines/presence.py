"""Keeping what the database says of this replica's links true: leases, presence, revocations."""

import asyncio
import logging
import time
from collections.abc import Coroutine
from typing import Final

from farhand_control_plane.db import links, machines
from farhand_control_plane.db.connect import connect, is_lost
from farhand_control_plane.db.links import HeldLink
from farhand_control_plane.db.listen import MACHINES, Listener
from farhand_control_plane.db.pool import Database
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import MachineStatus
from farhand_control_plane.machines.admission import QUARANTINED, REVOKED
from farhand_control_plane.machines.hub import Hub
from farhand_control_plane.machines.machine_link import Holding, MachineLink
from farhand_shared.errors import FarhandError, Unavailable
from farhand_shared.ids import MachineId, ReplicaId
from farhand_shared.limits import OFFLINE_AFTER_S
from farhand_shared.link_events import Bye

_log = logging.getLogger(__name__)

RENEW_S: Final = 15.0  # leases of 90 s and "offline after 45 s" allow a missed one
LEFT_RUNS_KEPT_S: Final = 600.0
_ENDED_WITHIN_S: Final = 2.0  # at the replica's stop; a lease that is left ends by itself


class Presence:
    """Renews, releases and rechecks the links in the hub."""

    def __init__(
        self, database: Database, listener: Listener, hub: Hub, replica_id: ReplicaId
    ) -> None:
        self._database = database
        self._hub = hub
        self._replica_id = replica_id
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._changed: set[MachineId] = set()
        self._recheck = asyncio.Event()
        self._unsubscribe = listener.subscribe(MACHINES, self._on_notification)

    async def open(self) -> None:
        """Show that this replica lives and begin to keep its leases."""
        self._connection = await self._show_alive()
        self._spawn(self._renew(), "renew-leases")
        self._spawn(self._recheck_changed(), "recheck-machines")

    async def close(self) -> None:
        self._unsubscribe()
        if self._ending:
            await asyncio.wait(self._ending, timeout=_ENDED_WITHIN_S)
        self._tasks |= self._ending
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._connection.close()

    async def release(self, link: MachineLink) -> None:
        """Say that a stream is over and when it was last heard; a newer epoch is left alone.

        Never raises. It is said also when the caller is cancelled: gRPC cancels a handler whose
        client is gone, and that is just when it gets here.
        """
        heard_s_ago = time.monotonic() - link.session.last_heard_at
        releasing = self._release(link.held, heard_s_ago)
        await asyncio.shield(self._see_through(releasing, "release-link"))

    def give_back(self, admitting: "asyncio.Task[Holding | Bye]") -> None:
        """Release what an admission takes whose stream has ended while it was decided."""
        self._see_through(self._give_back(admitting), "give-back-link")

    async def _give_back(self, admitting: "asyncio.Task[Holding | Bye]") -> None:
        try:
            holding = await admitting
        except FarhandError:
            return
        if isinstance(holding, Holding):
            await self._release(holding.held)

    async def _release(self, held: HeldLink, heard_s_ago: float | None = None) -> None:
        try:
            async with self._database.transaction() as tx:
                await links.release(tx, held, heard_s_ago=heard_s_ago)
        except Unavailable as error:
            # Its lease ends by itself.
            _log.warning("cannot release the link of machine %s: %s", held.machine_id, error)

    def _see_through(self, work: Coroutine[None, None, None], name: str) -> "asyncio.Task[None]":
        task = asyncio.create_task(work, name=name)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    def heard(self, link: MachineLink) -> None:
        """Note at once that a machine was heard: somebody has asked for it to be pinged."""
        self._spawn(self._renew_now([link]), "renew-lease")

    # Leases

    async def _show_alive(self) -> Tx:
        connection = await connect(self._database.dsn, "farhand replica")
        await links.hold_replica_lock(connection, self._replica_id)
        return connection

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_S)  # the interval itself
            held = self._hub.links()
            await self._renew_now(list(held))
            # Also the net under lost notifications.
            self._on_notification("")
            self._hub.forget_left(time.monotonic() - LEFT_RUNS_KEPT_S)
            await self._stay_alive()

    async def _stay_alive(self) -> None:
        """Replace the connection that shows that this replica lives, if it was lost."""
        try:
            await self._connection.execute("select 1")
        except Exception as error:
            if not is_lost(error):
                raise
            try:
                self._connection = await self._show_alive()
            except FarhandError as cause:
                _log.warning("cannot show that this replica lives: %s", cause)

    async def _renew_now(self, held: list[MachineLink]) -> None:
        if not held:
            return
        now = time.monotonic()
        try:
            async with self._database.autocommit() as connection:
                await links.renew(
                    connection,
                    self._replica_id,
                    [(link.held, now - link.session.last_heard_at) for link in held],
                )
                # Heard just now, and yet called offline: this replica or its database stood still.
                heard = [
                    link.held for link in held if now - link.session.last_heard_at < OFFLINE_AFTER_S
                ]
                expired = await links.expired_of(connection, self._replica_id, heard)
            for one in expired:
                async with self._database.transaction() as tx:
                    await links.revive(tx, self._replica_id, one)
        except Unavailable as error:
            _log.warning("cannot renew leases: %s", error)

    # Changes made elsewhere

    def _on_notification(self, machine_id: str) -> None:
        """A machine's status or link changed, or somebody asks whether it is alive."""
        if machine_id:
            link = self._hub.link(MachineId(machine_id))
            if link is None:
                return
            self._changed.add(link.held.machine_id)
            link.renew_when_heard = True
            link.session.probe(time.monotonic())
            link.output_due.set()
        else:
            self._changed.update(self._hub.held())
        self._recheck.set()

    async def _recheck_changed(self) -> None:
        while True:
            await self._recheck.wait()
            self._recheck.clear()
            changed, self._changed = self._changed, set()
            held = {
                machine_id: link.held
                for machine_id in changed
                if (link := self._hub.link(machine_id)) is not None
            }
            if not held:
                continue
            try:
                await self._recheck_now(held)
            except Unavailable as error:
                _log.warning("cannot recheck machines, trying again: %s", error)
                await asyncio.sleep(0.2)  # back-off
                self._changed |= changed
                self._recheck.set()

    async def _recheck_now(self, held: dict[MachineId, HeldLink]) -> None:
        async with self._database.autocommit() as connection:
            standing = await links.standing(connection, list(held.values()))
        for machine_id, status, name, epoch in standing:
            link = self._hub.link(machine_id)
            if link is None or link.held != held[machine_id]:
                continue
            link.name = name
            if status is MachineStatus.REVOKED:
                link.cancel_all("revoked")
                link.close(REVOKED)
                # What was offered here while the revocation committed was not seen by it.
                async with self._database.transaction() as tx:
                    await machines.end_commands(tx, link.held.instance_id, machine_id, name)
            elif status is MachineStatus.QUARANTINED:
                link.close(QUARANTINED)
            elif epoch != link.held.epoch:
                link.close_superseded()

    def _spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
