"""What time does: queued commands expire, silent machines are told offline and at last given up."""

import asyncio
import logging
from typing import Final

from psycopg.errors import DeadlockDetected

from farhand_control_plane.db import attempts, claims, links
from farhand_control_plane.db.pool import Database
from farhand_control_plane.machines.dispatcher import Dispatcher
from farhand_shared.errors import FarhandError

_log = logging.getLogger(__name__)

EXPIRE_S: Final = 5.0
LOOK_EVERYWHERE_EVERY: Final = 2  # rounds; the net under lost notifications
DAILY_EVERY: Final = 24 * 3600 // 5  # rounds
UNSEEN_DAYS: Final = 7  # a machine away for longer: its running commands are called lost


class Sweeper:
    """Runs in every replica; rows are taken with SKIP LOCKED, so that they share the work."""

    def __init__(
        self, database: Database, dispatcher: Dispatcher, *, expire_s: float = EXPIRE_S
    ) -> None:
        self._database = database
        self._dispatcher = dispatcher
        self._expire_s = expire_s
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        self._task = asyncio.create_task(self._run(), name="sweep-commands")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        round_ = 0
        while True:
            try:
                await sweep(self._database, daily=round_ % DAILY_EVERY == 0)
                if round_ % LOOK_EVERYWHERE_EVERY == 0:
                    await self._dispatcher.look_everywhere()
            except (FarhandError, DeadlockDetected) as error:
                _log.warning("cannot sweep commands: %s", error)
            round_ += 1
            await asyncio.sleep(self._expire_s)  # the interval itself


async def sweep(database: Database, *, daily: bool = False) -> None:
    """Do one round."""
    async with database.transaction() as tx:
        await claims.expire_queued(tx)
    async with database.transaction() as tx:
        await links.expire(tx)
    given_up = int(daily)
    while given_up:  # batch by batch, each told before the next
        async with database.transaction() as tx:
            given_up = await attempts.give_up_unseen(tx, after_days=UNSEEN_DAYS)
