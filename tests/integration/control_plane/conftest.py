"""A migrated database as the control plane uses it, and waiting on conditions."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from farhand_control_plane.db.bootstrap import Bootstrap, ensure_instance
from farhand_control_plane.db.pool import Database

Until = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]


@pytest.fixture
async def database(migrated_url: str) -> AsyncIterator[Database]:
    """A pool over a fresh, migrated database."""
    async with Database(migrated_url) as pool:
        yield pool


@pytest.fixture
async def instance(database: Database) -> Bootstrap:
    """The ids of an instance that has just been set up."""
    async with database.transaction() as tx:
        return await ensure_instance(tx)


@pytest.fixture
def until() -> Until:
    """Wait until a question is answered with something true, and return that; 30 s at most."""

    async def wait(question: Callable[[], Awaitable[Any]], *, within_s: float = 30.0) -> Any:
        deadline = time.monotonic() + within_s
        while not (answer := await question()):
            assert time.monotonic() < deadline, f"not within {within_s} s: {question}"
            await asyncio.sleep(0.01)  # between two looks, not for timing
        return answer

    return wait
