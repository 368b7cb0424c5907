"""Operations on a machine's files, one of the things a Command can ask: values and error codes.

What each does and answers is said in ``proto/farhand_proto/v1/files.proto``.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

LIMIT_DEFAULT: Final = 1_000  # entries or matches of one answer
LIMIT_MAX: Final = 10_000
MODE_MAX: Final = 0o777  # an operation gives no file the rights of its owner (setuid, setgid)

# What must be at a path before it is written: anything or nothing, nothing, or a file whose content
# has this SHA-256.
Expect = bytes | None
ANY: Final[Expect] = None
ABSENT: Final[Expect] = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatFile:
    """What is at a path; with ``put_sha256`` also how much of an unfinished put is kept.

    With ``hash_bytes`` also the SHA-256 of a file's first so many bytes.
    """

    path: bytes
    nofollow: bool = False
    put_sha256: bytes = b""
    hash_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFolder:
    """A page of a folder's entries, those after the name ``after``."""

    path: bytes
    after: bytes = b""
    limit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobFiles:
    """A page of the paths beneath a folder that fit a pattern."""

    path: bytes
    pattern: bytes
    after: bytes = b""
    limit: int = 0
    all: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFiles:
    """The lines that match, in one file or all beneath a folder."""

    path: bytes
    pattern: bytes
    fixed: bool = False
    ignore_case: bool = False
    include: tuple[bytes, ...] = ()
    limit: int = 0
    all: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFile:
    """A range of a file; ``length`` 0 reads to its end."""

    path: bytes
    offset: int = 0
    length: int = 0
    if_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFile:
    """The whole content of a file; ``mode`` None keeps what it had."""

    path: bytes
    data: bytes
    expect: Expect = ANY
    mode: int | None = None
    make_parents: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """``old`` becomes ``new``: at its only place, or at every one."""

    old: bytes
    new: bytes
    all: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EditFile:
    """Replacements in one file, done together or not at all."""

    path: bytes
    edits: tuple[Replacement, ...]
    expected_sha256: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class PutFile:
    """A file whose content follows on standard input, which the command must therefore have."""

    path: bytes
    size: int
    sha256: bytes
    expect: Expect = ANY
    mode: int | None = None
    resume_offset: int = 0
    make_parents: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeFolder:
    """A folder, with ``parents`` also those above it."""

    path: bytes
    parents: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveFile:
    """Another path for what is at ``path``."""

    path: bytes
    to: bytes
    replace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveFile:
    """The end of a file, a link or an empty folder."""

    path: bytes
    expected_sha256: bytes = b""


FileOperation = (
    StatFile
    | ListFolder
    | GlobFiles
    | SearchFiles
    | ReadFile
    | WriteFile
    | EditFile
    | PutFile
    | MakeFolder
    | MoveFile
    | RemoveFile
)


_WORDS: Final[dict[type[FileOperation], str]] = {
    StatFile: "stat",
    ListFolder: "list",
    GlobFiles: "glob",
    SearchFiles: "search",
    ReadFile: "read",
    WriteFile: "write",
    EditFile: "edit",
    PutFile: "put",
    MakeFolder: "make folder",
    MoveFile: "move",
    RemoveFile: "remove",
}


def text_of(operation: FileOperation) -> str:
    """Return an operation as people read it: what it does, and to what."""
    words = [_WORDS[type(operation)].encode()]
    match operation:
        case GlobFiles(pattern=pattern) | SearchFiles(pattern=pattern):
            words += [pattern, b"in", operation.path]
        case MoveFile(to=to):
            words += [operation.path, b"to", to]
        case _:
            words.append(operation.path)
    return b" ".join(words)[:4096].decode("utf-8", "backslashreplace")


class FileErrorCode(StrEnum):
    """Why an operation did nothing, as its answer says it."""

    NOT_FOUND = "not_found"
    NOT_A_FILE = "not_a_file"
    NOT_A_FOLDER = "not_a_folder"
    PATH_DENIED = "path_denied"  # outside the roots, a link out of them, or the daemon's own
    CHANGED = "changed"  # another content or version than expected; the answer says both
    EXISTS = "exists"
    TOO_BIG = "too_big"
    NO_MATCH = "no_match"
    SEVERAL_MATCHES = "several_matches"
    BAD_PATTERN = "bad_pattern"
    BAD_PATH = "bad_path"  # a name or the whole too long, or a name that is kept for us
    DISK_FULL = "disk_full"
    PERMISSION_DENIED = "permission_denied"
    NOT_REGULAR = "not_regular"  # fifo, socket or device: never opened
    NOT_EMPTY = "not_empty"
    CANNOT_RESUME = "cannot_resume"  # less is kept than resume_offset; the answer says how much
    BAD_CONTENT = "bad_content"  # what arrived has another size or hash than was announced
    BUSY = "busy"  # another put of the same content to the same path goes on
    FAILED = "failed"  # the system refused for a reason of its own, which the message says


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFault:
    """The error of an answer; ``facts`` holds what else it says (hashes, sizes, lines)."""

    code: str  # a FileErrorCode, or one that only a newer machine knows
    message: str
    facts: dict[str, Any]  # JSON: of any shape


def read_report(stderr: bytes) -> dict[str, Any] | FileFault | None:
    """Return what an operation said on standard error: its facts or its error.

    None: it said nothing whole, because it was ended before it was done. ``Any``: JSON.
    """
    try:
        report = json.loads(stderr)
    except ValueError:
        return None
    if not isinstance(report, dict):
        return None
    error = report.get("error")
    if error is None:
        return report
    if not isinstance(error, dict):
        return None
    facts = {name: value for name, value in error.items() if name not in ("code", "message")}
    return FileFault(
        code=str(error.get("code", FileErrorCode.FAILED.value)),
        message=str(error.get("message", "")),
        facts=facts,
    )
