"""What is known about updates on this computer: ``update.json`` beside the versions.

One file for all machines of an installation, replaced as one, so a process that is killed at any
point leaves the state before or after its change. It holds no program and no key: whoever could
write it could write the versions themselves.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from farhand_daemon.paths import write_private

STATE_FILE: Final = "update.json"
_LOCK_FILE: Final = "update.lock"
_BAD_MAX: Final = 50  # the newest are kept
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A version that is installed and checked, and has not proven itself yet."""

    slot: str
    version: str
    asked: bool = False  # a person asked for exactly this version
    tries: int = 0  # trials that were broken off, or ended without a verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A version that runs on probation, and the process that it is: what a kill leaves behind."""

    candidate: Candidate
    home: str  # whose daemon is on trial
    pid: int = 0
    started: int = 0
    boot: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A version did not connect. Whether that was its fault, the version before it shows."""

    candidate: Candidate
    home: str
    reason: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BadVersion:
    """A version that failed here: never tried again unless a person asks for it."""

    slot: str
    version: str
    reason: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The last change of version, as it is told to people and to the server."""

    kind: str  # updated, fell_back, rolled_back
    version: str  # the one that is meant: of fell_back the bad one
    at_ms: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateState:
    ready: Candidate | None = None  # to be tried when the daemon starts again
    trial: Trial | None = None
    doubt: Doubt | None = None
    bad: tuple[BadVersion, ...] = ()
    last: Outcome | None = None
    not_before_ms: int = 0  # a person said: not now
    checked_at_ms: int = 0
    check_result: str = ""  # of the last look at the server, for people

    def bad_version(self, slot: str) -> BadVersion | None:
        return next((one for one in self.bad if one.slot == slot), None)

    def with_bad(self, candidate: Candidate, reason: str, at_ms: int) -> "UpdateState":
        """Remember that a version failed; it is nobody's candidate any more."""
        bad = BadVersion(slot=candidate.slot, version=candidate.version, reason=reason, at_ms=at_ms)
        others = tuple(one for one in self.bad if one.slot != candidate.slot)
        return replace(
            self,
            ready=None,
            trial=None,
            doubt=None,
            bad=(*others, bad)[-_BAD_MAX:],
            last=Outcome(kind="fell_back", version=candidate.version, at_ms=at_ms, reason=reason),
        )


def problem_of(state: UpdateState) -> str:
    """Return which version failed last and why, in a line; "" when the last change went well."""
    last = state.last
    if last is None or last.kind != "fell_back":
        return ""
    return f"{last.version} failed: {last.reason}"


def load_state(folder: Path) -> UpdateState:
    """Return the state; the empty one where there is none or it cannot be read."""
    try:
        document: Any = json.loads((folder / STATE_FILE).read_bytes())  # Any: JSON
        return UpdateState(
            ready=_optional(Candidate, document.get("ready")),
            trial=_trial(document.get("trial")),
            doubt=_doubt(document.get("doubt")),
            bad=tuple(_made(BadVersion, one) for one in document.get("bad", [])),
            last=_optional(Outcome, document.get("last")),
            not_before_ms=int(document.get("not_before_ms", 0)),
            checked_at_ms=int(document.get("checked_at_ms", 0)),
            check_result=str(document.get("check_result", "")),
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError):
        return UpdateState()
    except RecursionError:  # nested without end
        return UpdateState()


def change_state(folder: Path, change: Callable[[UpdateState], UpdateState]) -> UpdateState:
    """Replace the state by what ``change`` makes of it; one at a time. Returns the new one."""
    with _locked(folder):
        old = load_state(folder)
        new = change(old)
        if new != old:
            write_private(folder / STATE_FILE, json.dumps(asdict(new), indent=1).encode())
        return new


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _made(kind: type[_T], document: Any) -> _T:
    """Make a value of what JSON holds; keys that this version does not know are left out.

    TypeError for a value of another type, as a later version might write it: every start of the
    daemon reads this, also that of the version that it falls back to.
    """
    known = {field.name: field.type for field in fields(kind)}  # type: ignore[arg-type]  # all are dataclasses
    values = {key: value for key, value in document.items() if key in known}
    for key, value in values.items():
        if type(value) is not known[key]:
            raise TypeError(key)
    return kind(**values)


def _optional(kind: type[_T], document: Any) -> _T | None:
    return None if document is None else _made(kind, document)


def _trial(document: Any) -> Trial | None:
    if document is None:
        return None
    return _made(Trial, document | {"candidate": _made(Candidate, document["candidate"])})


def _doubt(document: Any) -> Doubt | None:
    if document is None:
        return None
    return _made(Doubt, document | {"candidate": _made(Candidate, document["candidate"])})
