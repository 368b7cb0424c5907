"""What is wrong with a use of `farhand files` is one line, before any machine is asked."""

import io
import sys
from pathlib import Path

import pytest

from farhand_control_plane.cli import main as cli

_HASH = "0" * 64


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARHAND_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("FARHAND_TOKEN", "fh_x")


def _fails(capsys: pytest.CaptureFixture[str], arguments: list[str], status: int) -> str:
    assert cli.main(["files", *arguments]) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("farhand: cannot ")
    assert err.count("\n") == 1
    assert "127.0.0.1" not in err, "no server was asked"
    return err


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["stat", "dev"], 2, "no path"),
        (["stat", "dev:"], 2, "no path"),
        (["stat", ":a"], 2, "no machine"),
        (["read", "dev:~/a"], 2, "~ is not expanded"),
        (["list", "dev:~"], 2, "~ is not expanded"),
        (["read", "dev:a", "--offset", "-1"], 2, "--offset"),
        (["list", "dev", "--limit", "0"], 2, "--limit"),
        (["list", "dev", "--limit", "10001"], 2, "--limit"),
        (["list", "dev", "--cursor", "ü"], 2, "cursor"),
        (["write", "dev:a", "--mode", "rwx"], 2, "octal"),
        (["write", "dev:a", "--mode", "4755"], 2, "octal"),
        (["write", "dev:a", "--expect", "beef"], 2, "64 hexadecimal digits"),
        (["write", "dev:a", "--expect", _HASH, "--overwrite"], 2, "--expect or --overwrite"),
        (["write", "dev:a", "/no/such/file"], 1, "/no/such/file"),
        (["edit", "dev:a", "--old", "a"], 2, "--new"),
        (["edit", "dev:a", "--old", "a", "--old", "b", "--new", "c"], 2, "in pairs"),
        (["get", "dev:a", "/no/such/folder/b"], 1, "no folder /no/such/folder"),
        (["get", "dev:a", "/dev/null"], 1, "regular file"),
        (["get", "dev:/"], 1, "names a folder"),
        (["put", "/no/such/file", "dev"], 1, "/no/such/file"),
        (["put", "/", "dev"], 1, "it is a folder"),
        (["put", "/dev/null", "dev:a"], 1, "regular file"),
        (["put", "/etc/passwd", ":a"], 2, "no machine"),
        (["put", "/etc/passwd", "dev:a", "--mode", "9"], 2, "octal"),
        (["put", "/etc/passwd"], 2, "MACHINE"),
        (["carry", "dev:a"], 2, "carry"),
    ],
)
def test_bad_input_is_one_line_and_a_code(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    status: int,
    said: str,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"content")))
    assert said in _fails(capsys, arguments, status)


def test_a_path_here_where_a_machines_is_meant_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").touch()
    assert "notes is no machine's path" in _fails(capsys, ["read", "notes"], 2)


def test_a_file_here_is_not_written_over(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").write_text("mine")
    assert "--overwrite" in _fails(capsys, ["get", "dev:some/notes"], 1)
    assert (tmp_path / "notes").read_text() == "mine"


def test_content_that_does_not_fit_into_a_request_names_the_other_way(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    large = tmp_path / "large"
    large.write_bytes(bytes(4 * 1024 * 1024 + 1))
    said = _fails(capsys, ["write", "dev:a", str(large)], 1)
    for part in ("4,194,305", "4,194,304", "farhand files put"):
        assert part in said
