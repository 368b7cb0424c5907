"""One database and what runs on it, for one test."""

from collections.abc import AsyncIterator

import pytest

from tests.fakes.machine_lab import Lab


@pytest.fixture
async def lab(database, instance, until) -> AsyncIterator[Lab]:
    lab = Lab(database, instance, until)
    async with lab.stack:
        yield lab
