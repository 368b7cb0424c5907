"""Takes the survey of the machine now and then, and says when there is something new to tell.

The looking is done by a short process of its own (``survey``), well after the start and with a
limit of time; the daemon only reads what it prints.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from farhand_daemon.command_env import CommandEnvironment
from farhand_daemon.event_log import EventLog
from farhand_daemon.machine_file import Ceiling
from farhand_shared.errors import InvalidInput
from farhand_shared.limits import MIB
from farhand_shared.link_events import Repository, Survey

# A start has other things to do, and what is done once (`farhand up --once`) needs no survey.
FIRST_AFTER_S: Final = 10.0
EVERY_S: Final = 15 * 60.0
TIMEOUT_S: Final = 120.0
_PRINTED_MAX_BYTES: Final = MIB
_END_S: Final = 2.0
_DISK_STEP: Final = 0.1  # a change of the free disk by this part is worth telling

Environ = tuple[tuple[bytes, bytes], ...]


class Surveyor:
    """``current`` is the newest survey worth telling; None before the first."""

    def __init__(
        self,
        *,
        ceiling: Ceiling,
        environment: CommandEnvironment,  # what commands find is what counts
        log: EventLog,
        first_after_s: float = FIRST_AFTER_S,
        every_s: float = EVERY_S,
    ) -> None:
        self.current: Survey | None = None
        self._ceiling = ceiling
        self._environment = environment
        self._log = log
        self._first_after_s = first_after_s
        self._every_s = every_s

    async def run(self) -> None:
        """Take one survey after the other until cancelled."""
        await asyncio.sleep(self._first_after_s)
        while True:
            if await self._environment.refresh():
                self._log.write("login_environment_renewed")
            await self.look()
            await asyncio.sleep(self._every_s)

    async def look(self) -> None:
        """Take one; what was known stays when it fails."""
        try:
            machine = self._ceiling.current()
            environment = self._environment.with_added((), machine.env_allow)
            taken = await take_survey(machine.all_roots(), environment)
        except (InvalidInput, OSError, ValueError) as error:  # TimeoutError is an OSError
            self._log.write("survey_failed", reason=str(error) or type(error).__name__)
            return
        if self.current is None or is_news(self.current, taken):
            self.current = taken
            self._log.write(
                "surveyed", tools=len(taken.tools), repositories=len(taken.repositories)
            )


def is_news(told: Survey, taken: Survey) -> bool:
    """Tell whether a survey differs by more than what changes all the time."""
    moved = abs(taken.disk_free_bytes - told.disk_free_bytes)
    return moved > told.disk_free_bytes * _DISK_STEP or taken != replace(
        told, disk_free_bytes=taken.disk_free_bytes, battery_percent=taken.battery_percent
    )


async def take_survey(
    roots: tuple[Path, ...], environment: Environ, *, timeout_s: float = TIMEOUT_S
) -> Survey:
    """Return what the survey's process finds; raise OSError, ValueError or TimeoutError."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",  # commands may have a PYTHONPATH; it is not ours
        "-m",
        "farhand_daemon.survey",
        *roots,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=dict(environment),
        cwd="/",
        start_new_session=True,
        limit=_PRINTED_MAX_BYTES,
    )
    try:
        async with asyncio.timeout(timeout_s):
            printed = await _read_all(process)
            status = await process.wait()
    finally:
        await _end(process)
    if status != 0:
        raise ValueError(f"the survey ended with {status}")
    return parse_survey(printed)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the process if it still runs; one that hangs in a dead network drive is left to that."""
    if process.returncode is not None:
        return
    ended = asyncio.create_task(process.wait())
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):  # it ended by itself just now
            process.send_signal(number)
        await asyncio.wait({ended}, timeout=_END_S)
        if ended.done():
            return
    ended.cancel()


async def _read_all(process: asyncio.subprocess.Process) -> bytes:
    printed = b""
    while process.stdout is not None and (part := await process.stdout.read(MIB)):
        printed += part
        if len(printed) > _PRINTED_MAX_BYTES:
            raise ValueError("the survey prints too much")
    return printed


def parse_survey(printed: bytes) -> Survey:
    """Read what the survey's process printed; raise ValueError."""
    try:
        found: dict[str, Any] = json.loads(printed)  # JSON of our own program
        return Survey(
            disk_bytes=int(found["disk_bytes"]),
            disk_free_bytes=int(found["disk_free_bytes"]),
            gpus=tuple(found["gpus"]),
            has_battery=bool(found["has_battery"]),
            on_battery=bool(found["on_battery"]),
            battery_percent=int(found["battery_percent"]),
            tools=tuple(sorted(found["tools"].items())),
            repositories=tuple(
                Repository(remote=remote, path=os.fsencode(path))
                for remote, path in found["repositories"]
            ),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the survey printed something else: {error!r}") from error
