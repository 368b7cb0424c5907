"""Patterns of paths: ``*``, ``?``, ``[a-z]`` in a name, ``**`` over folders, ``{a,b}``.

A path is matched part by part, so a walk knows beforehand where nothing can match. The work is
bounded by the length of pattern and path, whatever the pattern: a repository's files are anybody's.

Imported by the processes of operations: small parts of the standard library only.
"""

from __future__ import annotations

import os
import re
from fnmatch import translate

from farhand_daemon.files.fault import Fault, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    NameTest = Callable[[str], bool]

PATTERN_MAX_BYTES = 4096
_ALTERNATIVES_MAX = 256
_ANY_FOLDERS = "**"
_MAGIC = re.compile(r"[*?[]")

State = frozenset[tuple[int, int]]  # (alternative, how many of its parts are matched)


class PathPattern:
    """A pattern relative to a folder. Start with `start`, then `step` into each part of a path."""

    def __init__(self, pattern: bytes, *, braces: bool = True) -> None:
        """Fault bad_pattern for one that could never match."""
        if len(pattern) > PATTERN_MAX_BYTES:
            raise Fault("bad_pattern", f"its pattern is longer than {PATTERN_MAX_BYTES:,} bytes")
        text = os.fsdecode(pattern)
        alternatives = _without_braces(text) if braces else [text]
        self._alternatives = [_parts(alternative) for alternative in alternatives]
        self.start: State = self._closed((number, 0) for number in range(len(alternatives)))

    def step(self, state: State, name: str) -> State:
        """Give the state after one more part of the path; empty: nothing below can match."""
        reached = []
        for number, at in state:
            parts = self._alternatives[number]
            if at == len(parts):
                continue
            part = parts[at]
            if part is None:
                reached.append((number, at))
                if at == len(parts) - 1:
                    reached.append((number, at + 1))
            elif part(name):
                reached.append((number, at + 1))
        return self._closed(reached)

    def matches(self, state: State) -> bool:
        """Whether the path up to here is one."""
        return any(at == len(self._alternatives[number]) for number, at in state)

    def match(self, parts: Sequence[str]) -> bool:
        """Whether a whole path is one."""
        state = self.start
        for part in parts:
            state = self.step(state, part)
            if not state:
                return False
        return self.matches(state)

    def _closed(self, state: Iterable[tuple[int, int]]) -> State:
        """Add what is reached without a part of the path: ``**`` may be no folder, but not at the
        end, where it is everything below."""
        found, todo = set(), list(state)
        while todo:
            number, at = todo.pop()
            if (number, at) in found:
                continue
            found.add((number, at))
            parts = self._alternatives[number]
            if at < len(parts) - 1 and parts[at] is None:
                todo.append((number, at + 1))
        return frozenset(found)


def name_test(text: str) -> NameTest:
    """Give what tells whether a whole name fits. A backslash makes the next character plain."""
    out, left = "", text
    while left:
        character, left = left[0], left[1:]
        if character == "\\" and left:
            character, left = left[0], left[1:]
            out += f"[{character}]" if character in "*?[" else character
        elif character == "[" and left[:1] == "^":
            out, left = out + "[!", left[1:]
        else:
            out += character
    if not _MAGIC.search(out):
        return out.__eq__
    fits = re.compile(translate(out)).match
    return lambda name: fits(name) is not None


def _parts(text: str) -> list[NameTest | None]:
    """Give a test for each part of a pattern, None for any number of folders."""
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if text.startswith("/") or ".." in parts or not parts:
        raise Fault(
            "bad_pattern",
            f"its pattern {shown(os.fsencode(text))} must lead down from the folder: no / at its "
            "begin, no .. in it",
        )
    return [None if part == _ANY_FOLDERS else name_test(part) for part in parts]


def _without_braces(text: str) -> list[str]:
    """Give the alternatives of all {a,b} in a pattern, nested ones too."""
    done: list[str] = []
    todo = [text]
    while todo:
        if len(done) + len(todo) > _ALTERNATIVES_MAX:
            raise Fault(
                "bad_pattern",
                f"its braces make more than {_ALTERNATIVES_MAX} patterns; ask several times",
            )
        one = todo.pop()
        found = _first_braces(one)
        if found is None:
            done.append(one)
            continue
        before, choices, after = found
        todo += [before + choice + after for choice in reversed(choices)]
    return done


def _first_braces(text: str) -> tuple[str, list[str], str] | None:
    """Split at the first {…,…}: what is before, its choices, what is after."""
    for begin, character in enumerate(text):
        if character != "{":
            continue
        depth, choices, last = 0, [], begin + 1
        for at in range(begin, len(text)):
            if text[at] == "{":
                depth += 1
            elif text[at] == "}":
                depth -= 1
                if depth == 0:
                    choices.append(text[last:at])
                    if len(choices) > 1:
                        return text[:begin], choices, text[at + 1 :]
                    break
            elif text[at] == "," and depth == 1:
                choices.append(text[last:at])
                last = at + 1
    return None
