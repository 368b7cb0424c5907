"""Telling other replicas that attempts moved on, off the path of the command itself.

A NOTIFY inside a statement makes its commit queue behind every other notifying one, so the hot
writes carry none; their attempts are announced together, a little later.
"""

import asyncio
import logging

from farhand_control_plane.db import attempts
from farhand_control_plane.db.pool import Database
from farhand_shared.errors import Unavailable
from farhand_shared.ids import AttemptId

_log = logging.getLogger(__name__)

GATHER_S = 0.05


class AttemptNews:
    """Gathers attempts for GATHER_S and announces them in one statement."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._gathered: set[AttemptId] = set()
        self._task: asyncio.Task[None] | None = None

    def note(self, attempt_id: AttemptId) -> None:
        """Announce that an attempt's output or state moved on."""
        self._gathered.add(attempt_id)
        if self._task is None:
            self._task = asyncio.create_task(self._announce(), name="attempt-news")

    async def close(self) -> None:
        if self._task is not None:
            await self._task

    async def _announce(self) -> None:
        try:
            while self._gathered:
                await asyncio.sleep(GATHER_S)  # gathering is the purpose
                gathered, self._gathered = self._gathered, set()
                try:
                    async with self._database.autocommit() as connection:
                        await attempts.announce_news(connection, gathered)
                except Unavailable as error:
                    # Followers look by themselves once a second.
                    _log.warning("attempt news were lost: %s", error)
        finally:
            self._task = None
