"""Operations that change a file's content: write, edit, put.

Imported by the processes of operations: small parts of the standard library only.
"""

from __future__ import annotations

import hashlib
import os

from farhand_daemon.files.answer import STDIN
from farhand_daemon.files.draft import new_draft, part_draft, refuse_read_only
from farhand_daemon.files.expectation import Expectation, hash_fd
from farhand_daemon.files.fault import Ended, Fault
from farhand_daemon.files.opening import open_file
from farhand_daemon.files.part import remove_old_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from farhand_daemon.files.roots import Place, Roots

# An edit holds the file some three times in memory. What is larger is no text that people edit.
EDIT_MAX_BYTES = 16 * 1024 * 1024
_CHUNK_BYTES = 256 * 1024
_LINES_SHOWN = 5


def write_file(roots: Roots, fields: dict[str, Any]) -> dict[str, object]:
    place = target(roots, fields["path"], make_parents=fields["make_parents"])
    expectation = Expectation(place, fields["expect"])
    refuse_read_only(place)
    with new_draft(place) as draft:
        draft.write(fields["data"])
        return draft.take_place(expectation, fields["mode"])


def edit_file(roots: Roots, fields: dict[str, Any]) -> dict[str, object]:
    place = target(roots, fields["path"], make_parents=False)
    place.expect()
    refuse_read_only(place)
    content = _read_whole(place)
    seen = hashlib.sha256(content, usedforsecurity=False).digest()
    # What was read is what must still be there, whether or not the one who asks expects a content.
    expectation = Expectation(place, fields["expected_sha256"] or seen)
    for number, edit in enumerate(fields["edits"], start=1):
        content = _edited(content, edit, f" (edit {number})" if len(fields["edits"]) > 1 else "")
        if len(content) > EDIT_MAX_BYTES:
            raise _too_big(len(content))
    with new_draft(place) as draft:
        draft.write(content)
        return draft.take_place(expectation, None)


def put_file(roots: Roots, fields: dict[str, Any]) -> dict[str, object]:
    place = target(roots, fields["path"], make_parents=fields["make_parents"])
    expectation = Expectation(place, fields["expect"])
    refuse_read_only(place)
    size, sha256, resume_offset = fields["size"], fields["sha256"], fields["resume_offset"]
    with part_draft(place, sha256) as draft:
        kept = os.fstat(draft.fd).st_size
        if resume_offset > kept:
            if kept:
                draft.keep()
            raise Fault("cannot_resume", f"only {kept:,} bytes of it are kept", received=kept)
        _refuse_too_big_for_disk(draft.fd, size - resume_offset)
        os.ftruncate(draft.fd, resume_offset)
        draft.digest = hash_fd(draft.fd, resume_offset)
        os.lseek(draft.fd, resume_offset, os.SEEK_SET)
        received = resume_offset
        try:
            while chunk := os.read(STDIN, _CHUNK_BYTES):
                received += len(chunk)
                if received > size:
                    raise Fault("bad_content", f"more than the {size:,} bytes announced arrived")
                draft.write(chunk)
        except Ended:
            if received:  # it stays for the next put; on a full disk it would be in everybody's way
                draft.keep()
            raise
        if received < size:
            if received:
                draft.keep()
            raise Fault(
                "bad_content",
                f"its bytes ended after {received:,} of {size:,}; put it again, from there",
                received=received,
            )
        if draft.digest.digest() != sha256:
            raise Fault(
                "bad_content",
                "what arrived has another SHA-256 than was announced; put it again from its start",
                sha256=draft.digest.hexdigest(),
                expected_sha256=sha256.hex(),
            )
        facts = draft.take_place(expectation, fields["mode"])
    remove_old_parts(place)
    return facts


def target(roots: Roots, path: bytes, *, make_parents: bool) -> Place:
    """Give the place of a file that is written; faults in the words of who writes."""
    if path.endswith(b"/"):
        raise Fault("not_a_file", "its path ends with a slash, so it names a folder")
    try:
        return roots.place(path, make_parents=make_parents)
    except FileNotFoundError:
        raise Fault(
            "not_found", "its folder does not exist; make it, or ask with make_parents"
        ) from None


def _read_whole(place: Place) -> bytes:
    fd, _ = open_file(place.folder, place.name)
    try:
        content = bytearray()
        while chunk := os.read(fd, _CHUNK_BYTES):
            content += chunk
            if len(content) > EDIT_MAX_BYTES:  # it grows, or is one that hides its size
                raise _too_big(len(content))
        return bytes(content)
    finally:
        os.close(fd)


def _edited(content: bytes, edit: dict[str, Any], which: str) -> bytes:
    old: bytes = edit["old"]
    new: bytes = edit["new"]
    at = content.find(old)
    if at < 0:
        raise Fault("no_match", f"the text to replace{which} is not in it{_hint(content, old)}")
    if edit["all"]:
        # Before it is made: the factor may be of the asker's choice, and the memory is not.
        size = len(content) + content.count(old) * (len(new) - len(old))
        if size > EDIT_MAX_BYTES:
            raise _too_big(size)
        return content.replace(old, new)
    if content.find(old, at + 1) >= 0:
        lines = _lines_of(content, old)
        told = ", ".join(map(str, lines[:_LINES_SHOWN])) + (", …" if lines[_LINES_SHOWN:] else "")
        raise Fault(
            "several_matches",
            f"the text to replace{which} is in it more than once, at lines {told}; give more of "
            "what is around it, or ask for all",
            lines=lines[:_LINES_SHOWN],
        )
    return content[:at] + new + content[at + len(old) :]


def _hint(content: bytes, old: bytes) -> str:
    """Give the usual reason for a text that is not there, if it is that."""
    if b"\r\n" in content and content.replace(b"\r\n", b"\n").find(old) >= 0:
        return ": its lines end with CR LF, those of the text with LF"
    if b"".join(old.split()) in b"".join(content.split()):
        return ": only spaces or line ends differ; read that part of it again"
    return "; read it again"


def _lines_of(content: bytes, old: bytes) -> list[int]:
    lines: list[int] = []
    at, line, counted = content.find(old), 1, 0
    while at >= 0 and len(lines) <= _LINES_SHOWN:
        line += content.count(b"\n", counted, at)
        counted = at
        lines.append(line)
        at = content.find(old, at + 1)
    return lines


def _too_big(size: int) -> Fault:
    return Fault(
        "too_big",
        f"it has {size:,} bytes, an edit takes up to {EDIT_MAX_BYTES:,}; use a command",
        size=size,
        limit=EDIT_MAX_BYTES,
    )


def _refuse_too_big_for_disk(fd: int, needed: int) -> None:
    disk = os.fstatvfs(fd)
    free = disk.f_bavail * disk.f_frsize
    if needed > free:
        raise Fault(
            "disk_full",
            f"{needed:,} bytes are to come, {free:,} are free on its disk; make room there",
        )
