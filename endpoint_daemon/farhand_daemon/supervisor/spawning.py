"""Start one command exactly as asked, or say in structured data why that is not possible.

Imported by the fork server, so it needs only small parts of the standard library.
"""

from __future__ import annotations

import errno
import os
import signal
import stat

# Every signal the command could inherit as ignored or blocked goes back to its default: Python
# ignores SIGPIPE and SIGXFSZ, the fork server SIGCHLD. KILL and STOP cannot be set.
_DEFAULT_SIGNALS = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
_MAX_STRING_BYTES = 131_072  # Linux MAX_ARG_STRLEN: 32 pages of 4 KiB, the final NUL included
_DEFAULT_PATH = b"/usr/local/bin:/usr/bin:/bin"
_NOT_FOUND_CODE, _NOT_EXECUTABLE_CODE = 127, 126  # as every shell says it


class SpawnFailure(Exception):
    """Why nothing was started: the exit record's `reason`, `problem` and `exit_code`."""

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        reason: str = "spawn_error",
        exit_code: int | None = None,
        errno: int | None = None,
        item: str | None = None,
        size_bytes: int | None = None,
        limit_bytes: int | None = None,
    ) -> None:
        super().__init__(message)
        self.reason, self.exit_code = reason, exit_code
        self.problem: dict[str, object] = {
            "kind": kind,
            "message": message,
            "errno": errno,
            "item": item,
            "size_bytes": size_bytes,
            "limit_bytes": limit_bytes,
        }


class Launch:
    """A command that is ready to be started: everything was looked at that can be before.

    Entered between `Launch` and `go` or `leave` are the command's folder and umask, which nobody
    else in this process reads; then the folder is the root, so that no command's is kept busy.
    """

    def __init__(
        self, argv: list[bytes], env: list[tuple[bytes, bytes]], cwd: bytes, umask: int
    ) -> None:
        """SpawnFailure when it cannot be started."""
        _refuse_malformed(argv, env, cwd)
        try:
            os.chdir(cwd)
        except OSError as error:
            raise cwd_failure(cwd, error) from None
        self._argv, self._env = argv, env
        self._previous = os.umask(umask)
        try:
            self._path = find_program(argv[0], env)
        except SpawnFailure:
            self.leave()
            raise

    def go(self, stdin_fd: int, stdout_fd: int, stderr_fd: int) -> int:
        """Start it in its own session and give its pid; SpawnFailure when nothing runs."""
        return self._spawn(
            [
                (os.POSIX_SPAWN_DUP2, stdin_fd, 0),
                (os.POSIX_SPAWN_DUP2, stdout_fd, 1),
                (os.POSIX_SPAWN_DUP2, stderr_fd, 2),
            ]
        )

    def go_on_terminal(self, path: str) -> int:
        """As `go`, with a terminal: the first that a new session opens is the one that controls it.

        That is Linux's rule, and its session is made before these files are opened. POSIX leaves
        it to the system.
        """
        return self._spawn(
            [
                (os.POSIX_SPAWN_OPEN, 0, path, os.O_RDWR, 0),
                (os.POSIX_SPAWN_DUP2, 0, 1),
                (os.POSIX_SPAWN_DUP2, 0, 2),
            ]
        )

    def _spawn(self, file_actions: list[tuple[int, ...] | tuple[int, int, str, int, int]]) -> int:
        try:
            return os.posix_spawn(
                self._path,
                self._argv,
                dict(self._env),
                file_actions=file_actions,
                setsid=True,
                setsigmask=(),
                setsigdef=_DEFAULT_SIGNALS,
            )
        except OSError as error:
            raise _exec_failure(self._argv, self._env, error) from None
        finally:
            self.leave()

    def leave(self) -> None:
        """Go back to the root and our own umask."""
        os.umask(self._previous)
        os.chdir("/")


def find_program(name: bytes, env: list[tuple[bytes, bytes]]) -> bytes:
    """Find a program as execvp does, but in the command's own PATH; SpawnFailure when not there."""
    if b"/" in name:
        return name
    path = _DEFAULT_PATH
    for key, value in env:
        if key == b"PATH":
            path = value
    refused = False
    for folder in path.split(b":"):
        candidate = os.path.join(folder or b".", name)
        try:
            mode = os.stat(candidate).st_mode
        except PermissionError:
            refused = True
            continue
        except OSError:
            continue
        if stat.S_ISREG(mode) and os.access(candidate, os.X_OK):
            return candidate
        refused = refused or stat.S_ISREG(mode)
    if refused:
        raise SpawnFailure(
            "not_executable",
            f"cannot start {shown(name)}: what the PATH of the command has is not "
            "executable; make it so (chmod +x)",
            exit_code=_NOT_EXECUTABLE_CODE,
            errno=errno.EACCES,
        )
    raise SpawnFailure(
        "not_found",
        f"cannot start {shown(name)}: not found in the PATH of the command; "
        "install it, or give its full path",
        exit_code=_NOT_FOUND_CODE,
        errno=errno.ENOENT,
    )


def too_big_item(
    argv: list[bytes], env: list[tuple[bytes, bytes]], total_limit: int
) -> tuple[str, int, int]:
    """Name what broke the system's limit: (item, size, limit), sizes with the final NUL.

    The largest string above the per-string limit, else the sum of all with their pointers.
    """
    items = [(f"argv[{index}]", len(value) + 1) for index, value in enumerate(argv)]
    items += [(f"env {shown(key)}", len(key) + len(value) + 2) for key, value in env]
    name, size = max(items, key=lambda item: item[1])
    if size > _MAX_STRING_BYTES:
        return name, size, _MAX_STRING_BYTES
    pointers = 8 * (len(items) + 2)
    return "argv and env together", sum(size for _, size in items) + pointers, total_limit


def _refuse_malformed(argv: list[bytes], env: list[tuple[bytes, bytes]], cwd: bytes) -> None:
    if not argv or not argv[0]:
        raise SpawnFailure(
            "invalid", "cannot start: no program was named; name one", item="argv[0]"
        )
    if b"\0" in b"".join([*argv, *(part for pair in env for part in pair), cwd]):
        item, size = _first_with_nul(argv, env)
        raise SpawnFailure(
            "invalid",
            f"cannot start: {item} holds a NUL byte, which no program can be given; "
            "pass such data in a file",
            item=item,
            size_bytes=size,
        )
    for key, _ in env:
        if not key or b"=" in key:
            raise SpawnFailure(
                "invalid",
                f"cannot start: '{shown(key)}' is no name of an environment variable; correct it",
                item=f"env {shown(key)}",
            )


def _first_with_nul(argv: list[bytes], env: list[tuple[bytes, bytes]]) -> tuple[str, int]:
    for index, value in enumerate(argv):
        if b"\0" in value:
            return f"argv[{index}]", len(value)
    for key, value in env:
        if b"\0" in key + value:
            return f"env {shown(key)}", len(value)
    return "cwd", 0


def cwd_failure(cwd: bytes, error: OSError) -> SpawnFailure:
    denied = error.errno in (errno.EACCES, errno.EPERM)
    kind = "cwd_denied" if denied else "cwd_missing"
    why = {
        errno.ENOENT: "it does not exist; make it or choose another",
        errno.ENOTDIR: "it is not a folder; choose another",
        errno.EACCES: "permission denied; choose another, or let the daemon's account enter it",
    }.get(error.errno or 0, f"{error.strerror}; choose another")
    return SpawnFailure(
        kind,
        f"cannot start in working directory {shown(cwd)}: {why}",
        reason=kind,
        errno=error.errno,
        item="cwd",
    )


def _exec_failure(
    argv: list[bytes], env: list[tuple[bytes, bytes]], error: OSError
) -> SpawnFailure:
    name = shown(argv[0])
    number = error.errno
    if number == errno.EACCES and os.path.isdir(argv[0]):
        number = errno.EISDIR
    if number == errno.E2BIG:
        item, size, limit = too_big_item(argv, env, os.sysconf("SC_ARG_MAX"))
        return SpawnFailure(
            "too_big",
            f"cannot start {name}: {item} is {size:,} bytes, the limit is {limit:,} bytes; "
            "pass it in a file",
            errno=number,
            item=item,
            size_bytes=size,
            limit_bytes=limit,
        )
    if number == errno.ENOENT and not os.path.lexists(argv[0]):
        return SpawnFailure(
            "not_found",
            f"cannot start {name}: no such file; correct its path or install it",
            exit_code=_NOT_FOUND_CODE,
            errno=number,
        )
    refusals = {
        errno.ENOENT: "the interpreter it names is missing; install it or correct its #! line",
        errno.EACCES: "permission denied; make it executable for the daemon's account (chmod +x)",
        errno.EPERM: "not permitted; choose a program that this account may run",
        errno.ENOEXEC: "not a program; give a script a #! line, or run it with its interpreter",
        errno.EISDIR: "it is a folder; name a program in it",
        errno.ENOTDIR: "a part of its path is not a folder; correct the path",
        errno.ELOOP: "too many links lead to it; correct them",
        errno.ETXTBSY: "it is being written; try again when that is done",
    }
    if number in refusals:
        return SpawnFailure(
            "not_executable",
            f"cannot start {name}: {refusals[number]}",
            exit_code=_NOT_EXECUTABLE_CODE,
            errno=number,
        )
    return SpawnFailure(
        "other",
        f"cannot start {name}: {error.strerror}; look at the limits of the daemon's account",
        errno=number,
    )


def shown(value: bytes) -> str:
    """Give bytes as short text for a message; the exact bytes are the caller's already."""
    text = value.decode("utf-8", "backslashreplace")
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= 200 else text[:200] + "…"
