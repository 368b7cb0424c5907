"""Which commands run in a home, whether or not a daemon does, and how to end them without one."""

import contextlib
import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from farhand_daemon import process_identity
from farhand_daemon.spool import DamagedSpool, SpoolReader, spool_path, spooled_attempts
from farhand_daemon.supervisor.fork_client import SPOOL_FOLDER
from farhand_daemon.supervisor.orphan_tree import OrphanTree
from farhand_daemon.supervisor.orphans import ORPHANS_FOLDER
from farhand_daemon.supervisor.records import Started, started_from
from farhand_daemon.supervisor.recovery import judge_spool
from farhand_shared.limits import GRACE_MS

_LOOK_S: Final = 0.1
_KILL_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """One command that is not over. ``started`` is None while it is only about to start."""

    attempt_id: str
    started: Started | None


def running_commands(root: Path) -> tuple[Running, ...]:
    """Return the commands that run, also those whose supervisor was killed. Changes nothing."""
    found: dict[str, Running] = {}
    folder = os.fspath(root / SPOOL_FOLDER)
    with contextlib.suppress(FileNotFoundError):
        for attempt_id in spooled_attempts(folder):
            if judge_spool(Path(spool_path(folder, attempt_id))) is None:
                started = _started(spool_path(folder, attempt_id))
                found[attempt_id] = Running(attempt_id=attempt_id, started=started)
    with contextlib.suppress(FileNotFoundError):
        for file in (root / ORPHANS_FOLDER).glob("*.json"):
            orphan = _orphan(file)
            if orphan is not None:
                found[file.stem] = Running(attempt_id=file.stem, started=orphan)
    return tuple(found.values())


def end_commands(running: tuple[Running, ...]) -> None:
    """End them and what they started: TERM, and after the grace KILL."""
    trees = [OrphanTree(one.started) for one in running if one.started is not None]
    for number, wait_s in ((signal.SIGTERM, GRACE_MS / 1000), (signal.SIGKILL, _KILL_S)):
        until = time.monotonic() + wait_s
        # Again and again, or what forks in the meantime is missed.
        while sum([tree.signal(number) for tree in trees]) and time.monotonic() < until:
            time.sleep(_LOOK_S)


def remove_work(root: Path) -> None:
    """Remove what the daemon knows of commands, none of which may run: journal, output, results."""
    import shutil  # not in the memory of who only looks

    for name in ("journal", "journal.new"):
        (root / name).unlink(missing_ok=True)
    for name in (SPOOL_FOLDER, ORPHANS_FOLDER):
        shutil.rmtree(root / name, ignore_errors=True)


def _started(path: str) -> Started | None:
    try:
        reader = SpoolReader(path)
    except (OSError, DamagedSpool):
        return None
    try:
        document = reader.started()
        return None if document is None else started_from(document)
    finally:
        reader.close()


def _orphan(file: Path) -> Started | None:
    try:
        started = started_from(json.loads(file.read_bytes()))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    alive = process_identity.is_alive(started.pid, started.start_time, started.boot_id)
    return started if alive else None
