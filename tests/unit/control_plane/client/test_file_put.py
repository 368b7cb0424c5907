"""A file brought to a machine: whole or not at all, and only the rest of it when it goes on."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from farhand_control_plane.client import file_put
from farhand_control_plane.client.files import Answer, FileRefused, Files
from farhand_shared.errors import FarhandError
from farhand_shared.file_operation import (
    ABSENT,
    ANY,
    FileFault,
    FileOperation,
    PutFile,
    StatFile,
)

_CONTENT = bytes(range(256)) * 40


class Machine:
    """Keeps parts and files as a machine does; a test says what is refused."""

    machine = "dev"

    def __init__(self) -> None:
        self.files: dict[bytes, bytes] = {}
        self.folders: set[bytes] = {b"."}
        self.missing: set[bytes] = set()  # folders that paths have and the machine has not
        self.kept: dict[bytes, bytes] = {}
        self.asked: list[PutFile] = []
        self.refuse: list[str] = []
        self.ended = 0
        self.sent = b""

    def telling(self, say: Callable[[str], None]) -> "Machine":
        return self

    def end_others(self, operation: FileOperation) -> int:
        self.ended += 1
        return 1

    def feed(self, attempt_id: str, descriptor: int) -> None:
        self.sent = b""
        while data := os.read(descriptor, 1_000):
            self.sent += data

    def ask(self, operation: FileOperation, **how: Any) -> Answer:
        path = operation.path
        if isinstance(operation, StatFile):
            if path.rpartition(b"/")[0] in self.missing:
                message = "cannot look at it: it does not exist"
                raise FileRefused(FileFault(code="not_found", message=message, facts={}))
            kind = "folder" if path in self.folders else "file" if path in self.files else "none"
            facts = {"type": kind, "received": len(self.kept.get(path, b""))}
            return Answer(data=b"", facts=facts)
        assert isinstance(operation, PutFile)
        self.asked.append(operation)
        if self.refuse:
            code = self.refuse.pop(0)
            raise FileRefused(FileFault(code=code, message=f"cannot put: {code}", facts={}))
        how["feed"]("attempt")
        whole = self.kept.get(path, b"")[: operation.resume_offset] + self.sent
        assert hashlib.sha256(whole).digest() == operation.sha256
        self.files[path] = whole
        return Answer(data=b"", facts={"size": len(whole), "sha256": operation.sha256.hex()})


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "run.sh"
    path.write_bytes(_CONTENT)
    path.chmod(0o750)
    return path


def _put(machine: Machine, source: Path, remote: bytes, **how: Any) -> dict[str, Any]:
    how.setdefault("expect", ABSENT)
    return file_put.put(cast(Files, machine), source, remote, machine.feed, **how)


def test_a_new_file_has_the_permissions_of_the_one_here(source: Path) -> None:
    machine = Machine()
    _put(machine, source, b"bin/run")
    assert machine.files == {b"bin/run": _CONTENT}
    (asked,) = machine.asked
    assert (asked.mode, asked.size, asked.resume_offset) == (0o750, len(_CONTENT), 0)


def test_one_that_is_replaced_keeps_its_own_permissions(source: Path) -> None:
    machine = Machine()
    machine.files[b"a"] = b"old"
    _put(machine, source, b"a", expect=ANY)
    _put(machine, source, b"a", expect=ANY, mode=0o600)
    assert [asked.mode for asked in machine.asked] == [None, 0o600]


@pytest.mark.parametrize("remote", [b".", b"folder", b"new/"])
def test_in_a_folder_it_keeps_its_name(source: Path, remote: bytes) -> None:
    machine = Machine()
    machine.folders.add(b"folder")
    _put(machine, source, remote)
    assert list(machine.files) == [remote.rstrip(b"/") + b"/run.sh"]


@pytest.mark.parametrize("remote", [b"gone/run.sh", b"gone/"])
def test_a_folder_that_is_missing_is_made_only_when_asked(source: Path, remote: bytes) -> None:
    machine = Machine()
    machine.missing.add(b"gone")
    with pytest.raises(FarhandError, match=r"cannot put gone/run\.sh: its folder .* --parents"):
        _put(machine, source, remote)
    assert machine.asked == []
    _put(machine, source, remote, make_parents=True)
    (asked,) = machine.asked
    assert asked.make_parents
    assert machine.files == {b"gone/run.sh": _CONTENT}


def test_what_is_kept_there_is_not_sent_again(source: Path) -> None:
    machine = Machine()
    machine.kept[b"a"] = _CONTENT[:4_000]
    _put(machine, source, b"a")
    assert machine.sent == _CONTENT[4_000:]
    assert machine.files[b"a"] == _CONTENT


def test_a_part_that_went_meanwhile_is_asked_about_again(source: Path) -> None:
    machine = Machine()
    machine.refuse = ["cannot_resume"]
    _put(machine, source, b"a")
    assert machine.files[b"a"] == _CONTENT
    machine.refuse = ["cannot_resume"] * 5
    with pytest.raises(FarhandError, match="cannot_resume"):
        _put(machine, source, b"b")


def test_another_put_is_ended_only_on_purpose(source: Path) -> None:
    machine = Machine()
    machine.refuse = ["busy"]
    with pytest.raises(FarhandError, match="--take ends that one"):
        _put(machine, source, b"a")
    assert machine.ended == 0
    machine.refuse = ["busy"]
    _put(machine, source, b"a", take=True)
    assert (machine.ended, machine.files[b"a"]) == (1, _CONTENT)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("exists", "replace it with --overwrite"),
        ("disk_full", "disk_full"),
    ],
)
def test_what_the_machine_refuses_is_said_for_who_sent_it(
    source: Path, code: str, said: str
) -> None:
    machine = Machine()
    machine.refuse = [code]
    with pytest.raises(FarhandError, match=said):
        _put(machine, source, b"a")


def test_what_is_there_is_not_replaced_by_a_slip(source: Path) -> None:
    machine = Machine()
    machine.files[b"a"] = b"theirs"
    with pytest.raises(FarhandError, match="--overwrite"):
        _put(machine, source, b"a")
    assert machine.asked == []


def test_what_is_no_regular_file_is_refused_with_another_way(tmp_path: Path) -> None:
    machine = Machine()
    with pytest.raises(FarhandError, match=r"tar -cz .* \| farhand exec --stdin"):
        _put(machine, tmp_path, b"a")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FarhandError, match="files write"):
        _put(machine, tmp_path / "pipe", b"a")
    with pytest.raises(FileNotFoundError):
        _put(machine, tmp_path / "none", b"a")
