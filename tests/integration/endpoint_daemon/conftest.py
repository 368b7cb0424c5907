"""A fake control plane and real ``farhandd`` processes against it."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.fake_control_plane import FakeControlPlane, fake_control_plane

EXIT_DEADLINE_S = 30.0
HURRIED = Path(__file__).parents[2] / "fakes" / "hurried_daemon.py"


async def eventually(condition: Callable[[], bool], *, deadline_s: float = 20.0) -> None:
    """Wait for what only a file or a counter tells."""
    async with asyncio.timeout(deadline_s):
        while not condition():  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.02)


@dataclass(frozen=True)
class Ended:
    status: int
    stdout: str
    stderr: str


@dataclass
class Farhandd:
    """Starts ``farhandd`` on one home; ends what is left at the end of the test."""

    home: Path
    started: list[asyncio.subprocess.Process] = field(default_factory=list)

    async def start(self, *arguments: str, **options: object) -> asyncio.subprocess.Process:
        return await self.start_bare(*arguments, "--home", str(self.home), **options)

    async def start_hurried(self, factor: float) -> asyncio.subprocess.Process:
        """Run a daemon whose link counts its times in smaller seconds."""
        return await self._start(str(HURRIED), str(factor), "run", "--home", str(self.home))

    async def start_bare(self, *arguments: str, **options: object) -> asyncio.subprocess.Process:
        """Start it without naming the home."""
        return await self._start("-m", "farhand_daemon", *arguments, **options)

    async def _start(self, *arguments: str, **options: object) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            **options,  # type: ignore[arg-type] # passed on as they are
        )
        self.started.append(process)
        return process

    async def call(self, *arguments: str, typed: str = "") -> Ended:
        """Run to the end with this standard input."""
        return await self.wait(await self.start(*arguments), typed=typed)

    async def call_bare(self, *arguments: str) -> Ended:
        """Run to the end without naming the home."""
        return await self.wait(await self.start_bare(*arguments))

    async def wait(self, process: asyncio.subprocess.Process, *, typed: str = "") -> Ended:
        async with asyncio.timeout(EXIT_DEADLINE_S):
            piped = typed.encode() if process.stdin is not None else None
            out, err = await process.communicate(piped)
        assert process.returncode is not None
        return Ended(process.returncode, out.decode(), err.decode())

    async def enrol(self, plane: FakeControlPlane, *, active: bool = True) -> str:
        """Enrol without a person and return the machine's id."""
        ended = await self.call(
            "enroll", plane.url, "--code-stdin", "--trust", "trusted", "--chosen-by", "up",
            "--no-wait", "--json", "--name", "laptop", typed=plane.make_code() + "\n",
        )  # fmt: skip
        assert ended.status == 0, ended.stderr
        machine_id = str(json.loads(ended.stdout)["machine_id"])
        if active:
            plane.machines[machine_id].status = "active"
        return machine_id

    def status(self) -> dict[str, Any]:
        """Return what the daemon last wrote of itself."""
        try:
            return dict(json.loads((self.home / "status.json").read_text()))
        except FileNotFoundError:
            return {"state": "", "reason": ""}

    def narrow(self, text: str) -> None:
        """Replace the machine file, as its owner would with an editor."""
        (self.home / "machine.toml").write_text(text)

    async def end_all(self) -> None:
        for process in self.started:
            if process.returncode is None:
                process.send_signal(signal.SIGKILL)
                await process.wait()
            # The pipes of a killed process are closed by its transport.
            process._transport.close()  # type: ignore[attr-defined] # no public way to close them


@pytest.fixture
async def plane() -> AsyncIterator[FakeControlPlane]:
    async with fake_control_plane() as running:
        yield running


@pytest.fixture
async def farhandd(tmp_path: Path) -> AsyncIterator[Farhandd]:
    daemon = Farhandd(tmp_path / "machine")
    yield daemon
    await daemon.end_all()


@pytest.fixture(autouse=True)
def _small_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what the machine that tests happens to have out of the commands."""
    monkeypatch.setenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", os.devnull)
