"""The bytes of the journal: one line per fact, each with its checksum, and what a reader makes of
a file that a crash has cut.

    {"k":"journal","id":…,"c":…}                  first line: random id, counter so far
    {"k":"start","a":…,"d":…,"c":…,"t":…}         decided to start; on disk before the start
    {"k":"tombstone","a":…,"r":…,"c":…,"t":…}     must never start
    {"k":"receipt","a":…,"h":…,"t":…}             the server has the result
    {"k":"done","a":…,"d":…,"c":…,"t":…,"h":…}    start and receipt in one, made by compaction
"""

from __future__ import annotations

import binascii
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from farhand_daemon.spool import sync_file


class EntryState(StrEnum):
    """What the journal says of an attempt."""

    JOURNALLED = "journalled"  # decided to start; whether it did, spool and supervisor tell
    TOMBSTONED = "tombstoned"  # cancelled before anybody offered it here
    RECEIPTED = "receipted"  # the server has its result


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One attempt. `input_digest` is empty for a tombstone, `result_hash` without a receipt."""

    state: EntryState
    input_digest: bytes
    counter: int
    at_ms: int  # of its last change; wall clock
    result_hash: bytes = b""
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class JournalImage:
    """A journal file as read."""

    journal_id: str = ""
    counter: int = 0
    entries: dict[str, JournalEntry]
    good_bytes: int = 0  # what follows was cut by a crash
    damaged: bool = False  # a line that is not the last one fails its checksum


def line_of(fact: Mapping[str, object]) -> bytes:
    """Give a fact as a line: checksum, blank, JSON, newline."""
    text = json.dumps(fact, separators=(",", ":")).encode()
    return b"%08x %s\n" % (binascii.crc32(text), text)


def start_line(attempt_id: str, entry: JournalEntry) -> bytes:
    return line_of(
        {
            "k": "start",
            "a": attempt_id,
            "d": entry.input_digest.hex(),
            "c": entry.counter,
            "t": entry.at_ms,
        }
    )


def tombstone_line(attempt_id: str, entry: JournalEntry) -> bytes:
    return line_of(
        {
            "k": "tombstone",
            "a": attempt_id,
            "r": entry.reason,
            "c": entry.counter,
            "t": entry.at_ms,
        }
    )


def receipt_line(attempt_id: str, entry: JournalEntry) -> bytes:
    return line_of(
        {"k": "receipt", "a": attempt_id, "h": entry.result_hash.hex(), "t": entry.at_ms}
    )


def read_journal(path: Path) -> JournalImage:
    """Read a journal; an absent one is empty. A last line that was cut is left out."""
    image = JournalImage(entries={})
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return image
    at = 0
    while at < len(content):
        end = content.find(b"\n", at)
        fact = _fact(content[at:end]) if end >= 0 else None
        if fact is not None:
            _apply(image, fact)
        elif end >= 0 and end + 1 < len(content):
            image.damaged = True
        else:
            break
        at = end + 1
        image.good_bytes = at
    return image


def write_journal(
    path: Path, journal_id: str, counter: int, entries: Iterable[tuple[str, JournalEntry]]
) -> int:
    """Replace a journal so that a crash leaves the old one or the new one; give its size."""
    lines = [line_of({"k": "journal", "id": journal_id, "c": counter})]
    for attempt_id, entry in entries:
        match entry.state:
            case EntryState.JOURNALLED:
                lines.append(start_line(attempt_id, entry))
            case EntryState.TOMBSTONED:
                lines.append(tombstone_line(attempt_id, entry))
            case EntryState.RECEIPTED:
                done = {"k": "done", "a": attempt_id, "d": entry.input_digest.hex()}
                done |= {"h": entry.result_hash.hex()}
                lines.append(line_of(done | {"c": entry.counter, "t": entry.at_ms}))
    content = b"".join(lines)
    new = path.with_suffix(".new")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(content)
        sync_file(fd)
    finally:
        os.close(fd)
    new.replace(path)
    sync_folder(path.parent)
    return len(content)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _fact(line: bytes) -> Mapping[str, Any] | None:
    """Give the fact of a line, or None when its checksum fails. JSON of ours: Any is checked by
    the conversions in `_apply`.
    """
    checksum, _, text = line.partition(b" ")
    if checksum != b"%08x" % binascii.crc32(text):
        return None
    fact: Mapping[str, Any] = json.loads(text)
    return fact


def _apply(image: JournalImage, fact: Mapping[str, Any]) -> None:
    """Take one fact over. Facts of a kind we do not know are a newer daemon's and stay unused."""
    kind = fact["k"]
    image.counter = max(image.counter, int(fact.get("c", 0)))
    if kind == "journal":
        image.journal_id = str(fact["id"])
        return
    attempt_id, at_ms = str(fact["a"]), int(fact["t"])
    known = image.entries.get(attempt_id)
    if kind == "receipt":
        image.entries[attempt_id] = JournalEntry(
            state=EntryState.RECEIPTED,
            input_digest=b"" if known is None else known.input_digest,
            counter=0 if known is None else known.counter,
            at_ms=at_ms,
            result_hash=bytes.fromhex(fact["h"]),
        )
    elif kind in ("start", "tombstone", "done"):
        image.entries[attempt_id] = JournalEntry(
            state={
                "start": EntryState.JOURNALLED,
                "tombstone": EntryState.TOMBSTONED,
                "done": EntryState.RECEIPTED,
            }[kind],
            input_digest=bytes.fromhex(fact.get("d", "")),
            counter=int(fact["c"]),
            at_ms=at_ms,
            result_hash=bytes.fromhex(fact.get("h", "")),
            reason=str(fact.get("r", "")),
        )
