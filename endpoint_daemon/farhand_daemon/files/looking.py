"""Operations that look: stat, list, read.

Imported by the processes of operations: small parts of the standard library only.
"""

from __future__ import annotations

import hashlib
import os
import stat

from farhand_daemon.files.answer import STDOUT, Lines, named, write_all
from farhand_daemon.files.entries import entries
from farhand_daemon.files.expectation import hash_fd
from farhand_daemon.files.fault import Fault, kind_of
from farhand_daemon.files.opening import open_file, open_folder, version_of
from farhand_daemon.files.part import received_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from farhand_daemon.files.roots import Roots

_CHUNK_BYTES = 256 * 1024
LIMIT_DEFAULT = 1_000


def stat_file(roots: Roots, fields: dict[str, Any]) -> dict[str, object]:
    place = roots.place(fields["path"], follow=not fields["nofollow"])
    put_sha256: bytes = fields["put_sha256"]
    facts: dict[str, object] = named("path", place.path)
    if place.state is None and put_sha256:
        facts["type"] = "none"
    else:
        state = place.expect()
        facts |= _facts_of(place.folder, place.name, state)
        facts |= {
            "version": version_of(state),
            "uid": state.st_uid,
            "gid": state.st_gid,
            "hard_links": state.st_nlink,
        }
        if fields["hash_bytes"] and stat.S_ISREG(state.st_mode):
            fd, opened = open_file(place.folder, place.name)
            facts |= {"sha256": hash_fd(fd, fields["hash_bytes"]).hexdigest()}
            facts["version"] = version_of(opened)  # of what was hashed
            os.close(fd)
    if put_sha256:
        facts["received"] = received_of(place, put_sha256)
    lines = Lines()
    lines.put(facts)
    lines.close()
    return facts


def list_folder(roots: Roots, fields: dict[str, Any]) -> dict[str, object]:
    place = roots.place(fields["path"])
    place.expect()
    folder = open_folder(place.folder, place.name)
    limit = fields["limit"] or LIMIT_DEFAULT
    lines = Lines()
    last: bytes | None = None
    told = 0
    for name, _ in entries(folder, fields["after"], page=limit + 1):
        if told == limit:
            break
        try:
            state = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            continue  # removed meanwhile
        lines.put(named("path", name) | _facts_of(folder, name, state))
        last, told = name, told + 1
    else:
        last = None
    return end_page(lines, last)


def read_file(roots: Roots, fields: dict[str, Any]) -> dict[str, object]:
    place = roots.place(fields["path"])
    place.expect()
    fd, state = open_file(place.folder, place.name)
    _refuse_other_version(fields["if_version"], state)
    offset, length = fields["offset"], fields["length"]
    # What says that it is empty may be a file that the system makes as it is read (/proc, /sys).
    left = max(0, state.st_size - offset) if state.st_size else 1 << 62
    left = min(left, length) if length else left
    digest, sent = hashlib.sha256(usedforsecurity=False), 0
    while left:
        try:
            chunk = os.pread(fd, min(left, _CHUNK_BYTES), offset + sent)
        except BlockingIOError:
            break
        if not chunk:
            break
        digest.update(chunk)
        write_all(STDOUT, chunk)
        sent, left = sent + len(chunk), left - len(chunk)
    after = os.fstat(fd)
    _refuse_other_version(fields["if_version"], after)
    return {
        "size": after.st_size,
        "mode": f"{stat.S_IMODE(state.st_mode):04o}",
        "version": version_of(state),
        "offset": offset,
        "sent": sent,
        "sha256": digest.hexdigest(),
        "changed": version_of(after) != version_of(state),
    }


def end_page(lines: Lines, last: bytes | None, **facts: object) -> dict[str, object]:
    """Write the last line of a page and give it: with ``last`` there is more, after that."""
    end: dict[str, object] = {"more": last is not None, **facts}
    if last is not None:
        end |= named("after", last)
    lines.put(end)
    lines.close()
    return end


def _refuse_other_version(expected: str, state: os.stat_result) -> None:
    version = version_of(state)
    if expected and version != expected:
        raise Fault(
            "changed",
            "it is another version than the one asked for; look at it again",
            version=version,
            expected_version=expected,
        )


def _facts_of(folder: int, name: bytes, state: os.stat_result) -> dict[str, object]:
    facts: dict[str, object] = {
        "type": kind_of(state.st_mode),
        "size": state.st_size,
        "mode": f"{stat.S_IMODE(state.st_mode):04o}",
        "modified_ms": state.st_mtime_ns // 1_000_000,
    }
    if stat.S_ISLNK(state.st_mode):
        try:
            facts |= named("target", os.readlink(name, dir_fd=folder))
        except OSError:
            facts["target"] = ""
    return facts
