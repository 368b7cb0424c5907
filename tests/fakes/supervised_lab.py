"""Run real commands under real supervisors in a test, and look at what processes are left.

Does not model the link: the test decides what is acknowledged, and says whether the link is up.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

from farhand_daemon.attempts import Attempts, Decision
from farhand_daemon.process_identity import stat_fields
from farhand_daemon.spool import SpoolReader
from farhand_daemon.supervisor.cgroup import Hierarchy
from farhand_daemon.supervisor.fork_client import ForkServer, launch_fork_server
from farhand_daemon.supervisor.handle import CommandHandle
from farhand_daemon.supervisor.records import (
    ExitRecord,
    Quiet,
    SpawnSpec,
    Started,
    Stream,
    SupervisorLoss,
)
from farhand_shared.command import NO_LIMITS, Limits

DEADLINE_S = 30.0
PATH = b"/usr/local/bin:/usr/bin:/bin"


class Recorder:
    """A listener that keeps what it was told and lets a test wait for more."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []  # event, attempt id
        self.produced: dict[tuple[str, Stream], int] = {}
        self.hints: list[tuple[str, Quiet]] = []
        self._changed = asyncio.Event()

    def command_started(self, handle: CommandHandle, started: Started) -> None:
        self._note("started", handle)

    def output_produced(self, handle: CommandHandle, stream: Stream, produced_bytes: int) -> None:
        self.produced[handle.attempt_id, stream] = produced_bytes
        self._changed.set()

    def input_moved(self, handle: CommandHandle) -> None:
        self._changed.set()

    def command_quiet(self, handle: CommandHandle, quiet: Quiet) -> None:
        self.hints.append((handle.attempt_id, quiet))
        self._changed.set()

    def command_exited(self, handle: CommandHandle, record: ExitRecord) -> None:
        self._note("exited", handle)

    def supervisor_lost(self, handle: CommandHandle, loss: SupervisorLoss) -> None:
        self._note("lost", handle)

    def _note(self, event: str, handle: CommandHandle) -> None:
        self.told.append((event, handle.attempt_id))
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds; it is looked at after every event."""
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


class Lab:
    """Attempts of one state folder, opened and closed as often as a test likes."""

    def __init__(
        self,
        state_dir: Path,
        *,
        hierarchies: list[Hierarchy] | None = None,
        **sizes: int | float,
    ) -> None:
        """`hierarchies`: where control groups are made, instead of where this system lets us."""
        self.hierarchies = hierarchies
        self.state_dir = state_dir
        self.mark = uuid.uuid4().hex.encode()
        self.recorder = Recorder()
        self.attempts: Attempts
        self.fork_server: ForkServer
        self._sizes = sizes
        self._open = False

    async def open(self, *, link_up: bool = True) -> Attempts:
        self.fork_server = launch_fork_server(self.state_dir, hierarchies=self.hierarchies)
        self.attempts = await Attempts.open(
            self.state_dir,
            self.fork_server,
            self.recorder,
            head_bytes=int(self._sizes.get("head_bytes", 1 << 20)),
            tail_bytes=int(self._sizes.get("tail_bytes", 3 << 20)),
            warm=int(self._sizes.get("warm", 1)),
            idle_s=self._sizes.get("idle_s", 30.0),
        )
        self.attempts.link_state(up=link_up)
        self._open = True
        return self.attempts

    async def close(self, *, quit_leftovers: bool = True) -> None:
        if self._open:
            self._open = False
            await self.attempts.close(quit_leftovers=quit_leftovers)

    def spec(
        self,
        *argv: bytes | str,
        env: tuple[tuple[bytes, bytes], ...] = (),
        cwd: bytes = b"/",
        timeout_ms: int | None = None,
        grace_ms: int = 10_000,
        umask: int = 0o022,
        stdin: bool = False,
        terminal: tuple[int, int] | None = None,
        limits: Limits = NO_LIMITS,
        quiet_hint_ms: int = 15_000,
    ) -> SpawnSpec:
        """Give a spec whose processes `processes` finds by their environment."""
        return SpawnSpec(
            argv=tuple(a.encode() if isinstance(a, str) else a for a in argv),
            env=((b"PATH", PATH), (b"LAB_MARK", self.mark), *env),
            cwd=cwd,
            timeout_ms=timeout_ms,
            grace_ms=grace_ms,
            umask=umask,
            stdin=stdin,
            terminal=terminal,
            limits=limits,
            quiet_hint_ms=quiet_hint_ms,
        )

    def shell(self, script: str, **facts: object) -> SpawnSpec:
        return self.spec("/bin/sh", "-c", script, **facts)  # type: ignore[arg-type]

    async def start(self, spec: SpawnSpec, attempt_id: str | None = None) -> CommandHandle:
        attempt_id = attempt_id or str(uuid.uuid4())
        decision = self.attempts.start(attempt_id, b"d" * 32, spec)
        assert decision is Decision.STARTED
        return self.attempts.live[attempt_id]

    async def run(self, spec: SpawnSpec) -> tuple[ExitRecord, bytes, bytes]:
        """Run to the end; give the record and both outputs (which must fit into the spool)."""
        handle = await self.start(spec)
        record = await ended(handle)
        if record.problem is not None:  # people read it, wherever the command was asked for
            assert re.fullmatch(r"cannot start\b.*: .+; .+", record.problem.message)
        return record, read_all(handle, Stream.STDOUT), read_all(handle, Stream.STDERR)

    def processes(self) -> list[int]:
        """Give the living processes (zombies too) that were started by commands of this lab."""
        needle = b"LAB_MARK=" + self.mark
        found = []
        for name in os.listdir("/proc"):  # noqa: PTH208 - names, not paths
            if name.isdigit():
                try:
                    if needle in Path(f"/proc/{name}/environ").read_bytes():
                        found.append(int(name))
                except OSError:
                    continue
        return found

    def supervisors(self) -> list[int]:
        """Give the pids of the living supervisors of this state folder."""
        names = (self.state_dir / "supervisors").glob("*.sock")
        return [int(name.stem) for name in names if Path(f"/proc/{name.stem}").exists()]

    def zombies(self) -> list[int]:
        """Give the dead that the fork server or a supervisor should have reaped."""
        parents = {self.fork_server.pid, *self.supervisors()}
        found = []
        for name in os.listdir("/proc"):  # noqa: PTH208 - names, not paths
            fields = stat_fields(int(name)) if name.isdigit() else None
            if fields and fields[0] == b"Z" and int(fields[1]) in parents:
                found.append(int(name))
        return found


async def ended(handle: CommandHandle) -> ExitRecord:
    async with asyncio.timeout(DEADLINE_S):
        end = await handle.ended()
    assert isinstance(end, ExitRecord), end
    return end


async def lost(handle: CommandHandle) -> SupervisorLoss:
    async with asyncio.timeout(DEADLINE_S):
        end = await handle.ended()
    assert isinstance(end, SupervisorLoss), end
    return end


def read_all(handle: CommandHandle, stream: Stream, offset: int = 0) -> bytes:
    parts = []
    while part := handle.read(stream, offset, 1 << 20):
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


def supervisor_of(handle: CommandHandle) -> int:
    reader = SpoolReader(os.fspath(handle.spool_path))
    try:
        pid = reader.supervisor["pid"]
    finally:
        reader.close()
    assert isinstance(pid, int)
    return pid


async def until(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    """Look at a condition of the outside world until it holds; polls, because nothing tells."""
    give_up = time.monotonic() + DEADLINE_S
    while True:
        result = condition()
        if result if isinstance(result, bool) else await result:
            return
        assert time.monotonic() < give_up, "the condition did not come true in time"
        await asyncio.sleep(0.01)
