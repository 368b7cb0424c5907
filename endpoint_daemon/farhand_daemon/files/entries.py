"""The names of a folder in their order, in little memory however many there are.

Imported by the processes of operations: small parts of the standard library only.
"""

from __future__ import annotations

import os
from heapq import nsmallest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# What is kept at once: 50,000 names are some 8 MB. A larger folder is read again for each page.
_PAGE = 50_000

FILE, FOLDER, LINK, OTHER = "file", "folder", "link", "other"
Entry = tuple[bytes, str]


def entries(
    folder: int, after: bytes = b"", *, itself: bool = False, page: int = _PAGE
) -> Iterator[Entry]:
    """Give (name, type) of what is in an open folder and above ``after``, sorted by bytes; with
    ``itself`` also what has that name."""
    while True:
        with os.scandir(folder) as found:
            chunk = nsmallest(page, _above(found, after, itself=itself))
        yield from chunk
        if len(chunk) < page:
            return
        after, itself = chunk[-1][0], False


def _above(found: Iterable[os.DirEntry[str]], after: bytes, *, itself: bool) -> Iterator[Entry]:
    for entry in found:
        name = os.fsencode(entry.name)
        if name > after or (itself and name == after):
            yield name, _kind(entry)


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return LINK
    if entry.is_dir(follow_symlinks=False):
        return FOLDER
    return FILE if entry.is_file(follow_symlinks=False) else OTHER
