"""What lies beneath a folder, in its order, without ever following a link.

Imported by the processes of operations: small parts of the standard library only.
"""

from __future__ import annotations

import os

from farhand_daemon.files.entries import FOLDER, entries
from farhand_daemon.files.fault import Fault
from farhand_daemon.files.ignoring import Ignoring
from farhand_daemon.files.opening import open_folder
from farhand_daemon.files.roots import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from farhand_daemon.files.entries import Entry
    from farhand_daemon.files.roots import Place, Roots

_DEPTH_MAX = 200  # each open folder on the way down is a descriptor
_REPOSITORY = b".git"


class Entered:
    """A folder that the walk is in."""

    __slots__ = ("fd", "on_the_way", "todo")

    def __init__(self, fd: int, todo: Iterator[Entry], *, on_the_way: bool) -> None:
        self.fd, self.todo = fd, todo
        self.on_the_way = on_the_way  # to ``after``: only what is on that way, or beyond it


class Found:
    """An entry: its parts from the walk's folder on, its type, and the folder that it is in."""

    __slots__ = ("folder", "kind", "name", "passed", "path", "texts")

    def __init__(
        self, folder: int, path: bytes, texts: list[str], kind: str, *, passed: bool
    ) -> None:
        self.folder, self.path, self.texts, self.kind = folder, path, texts, kind
        self.name = path.rpartition(b"/")[2]
        self.passed = passed  # on the way to ``after``: an earlier page has told it


class Walk:
    """Iterate once. `enter` says whether the folder just given is entered; set it then and there.

    ``skipped`` counts what could not be read. The daemon's own folders are not seen, nor, unless
    ``everything``, .git and what .gitignore files leave out.
    """

    def __init__(self, roots: Roots, place: Place, *, everything: bool, after: bytes = b"") -> None:
        """Fault not_a_folder for anything else."""
        self.skipped = 0
        self.enter = True
        self._own = roots.own
        self._top = open_folder(place.folder, place.name)
        self._after = [part for part in after.split(b"/") if part]
        self._ignoring = None if everything else Ignoring()
        if self._ignoring is not None:
            self._ignoring.begin(roots, place, self._top)

    def __iter__(self) -> Iterator[Found]:
        names: list[bytes] = []
        texts: list[str] = []
        entered = [self._enter(self._top, 0, on_the_way=bool(self._after))]
        while entered:
            here = entered[-1]
            try:
                name, kind = next(here.todo)
            except StopIteration:
                self._leave(entered.pop())
                del names[-1:], texts[-1:]
                continue
            except OSError:
                self.skipped += 1
                self._leave(entered.pop())
                del names[-1:], texts[-1:]
                continue
            depth = len(names)
            on_the_way = here.on_the_way and name == self._after[depth]
            parts = [*texts, os.fsdecode(name)]
            if self._left_out(name, parts, kind):
                continue
            self.enter = True
            yield Found(here.fd, b"/".join([*names, name]), parts, kind, passed=on_the_way)
            if kind == FOLDER and self.enter:
                further = on_the_way and depth + 1 < len(self._after)
                folder = self._open(here.fd, name, depth + 1)
                if folder >= 0:
                    entered.append(self._enter(folder, depth + 1, on_the_way=further))
                    names.append(name)
                    texts.append(parts[-1])

    def _enter(self, folder: int, depth: int, *, on_the_way: bool) -> Entered:
        if self._ignoring is not None:
            self._ignoring.enter(folder, depth)
        after = self._after[depth] if on_the_way else b""
        return Entered(folder, entries(folder, after, itself=on_the_way), on_the_way=on_the_way)

    def _leave(self, folder: Entered) -> None:
        os.close(folder.fd)
        if self._ignoring is not None:
            self._ignoring.leave()

    def _open(self, folder: int, name: bytes, depth: int) -> int:
        """Open the next folder down, -1 when it is not to be."""
        if depth > _DEPTH_MAX:
            self.skipped += 1
            return -1
        try:
            fd = open_folder(folder, name)
        except (OSError, Fault):  # no permission, or exchanged for something else
            self.skipped += 1
            return -1
        if identity(os.fstat(fd)) in self._own:
            os.close(fd)
            return -1
        return fd

    def _left_out(self, name: bytes, parts: Sequence[str], kind: str) -> bool:
        if self._ignoring is None:
            return False
        return name == _REPOSITORY or self._ignoring.leaves_out(parts, folder=kind == FOLDER)
