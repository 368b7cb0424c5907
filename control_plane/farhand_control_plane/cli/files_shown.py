"""What `farhand files` prints: names as bytes for programs, harmless on a terminal."""

import base64
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

from farhand_control_plane.cli.files_arguments import Target
from farhand_control_plane.cli.session import Misuse, note, show, show_json
from farhand_control_plane.client.file_lines import entry_line, lines, match_line, moment, named
from farhand_control_plane.client.files import Files
from farhand_control_plane.client.progress import amount
from farhand_control_plane.client.screen import harmless, put
from farhand_shared.file_operation import FileOperation

_PAGE: Final = 5_000  # entries asked for at once: a folder of a million comes in pieces


class Pages:
    """The entries of a folder or pattern, page by page until they or the limit end."""

    def __init__(
        self,
        files: Files,
        page: Callable[[bytes, int], FileOperation],
        *,
        limit: int | None,
        cursor: str | None,
    ) -> None:
        """``page``: the operation for what comes after a name, at most so many."""
        self._files = files
        self._page = page
        self._left = limit
        self._after: bytes | None = b"" if cursor is None else _name_of_cursor(cursor)

    def entries(self) -> Iterator[dict[str, Any]]:  # JSON
        """Yield what the machine lists, in its order."""
        while self._after is not None and self._left != 0:
            count = _PAGE if self._left is None else min(_PAGE, self._left)
            *found, last = lines(self._files.ask(self._page(self._after, count)).data)
            if self._left is not None:
                self._left -= len(found)
            yield from found
            self._after = named(last, "after") if last["more"] else None

    def show(self, *, as_json: bool, long: bool = False) -> None:
        """Print everything, and say when there is more than the limit let through."""
        if as_json:
            items = list(self.entries())  # moves the cursor
            show_json({"items": items, "next_cursor": self._cursor()})
            return
        for one in self.entries():
            _line(entry_line(one, long=long))
        if self._after is not None:
            note("There is more: raise --limit, or leave it out.")

    def _cursor(self) -> str | None:
        if self._after is None:
            return None
        return base64.urlsafe_b64encode(self._after).decode("ascii")


def _name_of_cursor(cursor: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(cursor.encode("ascii"))
    except ValueError:
        raise Misuse("cannot list: the cursor is not one of ours; start without it") from None


def matches(data: bytes, *, as_json: bool) -> None:
    """Print the lines that a search found, and say what was left out."""
    *found, last = lines(data)
    if as_json:
        show_json({"items": found, "next_cursor": None, **last})
        return
    for one in found:
        _line(match_line(one))
    if last.get("more"):
        note("There is more: raise --limit, or search less.")
    if last.get("skipped"):
        count = last["skipped"]
        files = "1 file was" if count == 1 else f"{count:,} files were"
        note(f"{files} skipped: NUL bytes in it, or it cannot be read.")


def facts(value: dict[str, Any], *, as_json: bool) -> None:  # value: JSON
    """Print what is at a path."""
    if as_json:
        show_json(value)
        return
    shown = {name: one for name, one in value.items() if not name.endswith("_base64")}
    if "modified_ms" in shown:
        shown["modified"] = moment(shown.pop("modified_ms"))
    for name, one in shown.items():
        text = f"{one:,}" if name == "size" else str(one)
        show(f"{name.replace('_', ' '):13} {text}")


def written(value: dict[str, Any], target: Target, verb: str, *, as_json: bool) -> None:
    """Say what became of a file, and what else changed with it."""
    if as_json:
        show_json(value)
        return
    note(f"{verb} {os.fsdecode(target.path)} on {target.machine}: {amount(value['size'])}")
    _tell_side_effects(value)


def transferred(value: dict[str, Any], said: str, *, as_json: bool) -> None:
    """Say that a file is whole at its place."""
    if as_json:
        show_json(value)
        return
    note(f"{said}: {amount(value['size'])}, SHA-256 verified")
    _tell_side_effects(value)


def done(value: dict[str, Any], target: Target, said: str, *, as_json: bool) -> None:
    """Say that something was done."""
    if as_json:
        show_json(value)
        return
    note(f"{said}: {os.fsdecode(target.path)} on {target.machine}")


def _tell_side_effects(value: dict[str, Any]) -> None:
    if others := value.get("hard_links"):
        note(f"{others:,} other names of the file keep the old content.")
    if lost := value.get("lost_attributes"):
        note(f"Extended attributes that could not be kept: {', '.join(map(str, lost))}")
    if value.get("owner_changed"):
        note("The file has another owner now: the daemon may not keep the old one.")


def _line(content: bytes) -> None:
    """Write a line as bytes; on a terminal nothing in it is obeyed."""
    if os.isatty(1):
        content = harmless(content.decode("utf-8", "backslashreplace")).encode()
        content = content.replace(b"\n", b"\\x0a")
    sys.stdout.flush()
    put(1, content + b"\n")
