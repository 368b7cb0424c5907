"""A lab per test, which must leave no process behind."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.supervised_lab import Lab, until


@pytest.fixture
async def lab(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Lab]:
    """Open attempts over a fresh folder; `@pytest.mark.parametrize("lab", [{...}], indirect=True)`
    sets sizes. Afterwards nothing of it may be left.
    """
    lab = Lab(tmp_path / "state", **getattr(request, "param", {}))
    await lab.open()
    yield lab
    await lab.close()
    await until(lambda: not lab.supervisors())
    assert (lab.state_dir / "supervisor.log").read_text() == ""
