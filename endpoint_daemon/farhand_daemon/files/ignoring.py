"""What ``.gitignore`` files leave out of a walk, as git reads them.

Of git's other sources (its settings, ``.git/info/exclude``) none is read: what a repository tells
everybody is enough to keep what is built or installed out of an answer.

Imported by the processes of operations: small parts of the standard library only.
"""

from __future__ import annotations

import os

from farhand_daemon.files.fault import Fault
from farhand_daemon.files.opening import open_file
from farhand_daemon.files.patterns import PATTERN_MAX_BYTES, PathPattern, name_test

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from farhand_daemon.files.roots import Place, Roots

    Test = Callable[[Sequence[str]], bool]

_FILE = b".gitignore"
# A file of anybody's: what is past these is not read.
_FILE_MAX_BYTES = 256 * 1024
_RULES_MAX = 2_000


class IgnoreRules:
    """One file's rules. ``lead`` and ``depth`` say where it lies: how the paths it knows begin
    before the walk's own, or how many of the walk's parts are above it."""

    def __init__(self, text: bytes, *, lead: Sequence[str] = (), depth: int = 0) -> None:
        self._lead, self._depth = list(lead), depth
        self._rules: list[tuple[bool, bool, Test]] = []  # leaves out, folders only, test
        for line in text.split(b"\n")[:_RULES_MAX]:
            self._add(line.removesuffix(b"\r"))
        self._rules.reverse()  # the last that fits counts

    def verdict(self, parts: Sequence[str], *, folder: bool) -> bool | None:
        """Say whether a path of the walk is left out; None when no rule speaks of it."""
        known = [*self._lead, *parts[self._depth :]]
        for leaves_out, folders_only, test in self._rules:
            if (folder or not folders_only) and test(known):
                return leaves_out
        return None

    def _add(self, line: bytes) -> None:
        while line.endswith(b" ") and not line.endswith(b"\\ "):
            line = line[:-1]
        if not line or line.startswith(b"#") or len(line) > PATTERN_MAX_BYTES:
            return
        leaves_out = not line.startswith(b"!")
        line = line if leaves_out else line[1:]
        folders_only = line.endswith(b"/")
        body = line.rstrip(b"/")
        if b"/" not in body:
            fits = name_test(os.fsdecode(body))
            self._rules.append((leaves_out, folders_only, lambda parts: fits(parts[-1])))
            return
        try:
            pattern = PathPattern(body.removeprefix(b"/"), braces=False)
        except Fault:  # one that cannot match, such as ../x
            return
        self._rules.append((leaves_out, folders_only, pattern.match))


class Ignoring:
    """The rules that hold at one point of a walk: those of the folders above, then its own."""

    def __init__(self) -> None:
        self._rules: list[IgnoreRules] = []
        self._sizes: list[int] = []

    def begin(self, roots: Roots, place: Place, folder: int) -> None:
        """Take the rules above the walk's first folder, up to the repository's own folder.

        Outside of a repository there are none: a .gitignore above may be of anything.
        """
        names = [os.fsdecode(name) for name in place.path.split(b"/") if name not in (b"", b".")]
        found: list[IgnoreRules] = []
        for height, fd in enumerate(roots.climb(folder, place.root)):
            if height and (text := read_rules(fd)):
                found.append(IgnoreRules(text, lead=names[len(names) - height :]))
            if _has(fd, b".git"):
                self._rules = found[::-1]
                return

    def enter(self, folder: int, depth: int) -> None:
        """Take the rules of a folder of the walk, ``depth`` parts down."""
        self._sizes.append(len(self._rules))
        text = read_rules(folder)
        if text:
            self._rules.append(IgnoreRules(text, depth=depth))

    def leave(self) -> None:
        """Drop those of the folder entered last."""
        del self._rules[self._sizes.pop() :]

    def leaves_out(self, parts: Sequence[str], *, folder: bool) -> bool:
        for rules in reversed(self._rules):
            verdict = rules.verdict(parts, folder=folder)
            if verdict is not None:
                return verdict
        return False


def read_rules(folder: int) -> bytes:
    """Give a folder's .gitignore, nothing where there is none."""
    try:
        fd, _ = open_file(folder, _FILE)
    except (OSError, Fault):
        return b""
    try:
        return os.read(fd, _FILE_MAX_BYTES)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _has(folder: int, name: bytes) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True
