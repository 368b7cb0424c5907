"""Operations that find: glob, search.

Imported by the processes of operations: small parts of the standard library only.
"""

from __future__ import annotations

import contextlib
import os
import resource
import stat

from farhand_daemon.files.answer import Lines, named
from farhand_daemon.files.entries import FILE, FOLDER
from farhand_daemon.files.fault import Fault
from farhand_daemon.files.looking import LIMIT_DEFAULT, end_page
from farhand_daemon.files.matching import Candidate, Hit, OwnSearch, Wanted
from farhand_daemon.files.opening import open_file
from farhand_daemon.files.patterns import PathPattern
from farhand_daemon.files.ripgrep import RipgrepFailed, find_ripgrep
from farhand_daemon.files.walk import Walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from farhand_daemon.files.patterns import State
    from farhand_daemon.files.roots import Place, Roots

# Files that are handed over at once: few at first, because the first ones may be enough; then many,
# because each batch costs a process of ripgrep.
_FIRST_BATCH, _LAST_BATCH = 32, 1024
_LOOK_BYTES = 8 * 1024  # no text has a NUL so early
_TEXT_MAX, _BEFORE_MATCH = 1_000, 200  # characters of a line that are told


def glob_files(roots: Roots, fields: dict[str, Any]) -> dict[str, object]:
    place = roots.place(fields["path"])
    place.expect()
    pattern = PathPattern(fields["pattern"])
    walk = Walk(roots, place, everything=fields["all"], after=fields["after"])
    limit = fields["limit"] or LIMIT_DEFAULT
    lines = Lines()
    states: list[State] = [pattern.start]
    last: bytes | None = None
    told = 0
    for found in walk:
        depth = len(found.texts)
        state = pattern.step(states[depth - 1], found.texts[-1])
        walk.enter = bool(state)
        if found.kind == FOLDER:
            states[depth:] = [state]
        if not found.passed and pattern.matches(state):
            if told == limit:
                return end_page(lines, last, skipped=walk.skipped)
            lines.put({**named("path", found.path), "type": found.kind})
            last, told = found.path, told + 1
    return end_page(lines, None, skipped=walk.skipped)


def search_files(roots: Roots, fields: dict[str, Any]) -> dict[str, object]:
    return Search(roots, fields).run()


class Search:
    """One search: finds the files, has them searched in batches, tells the lines."""

    def __init__(self, roots: Roots, fields: dict[str, Any]) -> None:
        self._place = roots.place(fields["path"])
        self._limit: int = fields["limit"] or LIMIT_DEFAULT
        self._wanted = Wanted(
            fields["pattern"], fixed=fields["fixed"], ignore_case=fields["ignore_case"]
        )
        self._own: OwnSearch | None = None
        self._ripgrep = find_ripgrep(self._wanted, fields["env"], roots)
        self._includes = [_include(pattern) for pattern in fields["include"]]
        self._roots, self._everything = roots, fields["all"]
        self._files = self._skipped = self._told = 0
        self._lines = Lines()

    def run(self) -> dict[str, object]:
        batch: list[Candidate] = []
        most = min(_LAST_BATCH, _most_open() // 2)
        size = min(_FIRST_BATCH, most)
        for candidate in self._candidates():
            batch.append(candidate)
            if len(batch) >= size:
                self._search(batch)
                batch, size = [], min(size * 4, most)
                if self._told > self._limit:
                    break
        else:
            self._search(batch)
        skipped = self._skipped + (self._own.given_up if self._own is not None else 0)
        more = self._told > self._limit
        end: dict[str, object] = {"more": more, "files": self._files, "skipped": skipped}
        self._lines.put(end)
        self._lines.close()
        return end

    def _candidates(self) -> Iterator[Candidate]:
        place = self._place
        if stat.S_ISDIR(place.expect().st_mode):
            yield from self._beneath(place)
        else:
            fd, state = open_file(place.folder, place.name)
            if state.st_size:
                yield Candidate(place.name, fd)

    def _beneath(self, place: Place) -> Iterator[Candidate]:
        walk = Walk(self._roots, place, everything=self._everything)
        for found in walk:
            if found.kind != FILE or not self._is_included(found.texts):
                continue
            try:
                fd, state = open_file(found.folder, found.name)
            except (OSError, Fault):
                self._skipped += 1
                continue
            # What says that it is empty may be a file the system makes as it is read: never to end.
            if not state.st_size:
                os.close(fd)
            else:
                yield Candidate(found.path, fd)
        self._skipped += walk.skipped

    def _is_included(self, texts: list[str]) -> bool:
        if not self._includes:
            return True
        return any(
            pattern.match(texts if whole else texts[-1:]) for pattern, whole in self._includes
        )

    def _search(self, batch: list[Candidate]) -> None:
        texts = []
        for candidate in batch:
            if _is_text(candidate.fd):
                texts.append(candidate)
            else:
                self._skipped += 1
        self._files += len(texts)
        for hit in self._hits(texts):
            self._told += 1
            if self._told > self._limit:
                break
            self._tell(hit)
        for candidate in batch:
            os.close(candidate.fd)

    def _hits(self, batch: list[Candidate]) -> Iterator[Hit]:
        left = self._limit + 1 - self._told
        if self._ripgrep is not None:
            try:
                yield from self._ripgrep.search(batch, left)
                return
            except RipgrepFailed:  # an old or broken one; nothing of this batch was told
                self._ripgrep = None
        if self._own is None:
            self._own = OwnSearch(self._wanted)
        yield from self._own.search(batch)

    def _tell(self, hit: Hit) -> None:
        text, begin = hit.line.decode("utf-8", "surrogateescape"), hit.column - 1
        line: dict[str, object] = {
            **named("path", hit.path),
            "line": hit.number,
            "column": hit.column,
        }
        if len(text) > _TEXT_MAX:
            first = max(0, min(begin - _BEFORE_MATCH, len(text) - _TEXT_MAX))
            text = text[first : first + _TEXT_MAX]
            line["cut"] = True
        self._lines.put(line | named("text", text.encode("utf-8", "surrogateescape")))


def _include(pattern: bytes) -> tuple[PathPattern, bool]:
    """Give a pattern, and whether it is of whole paths: one without a slash is of names."""
    return PathPattern(pattern), b"/" in pattern


def _most_open() -> int:
    """Give how many files may be open, after having asked for as many as will be given."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * _LAST_BATCH
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    with contextlib.suppress(OSError, ValueError):  # macOS has a lower limit that it does not tell
        if soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return soft


def _is_text(fd: int) -> bool:
    try:
        return b"\0" not in os.pread(fd, _LOOK_BYTES, 0)
    except OSError:
        return False
