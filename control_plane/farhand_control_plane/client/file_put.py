"""A file brought to a machine whole or not at all; a transfer that broke off goes on."""

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from farhand_control_plane.client.files import FileRefused, Files
from farhand_control_plane.client.progress import Progress
from farhand_shared.errors import Conflict, FarhandError, InvalidInput, NotFound
from farhand_shared.file_operation import (
    ABSENT,
    Expect,
    FileErrorCode,
    PutFile,
    StatFile,
)
from farhand_shared.limits import MIB

# Sends what a descriptor gives to an attempt, from where it stands to its end.
Feed = Callable[[str, int], None]

# A client that dies leaves its command waiting for the rest, in one of the machine's slots: it is
# given up when it is slower than any way in use.
_TIMEOUT_MS: Final = 10 * 60 * 1000
_SLOWEST_BYTES_PER_MS: Final = 50
_TRIES: Final = 2


def put(
    files: Files,
    source: Path,
    remote: bytes,
    feed: Feed,
    *,
    expect: Expect,
    mode: int | None = None,
    make_parents: bool = False,
    take: bool = False,
) -> dict[str, Any]:  # JSON
    """Bring a local file to a path, or into a folder, of a machine; return the facts of it there.

    The machine keeps what arrived, so the same call again sends the rest only. ``take`` ends
    another put of the same content. A new file has the source's permissions unless ``mode`` says
    others.
    """
    descriptor = _open(source)
    try:
        about = os.fstat(descriptor)
        sha256 = _hash(descriptor)
        for tries_left in reversed(range(_TRIES)):
            path, there = _place(files, remote, source, sha256, make_parents=make_parents)
            if there["type"] != "none" and expect == ABSENT:
                raise _exists(path)
            received = min(int(there["received"]), about.st_size)
            operation = PutFile(
                path=path,
                size=about.st_size,
                sha256=sha256,
                expect=expect,
                mode=about.st_mode & 0o777 if mode is None and there["type"] == "none" else mode,
                resume_offset=received,
                make_parents=make_parents,
            )
            try:
                return _send(files, operation, descriptor, feed)
            except FileRefused as refused:
                again = refused.code == FileErrorCode.CANNOT_RESUME
                if refused.code == FileErrorCode.BUSY and take:
                    again = files.end_others(operation) > 0
                if not (again and tries_left):
                    raise _explained(refused, path) from refused
        raise AssertionError  # the last try returned or raised
    finally:
        os.close(descriptor)


def _send(files: Files, operation: PutFile, descriptor: int, feed: Feed) -> dict[str, Any]:
    start = operation.resume_offset
    os.lseek(descriptor, start, os.SEEK_SET)
    name = Path(os.fsdecode(operation.path)).name
    with Progress(name, operation.size, start) as progress:
        files = files.telling(progress.say)
        if start:
            progress.say(f"going on at {start:,} of {operation.size:,} bytes")
        progress.follow(lambda: os.lseek(descriptor, 0, os.SEEK_CUR))
        answer = files.ask(
            operation,
            timeout_ms=_TIMEOUT_MS + operation.size // _SLOWEST_BYTES_PER_MS,
            feed=lambda attempt_id: feed(attempt_id, descriptor),
        )
    return answer.facts


def _open(source: Path) -> int:
    """Return a descriptor of a regular file; a folder or another thing is refused with a hint."""
    # A pipe without a writer would hold us for ever.
    descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise InvalidInput(
            f"cannot put {source}: it is a folder; put its files one by one, or pack it: tar -cz "
            f"{source} | farhand exec --stdin MACHINE -- tar -xz"
        )
    raise InvalidInput(f"cannot put {source}: it is no regular file; use farhand files write")


def _hash(descriptor: int) -> bytes:
    content = hashlib.sha256()
    while data := os.read(descriptor, MIB):
        content.update(data)
    return content.digest()


def _place(
    files: Files, remote: bytes, source: Path, sha256: bytes, *, make_parents: bool
) -> tuple[bytes, dict[str, Any]]:
    """Return where the file goes, and what is there: in a folder it keeps its name."""
    path = remote if not remote.endswith(b"/") else remote + os.fsencode(source.name)
    try:
        there = files.ask(StatFile(path=path, put_sha256=sha256)).facts
    except FileRefused as refused:
        if refused.code != FileErrorCode.NOT_FOUND:
            raise
        if not make_parents:
            raise NotFound(
                f"cannot put {os.fsdecode(path)}: its folder does not exist; "
                "make it, or ask with --parents"
            ) from refused
        return path, {"type": "none", "received": 0}  # nothing arrived where no folder is
    if there["type"] == "folder":
        path = path + b"/" + os.fsencode(source.name)
        there = files.ask(StatFile(path=path, put_sha256=sha256)).facts
    return path, there


def _explained(refused: FileRefused, path: bytes) -> FarhandError:
    """Return the machine's no in the words of who sent the file."""
    match refused.code:
        case FileErrorCode.EXISTS:
            return _exists(path)
        case FileErrorCode.BUSY:
            return Conflict(f"{refused}; if nobody is at it any more, --take ends that one")
        case _:
            return refused


def _exists(path: bytes) -> Conflict:
    return Conflict(
        f"cannot put {os.fsdecode(path)}: it is there already; replace it with --overwrite"
    )
