"""Patterns of paths match as people expect, and no pattern takes long."""

import time

import pytest

from farhand_daemon.files.fault import Fault
from farhand_daemon.files.patterns import PathPattern, name_test


@pytest.mark.parametrize(
    ("pattern", "fits", "does_not"),
    [
        ("*.py", ["a.py", ".py", ".hidden.py"], ["a.pyc", "d/a.py", "a.PY"]),
        ("**/*.py", ["a.py", "d/a.py", "d/e/f/a.py"], ["a.pyc", "d/a.py/x"]),
        ("src/**/*.ts", ["src/a.ts", "src/x/y/a.ts"], ["a.ts", "lib/src/a.ts"]),
        ("src/**", ["src/a", "src/a/b"], ["src", "a/src"]),
        ("**", ["a", "a/b/c"], []),
        ("**/b/**/d", ["b/d", "a/b/c/d", "b/b/d"], ["b", "d", "a/d"]),
        ("a?c", ["abc", "aéc", "a/c".replace("/", "\n")], ["ac", "abbc", "a/c"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "-x", "x"]),
        ("[!a]x", ["bx"], ["ax"]),
        ("[^a]x", ["bx"], ["ax"]),
        ("*.{js,ts}", ["a.js", "a.ts"], ["a.j", "a.{js,ts}"]),
        ("{a,b/{c,d}}/e", ["a/e", "b/c/e", "b/d/e"], ["b/e", "c/e"]),
        ("{a}", ["{a}"], ["a"]),
        ("a{b,c", ["a{b,c"], ["ab"]),
        (r"\*.py", ["*.py"], ["a.py"]),
        (r"a\b", ["ab"], [r"a\b"]),
        ("./a//b/.", ["a/b"], ["a"]),
        ("[", ["["], ["a"]),
        ("*a*b*c*", ["abc", "xaxbxcx"], ["acb"]),
    ],
)
def test_a_pattern_fits(pattern: str, fits: list[str], does_not: list[str]) -> None:
    compiled = PathPattern(pattern.encode())
    assert [path for path in fits if not compiled.match(path.split("/"))] == []
    assert [path for path in does_not if compiled.match(path.split("/"))] == []


def test_bytes_that_are_no_text_fit_themselves_and_a_question_mark() -> None:
    for pattern in (b"a\xff", b"a?", b"*\xff", b"*/\xff"):
        name = "x/\udcff" if b"/" in pattern else "a\udcff"
        assert PathPattern(pattern).match(name.split("/"))


@pytest.mark.parametrize("pattern", ["/etc/*", "../*", "a/../b", "/", ".", "x" * 5000])
def test_a_pattern_that_leads_out_or_nowhere_is_refused(pattern: str) -> None:
    with pytest.raises(Fault) as caught:
        PathPattern(pattern.encode())
    assert caught.value.code == "bad_pattern"


def test_braces_do_not_multiply_without_end() -> None:
    with pytest.raises(Fault, match="braces make more than 256"):
        PathPattern(b"{a,b}" * 30)
    assert PathPattern(b"{" * 1000 + b"a").match(["{" * 1000 + "a"])


@pytest.mark.parametrize("pattern", ["*a" * 100 + "b", "**/" * 500 + "b", "**/a/" * 400 + "b"])
def test_no_pattern_takes_long(pattern: str) -> None:
    compiled = PathPattern(pattern.encode())
    begun = time.process_time()
    assert not compiled.match(["a" * 255] * 100)
    assert time.process_time() - begun < 5.0


def test_a_walk_knows_where_nothing_can_match() -> None:
    pattern = PathPattern(b"src/**/*.py")
    assert not pattern.step(pattern.start, "lib")
    inside = pattern.step(pattern.start, "src")
    assert inside
    assert not pattern.matches(inside)
    assert pattern.matches(pattern.step(inside, "a.py"))


def test_a_plain_name_is_compared_and_nothing_else() -> None:
    assert name_test("a.b")("a.b")
    assert not name_test("a.b")("aXb")
