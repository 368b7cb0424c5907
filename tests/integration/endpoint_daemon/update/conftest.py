"""An installed daemon that is enrolled, with a short probation.

With ``FARHAND_FULL_LENGTH=1`` the probation is the product's own, two minutes.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from farhand_daemon.machine_file import PROBATION_DEFAULT_S
from tests.fakes.fake_control_plane import FakeControlPlane, FakeMachine
from tests.fakes.installed_program import InstalledProgram
from tests.integration.endpoint_daemon.conftest import Farhandd

FULL_LENGTH = os.environ.get("FARHAND_FULL_LENGTH") == "1"
PATIENCE_S = 300.0 if FULL_LENGTH else 30.0


def machine_file(*, probation_s: int) -> str:
    """Return a machine file. What is to pass needs time on a busy computer, what fails does not."""
    seconds = PROBATION_DEFAULT_S if FULL_LENGTH else probation_s
    return f'trust_level = "trusted"\nupdate_probation_s = {seconds}\n'


PASSES_S = 6


@dataclass
class Machine:
    """One machine, its installed program, and the processes that the test started of it."""

    plane: FakeControlPlane
    program: InstalledProgram
    home: Path
    machine_id: str
    farhandd: Farhandd
    processes: list[asyncio.subprocess.Process] = field(default_factory=list)

    @property
    def there(self) -> FakeMachine:
        return self.plane.machines[self.machine_id]

    async def run(self, **environ: str) -> asyncio.subprocess.Process:
        """Start the daemon as a service manager does."""
        with (self.home.parent / "said").open("ab") as said:  # for whoever reads a failure
            process = await asyncio.create_subprocess_exec(
                self.program.farhandd,
                *("run", "--home", str(self.home)),
                env={**os.environ, **environ},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )
        self.processes.append(process)
        return process

    async def connects(self, version: str) -> None:
        """Wait until a daemon that calls itself so says Hello, and no other after it."""
        await self.plane.until(
            lambda: (
                bool(self.there.hellos)
                and self.there.hellos[-1].daemon_version == version
                and self.there.session is not None
                and self.there.session.link.welcomed
            ),
            timeout_s=PATIENCE_S,
        )

    async def comes_to(self, condition: Callable[[], bool]) -> None:
        """Wait for something that only files tell."""
        end = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end, "it did not happen in time"
            await asyncio.sleep(0.02)  # nothing announces it


@pytest.fixture
async def machine(
    plane: FakeControlPlane, farhandd: Farhandd, tmp_path: Path
) -> AsyncIterator[Machine]:
    program = InstalledProgram.make(tmp_path / "data")
    machine_id = await farhandd.enrol(plane)
    farhandd.narrow(machine_file(probation_s=PASSES_S))
    machine = Machine(plane, program, farhandd.home, machine_id, farhandd)
    yield machine
    for process in machine.processes:
        if process.returncode is None:
            process.kill()
            await process.wait()
