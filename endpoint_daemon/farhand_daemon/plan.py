"""The machine's verdict on an offer: what would really run, or why it may not.

``judge`` looks at the offer, the machine file and the file system, and changes nothing.
"""

import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from farhand_daemon.file_argv import pack
from farhand_daemon.machine_file import Ceiling, MachineFile
from farhand_daemon.program import is_installed
from farhand_daemon.supervisor.spawning import shown
from farhand_shared import codec
from farhand_shared.command import NO_LIMITS, CommandSpec, Limits, Shell
from farhand_shared.errors import FarhandError, InvalidInput
from farhand_shared.file_operation import FileOperation
from farhand_shared.ids import is_id
from farhand_shared.link_events import Offer

SHELL: Final = b"/bin/sh"
_HANDLE: Final = b"cred://"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What would really run. ``cwd`` is resolved; ``env`` is only what the command adds."""

    argv: tuple[bytes, ...]
    cwd: bytes
    env: tuple[tuple[bytes, bytes], ...]
    execution_timeout_ms: int
    grace_ms: int
    file: bool = False  # ``argv`` is a file operation as a supervisor takes it
    stdin: bool = False  # it is given input; else it reads the null device
    terminal: tuple[int, int] | None = None  # rows and columns; None: no terminal
    limits: Limits = NO_LIMITS

    def digest(self) -> bytes:
        """Return ``plan_hash``: SHA-256 over every field, each with its length before it."""
        hasher = hashlib.sha256(b"farhand/plan/v1\0")
        for part in self._parts():
            hasher.update(len(part).to_bytes(8, "big"))
            hasher.update(part)
        return hasher.digest()

    def _parts(self) -> Iterator[bytes]:
        yield len(self.argv).to_bytes(8, "big")
        yield from self.argv
        yield self.cwd
        yield len(self.env).to_bytes(8, "big")
        for name, value in self.env:
            yield name
            yield value
        yield self.execution_timeout_ms.to_bytes(8, "big")
        yield self.grace_ms.to_bytes(8, "big")
        if self.file:
            yield b"file"
        # Not the size: it changes while the command runs.
        if self.terminal is not None:
            yield b"terminal"
        elif self.stdin:
            yield b"stdin"
        if self.limits != NO_LIMITS:
            yield b"limits"
            for limit in (
                self.limits.memory_bytes,
                self.limits.processes,
                self.limits.open_files,
            ):
                yield limit.to_bytes(8, "big")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deny:
    """Why the machine refuses: a stable word, and "cannot start: reason; what to do" for people."""

    reason_code: str
    message: str


def judge_offer(offer: Offer, ceiling: Ceiling) -> Plan | Deny:
    """Return the verdict on an offer as it arrived, by the machine file as it is now."""
    if not is_id(offer.attempt_id):
        return Deny(
            reason_code="bad_attempt_id",
            message="cannot start: the attempt's id is not a UUID; "
            "tell whoever runs the control plane",
        )
    if hashlib.sha256(offer.spec).digest() != offer.input_digest:
        return Deny(
            reason_code="digest_mismatch",
            message="cannot start: the command is not the one its digest names; ask for it again",
        )
    try:
        spec = codec.decode_spec(offer.spec)
    except FarhandError as error:
        return Deny(
            reason_code="unknown_command",
            message=f"cannot start: the daemon {error}; update farhandd on the machine",
        )
    try:
        machine = ceiling.current()
    except InvalidInput as error:
        return Deny(reason_code="machine_file_invalid", message=str(error))
    return judge(offer, spec, machine, own_folders(ceiling.path))


def judge(
    offer: Offer, spec: CommandSpec, machine: MachineFile, own: Sequence[Path] = ()
) -> Plan | Deny:
    """Return the plan when the machine allows it, else the first rule that it breaks.

    ``own``: the daemon's folders, which file operations do not enter.
    """
    if machine.trust_level == "off":
        return Deny(
            reason_code="trust_off",
            message="cannot start: this machine's owner has set trust_level to off, so nothing "
            "runs on it; use another machine, or ask the owner",
        )
    if offer.inferred and not machine.allow_inferred:
        return Deny(
            reason_code="inferred_not_allowed",
            message="cannot start: nobody asked for this in words, and this machine runs only what "
            "people ask for; its owner may set allow_inferred in machine.toml",
        )
    if isinstance(spec.run, FileOperation):
        roots = [os.fsencode(root) for root in machine.all_roots()]
        argv = pack(spec.run, roots=roots, own=[os.fsencode(folder) for folder in own])
        return _plan_in_cwd(argv, spec, machine)
    argv = (SHELL, b"-c", spec.run.script) if isinstance(spec.run, Shell) else spec.run.argv
    return (
        _fault_of_argv(argv)
        or _fault_of_env(_env_of(spec))
        or _handle_fault(argv, spec.env)
        or _plan_in_cwd(argv, spec, machine)
    )


def own_folders(machine_file: Path) -> tuple[Path, ...]:
    """Return the folders of the daemon: its home, and the program where the installer put it."""
    home, prefix = machine_file.parent, Path(sys.prefix)
    return (home, prefix.parent) if is_installed(prefix) else (home,)


def _fault_of_argv(argv: tuple[bytes, ...]) -> Deny | None:
    if not argv or not argv[0]:
        return Deny(
            reason_code="empty_command",
            message="cannot start: the command is empty; name a program",
        )
    for index, item in enumerate(argv):
        if b"\0" in item:
            return Deny(
                reason_code="nul_in_argv",
                message=f"cannot start: argument {index} holds a NUL byte, which no program can be "
                "given; pass such data in a file",
            )
    return None


def _fault_of_env(env: tuple[tuple[bytes, bytes], ...]) -> Deny | None:
    for name, value in env:
        if not name or b"=" in name or b"\0" in name or b"\0" in value:
            return Deny(
                reason_code="bad_variable",
                message=f"cannot start: environment variable '{shown(name)}' has an empty "
                "name or holds = or NUL where it may not; correct it",
            )
    return None


def _handle_fault(argv: tuple[bytes, ...], env: tuple[tuple[bytes, bytes], ...]) -> Deny | None:
    """Refuse ``cred://``: a program would get the name where a value is meant."""
    in_argv = any(_HANDLE in item for item in argv)
    if in_argv or any(_HANDLE in value for _, value in env):
        return Deny(
            reason_code="handle_in_text",
            message=f"cannot start: {'the command line' if in_argv else 'a variable'} holds "
            "cred://…, which is never replaced by a secret there; bind the handle to the command "
            "instead",
        )
    return None


def _plan_in_cwd(argv: tuple[bytes, ...], spec: CommandSpec, machine: MachineFile) -> Plan | Deny:
    roots = [os.fsencode(root) for root in machine.all_roots()]
    file = isinstance(spec.run, FileOperation)
    if spec.cwd is None:
        asked = roots[0]
    elif not spec.cwd or b"\0" in spec.cwd:
        return Deny(
            reason_code="cwd_missing",
            message="cannot start: the working directory given is empty or holds NUL; "
            "give an absolute path",
        )
    else:
        asked = os.path.join(roots[0], spec.cwd)  # noqa: PTH118 - bytes; absolute stays as it is
    cwd = os.path.realpath(asked)
    # Denied before missing: whether something exists outside the roots is nobody's business.
    # The default is a root itself.
    if spec.cwd is not None and not any(_beneath(cwd, os.path.realpath(root)) for root in roots):
        return Deny(
            reason_code="cwd_denied",
            message=f"cannot start: working directory {shown(asked)} is outside the allowed "
            f"roots ({', '.join(shown(root) for root in roots)}); choose one beneath them or "
            "add it to roots in machine.toml on the machine",
        )
    if not os.path.isdir(cwd):  # noqa: PTH112 - bytes, which Path does not take
        return Deny(
            reason_code="cwd_missing",
            message=f"cannot start: working directory {shown(asked)} does not exist or is no "
            "directory; make it or choose another",
        )
    return Plan(
        argv=argv,
        cwd=cwd,
        # A file operation runs no program of anybody's choice, so it is given no variables either.
        env=() if file else _env_of(spec),
        execution_timeout_ms=spec.execution_timeout_ms,
        grace_ms=spec.grace_ms,
        file=file,
        stdin=spec.stdin,
        terminal=None if spec.pty is None or file else (spec.pty.rows, spec.pty.columns),
        limits=spec.limits,
    )


def _env_of(spec: CommandSpec) -> tuple[tuple[bytes, bytes], ...]:
    """Return what the command adds; a terminal's kind comes first, so that its own TERM wins."""
    term = b"" if spec.pty is None else spec.pty.term
    return ((b"TERM", term), *spec.env) if term else spec.env


def _beneath(path: bytes, root: bytes) -> bool:
    return path == root or path.startswith(root.rstrip(b"/") + b"/")
