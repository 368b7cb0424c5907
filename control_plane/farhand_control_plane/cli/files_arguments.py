"""The arguments of `farhand files`, from words to values; each fault names what was typed."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from farhand_control_plane.cli.session import Misuse
from farhand_shared.errors import InvalidInput, TooLarge
from farhand_shared.file_operation import ABSENT, ANY, Expect
from farhand_shared.file_request import parse_mode, parse_sha256
from farhand_shared.limits import MIB

CONTENT_MAX_BYTES: Final = 4 * MIB  # of what travels inside of a request; `put` has no limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A path of a machine."""

    machine: str
    path: bytes


def target(text: str, *, folder: bool = False) -> Target:
    """Return what MACHINE:PATH means; for a ``folder`` MACHINE alone is its first root."""
    machine, colon, path = text.partition(":")
    if not machine:
        raise Misuse(f"cannot use {text!r}: no machine is named; write MACHINE:PATH")
    if not path and not folder:
        here = f" ({text} is no machine's path)" if not colon and Path(text).exists() else ""
        raise Misuse(f"cannot use {text!r}: no path is given; write MACHINE:PATH{here}")
    if path == "~" or path.startswith("~/"):
        raise Misuse(
            f"cannot use {text!r}: ~ is not expanded; a path without it begins in the first of the "
            "machine's roots, its owner's home unless its file says otherwise"
        )
    return Target(machine=machine, path=os.fsencode(path) or b".")


def expectation(expect: str | None, *, new: bool = True, overwrite: bool) -> Expect:
    """Return what must be there: by default nothing, so that no file is lost by a slip."""
    if expect is not None:
        if overwrite:
            raise Misuse("cannot do both: give --expect or --overwrite")
        return sha256(expect)
    return ABSENT if new and not overwrite else ANY


def sha256(text: str) -> bytes:
    """Return a hash in hexadecimal as bytes."""
    hash_ = parse_sha256(text)
    if hash_ is None:
        raise Misuse(
            f"cannot use {text!r} as a SHA-256: it is not 64 hexadecimal digits; "
            "farhand files stat --sha256 tells a file's"
        )
    return hash_


def mode(text: str | None) -> int | None:
    """Return permission bits; None when none are given."""
    if text is None:
        return None
    bits = parse_mode(text)
    if bits is None:
        raise Misuse(f"cannot use {text!r} as a mode: it is not octal up to 0777")
    return bits


def content(source: str) -> bytes:
    """Return a local file's bytes, or standard input's for ``-``; TooLarge past the limit."""
    if source == "-":
        if sys.stdin.isatty():
            sys.stderr.write("farhand: reading the content from the terminal; end with Ctrl-D\n")
        found = sys.stdin.buffer.read(CONTENT_MAX_BYTES + 1)
    else:
        try:
            with Path(source).open("rb") as file:
                found = file.read(CONTENT_MAX_BYTES + 1)
        except OSError as error:
            raise InvalidInput(f"cannot read {source}: {error.strerror}") from None
    if len(found) > CONTENT_MAX_BYTES:
        raise TooLarge(
            "cannot write this: the content", len(found), CONTENT_MAX_BYTES, "use farhand files put"
        )
    return found


def local_target(text: str | None, path: bytes) -> Path:
    """Return where a file of a machine goes: beneath a folder it keeps its name."""
    name = Path(os.fsdecode(path)).name
    given = Path(text or ".")
    if not given.is_dir():
        return given
    if not name or name == "..":
        raise InvalidInput(f"cannot get {os.fsdecode(path)!r}: it names a folder, not a file")
    return given / name
