"""Judge an attempt by what its spool says, when no supervisor speaks for it."""

from __future__ import annotations

import os
from pathlib import Path

from farhand_daemon import process_identity
from farhand_daemon.spool import DamagedSpool, SpoolReader
from farhand_daemon.supervisor.records import (
    ExitRecord,
    Started,
    SupervisorLoss,
    started_from,
)


def judge_spool(path: Path) -> ExitRecord | SupervisorLoss | None:
    """Give the exit record, or what is known without one; None while its supervisor lives.

    A spool without a started command is a loss like any other: its supervisor removes the spool
    of what it has not started, so here it died in between, and nobody can say where.
    """
    try:
        reader = SpoolReader(os.fspath(path))
    except FileNotFoundError:
        return SupervisorLoss(
            started=None,
            still_running=False,
            message="cannot tell the outcome: no spool is left; see what it did",
        )
    except DamagedSpool as error:
        return SupervisorLoss(started=None, still_running=False, message=str(error))
    try:
        alive = _is_alive(reader.supervisor)
        # Read only now: a supervisor writes its record before it ends. With a record it may live
        # on: for what the command left behind, or for the next command.
        text = reader.exit_record()
        if text is not None:
            return ExitRecord.from_json(text)
        if alive:
            return None
        document = reader.started()
        return loss_of(None if document is None else started_from(document))
    finally:
        reader.close()


def loss_of(started: Started | None) -> SupervisorLoss:
    """Say what is known of a command whose supervisor died under it."""
    if started is None:
        return SupervisorLoss(
            started=None,
            still_running=False,
            message="cannot tell the outcome: its supervisor died while it started the command; "
            "see what it did",
        )
    running = process_identity.is_alive(started.pid, started.start_time, started.boot_id)
    if started.boot_id != process_identity.boot_id():
        why = "the machine restarted while it ran"
    else:
        why = "its supervisor died while it ran"
    return SupervisorLoss(
        started=started,
        still_running=running,
        message=f"cannot tell the outcome: {why}"
        + (f", process {started.pid} still runs" if running else "")
        + "; see what it did",
    )


def supervisor_socket(path: Path) -> str | None:
    """Give the name of the socket where the supervisor that wrote a spool takes a new daemon."""
    try:
        reader = SpoolReader(os.fspath(path))
    except (OSError, DamagedSpool):
        return None
    try:
        return str(reader.supervisor.get("socket"))
    finally:
        reader.close()


def remove_dead_sockets(folder: Path) -> None:
    """Remove the sockets of supervisors that were killed; the others remove their own."""
    for name in os.listdir(folder):
        pid = name.removesuffix(".sock")
        if pid.isdecimal() and not _exists(int(pid)):
            (folder / name).unlink(missing_ok=True)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):  # of another account: the number has a new owner
        return False
    return True


def _is_alive(supervisor: dict[str, object]) -> bool:
    pid, start_time = supervisor.get("pid"), supervisor.get("start_time")
    return (
        isinstance(pid, int)
        and isinstance(start_time, int)
        and process_identity.is_alive(pid, start_time, str(supervisor.get("boot_id")))
    )
