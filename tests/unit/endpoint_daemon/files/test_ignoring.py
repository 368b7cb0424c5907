"""What .gitignore files say is read as git reads it."""

import pytest

from farhand_daemon.files.ignoring import IgnoreRules


def left_out(rules: IgnoreRules, path: str) -> bool | None:
    return rules.verdict(path.rstrip("/").split("/"), folder=path.endswith("/"))


@pytest.mark.parametrize(
    ("text", "out", "not_out"),
    [
        ("node_modules", ["node_modules/", "a/node_modules/", "node_modules"], ["node_modules2/"]),
        ("build/", ["build/", "a/build/"], ["build", "a/build"]),
        ("/build", ["build", "build/"], ["a/build"]),
        ("a/b", ["a/b"], ["x/a/b", "b"]),
        ("**/b", ["b", "a/b", "a/c/b"], []),
        ("a/**", ["a/b", "a/b/c"], ["a/"]),
        ("a/**/b", ["a/b", "a/x/y/b"], ["b"]),
        ("*.log", ["x.log", "a/x.log"], ["x.logs"]),
        ("*.log\n!keep.log", ["x.log"], []),
        ("# note\n\n  \n*.o  \n", ["x.o"], ["# note"]),
        (r"\#real", ["#real"], ["real"]),
        (r"\!real", ["!real"], []),
        ("name\\ \n", ["name "], ["name"]),
        ("crlf\r\n", ["crlf"], []),
        ("{a,b}", ["{a,b}"], ["a", "b"]),
        ("../x\n/\n!\n//", [], ["x", "a/x"]),
        ("caf\u00e9", ["caf\u00e9"], []),
        ("[", ["["], []),
    ],
)
def test_a_rule_leaves_out(text: str, out: list[str], not_out: list[str]) -> None:
    rules = IgnoreRules(text.encode())
    assert [path for path in out if left_out(rules, path) is not True] == []
    assert [path for path in not_out if left_out(rules, path)] == []


def test_the_last_rule_that_fits_counts() -> None:
    rules = IgnoreRules(b"*\n!*.md\nsecret.md")
    assert left_out(rules, "a.py") is True
    assert left_out(rules, "a.md") is False
    assert left_out(rules, "secret.md") is True
    assert left_out(IgnoreRules(b"x"), "y") is None


def test_rules_know_where_their_file_lies() -> None:
    above = IgnoreRules(b"/src/gen", lead=["src"])  # the walk begins in src
    assert left_out(above, "gen/") is True
    assert left_out(above, "a/gen/") is None
    below = IgnoreRules(b"/gen", depth=1)
    assert left_out(below, "a/gen/") is True
    assert left_out(below, "a/b/gen/") is None


def test_a_file_of_anybodys_is_read_in_bounds() -> None:
    rules = IgnoreRules(b"\n".join(b"x%d" % n for n in range(100_000)) + b"\n" + b"y" * 1_000_000)
    assert left_out(rules, "x1") is True
    assert left_out(rules, "x99999") is None
