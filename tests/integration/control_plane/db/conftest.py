"""A second database beside the one a test is about."""

from collections.abc import Iterator

import pytest

from tests import servers


@pytest.fixture
def other_database_url(every_database_url: str) -> Iterator[str]:
    """Another fresh, empty database on the same server."""
    with servers.fresh_database(every_database_url) as address:
        yield address
