"""The facts that pass between the daemon and a supervisor, as frozen values (daemon side)."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any

from farhand_shared.command import NO_LIMITS, Limits, Note
from farhand_shared.limits import QUIET_HINT_S


class Stream(IntEnum):
    """The two output streams of a command, numbered like their file descriptors."""

    STDOUT = 1
    STDERR = 2


class Reason(StrEnum):
    """Why a command is over. `exit` and `signal` are the command's own doing, the rest is not."""

    EXIT = "exit"
    SIGNAL = "signal"
    TIMEOUT = "timeout"
    CANCEL = "cancel"
    SHUTDOWN = "shutdown"
    OOM = "oom"
    SPAWN_ERROR = "spawn_error"
    CWD_MISSING = "cwd_missing"
    CWD_DENIED = "cwd_denied"


class StopReason(StrEnum):
    """Why somebody else ends a command; becomes the `Reason` when the command was still running."""

    CANCEL = "cancel"
    SHUTDOWN = "shutdown"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnSpec:
    """What to run, exactly: nothing is added, split, decoded or looked up in our environment.

    A program name without a slash is looked up in the PATH of `env`. `timeout_ms` counts from the
    start on the monotonic clock; None means no deadline. `grace_ms` lies between TERM and KILL.
    """

    argv: tuple[bytes, ...]
    env: tuple[tuple[bytes, bytes], ...]
    cwd: bytes
    timeout_ms: int | None = None
    grace_ms: int = 10_000
    umask: int = 0o022
    file: bool = False  # `argv` is a file operation (file_argv), which no program runs
    stdin: bool = False  # its input comes through the handle; False: it reads the null device
    terminal: tuple[int, int] | None = None  # rows and columns of one of its own; implies stdin
    limits: Limits = NO_LIMITS
    quiet_hint_ms: int = int(QUIET_HINT_S * 1000)  # quiet for so long, it is looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """Which process a command is. The three facts together never name another process."""

    pid: int
    start_time: int  # Linux: clock ticks since boot; macOS: microseconds since the epoch
    boot_id: str
    at_ms: int  # wall clock, milliseconds since the epoch; for people, nothing decides by it
    group: str = ""  # its control group below the daemon's hierarchies; empty: none


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """For how long a command has written nothing, and what it seems to read meanwhile."""

    quiet_ms: int
    reads_terminal: bool  # else its standard input
    takes_input: bool  # whether input can be sent to it


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnProblem:
    """Why a command could not be started, for a person and for a program.

    `kind` is one of not_found, not_executable, too_big, invalid, cwd_missing, cwd_denied,
    limit_unavailable, no_supervisor, other. `item`, `size_bytes` and `limit_bytes` are set for
    too_big and invalid.
    """

    kind: str
    message: str
    errno: int | None = None
    item: str | None = None
    size_bytes: int | None = None
    limit_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitRecord:
    """How a command ended. Pairs are (stdout, stderr); byte counts are of everything produced.

    `exit_code` and `signal` are what the process itself did and stand apart from `reason`: a
    command that ends with code 0 after our TERM has `reason=timeout, exit_code=0`. Both are None
    when nothing ran, except that a program that is not there says 127 and one that cannot be
    executed 126. `started` is None when no process was made (also: cancelled before the start).
    """

    attempt_id: str
    reason: Reason
    exit_code: int | None
    signal: int | None
    core_dumped: bool
    problem: SpawnProblem | None
    started: Started | None
    total_bytes: tuple[int, int]
    omitted_bytes: tuple[int, int]
    sha256: tuple[bytes, bytes]
    wall_ms: int
    stdout_left_open: bool  # a descendant still held stdout or stderr 2 s after the exit
    descendants_left: bool  # processes the command left behind on purpose; they were not killed
    survivors: int  # processes that even KILL did not end (stuck in the kernel); normally 0
    ended_at_ms: int  # wall clock, milliseconds since the epoch
    notes: tuple[Note, ...] = ()  # limits that were reached, input that was wanted

    def to_json(self) -> bytes:
        """Give the record as stored in the spool, so that a result can be hashed."""
        document = {
            "attempt_id": self.attempt_id,
            "reason": self.reason.value,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "core_dumped": self.core_dumped,
            "problem": None
            if self.problem is None
            else {name: getattr(self.problem, name) for name in SpawnProblem.__slots__},
            "started": None
            if self.started is None
            else {name: getattr(self.started, name) for name in Started.__slots__},
            "total_bytes": self.total_bytes,
            "omitted_bytes": self.omitted_bytes,
            "sha256": [digest.hex() for digest in self.sha256],
            "wall_ms": self.wall_ms,
            "stdout_left_open": self.stdout_left_open,
            "descendants_left": self.descendants_left,
            "survivors": self.survivors,
            "ended_at_ms": self.ended_at_ms,
            "notes": [{"code": note.code, "text": note.text} for note in self.notes],
        }
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, text: bytes) -> ExitRecord:
        """Read a supervisor's record; fields a newer supervisor added are ignored."""
        # json gives Any; every field is converted or checked by the constructor's types below.
        document: Mapping[str, Any] = json.loads(text)
        problem, started = document["problem"], document["started"]
        total, omitted = document["total_bytes"], document["omitted_bytes"]
        hashes = document["sha256"]
        return cls(
            attempt_id=str(document["attempt_id"]),
            reason=Reason(document["reason"]),
            exit_code=document["exit_code"],
            signal=document["signal"],
            core_dumped=bool(document["core_dumped"]),
            problem=None
            if problem is None
            else SpawnProblem(**{name: problem.get(name) for name in SpawnProblem.__slots__}),
            started=None if started is None else started_from(started),
            total_bytes=(int(total[0]), int(total[1])),
            omitted_bytes=(int(omitted[0]), int(omitted[1])),
            sha256=(bytes.fromhex(hashes[0]), bytes.fromhex(hashes[1])),
            wall_ms=int(document["wall_ms"]),
            stdout_left_open=bool(document["stdout_left_open"]),
            descendants_left=bool(document["descendants_left"]),
            survivors=int(document["survivors"]),
            ended_at_ms=int(document["ended_at_ms"]),
            notes=tuple(
                Note(code=str(note["code"]), text=str(note["text"]))
                for note in document.get("notes", ())
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorLoss:
    """What is still known after a supervisor died under its running command (kill -9, power).

    The outcome is `indeterminate`: whatever output reached the spool can be read, the exit status
    cannot be learned. `still_running` says whether the command's own process was alive when the
    loss was noticed; it is left alone (see the folder's decisions) and can be ended by `cancel`.
    """

    started: Started | None
    still_running: bool
    message: str


def quiet_from(document: Mapping[str, Any]) -> Quiet:
    """Read a hint from the JSON a supervisor writes."""
    return Quiet(
        quiet_ms=int(document["quiet_ms"]),
        reads_terminal=bool(document["reads_terminal"]),
        takes_input=bool(document["takes_input"]),
    )


def limit_facts(limits: Limits) -> dict[str, int]:
    """Give the limits that are set, as a supervisor reads them."""
    named = {
        "memory_bytes": limits.memory_bytes,
        "processes": limits.processes,
        "open_files": limits.open_files,
    }
    return {name: limit for name, limit in named.items() if limit}


def started_from(document: Mapping[str, Any]) -> Started:
    """Read the three facts from the JSON a supervisor writes."""
    return Started(
        pid=int(document["pid"]),
        start_time=int(document["start_time"]),
        boot_id=str(document["boot_id"]),
        at_ms=int(document["at_ms"]),
        group=str(document.get("group", "")),
    )


def unstarted_record(attempt_id: str, reason: Reason, problem: SpawnProblem | None) -> ExitRecord:
    """Make the record of a command that no supervisor could be given."""
    nothing = hashlib.sha256(b"").digest()
    return ExitRecord(
        attempt_id=attempt_id,
        reason=reason,
        exit_code=None,
        signal=None,
        core_dumped=False,
        problem=problem,
        started=None,
        total_bytes=(0, 0),
        omitted_bytes=(0, 0),
        sha256=(nothing, nothing),
        wall_ms=0,
        stdout_left_open=False,
        descendants_left=False,
        survivors=0,
        ended_at_ms=time.time_ns() // 1_000_000,
    )
