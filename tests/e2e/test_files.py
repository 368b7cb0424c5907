"""`farhand files`: a machine's files from a person's shell."""

import base64
import hashlib
import json
import os
from pathlib import Path

import pytest

from tests.e2e.conftest import ORDINARY
from tests.e2e.system import Ended, Running, System, User

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

_EVERY_BYTE = bytes(range(256)) * 64
_ODD = os.fsdecode(b"caf\xe9 \xff\n.bin")  # Latin-1, a byte of no encoding, a line feed


@pytest.fixture(scope="module")
def user() -> User:
    """One account is enough here, the ordinary one: to root nothing is refused."""
    return User.named(ORDINARY) if os.getuid() == 0 else User.current()


@pytest.fixture(scope="module")
def here(up: Running, system: System) -> str:
    return str(json.loads((system.home / "local.json").read_text())["machine_name"])


@pytest.fixture(scope="module")
def work(system: System) -> Path:
    """A folder on the machine; paths of operations begin in its parent."""
    folder = system.folder / "work"
    folder.mkdir()
    os.chown(folder, system.user.uid, system.user.gid)
    return folder


def _make(system: System, path: Path, content: bytes, mode: int = 0o644) -> Path:
    path.write_bytes(content)
    os.chown(path, system.user.uid, system.user.gid)
    path.chmod(mode)
    return path


def _refused(done: Ended, *parts: str, status: int = 1) -> None:
    assert done.status == status, done.err
    assert done.err.startswith("farhand: cannot "), done.err
    assert done.err.count("\n") == 1, done.err
    assert "Traceback" not in done.err
    for part in parts:
        assert part in done.err, done.err


def test_every_byte_goes_there_and_comes_back(system: System, here: str, work: Path) -> None:
    put = system.farhand("files", "write", f"{here}:work/bytes", stdin=_EVERY_BYTE)
    assert put.status == 0, put.err
    assert (work / "bytes").read_bytes() == _EVERY_BYTE
    read = system.farhand("files", "read", f"{here}:work/bytes")
    assert read.stdout == _EVERY_BYTE
    part = system.farhand("files", "read", f"{here}:work/bytes", "--offset", "250", "--length", "9")
    assert part.stdout == _EVERY_BYTE[250:259]
    told = system.farhand("files", "read", f"{here}:work/bytes", "--json").json()
    assert base64.b64decode(told["content_base64"]) == _EVERY_BYTE
    assert told["sha256"] == hashlib.sha256(_EVERY_BYTE).hexdigest()


def test_a_file_comes_whole_with_its_mode_and_not_over_another(
    system: System, here: str, work: Path
) -> None:
    _make(system, work / "run.sh", b"#!/bin/sh\n", 0o750)
    done = system.farhand("files", "get", f"{here}:work/run.sh")
    assert done.status == 0, done.err
    assert "SHA-256 verified" in done.err
    local = system.folder / "run.sh"
    assert local.read_bytes() == b"#!/bin/sh\n"
    assert local.stat().st_mode & 0o777 == 0o750
    _refused(system.farhand("files", "get", f"{here}:work/run.sh"), "run.sh", "--overwrite")
    local.write_bytes(b"other")
    again = system.farhand("files", "get", f"{here}:work/run.sh", "run.sh", "--overwrite", "--json")
    assert again.json()["sha256"] == hashlib.sha256(b"#!/bin/sh\n").hexdigest()
    assert local.read_bytes() == b"#!/bin/sh\n"
    assert [one.name for one in system.folder.iterdir() if "farhand-part" in one.name] == []


def test_a_file_goes_to_a_machine_with_its_mode_and_not_over_another(
    system: System, here: str, work: Path
) -> None:
    local = _make(system, system.folder / "tool", _EVERY_BYTE, 0o750)
    done = system.farhand("files", "put", "tool", f"{here}:work")
    assert done.status == 0, done.err
    assert "SHA-256 verified" in done.err
    there = work / "tool"
    assert there.read_bytes() == _EVERY_BYTE
    assert there.stat().st_mode & 0o777 == 0o750
    local.write_bytes(b"newer")
    _refused(system.farhand("files", "put", "tool", f"{here}:work"), "work/tool", "--overwrite")
    assert there.read_bytes() == _EVERY_BYTE
    hash_ = system.farhand("files", "stat", f"{here}:work/tool", "--sha256", "--json").json()
    put = ["files", "put", "tool", f"{here}:work/tool", "--expect", hash_["sha256"], "--json"]
    assert system.farhand(*put).json()["size"] == 5
    assert there.read_bytes() == b"newer"
    _refused(system.farhand(*put), "work/tool", "not the one expected")
    empty = _make(system, system.folder / "empty", b"")
    assert system.farhand("files", "put", str(empty), f"{here}:work/new").status == 0
    assert (work / "new").read_bytes() == b""
    _refused(system.farhand("files", "put", ".", f"{here}:work"), "tar -cz . | farhand exec")


def test_a_folder_is_not_brought_and_the_hint_works(system: System, here: str, work: Path) -> None:
    (work / "many").mkdir(exist_ok=True)
    done = system.farhand("files", "get", f"{here}:work/many")
    _refused(done, "it is a folder", f"farhand exec {here} -- tar -cz work/many")


def test_a_changed_file_is_refused_not_overwritten(system: System, here: str, work: Path) -> None:
    path = _make(system, work / "notes", b"one\n")
    read = system.farhand("files", "read", f"{here}:work/notes", "--json").json()
    path.write_bytes(b"a person's own words\n")
    target = f"{here}:work/notes"
    for verb in (
        ["write", target, "--expect", read["sha256"]],
        ["edit", target, "--old", "own", "--new", "other", "--expect", read["sha256"]],
        ["remove", target, "--expect", read["sha256"]],
    ):
        _refused(
            system.farhand("files", *verb, stdin=b"two\n"), "work/notes", "not the one expected"
        )
    _refused(system.farhand("files", "write", target, stdin=b"two\n"), "--overwrite")
    assert path.read_bytes() == b"a person's own words\n"
    newer = hashlib.sha256(path.read_bytes()).hexdigest()
    done = system.farhand("files", "write", target, "--expect", newer, stdin=b"two\n")
    assert done.status == 0, done.err
    assert path.read_bytes() == b"two\n"


def test_edits_are_all_done_or_none(system: System, here: str, work: Path) -> None:
    path = _make(system, work / "code", b"a = 1\nb = 1\n", 0o640)
    target = f"{here}:work/code"
    _refused(system.farhand("files", "edit", target, "--old", "1", "--new", "2"), "2")
    _refused(system.farhand("files", "edit", target, "--old", "c", "--new", "2"), "work/code")
    half = ["--old", "a = 1", "--new", "a = 2", "--old", "c", "--new", "d"]
    _refused(system.farhand("files", "edit", target, *half), "work/code")
    assert path.read_bytes() == b"a = 1\nb = 1\n"
    both = ["--old", "a = 1", "--new", "a = 2", "--old", "b = 1", "--new", "b = 3"]
    done = system.farhand("files", "edit", target, *both, "--json")
    assert done.status == 0, done.err
    assert path.read_bytes() == b"a = 2\nb = 3\n"
    assert done.json()["sha256"] == hashlib.sha256(b"a = 2\nb = 3\n").hexdigest()
    assert path.stat().st_mode & 0o777 == 0o640


def test_names_that_are_not_text_go_round(system: System, here: str, work: Path) -> None:
    folder = work / "odd"
    folder.mkdir()
    os.chown(folder, system.user.uid, system.user.gid)
    done = system.farhand("files", "write", f"{here}:work/odd/{_ODD}", stdin=b"there")
    assert done.status == 0, done.err
    assert (folder / _ODD).read_bytes() == b"there"
    listed = system.farhand("files", "list", f"{here}:work/odd")
    assert listed.stdout == os.fsencode(_ODD) + b"\n"
    (item,) = system.farhand("files", "list", f"{here}:work/odd", "--json").json()["items"]
    assert base64.b64decode(item["path_base64"]) == os.fsencode(_ODD)
    assert system.farhand("files", "read", f"{here}:work/odd/{_ODD}").stdout == b"there"
    assert system.farhand("files", "get", f"{here}:work/odd/{_ODD}").status == 0
    assert (system.folder / _ODD).read_bytes() == b"there"
    commands = system.farhand("exec", here, "--", "true")
    assert commands.status == 0, "the record of such a command can be stored"


def test_a_large_folder_is_listed_whole_and_by_pages(system: System, here: str, work: Path) -> None:
    folder = work / "large"
    folder.mkdir()
    names = [f"file-{number:05}" for number in range(5_200)]
    for name in names:
        (folder / name).touch()
    listed = system.farhand("files", "list", f"{here}:work/large")
    assert listed.out.split() == names
    page = system.farhand("files", "list", f"{here}:work/large", "--limit", "3", "--json").json()
    assert [one["path"] for one in page["items"]] == names[:3]
    rest = system.farhand(
        "files", "list", f"{here}:work/large", "--limit", "2", "--cursor", page["next_cursor"]
    )
    assert rest.out.split() == names[3:5]
    assert "There is more" in rest.err


def test_lines_and_files_are_found(system: System, here: str, work: Path) -> None:
    folder = work / "tree"
    (folder / "deep").mkdir(parents=True)
    _make(system, folder / "a.py", b"import os\nprint(1)\n")
    _make(system, folder / "deep" / "b.py", b"import sys\n")
    _make(system, folder / "c.txt", b"import nothing\n")
    found = system.farhand("files", "search", f"{here}:work/tree", "^import", "--include", "*.py")
    assert found.out.splitlines() == ["a.py:1:import os", "deep/b.py:1:import sys"]
    none = system.farhand("files", "search", f"{here}:work/tree", "-F", "^import")
    assert (none.status, none.out) == (0, "")
    globbed = system.farhand("files", "glob", f"{here}:work/tree", "**/*.py")
    assert globbed.out.splitlines() == ["a.py", "deep/b.py"]
    _refused(system.farhand("files", "search", f"{here}:work/tree", "("), "work/tree")


def test_folders_are_made_and_things_moved_and_removed(
    system: System, here: str, work: Path
) -> None:
    assert system.farhand("files", "make-folder", f"{here}:work/x/y", "--parents").status == 0
    _make(system, work / "x" / "one", b"1")
    assert system.farhand("files", "move", f"{here}:work/x/one", "work/x/y/two").status == 0
    assert (work / "x" / "y" / "two").read_bytes() == b"1"
    _refused(system.farhand("files", "remove", f"{here}:work/x/y"), "work/x/y")
    assert system.farhand("files", "remove", f"{here}:work/x/y/two").status == 0
    assert system.farhand("files", "remove", f"{here}:work/x/y").status == 0
    assert not (work / "x" / "y").exists()


def test_what_the_machine_refuses_is_one_line(system: System, here: str, work: Path) -> None:
    (work / "out").symlink_to("/etc")
    os.mkfifo(work / "pipe")
    os.chown(work / "pipe", system.user.uid, system.user.gid)
    _refused(system.farhand("files", "read", f"{here}:work/none"), "work/none")
    _refused(system.farhand("files", "read", f"{here}:work"), "folder")
    _refused(system.farhand("files", "list", f"{here}:work/pipe"), "work/pipe")
    _refused(system.farhand("files", "read", f"{here}:work/pipe"), "fifo")
    _refused(system.farhand("files", "read", f"{here}:work/out/passwd"), "work/out/passwd")
    _refused(system.farhand("files", "stat", f"{here}:/etc/passwd"), "/etc/passwd")


def test_a_machine_that_nobody_knows_is_named(system: System, here: str) -> None:
    _refused(system.farhand("files", "read", "nowhere:a"), "'nowhere'", "farhand machines list")


def test_the_agent_reads_and_lists_for_people(system: System, here: str, work: Path) -> None:
    _make(system, work / "todo", b"remember the milk\n")
    read = system.farhand("chat", "read work/todo on this machine")
    assert read.status == 0, read.err
    assert "remember the milk" in read.out
    assert "18 bytes" in read.out
    assert "sha256" not in read.out, "facts are for programs"
    gone = system.farhand("chat", "read work/gone on this machine")
    assert gone.status != 0
    assert "cannot read work/gone" in gone.out
    listed = system.farhand("chat", "list work on this machine")
    assert "todo" in listed.out
