"""Transactions of one claim: each proves the claim, and each end is a named point."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from psycopg.errors import DeadlockDetected, SerializationFailure

from farhand_control_plane.db import events, leases
from farhand_control_plane.db.leases import Claim
from farhand_control_plane.db.pool import Database
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.engine.contract import Json
from farhand_control_plane.engine.points import Points

_DEADLOCK_TRIES: Final = 5

T = TypeVar("T")
Work = Callable[[Tx], Awaitable[T]]


class Fenced:
    """Does work in transactions that fail with FenceLost once the session is somebody else's."""

    def __init__(self, database: Database, claim: Claim, points: Points) -> None:
        self.claim = claim
        self._database = database
        self._points = points

    async def read(self, work: Work[T]) -> T:
        """Do work that writes nothing."""
        async with self._database.transaction() as tx:
            await leases.fence(tx, self.claim)
            return await work(tx)

    async def commit(self, name: str, work: Work[T], *, locked: bool = False) -> T:
        """Do work and commit; again from the start if the server broke a deadlock with it.

        ``locked`` keeps messages out until the commit. ``name`` is one of ``points.COMMITS``.
        """
        for tries_left in reversed(range(_DEADLOCK_TRIES)):
            try:
                async with self._database.transaction() as tx:
                    await (leases.lock if locked else leases.fence)(tx, self.claim)
                    done = await work(tx)
                    self._points(f"{name}.before_commit")
            except (DeadlockDetected, SerializationFailure):
                if not tries_left:
                    raise
                continue
            self._points(f"{name}.committed")
            return done
        raise AssertionError("unreachable: the last try returns or raises")

    async def tell(self, tx: Tx, kind: str, payload: Json) -> None:
        """Emit an event about the session: the last thing in a transaction."""
        await events.emit(
            tx,
            self.claim.instance_id,
            kind,
            subject_id=self.claim.session_id,
            ticket_id=self.claim.ticket_id,
            payload={"session_kind": self.claim.kind.value, **payload},
        )
