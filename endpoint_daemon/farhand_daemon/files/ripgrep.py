"""Search by ripgrep, where a machine has it: the same files and lines, sooner.

It is handed open files, never paths: so it opens nothing that we have not looked at, whatever is
exchanged for a link meanwhile, and which files are searched does not depend on it.

Imported by the processes of operations: small parts of the standard library only.
"""

from __future__ import annotations

import binascii
import contextlib
import json
import os
import resource
import signal

from farhand_daemon.files.fault import Fault
from farhand_daemon.files.matching import Candidate, Hit, Wanted
from farhand_daemon.supervisor.spawning import SpawnFailure, find_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from farhand_daemon.files.roots import Roots

_FD_FOLDER = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
_CHUNK_BYTES = 256 * 1024
_KEPT_ENV = (b"PATH", b"HOME")  # for one that is a script; no settings of ripgrep's own
_OPTIONS = (
    b"--no-config",
    b"--json",
    b"--no-messages",
    b"--no-mmap",  # a file that is cut short under a map kills its reader
    b"--no-ignore",
    b"--crlf",
    b"--encoding=none",
    b"--threads=1",  # in the order of the files
)
_NO_MATCH, _ERROR = 1, 2
# It holds a whole line in memory, and so does who reads of it. Past these our own search goes on,
# which gives such a line up.
_MEMORY_MAX_BYTES = 512 * 1024 * 1024
_EVENT_MAX_BYTES = 32 * 1024 * 1024


class RipgrepFailed(Exception):
    """It does not do as expected; the search has to go another way."""


def find_ripgrep(wanted: Wanted, env: list[tuple[bytes, bytes]], roots: Roots) -> Ripgrep | None:
    """Give it when the PATH of the machine's commands has it, outside of the roots.

    What lies beneath them may have been written by an operation, and none may run what it wrote.
    """
    folders = b":".join(
        folder
        for name, value in env
        if name == b"PATH"
        for folder in value.split(b":")
        if folder.startswith(b"/") and not roots.hold(folder)
    )
    if not folders:
        return None
    try:
        program = find_program(b"rg", [(b"PATH", folders)])
    except SpawnFailure:
        return None
    if roots.hold(program):
        return None
    return Ripgrep(program, wanted, [(n, v) for n, v in env if n in _KEPT_ENV])


class Ripgrep:
    """Runs one process for each batch of files."""

    def __init__(self, program: bytes, wanted: Wanted, env: list[tuple[bytes, bytes]]) -> None:
        self._program, self._env = program, env
        self._options = [*_OPTIONS]
        if wanted.fixed:
            self._options.append(b"--fixed-strings")
        if wanted.ignore_case:
            self._options.append(b"--ignore-case")
        self._options.append(b"--regexp=" + wanted.pattern)

    def search(self, batch: list[Candidate], limit: int) -> list[Hit]:
        """Give up to ``limit`` lines. Fault bad_pattern; RipgrepFailed for other failures."""
        if not batch:
            return []
        path_of = {f"{_FD_FOLDER}/{one.fd}": one.path for one in batch}
        pid, out, errors = self._spawn(batch, [*map(os.fsencode, path_of)], limit)
        hits: list[Hit] = []
        said: str | None = None
        try:
            for event in _events(out):
                if event["type"] == "match":
                    hits.append(_hit(event["data"], path_of))
                    if len(hits) == limit:
                        break
            else:
                said = os.read(errors, _CHUNK_BYTES).decode("utf-8", "replace")
        except (ValueError, LookupError, TypeError) as error:  # not what we know it to say
            raise RipgrepFailed from error
        finally:
            os.close(out)
            os.close(errors)
            if said is None:  # it is not at its end
                os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if said is None:
            return hits
        if code == _ERROR and "regex" in said:
            why = " ".join(said.rpartition("error: ")[2].split())
            raise Fault("bad_pattern", f"its pattern is no regular expression: {why}")
        if said or code not in (0, _NO_MATCH, _ERROR):  # _ERROR without a word: a file unread
            raise RipgrepFailed
        return hits

    def _spawn(
        self, batch: list[Candidate], names: list[bytes], limit: int
    ) -> tuple[int, int, int]:
        """Start it; give its pid and the reading ends of its two outputs."""
        for one in batch:
            os.set_inheritable(one.fd, True)
        out, out_end = os.pipe()
        errors, errors_end = os.pipe()
        try:
            pid = os.posix_spawn(
                self._program,
                [b"rg", *self._options, b"--max-count=%d" % limit, b"--", *names],
                dict(self._env),
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, out_end, 1),
                    (os.POSIX_SPAWN_DUP2, errors_end, 2),
                ],
                setsigdef=[signal.SIGXFSZ],
            )
        except OSError as error:
            os.close(out)
            os.close(errors)
            raise RipgrepFailed from error
        finally:
            os.close(out_end)
            os.close(errors_end)
            for one in batch:
                os.set_inheritable(one.fd, False)
        if hasattr(resource, "prlimit"):  # Linux
            with contextlib.suppress(OSError):  # over already
                limit_bytes = (_MEMORY_MAX_BYTES, _MEMORY_MAX_BYTES)
                resource.prlimit(pid, resource.RLIMIT_DATA, limit_bytes)
        return pid, out, errors


def _events(fd: int) -> Iterator[dict[str, Any]]:
    """Give the events of --json; ValueError for what is none. ``Any``: as JSON has them."""
    pieces: list[bytes] = []
    length = 0
    while chunk := os.read(fd, _CHUNK_BYTES):
        first, *more = chunk.split(b"\n")
        pieces.append(first)
        for piece in more:
            yield json.loads(b"".join(pieces))
            pieces, length = [piece], 0
        length += len(chunk)
        if length > _EVENT_MAX_BYTES:
            raise ValueError("an event has no end")
    if b"".join(pieces):
        raise ValueError("the last event is torn")


def _hit(data: dict[str, Any], path_of: dict[str, bytes]) -> Hit:
    line = _bytes(data["lines"]).removesuffix(b"\n").removesuffix(b"\r")
    matches = data["submatches"]
    start = matches[0]["start"] if matches else 0
    column = len(line[:start].decode("utf-8", "surrogateescape")) + 1
    return Hit(path_of[data["path"]["text"]], data["line_number"], column, line)


def _bytes(value: dict[str, str]) -> bytes:
    if "text" in value:
        return value["text"].encode()
    return binascii.a2b_base64(value["bytes"])
