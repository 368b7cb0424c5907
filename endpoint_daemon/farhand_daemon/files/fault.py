"""Why an operation did nothing: a code for programs, a reason for people.

Imported by the processes of operations: small parts of the standard library only.
"""

from __future__ import annotations

import errno
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


class Fault(Exception):
    """``reason`` follows "cannot read PATH: ". ``facts`` are told beside code and message."""

    def __init__(self, code: str, reason: str, **facts: object) -> None:
        super().__init__(reason)
        self.code, self.reason, self.facts = code, reason, facts


class Ended(BaseException):
    """Somebody ends the operation: clean up and go. Caught only where it began."""


_OF_ERRNO = {
    errno.ENOENT: ("not_found", "it does not exist"),
    errno.ENOTDIR: ("not_a_folder", "it, or a part of its path, is not a folder"),
    errno.EISDIR: ("not_a_file", "it is a folder"),
    errno.EACCES: ("permission_denied", "the daemon's account may not; change its mode or owner"),
    errno.EPERM: ("permission_denied", "the system does not permit it to the daemon's account"),
    errno.EROFS: ("permission_denied", "its file system can only be read"),
    errno.ENOSPC: ("disk_full", "no room is left on its disk; make room there"),
    errno.EDQUOT: ("disk_full", "the account's quota of its disk is used up; make room there"),
    errno.EFBIG: ("too_big", "it would be larger than the system allows the daemon's files to be"),
    errno.ENAMETOOLONG: ("bad_path", "a name in it, or all of it, is too long for the system"),
    errno.ELOOP: ("bad_path", "too many links lead on from it; correct them"),
    errno.EEXIST: ("exists", "something is there already"),
    errno.ENOTEMPTY: ("not_empty", "the folder is not empty"),
    errno.EXDEV: ("failed", "both paths must be on one file system; write it anew instead"),
}


def fault_of(error: OSError) -> Fault:
    """Give the fault for what the system refused."""
    number = error.errno or 0
    code, reason = _OF_ERRNO.get(number, ("failed", error.strerror or str(error)))
    return Fault(code, reason, errno=errno.errorcode.get(number, str(number)))


def refuse_kind(mode: int) -> NoReturn:
    """Raise the fault of what is no regular file, where one is needed."""
    if stat.S_ISDIR(mode):
        raise Fault("not_a_file", "it is a folder")
    if stat.S_ISLNK(mode):
        raise Fault("busy", "it is being exchanged for a link; try again")
    raise Fault("not_regular", f"it is a {kind_of(mode)}, which is never opened")


def kind_of(mode: int) -> str:
    """Give the word for a type of file."""
    for test, word in (
        (stat.S_ISREG, "file"),
        (stat.S_ISDIR, "folder"),
        (stat.S_ISLNK, "link"),
        (stat.S_ISFIFO, "fifo"),
        (stat.S_ISSOCK, "socket"),
        (stat.S_ISBLK, "block"),
        (stat.S_ISCHR, "character"),
    ):
        if test(mode):
            return word
    return "other"


def shown(path: bytes) -> str:
    """Give a path as short text for a message."""
    text = path.decode("utf-8", "backslashreplace")
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= 200 else "…" + text[-200:]
