"""Glob and search: what lies beneath a folder, in order, with ripgrep and without it."""

import base64
import os
import shutil
import stat
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from farhand_shared.file_operation import GlobFiles, SearchFiles
from tests.integration.endpoint_daemon.files.conftest import Answer, Files

RIPGREP = shutil.which("rg")


def make(root: Path, *paths: str, content: bytes = b"") -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)


def glob(files: Files, pattern: str, path: str = ".", **facts: Any) -> list[str]:
    operation = GlobFiles(path=path.encode(), pattern=pattern.encode(), **facts)
    return files.do(operation).paths


def test_a_glob_gives_what_fits_part_by_part(any_files: Files) -> None:
    make(any_files.root, "a.py", "src/b.py", "src/deep/c.py", "src-x/d.py", "src/e.txt", ".f.py")
    assert glob(any_files, "*.py") == [".f.py", "a.py"]
    assert glob(any_files, "**/*.py") == [
        ".f.py",
        "a.py",
        "src/b.py",
        "src/deep/c.py",
        "src-x/d.py",  # after what is in src: a folder comes with all that is in it
    ]
    assert glob(any_files, "*.py", path="src") == ["b.py"]
    assert glob(any_files, "src/**") == ["src/b.py", "src/deep", "src/deep/c.py", "src/e.txt"]


def test_pages_of_a_glob_make_up_the_whole(files: Files) -> None:
    names = [f"{a}/{b}/{c}.py" for a in "abc" for b in ("x", "x-y", "x.z") for c in "123"]
    make(files.root, *names, "a/x.py", "b.py")
    whole = glob(files, "**/*.py")
    assert sorted(whole) == sorted([*names, "a/x.py", "b.py"])
    for limit in (1, 4, 7):
        pages: list[str] = []
        after = b""
        while True:
            operation = GlobFiles(path=b".", pattern=b"**/*.py", after=after, limit=limit)
            if limit == 1 and len(pages) >= 5:
                break
            answer = files.do(operation)
            assert len(answer.paths) <= limit
            pages += answer.paths
            if not answer.facts["more"]:
                break
            after = answer.facts["after"].encode()
        assert pages == whole[: len(pages)]
        assert limit == 1 or pages == whole


def test_links_are_given_and_never_entered(files: Files, tmp_path: Path) -> None:
    make(tmp_path, "outside/secret.py", content=b"needle")
    make(files.root, "in/a.py", content=b"needle")
    (files.root / "out").symlink_to(tmp_path / "outside")
    (files.root / "again").symlink_to("in")
    (files.root / "circle").symlink_to(".")
    (files.root / "secret.py").symlink_to(tmp_path / "outside/secret.py")
    assert glob(files, "**/*.py") == ["in/a.py", "secret.py"]
    assert glob(files, "*") == ["again", "circle", "in", "out", "secret.py"]
    assert files.do(SearchFiles(path=b".", pattern=b"needle")).paths == ["in/a.py"]
    assert glob(files, "*", path="again") == ["a.py"]
    for path in (b"out", b"secret.py"):
        assert files.refused(SearchFiles(path=path, pattern=b"x"))["code"] == "path_denied"
        assert files.refused(GlobFiles(path=path, pattern=b"*"))["code"] == "path_denied"


def test_what_a_repository_ignores_is_left_out_unless_asked_for(files: Files) -> None:
    make(files.root, "repo/.git/config", "repo/a.py", "repo/out/b.py", "repo/src/out/c.py")
    make(files.root, "repo/src/gen/d.py", "repo/src/gen/keep.py", "repo/src/e.py", "f/out/g.py")
    make(files.root, "repo/.gitignore", content=b"out/\n/src/gen/*\n!/src/gen/keep.py\n")
    make(files.root, "repo/src/.gitignore", content=b"e.py\n")
    assert glob(files, "**/*.py") == ["f/out/g.py", "repo/a.py", "repo/src/gen/keep.py"]
    # The repository's own rules hold where the walk begins within it.
    assert glob(files, "**/*.py", path="repo/src") == ["gen/keep.py"]
    assert glob(files, "**/*.py", path="repo/src/gen") == ["keep.py"]
    everything = glob(files, "repo/**", all=True)
    assert "repo/.git/config" in everything
    assert "repo/src/out/c.py" in everything


def test_a_rule_above_a_folder_that_is_no_repository_does_not_hold(files: Files) -> None:
    make(files.root, ".gitignore", content=b"*.py")
    make(files.root, "d/a.py")
    assert glob(files, "*.py", path="d") == ["a.py"]


def test_any_name_is_found_and_told(files: Files) -> None:
    odd = [b"new\nline", b"\xff\xfe", b"-rf", b" ", b"\x1b[2J", "é".encode()]
    for name in odd:
        make(files.root, os.fsdecode(b"d\xff/" + name), content=b"needle \xff\xfe")
    for operation in (
        GlobFiles(path=b".", pattern=b"**/*"),
        SearchFiles(path=b".", pattern=b"needle"),
    ):
        lines = [line for line in files.do(operation).lines if line.get("type") != "folder"]
        exact = [base64.b64decode(line["path_base64"]) for line in lines]
        assert exact == [b"d\xff/" + name for name in sorted(odd)]
    assert {line["text_base64"] for line in lines} == {
        base64.b64encode(b"needle \xff\xfe").decode()
    }
    assert {line["text"] for line in lines} == {"needle \ufffd\ufffd"}
    assert len(glob(files, "d?/?")) == 2


def test_folders_that_cannot_be_read_are_counted(plain_files: Files) -> None:
    make(plain_files.root, "closed/a.py", "open/b.py", content=b"x")
    (plain_files.root / "closed").chmod(0)
    (plain_files.root / "open/b.py").chmod(0)
    try:
        answer = plain_files.do(GlobFiles(path=b".", pattern=b"**/*.py"))
        assert (answer.paths, answer.facts["skipped"]) == (["open/b.py"], 1)
        answer = plain_files.do(SearchFiles(path=b".", pattern=b"x"))
        assert (answer.paths, answer.facts["skipped"]) == ([], 2)
    finally:
        (plain_files.root / "closed").chmod(0o700)


def test_a_tree_without_bottom_ends(files: Files) -> None:
    folder = os.open(files.root, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=folder)
        deeper = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = deeper
    os.close(folder)
    answer = files.do(GlobFiles(path=b".", pattern=b"**/d", limit=1000))
    assert (len(answer.paths), answer.facts["skipped"]) == (201, 1)


def test_the_daemons_own_folder_is_not_seen(files: Files) -> None:
    make(files.root, "state/daemon/secret.py", "state/a.py", content=b"needle")
    own = [files.root / "state/daemon"]
    answer = files.do(GlobFiles(path=b".", pattern=b"**/*.py", all=True), own=own)
    assert answer.paths == ["state/a.py"]
    answer = files.do(SearchFiles(path=b".", pattern=b"needle", all=True), own=own)
    assert answer.paths == ["state/a.py"]


@pytest.mark.parametrize("operation", [GlobFiles, SearchFiles])
def test_folders_that_are_exchanged_for_links_lead_nowhere(
    files: Files, tmp_path: Path, operation: type[GlobFiles | SearchFiles]
) -> None:
    """After every folder that is read, all others become links to what is outside."""
    make(tmp_path, "outside/deep/secret", content=b"needle")
    make(files.root, *(f"d{n}/deep/file" for n in range(5)), content=b"needle")
    setup = f"""
from farhand_daemon.files import walk
opened = walk.open_folder
def exchanging(folder, name):
    fd = opened(folder, name)
    for n in range(5):
        here = {str(files.root)!r} + f"/d{{n}}"
        if not os.path.islink(here) and name != b".":
            os.rename(here, here + "-moved")
            os.symlink({str(tmp_path / "outside")!r}, here)
    return fd
walk.open_folder = exchanging
"""
    pattern = b"**/*" if operation is GlobFiles else b"needle"
    answer = files.do(operation(path=b".", pattern=pattern), setup=setup)
    assert not [path for path in answer.paths if "secret" in path]
    assert answer.facts["skipped"] >= 1


# What is on the lines


@pytest.fixture(params=["own", "ripgrep"])
def engine(request: pytest.FixtureRequest) -> str:
    """The PATH of the operation: without ripgrep, and with it."""
    if request.param == "own":
        return "/nowhere"
    if RIPGREP is None:
        pytest.skip("ripgrep is not installed here; some tests have a stand-in for it")
    return str(Path(RIPGREP).parent)


def search(files: Files, engine: str, pattern: bytes, path: bytes = b".", **facts: Any) -> Answer:
    return files.do(SearchFiles(path=path, pattern=pattern, **facts), path=engine)


def told(answer: Answer) -> list[tuple[str, int, int, str]]:
    return [(one["path"], one["line"], one["column"], one["text"]) for one in answer.lines]


def test_every_line_that_matches_is_told_once(files: Files, engine: str) -> None:
    make(files.root, "b", content=b"one two two\nnone\r\nTwo\nlast two")
    make(files.root, "a/x.py", content="é two\n".encode())
    make(files.root, "a/empty")
    assert told(search(files, engine, b"two")) == [
        ("a/x.py", 1, 3, "é two"),
        ("b", 1, 5, "one two two"),
        ("b", 4, 6, "last two"),
    ]
    assert told(search(files, engine, b"TWO", ignore_case=True))[2] == ("b", 3, 1, "Two")
    assert told(search(files, engine, rb"^none$")) == [("b", 2, 1, "none")]
    assert told(search(files, engine, rb"\btwo\b", path=b"b"))[0] == ("b", 1, 5, "one two two")
    assert told(search(files, engine, b"o.e", path=b"a")) == []
    assert search(files, engine, b"two").facts == {"more": False, "files": 2, "skipped": 0}


def test_fixed_text_is_not_a_regular_expression(files: Files, engine: str) -> None:
    make(files.root, "a", content=b"a.b\naxb\n(\n-e\n")
    assert [line["line"] for line in search(files, engine, b"a.b", fixed=True).lines] == [1]
    assert [line["line"] for line in search(files, engine, b"(", fixed=True).lines] == [3]
    assert [line["line"] for line in search(files, engine, b"-e", fixed=True).lines] == [4]
    assert [
        line["line"] for line in search(files, engine, b"A.B", fixed=True, ignore_case=True).lines
    ] == [1]


def test_only_what_is_included_is_searched(files: Files, engine: str) -> None:
    make(files.root, "a.py", "a.js", "src/b.py", "src/c.ts", content=b"x")
    assert search(files, engine, b"x", include=(b"*.py",)).paths == ["a.py", "src/b.py"]
    assert search(files, engine, b"x", include=(b"src/*.{py,ts}",)).paths == [
        "src/b.py",
        "src/c.ts",
    ]
    assert search(files, engine, b"x", include=(b"*.ts", b"*.js")).paths == ["a.js", "src/c.ts"]


def test_files_that_are_no_text_are_counted(files: Files, engine: str) -> None:
    make(files.root, "binary", content=b"needle\0")
    make(files.root, "late", content=b"x\n" * 100_000 + b"\0needle\n")
    make(files.root, "text", content=b"needle")
    answer = search(files, engine, b"needle")
    assert "text" in answer.paths
    assert "binary" not in answer.paths
    assert answer.facts["skipped"] == 1


def test_more_lines_than_the_limit_are_said_to_be_more(files: Files, engine: str) -> None:
    make(files.root, *(f"f{n:03}" for n in range(200)), content=b"x\nx\n")
    answer = search(files, engine, b"x", limit=250)
    assert len(answer.lines) == 250
    assert answer.facts["more"] is True
    assert answer.paths == [f"f{n // 2:03}" for n in range(250)]
    assert search(files, engine, b"x", limit=400).facts["more"] is False


def test_a_long_line_is_cut_around_the_match(files: Files, engine: str) -> None:
    make(files.root, "min.js", content="é".encode() * 5_000_00 + b"needle" + b"z" * 5_000_000)
    (line,) = search(files, engine, b"needle").lines
    assert (line["column"], line["cut"]) == (500_001, True)
    assert len(line["text"]) == 1000
    assert line["text"][200:206] == "needle"


def test_a_line_that_is_too_long_to_hold_is_given_up_and_said(files: Files, engine: str) -> None:
    make(files.root, "a", content=b"needle\n" + b"x" * 5_000_000 + b"needle\nneedle\n")
    make(files.root, "b", content=b"needle")
    limits = "from farhand_daemon.files import matching, ripgrep\n"
    limits += "matching._LINE_MAX_BYTES = ripgrep._EVENT_MAX_BYTES = 1 << 20\n"
    operation = SearchFiles(path=b".", pattern=b"needle")
    answer = files.do(operation, path=engine, setup=limits)
    assert told(answer) == [("a", 1, 1, "needle"), ("b", 1, 1, "needle")]
    assert answer.facts["skipped"] == 1


def test_bytes_that_are_no_text_are_searched_as_they_are(files: Files, engine: str) -> None:
    make(files.root, "latin", content="caf\u00e9 au lait\n".encode("latin-1"))
    (line,) = search(files, engine, b"au").lines
    assert base64.b64decode(line["text_base64"]) == b"caf\xe9 au lait"
    assert line["column"] == 6
    assert line["text"] == "caf\ufffd au lait"


@pytest.mark.parametrize(
    "pattern",
    [b"(", b"[a", b"*a", b"a{2", b"(?P<n", b"a\nb", b"\\", b"(" * 5000 + b")" * 5000],
    ids=["paren", "bracket", "star", "brace", "group", "two lines", "backslash", "deep"],
)
def test_a_pattern_that_is_none_is_refused(files: Files, engine: str, pattern: bytes) -> None:
    make(files.root, "a", content=b"a")
    answer = search(files, engine, pattern)
    if pattern == b"a{2":  # Python takes it for plain text
        assert answer.code in (0, 1)
    else:
        assert answer.error["code"] == "bad_pattern"


def test_a_pattern_that_never_ends_is_ended_by_a_cancel(files: Files) -> None:
    make(files.root, "a", content=b"a" * 100 + b"!")
    with files.start(SearchFiles(path=b".", pattern=rb"(a+)+$")) as process:
        deadline = time.monotonic() + 30
        stat_file = Path(f"/proc/{process.pid}/stat")
        while time.monotonic() < deadline and sys.platform == "linux":
            if int(stat_file.read_text().rpartition(")")[2].split()[11]) > 20:  # it is at it
                break
        process.send_signal(15)
        assert process.wait() == -15


# Ripgrep that does not behave


def fake_ripgrep(tmp_path: Path, script: str) -> str:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "rg").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "rg").chmod(stat.S_IRWXU)
    return str(folder)


@pytest.mark.parametrize(
    "script",
    [
        "exit 127",
        "echo 'error: unexpected argument --crlf' >&2; exit 2",
        "echo not json; exit 0",
        'echo \'{"type":"match","data":{}}\'; exit 0',
        "kill -9 $$",
        'echo \'{"type":"match"\'',
        "echo '[1]'",
        'printf \'{"type":"begin","data":{}}\\n{"type":\'',
    ],
    ids=["gone", "old", "babbling", "empty", "killed", "broken", "list", "torn"],
)
def test_where_ripgrep_fails_our_own_search_answers(
    files: Files, tmp_path: Path, script: str
) -> None:
    make(files.root, "a", content=b"needle")
    answer = search(files, fake_ripgrep(tmp_path, script), b"needle")
    assert told(answer) == [("a", 1, 1, "needle")]


def test_what_ripgrep_says_is_what_is_told(files: Files, tmp_path: Path) -> None:
    make(files.root, "dir/a", content=b"caf\xe9 needle\n")
    text = base64.b64encode(b"caf\xe9 needle\n").decode()
    place = '"data":{"path":{"text":"\'$file\'"}'
    match = f'"lines":{{"bytes":"{text}"}},"line_number":1,"submatches":[{{"start":5,"end":11}}]'
    script = f"""for file; do :; done
test "$(cat "$file" | wc -c)" = 12 || exit 3
echo '{{"type":"begin",{place}}}}}'
echo '{{"type":"match",{place},{match}}}}}'
echo '{{"type":"end",{place}}}}}'"""
    (line,) = search(files, fake_ripgrep(tmp_path, script), b"needle").lines
    assert (line["path"], line["line"], line["column"]) == ("dir/a", 1, 6)
    assert base64.b64decode(line["text_base64"]) == b"caf\xe9 needle"


def test_ripgreps_word_on_a_pattern_is_passed_on(files: Files, tmp_path: Path) -> None:
    make(files.root, "a", content=b"x")
    script = "echo 'rg: regex parse error: unclosed group' >&2; exit 2"
    answer = search(files, fake_ripgrep(tmp_path, script), b"x")
    assert "unclosed group" in answer.error["message"]


def test_a_ripgrep_beneath_the_roots_is_not_run(files: Files, tmp_path: Path) -> None:
    """An operation that may only write files would run what it wrote."""
    make(files.root, "a", content=b"needle")
    planted = fake_ripgrep(files.root, f": > {tmp_path}/ran; exit 1")
    (tmp_path / "to").symlink_to(planted)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "rg").symlink_to(Path(planted) / "rg")
    for path in (planted, f"{tmp_path}/to", f"{tmp_path}/other", "bin", "", f":{planted}"):
        assert search(files, path or "/", b"needle").paths == ["a"]
    assert not (tmp_path / "ran").exists()
