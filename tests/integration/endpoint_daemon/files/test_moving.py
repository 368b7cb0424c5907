"""Folders are made, things moved and removed: names only, and only beneath the roots."""

import hashlib
import os
import stat
from pathlib import Path

from farhand_shared.file_operation import MakeFolder, MoveFile, RemoveFile
from tests.integration.endpoint_daemon.files.conftest import Files, names


def test_a_folder_is_made_once(any_files: Files, tmp_path: Path) -> None:
    assert any_files.facts(MakeFolder(path=b"a")) == {"created": True}
    assert any_files.facts(MakeFolder(path=b"a/")) == {"created": False}
    assert any_files.refused(MakeFolder(path=b"x/y"))["code"] == "not_found"
    assert any_files.facts(MakeFolder(path=b"x/y/z", parents=True)) == {"created": True}
    assert stat.S_IMODE((any_files.root / "x/y").stat().st_mode) == 0o755
    (any_files.root / "file").write_bytes(b"")
    assert any_files.refused(MakeFolder(path=b"file"))["code"] == "exists"
    (any_files.root / "out").symlink_to(tmp_path)
    error = any_files.refused(MakeFolder(path=b"out/x/y", parents=True))
    assert error["code"] == "path_denied"
    assert names(tmp_path) == ["root", "scratch"]


def test_something_is_moved_and_nothing_replaced_unless_asked(files: Files) -> None:
    (files.root / "a").write_bytes(b"a")
    (files.root / "b").write_bytes(b"b")
    (files.root / "d").mkdir()
    assert files.refused(MoveFile(path=b"a", to=b"b"))["code"] == "exists"
    assert files.refused(MoveFile(path=b"a", to=b"d"))["code"] == "exists"
    assert files.refused(MoveFile(path=b"a", to=b"d", replace=True))["code"] == "not_a_file"
    assert files.refused(MoveFile(path=b"none", to=b"c"))["code"] == "not_found"
    assert files.refused(MoveFile(path=b"a", to=b"none/c"))["code"] == "not_found"
    assert files.facts(MoveFile(path=b"a", to=b"d/a")) == {"replaced": False}
    assert files.facts(MoveFile(path=b"d/a", to=b"b", replace=True)) == {"replaced": True}
    assert (files.root / "b").read_bytes() == b"a"
    assert files.facts(MoveFile(path=b"d", to=b"e")) == {"replaced": False}
    assert names(files.root) == ["b", "e"]
    assert files.refused(MoveFile(path=b"e", to=b"e/f"))["code"] == "failed"  # into itself


def test_where_the_system_cannot_rename_to_a_free_name_it_is_looked_first(files: Files) -> None:
    (files.root / "a").write_bytes(b"a")
    (files.root / "b").write_bytes(b"b")
    setup = """
import ctypes
class Bare:
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    def __getattr__(self, name):
        raise AttributeError(name)
kernel.ctypes.CDLL = lambda *args, **facts: Bare()
"""
    assert files.refused(MoveFile(path=b"a", to=b"b"), setup=setup)["code"] == "exists"
    files.facts(MoveFile(path=b"a", to=b"c"), setup=setup)
    assert names(files.root) == ["b", "c"]


def test_a_link_is_moved_and_removed_itself(files: Files, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"kept")
    (files.root / "link").symlink_to(tmp_path / "outside")
    files.facts(MoveFile(path=b"link", to=b"other"))
    assert (files.root / "other").is_symlink()
    assert files.facts(RemoveFile(path=b"other")) == {"type": "link"}
    assert names(files.root) == []
    assert (tmp_path / "outside").read_bytes() == b"kept"


def test_nothing_is_moved_in_or_out(files: Files, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"secret")
    (files.root / "file").write_bytes(b"x")
    (files.root / "out").symlink_to(tmp_path / "outside")
    outside = os.fsencode(tmp_path / "outside")
    for path, to in (
        (b"file", outside + b"/file"),
        (b"file", b"out/file"),
        (b"file", b"../file"),
        (outside + b"/secret", b"secret"),
        (b"out/secret", b"secret"),
        (b"..", b"x"),
    ):
        error = files.refused(MoveFile(path=path, to=to, replace=True))
        assert error["code"] == "path_denied"
    for path in (b"out/secret", outside, b"../scratch", b"out/"):
        assert files.refused(RemoveFile(path=path))["code"] == "path_denied"
    assert names(tmp_path / "outside") == ["secret"]


def test_roots_stay_where_they_are(files: Files) -> None:
    for path in (b".", os.fsencode(files.root), b"./"):
        assert files.refused(MoveFile(path=path, to=b"x"))["code"] == "path_denied"
        assert files.refused(RemoveFile(path=path))["code"] == "path_denied"
    assert files.root.exists()


def test_only_what_is_empty_or_as_expected_is_removed(files: Files) -> None:
    (files.root / "folder").mkdir()
    (files.root / "folder/file").write_bytes(b"x")
    os.mkfifo(files.root / "fifo")
    assert files.refused(RemoveFile(path=b"folder"))["code"] == "not_empty"
    wrong = hashlib.sha256(b"y").digest()
    error = files.refused(RemoveFile(path=b"folder/file", expected_sha256=wrong))
    assert error["code"] == "changed"
    error = files.refused(RemoveFile(path=b"folder", expected_sha256=wrong))
    assert error["code"] == "not_a_file"
    right = hashlib.sha256(b"x").digest()
    files.facts(RemoveFile(path=b"folder/file", expected_sha256=right))
    assert files.facts(RemoveFile(path=b"folder")) == {"type": "folder"}
    assert files.facts(RemoveFile(path=b"fifo")) == {"type": "fifo"}
    assert files.refused(RemoveFile(path=b"fifo"))["code"] == "not_found"


def test_the_daemons_own_folder_is_not_moved_with_one_above_it(files: Files) -> None:
    own = files.root / "share/daemon"
    own.mkdir(parents=True)
    (own / "machine.toml").write_bytes(b"mine")
    (files.root / "empty").mkdir()
    (files.root / "to_share").symlink_to("share")
    named = files.root / "to_share/daemon"
    for path, to in (
        (b"share", b"elsewhere"),
        (b"share/daemon", b"elsewhere"),
        (b"to_share", b"elsewhere"),
        (b"empty", b"to_share"),
        (b"share/daemon/machine.toml", b"elsewhere"),
        (b"empty", b"share"),
        (b"empty", b"share/daemon"),
    ):
        error = files.refused(MoveFile(path=path, to=to, replace=True), own=[named])
        assert error["code"] == "path_denied"
    for path in (b"share/daemon", b"to_share"):
        assert files.refused(RemoveFile(path=path), own=[named])["code"] == "path_denied"
    assert (own / "machine.toml").read_bytes() == b"mine"
