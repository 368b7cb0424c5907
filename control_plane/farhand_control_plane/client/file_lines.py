"""The JSON lines of an operation on files as lines for people; names stay the bytes they are."""

import base64
import json
from datetime import UTC, datetime
from typing import Any, Final

_TYPE_LETTERS: Final = {
    "file": "-",
    "folder": "d",
    "link": "l",
    "fifo": "p",
    "socket": "s",
    "block": "b",
    "character": "c",
}


def lines(data: bytes) -> list[dict[str, Any]]:
    """Return the JSON lines of an answer."""
    return [json.loads(line) for line in data.splitlines()]


def named(value: dict[str, Any], name: str = "path") -> bytes:  # value: JSON
    """Return a name's exact bytes."""
    encoded = value.get(f"{name}_base64")
    return base64.b64decode(encoded) if encoded is not None else str(value[name]).encode()


def entry_line(one: dict[str, Any], *, long: bool = False) -> bytes:  # one: JSON
    """Return one entry of a listing: a folder ends with a slash."""
    name = named(one)
    if one["type"] == "folder":
        name += b"/"
    if not long:
        return name
    letter = _TYPE_LETTERS.get(one["type"], "?")
    text = f"{letter} {one['mode']} {one['size']:>15,} {moment(one['modified_ms'])}  "
    leads_to = b" -> " + named(one, "target") if "target" in one else b""
    return text.encode() + name + leads_to


def match_line(one: dict[str, Any]) -> bytes:  # one: JSON
    """Return a line that a search found, with where it is."""
    text = named(one, "text") + ("…".encode() if one.get("cut") else b"")
    return named(one) + f":{one['line']}:".encode() + text


def moment(milliseconds: int) -> str:
    """Return a time of a file in this computer's own."""
    at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return at.astimezone().strftime("%Y-%m-%d %H:%M")


_LISTED: Final = {"list": entry_line, "glob": entry_line, "search": match_line}


def for_people(operation: str, data: bytes) -> bytes:
    """Return what an operation wrote as people read it; a file's bytes are themselves."""
    make = _LISTED.get(operation)
    if make is None:
        return data
    try:
        *listed, last = lines(data)
    except ValueError:  # it was ended before it had said everything
        return data
    shown = [make(one) for one in listed]
    if last.get("more"):
        shown.append("… and more".encode())
    return b"".join(line + b"\n" for line in shown)
