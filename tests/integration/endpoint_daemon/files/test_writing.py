"""Write and edit: the whole file or nothing, the expected content or a refusal."""

import contextlib
import fcntl
import hashlib
import os
import resource
import stat
import subprocess
from pathlib import Path

import pytest

from farhand_shared.file_operation import (
    ABSENT,
    EditFile,
    ReadFile,
    RemoveFile,
    Replacement,
    WriteFile,
)
from tests.integration.endpoint_daemon.files.conftest import NOBODY, WITHOUT_UNNAMED, Files, names


def sha256(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


CONTENT = bytes(range(256)) * 40 + "é\r\n\0".encode()


def test_what_is_written_is_there_byte_for_byte(any_files: Files) -> None:
    facts = any_files.facts(WriteFile(path=b"file", data=CONTENT))
    file = any_files.root / "file"
    assert file.read_bytes() == CONTENT
    assert facts["sha256"] == sha256(CONTENT).hex()
    assert (facts["size"], facts["mode"], facts["created"]) == (len(CONTENT), "0644", True)
    assert names(any_files.root) == ["file"]
    again = any_files.do(ReadFile(path=b"file", if_version=facts["version"]))
    assert again.stdout == CONTENT
    assert again.facts["sha256"] == facts["sha256"]


def test_a_replaced_file_keeps_mode_and_other_names_keep_the_old_content(any_files: Files) -> None:
    file = any_files.root / "script"
    file.write_bytes(b"old")
    file.chmod(0o4751)  # the rights of its owner go with other content, as on any write
    os.link(file, any_files.root / "second name")
    facts = any_files.facts(WriteFile(path=b"script", data=b"new"))
    assert (facts["mode"], facts["created"], facts["hard_links"]) == ("0751", False, 1)
    assert stat.S_IMODE(file.stat().st_mode) == 0o751
    assert (any_files.root / "second name").read_bytes() == b"old"
    assert any_files.facts(WriteFile(path=b"script", data=b"", mode=0o600))["mode"] == "0600"


def test_extended_attributes_are_kept(files: Files) -> None:
    file = files.root / "file"
    file.write_bytes(b"old")
    try:
        os.setxattr(file, "user.mark", b"\0x")
    except OSError as error:
        pytest.skip(f"the file system of {files.root} has none: {error.strerror}")
    assert files.facts(WriteFile(path=b"file", data=b"new"))["lost_attributes"] == []
    assert os.getxattr(file, "user.mark") == b"\0x"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to another account")
def test_the_owner_is_kept(files: Files) -> None:
    file = files.root / "file"
    file.write_bytes(b"old")
    os.chown(file, 12345, 54321)
    facts = files.facts(WriteFile(path=b"file", data=b"new"))
    assert not facts["owner_changed"]
    assert (file.stat().st_uid, file.stat().st_gid) == (12345, 54321)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make the file of another account")
def test_an_owner_that_cannot_be_kept_is_said(plain_files: Files) -> None:
    file = plain_files.root / "file"
    file.write_bytes(b"old")
    file.chmod(0o666)
    assert plain_files.facts(WriteFile(path=b"file", data=b"new"))["owner_changed"]
    assert file.stat().st_uid == NOBODY


def test_a_link_inside_is_written_through_and_stays_a_link(any_files: Files) -> None:
    (any_files.root / "target").write_bytes(b"old")
    (any_files.root / "link").symlink_to("target")
    (any_files.root / "dangling").symlink_to("absent")
    any_files.facts(WriteFile(path=b"link", data=b"new"))
    assert any_files.facts(WriteFile(path=b"dangling", data=b"made"))["created"]
    assert (any_files.root / "link").is_symlink()
    assert (any_files.root / "target").read_bytes() == b"new"
    assert (any_files.root / "absent").read_bytes() == b"made"


def test_a_link_out_is_not_written_through(any_files: Files, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"untouched")
    (any_files.root / "link").symlink_to(victim)
    (any_files.root / "new").symlink_to(tmp_path / "not there")
    (any_files.root / "folder").symlink_to(tmp_path)
    for path in (b"link", b"new", b"folder/victim", b"folder/new"):
        error = any_files.refused(WriteFile(path=path, data=b"evil", make_parents=True))
        assert error["code"] == "path_denied"
    assert victim.read_bytes() == b"untouched"
    assert names(tmp_path) == ["root", "scratch", "victim"]


def test_nothing_but_a_file_is_written_over(files: Files) -> None:
    (files.root / "folder").mkdir()
    os.mkfifo(files.root / "fifo")
    (files.root / "file").write_bytes(b"")
    for path, code in (
        (b"folder", "not_a_file"),
        (b"fifo", "not_regular"),
        (b"file/x", "not_a_folder"),
        (b"new/", "not_a_file"),
        (b"none/x", "not_found"),
        (b".", "not_a_file"),
        (b"x" * 256, "bad_path"),
    ):
        assert files.refused(WriteFile(path=path, data=b"x"))["code"] == code
    assert names(files.root) == ["fifo", "file", "folder"]


def test_folders_on_the_way_are_made_when_asked(any_files: Files) -> None:
    any_files.facts(WriteFile(path=b"a/b/c", data=b"x", make_parents=True))
    assert (any_files.root / "a/b/c").read_bytes() == b"x"


def test_a_long_name_has_room_for_the_name_of_its_draft(files: Files) -> None:
    name = b"n" * 255
    files.facts(WriteFile(path=name, data=b"1"), setup=WITHOUT_UNNAMED)
    files.facts(WriteFile(path=name, data=b"2"))
    assert names(files.root) == [os.fsdecode(name)]


@pytest.mark.parametrize("name", [b"new\nline", b"\xff\xfe", b"-rf", b"\x1b[2J"])
def test_any_name_is_written_and_told(files: Files, name: bytes) -> None:
    files.facts(WriteFile(path=name, data=name))
    assert names(files.root) == [os.fsdecode(name)]
    files.refused(WriteFile(path=name, data=b"x", expect=ABSENT))


# What must be there


def test_only_the_expected_content_is_replaced(files: Files) -> None:
    file = files.root / "file"
    file.write_bytes(b"theirs")
    error = files.refused(WriteFile(path=b"file", data=b"mine", expect=sha256(b"seen")))
    assert error["code"] == "changed"
    assert error["sha256"] == sha256(b"theirs").hex()
    assert error["expected_sha256"] == sha256(b"seen").hex()
    error = files.refused(WriteFile(path=b"file", data=b"mine", expect=ABSENT))
    assert (error["code"], error["sha256"]) == ("exists", sha256(b"theirs").hex())
    error = files.refused(WriteFile(path=b"gone", data=b"mine", expect=sha256(b"seen")))
    assert (error["code"], error["sha256"]) == ("changed", "")
    assert file.read_bytes() == b"theirs"
    files.facts(WriteFile(path=b"file", data=b"mine", expect=sha256(b"theirs")))
    assert file.read_bytes() == b"mine"
    assert names(files.root) == ["file"]


def together(files: Files, operations: list[WriteFile], setup: str) -> list[int]:
    """Run operations that all stand before their last look when the first one goes on."""
    waits = """
take = draft.Draft.take_place
def wait(self, *facts):
    os.write(1, b"ready")
    os.read(0, 1)
    return take(self, *facts)
draft.Draft.take_place = wait
"""
    with contextlib.ExitStack() as stack:
        running = [
            stack.enter_context(files.start(operation, setup=setup + waits))
            for operation in operations
        ]
        for process in running:
            assert process.stdout.read(5) == b"ready"
        for process in running:
            process.stdin.close()
        return [process.wait() for process in running]


@pytest.mark.parametrize("setup", ["", WITHOUT_UNNAMED], ids=["unnamed", "named"])
@pytest.mark.parametrize("there", [b"before", None], ids=["replaced", "made"])
def test_of_writers_that_expect_the_same_exactly_one_wins(
    files: Files, setup: str, there: bytes | None
) -> None:
    file = files.root / "file"
    if there is not None:
        file.write_bytes(there)
    expect = ABSENT if there is None else sha256(there)
    writes = [WriteFile(path=b"file", data=b"%d" % n * 1000, expect=expect) for n in range(6)]
    codes = together(files, writes, setup)
    assert sorted(codes) == [0, 1, 1, 1, 1, 1]
    assert file.read_bytes() == writes[codes.index(0)].data
    assert names(files.root) == ["file"]


@pytest.mark.parametrize("operation", ["write", "remove"])
def test_between_the_last_look_and_the_rename_nobody_else_comes(
    files: Files, operation: str
) -> None:
    file = files.root / "file"
    file.write_bytes(b"before")
    write = WriteFile(path=b"file", data=b"first", expect=sha256(b"before"))
    late: WriteFile | RemoveFile = WriteFile(path=b"file", data=b"x", expect=sha256(b"before"))
    if operation == "remove":
        late = RemoveFile(path=b"file", expected_sha256=sha256(b"before"))
    holds = """
replace = draft.Draft._replace
def held(self):
    os.write(1, b"ready")
    os.read(0, 1)
    replace(self)
draft.Draft._replace = held
"""
    tells = """
from farhand_daemon.files import expectation
lock = expectation._lock
def tried(folder):
    got = lock(folder)
    os.write(1, b"y" if got else b"n")
    return got
expectation._lock = tried
"""
    with files.start(write, setup=holds) as first:
        assert first.stdout.read(5) == b"ready"
        with files.start(late, setup=tells) as second:
            assert second.stdout.read(1) == b"n"  # it waits
            _, stderr = first.communicate(b"go")
            assert first.wait() == 0, stderr
            _, stderr = second.communicate(b"")
            assert second.wait() == 1
            assert b'"changed"' in stderr
    assert file.read_bytes() == b"first"


@pytest.mark.parametrize("how", ["in place", "renamed", "removed", "to a link", "to a folder"])
def test_what_changes_while_the_draft_is_written_is_not_overwritten(
    files: Files, tmp_path: Path, how: str
) -> None:
    file, outside = files.root / "file", tmp_path / "outside"
    file.write_bytes(b"before")
    outside.write_bytes(b"before")
    change = {
        "in place": f"open({str(file)!r}, 'r+b').write(b'BEFORE')",
        "renamed": f"open({str(file)!r} + '2', 'wb').write(b'BEFORE'); "
        f"os.rename({str(file)!r} + '2', {str(file)!r})",
        "removed": f"os.unlink({str(file)!r})",
        "to a link": f"os.unlink({str(file)!r}); os.symlink({str(outside)!r}, {str(file)!r})",
        "to a folder": f"os.unlink({str(file)!r}); os.mkdir({str(file)!r})",
    }[how]
    setup = f"""
fsync = os.fsync
def meanwhile(fd):
    os.fsync = fsync
    {change}
    fsync(fd)
os.fsync = meanwhile
"""
    write = WriteFile(path=b"file", data=b"mine", expect=sha256(b"before"))
    error = files.refused(write, setup=setup)
    assert error["code"] in ("changed", "not_a_file", "busy")
    assert outside.read_bytes() == b"before"
    if how in ("in place", "renamed"):
        assert file.read_bytes() == b"BEFORE"
    assert not [name for name in names(files.root) if "farhand" in name]


def test_what_the_account_may_not_write_is_refused(plain_files: Files) -> None:
    for name in ("file", "closed/file"):
        plain_files.facts(WriteFile(path=name.encode(), data=b"kept", make_parents=True))
    (plain_files.root / "file").chmod(0o444)
    (plain_files.root / "closed").chmod(0o555)
    for path in (b"file", b"closed/file", b"closed/new"):
        error = plain_files.refused(WriteFile(path=path, data=b"x"))
        assert error["code"] == "permission_denied"
    assert (plain_files.root / "file").read_bytes() == b"kept"
    assert names(plain_files.root / "closed") == ["file"]
    (plain_files.root / "closed").chmod(0o755)  # or an ordinary user could not clear it away


def test_a_folder_whose_names_may_not_be_read_is_written_in(plain_files: Files) -> None:
    plain_files.facts(WriteFile(path=b"dark/file", data=b"old", make_parents=True))
    (plain_files.root / "dark").chmod(0o333)
    plain_files.facts(WriteFile(path=b"dark/file", data=b"new", expect=sha256(b"old")))
    (plain_files.root / "dark").chmod(0o700)
    assert (plain_files.root / "dark/file").read_bytes() == b"new"


# What goes wrong in the middle


@pytest.mark.parametrize("setup", ["", WITHOUT_UNNAMED], ids=["unnamed", "named"])
def test_a_limit_on_the_size_of_files_leaves_nothing_half_written(files: Files, setup: str) -> None:
    (files.root / "file").write_bytes(b"before")
    limit = f"import resource\nresource.setrlimit({resource.RLIMIT_FSIZE}, (4096, 4096))\n"
    limit += "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    error = files.refused(WriteFile(path=b"file", data=b"x" * 5000), setup=setup + limit)
    assert error["code"] == "too_big"
    assert (files.root / "file").read_bytes() == b"before"
    assert names(files.root) == ["file"]


@pytest.fixture
def small_disk(files: Files) -> Files:
    """Operations on a file system of 1 MiB."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount one")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "small", files.root], capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    return files


@pytest.mark.root
@pytest.mark.parametrize("setup", ["", WITHOUT_UNNAMED], ids=["unnamed", "named"])
def test_a_full_disk_leaves_nothing_half_written(small_disk: Files, setup: str) -> None:
    try:
        (small_disk.root / "file").write_bytes(b"b" * 300_000)
        write = WriteFile(path=b"file", data=b"x" * 900_000)
        error = small_disk.refused(write, setup=setup)
        assert error["code"] == "disk_full"
        assert (small_disk.root / "file").read_bytes() == b"b" * 300_000
        assert names(small_disk.root) == ["file"]
        small_disk.facts(WriteFile(path=b"file", data=b"x" * 600_000), setup=setup)
    finally:
        subprocess.run(["umount", "-l", small_disk.root], check=True)


@pytest.mark.parametrize("setup", ["", WITHOUT_UNNAMED], ids=["unnamed", "named"])
@pytest.mark.parametrize("number", [15, 9], ids=["TERM", "KILL"])
def test_a_cancel_in_the_middle_leaves_no_draft(files: Files, setup: str, number: int) -> None:
    if number == 9 and setup:
        pytest.skip("a draft with a name outlives KILL; it exists where no other way does")
    (files.root / "file").write_bytes(b"before")
    waits = """
def wait(fd):
    os.write(1, b"ready")
    os.read(0, 1)
os.fsync = wait
"""
    with files.start(WriteFile(path=b"file", data=b"x"), setup=setup + waits) as process:
        assert process.stdout.read(5) == b"ready"
        process.send_signal(number)
        assert process.wait() == -number
    assert names(files.root) == ["file"]
    assert (files.root / "file").read_bytes() == b"before"


def test_a_folder_that_somebody_keeps_locked_does_not_hold_us_for_ever(files: Files) -> None:
    folder = os.open(files.root, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    try:
        setup = "from farhand_daemon.files import expectation; expectation._LOCK_S = 0.2\n"
        error = files.refused(WriteFile(path=b"file", data=b"x"), setup=setup)
    finally:
        os.close(folder)
    assert error["code"] == "busy"
    assert names(files.root) == []


# Edits


def edit(*edits: tuple[bytes, bytes], expected: bytes = b"", every: bool = False) -> EditFile:
    return EditFile(
        path=b"file",
        edits=tuple(Replacement(old=old, new=new, all=every) for old, new in edits),
        expected_sha256=expected,
    )


def test_edits_are_made_in_their_order_and_as_one(any_files: Files) -> None:
    file = any_files.root / "file"
    file.write_bytes(b"\xff one\r\ntwo\0 three")
    file.chmod(0o640)
    facts = any_files.facts(edit((b"one", b"1"), (b"1\r\ntwo", b"two"), (b"\xff", b"")))
    assert file.read_bytes() == b" two\0 three"
    assert (facts["mode"], facts["sha256"]) == ("0640", sha256(b" two\0 three").hex())
    any_files.facts(edit((b"t", b"T"), every=True))
    assert file.read_bytes() == b" Two\0 Three"


def test_of_edits_that_do_not_all_fit_none_is_made(files: Files) -> None:
    file = files.root / "file"
    file.write_bytes(b"a\nb\na\naaa")
    error = files.refused(edit((b"b", b"c"), (b"x", b"y")))
    assert (error["code"], "(edit 2)" in error["message"]) == ("no_match", True)
    error = files.refused(edit((b"a\n", b"c")))
    assert (error["code"], error["lines"]) == ("several_matches", [1, 3])
    error = files.refused(edit((b"aa", b"c")))  # twice, one over the other
    assert (error["code"], error["lines"]) == ("several_matches", [4, 4])
    error = files.refused(edit((b"b", b"c"), expected=sha256(b"other")))
    assert (error["code"], error["sha256"]) == ("changed", sha256(file.read_bytes()).hex())
    assert file.read_bytes() == b"a\nb\na\naaa"


def test_the_usual_reasons_for_no_match_are_told(files: Files) -> None:
    (files.root / "file").write_bytes(b"if x:\r\n\treturn\r\n")
    assert "end with CR LF" in files.refused(edit((b"x:\n\treturn", b"")))["message"]
    assert "only spaces" in files.refused(edit((b"x:\r\n    return", b"")))["message"]


def test_an_edit_of_what_changes_meanwhile_is_refused(files: Files) -> None:
    file = files.root / "file"
    file.write_bytes(b"one two")
    setup = f"""
fsync = os.fsync
def meanwhile(fd):
    os.fsync = fsync
    open({str(file)!r}, "r+b").write(b"ONE")
os.fsync = meanwhile
"""
    assert files.refused(edit((b"two", b"2")), setup=setup)["code"] == "changed"
    assert file.read_bytes() == b"ONE two"


def test_what_is_too_large_or_no_file_is_not_edited(files: Files) -> None:
    with (files.root / "file").open("wb") as file:
        file.truncate(20_000_000)
    error = files.refused(edit((b"x", b"y")))
    assert (error["code"], error["limit"]) == ("too_big", 16 * 1024 * 1024)
    (files.root / "file").write_bytes(b"a" * 3_000_000)
    assert files.refused(edit((b"a", b"b" * 10), every=True))["code"] == "too_big"
    # What would be made is counted, not made: it has 12 TB.
    huge = edit((b"a", b"b" * 4_000_000), every=True)
    error = files.refused(huge)
    assert (error["code"], error["size"]) == ("too_big", 3_000_000 * 4_000_000)
    (files.root / "file").unlink()
    assert files.refused(edit((b"x", b"y")))["code"] == "not_found"
    os.mkfifo(files.root / "file")
    assert files.refused(edit((b"x", b"y")))["code"] == "not_regular"
