"""A daemon without a link that a test can kill at chosen points: `crashing_daemon.py DIR POINT`.

Runs the shell script given on standard input as attempt `victim` and writes one line when it has
got to POINT; then it waits to be killed, or kills itself where nothing can be waited for:

    running      the command has been started
    journalled   the journal has it, GO was not sent
    prepared     a supervisor has it, the journal has not
    go           GO was sent and this process is dead before anything could come back

Does not model the link, the warden or the daemon's lock.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from farhand_daemon.attempts import Attempts
from farhand_daemon.supervisor.fork_client import launch_fork_server
from farhand_daemon.supervisor.handle import CommandHandle
from farhand_daemon.supervisor.records import (
    ExitRecord,
    Quiet,
    SpawnSpec,
    Started,
    Stream,
    SupervisorLoss,
)

sys.path.insert(0, os.fspath(Path(__file__).resolve().parents[2]))
from tests.fakes.supervised_lab import until

DIGEST = b"d" * 32


class Deaf:
    """A listener that only knows whether the command has started."""

    def __init__(self) -> None:
        self.started = asyncio.Event()

    def command_started(self, handle: CommandHandle, started: Started) -> None:
        self.started.set()

    def output_produced(self, handle: CommandHandle, stream: Stream, produced_bytes: int) -> None:
        return

    def input_moved(self, handle: CommandHandle) -> None:
        return

    def command_quiet(self, handle: CommandHandle, quiet: Quiet) -> None:
        return

    def command_exited(self, handle: CommandHandle, record: ExitRecord) -> None:
        return

    def supervisor_lost(self, handle: CommandHandle, loss: SupervisorLoss) -> None:
        return


async def main(state_dir: Path, point: str) -> None:
    fork_server = launch_fork_server(state_dir)
    deaf = Deaf()
    attempts = await Attempts.open(
        state_dir, fork_server, deaf, head_bytes=256 << 10, tail_bytes=768 << 10
    )
    attempts.link_state(up=True)
    spec = SpawnSpec(
        argv=(b"/bin/sh", b"-c", sys.stdin.buffer.read()),
        env=tuple(os.environb.items()),
        cwd=os.fsencode(Path.cwd()),
        grace_ms=500,
    )
    pool, journal = attempts._pool, attempts._journal
    if point == "running":
        attempts.start("victim", DIGEST, spec)
        await deaf.started.wait()
    elif point == "prepared":
        pool.prepare("victim", spec, DIGEST)
        await until(lambda: any((state_dir / "spool").iterdir()))  # the supervisor makes it
    else:
        handle = pool.prepare("victim", spec, DIGEST)
        flushed = asyncio.Event()
        journal.record_start("victim", DIGEST, lambda error: flushed.set())
        await flushed.wait()
        if point == "go":
            # GO itself would wait for that.
            await until(lambda: handle.connection is not None and handle.connection.ready)
            handle.go()
            os.kill(os.getpid(), signal.SIGKILL)
    print(fork_server.pid, flush=True)
    await asyncio.Event().wait()


asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
