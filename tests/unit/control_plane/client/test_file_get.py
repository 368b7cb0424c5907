"""A file brought here: whole or not at all, whatever happens on the way."""

import fcntl
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from farhand_control_plane.client import file_get
from farhand_control_plane.client.files import Answer, FileRefused, Files, Gap
from farhand_shared.errors import FarhandError
from farhand_shared.file_operation import FileFault, FileOperation, ReadFile, StatFile

_CONTENT = bytes(range(256)) * 40


class Machine:
    """Files whose answers a test may spoil; what was asked is kept."""

    machine = "dev"

    def __init__(self, content: bytes = _CONTENT) -> None:
        self.content = content
        self.type = "file"
        self.said: list[str] = []
        self.offsets: list[int] = []
        self.spoil: list[Callable[[Machine, Callable[[bytes], None], ReadFile], None]] = []

    @property
    def version(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    def telling(self, say: Callable[[str], None]) -> "Machine":
        return self

    def ask(self, operation: FileOperation, **how: Any) -> Answer:
        if isinstance(operation, StatFile):
            facts = {"path": "/home/a", "type": self.type, "size": len(self.content),
                     "mode": "0750", "version": self.version}  # fmt: skip
            if operation.hash_bytes:
                beginning = self.content[: operation.hash_bytes]
                facts["sha256"] = hashlib.sha256(beginning).hexdigest()
            return Answer(data=b"", facts=facts)
        assert isinstance(operation, ReadFile)
        self.offsets.append(operation.offset)
        if operation.if_version != self.version:
            raise FileRefused(FileFault(code="changed", message="cannot read a: other", facts={}))
        if self.spoil:
            self.spoil.pop(0)(self, how["take"], operation)
        sent = self.content[operation.offset :]
        how["take"](sent)
        return Answer(data=b"", facts={"sha256": hashlib.sha256(sent).hexdigest()})


def _get(machine: Machine, target: Path, **how: Any) -> dict[str, Any]:
    return file_get.get(cast(Files, machine), b"some/a", target, **how)


def _parts(folder: Path) -> list[Path]:
    return [one for one in folder.iterdir() if ".farhand-part-" in one.name]


def test_it_takes_its_name_with_its_mode_when_it_is_whole(tmp_path: Path) -> None:
    facts = _get(Machine(), tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == _CONTENT
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o750 & ~_umask()
    assert facts["sha256"] == hashlib.sha256(_CONTENT).hexdigest()
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def test_an_empty_file_is_a_file(tmp_path: Path) -> None:
    _get(Machine(b""), tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b""


def test_what_was_lost_on_the_way_is_asked_for_again(tmp_path: Path) -> None:
    machine = Machine()

    def gap(_: Machine, take: Callable[[bytes], None], operation: ReadFile) -> None:
        take(_CONTENT[operation.offset : operation.offset + 1_000])
        raise Gap("cannot read a: a part of the answer was lost")

    machine.spoil = [gap, gap]
    _get(machine, tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == _CONTENT
    assert machine.offsets == [0, 1_000, 2_000]


def test_what_broke_off_goes_on_with_the_same_version(tmp_path: Path) -> None:
    machine = Machine()

    def interrupt(_: Machine, take: Callable[[bytes], None], operation: ReadFile) -> None:
        take(_CONTENT[:3_000])
        raise KeyboardInterrupt

    machine.spoil = [interrupt]
    with pytest.raises(KeyboardInterrupt):
        _get(machine, tmp_path / "a")
    assert [one.stat().st_size for one in _parts(tmp_path)] == [3_000]
    assert not (tmp_path / "a").exists()
    _get(machine, tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == _CONTENT
    assert machine.offsets == [0, 3_000]
    assert _parts(tmp_path) == []


@pytest.mark.parametrize("left", [bytes(3_000), _CONTENT + b"more"], ids=["zeros", "longer"])
def test_a_part_that_is_not_the_files_beginning_is_not_used(tmp_path: Path, left: bytes) -> None:
    machine = Machine()

    def interrupt(_: Machine, take: Callable[[bytes], None], operation: ReadFile) -> None:
        raise KeyboardInterrupt

    machine.spoil = [interrupt]
    with pytest.raises(KeyboardInterrupt):
        _get(machine, tmp_path / "a")
    (part,) = _parts(tmp_path)
    part.write_bytes(left)
    _get(machine, tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == _CONTENT
    assert machine.offsets == [0, 0]


def test_another_version_begins_again_and_the_old_part_goes(tmp_path: Path) -> None:
    machine = Machine()

    def change(_: Machine, take: Callable[[bytes], None], operation: ReadFile) -> None:
        take(_CONTENT[:3_000])
        machine.content = b"new" * 5_000
        raise FileRefused(FileFault(code="changed", message="cannot read a: other", facts={}))

    machine.spoil = [change]
    _get(machine, tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"new" * 5_000
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_a_file_that_never_stops_changing_is_given_up(tmp_path: Path) -> None:
    machine = Machine()

    def change(_: Machine, take: Callable[[bytes], None], operation: ReadFile) -> None:
        machine.content += b"more"
        raise FileRefused(FileFault(code="changed", message="cannot read a: other", facts={}))

    machine.spoil = [change] * 10
    with pytest.raises(FileRefused, match="other"):
        _get(machine, tmp_path / "a")
    assert len(machine.offsets) == 3


def test_bytes_that_are_not_the_machines_are_not_kept(tmp_path: Path) -> None:
    machine = Machine()

    def flip(_: Machine, take: Callable[[bytes], None], operation: ReadFile) -> None:
        take(b"flipped")

    machine.spoil = [flip]
    with pytest.raises(FarhandError, match="SHA-256 differs"):
        _get(machine, tmp_path / "a")
    assert [one.stat().st_size for one in _parts(tmp_path)] == [0]
    _get(machine, tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == _CONTENT


def test_a_part_that_another_transfer_holds_is_left_alone(tmp_path: Path) -> None:
    machine = Machine()

    def interrupt(_: Machine, take: Callable[[bytes], None], operation: ReadFile) -> None:
        raise KeyboardInterrupt

    machine.spoil = [interrupt]
    with pytest.raises(KeyboardInterrupt):
        _get(machine, tmp_path / "a")
    (part,) = _parts(tmp_path)
    with part.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(FarhandError, match="another farhand is bringing it"):
            _get(machine, tmp_path / "a")


def test_what_stands_there_is_replaced_only_on_purpose(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_text("mine")
    with pytest.raises(FarhandError, match="--overwrite"):
        _get(Machine(), target)
    machine = Machine()

    def somebody_writes(_: Machine, take: Callable[[bytes], None], operation: ReadFile) -> None:
        (tmp_path / "b").write_text("mine too")

    machine.spoil = [somebody_writes]
    with pytest.raises(FarhandError, match="--overwrite"):
        _get(machine, tmp_path / "b")
    assert (target.read_text(), (tmp_path / "b").read_text()) == ("mine", "mine too")
    link = tmp_path / "link"
    link.symlink_to("a")
    _get(Machine(), link, overwrite=True)
    assert link.is_symlink()
    assert target.read_bytes() == _CONTENT


def test_a_folder_is_refused_with_the_line_that_packs_it(tmp_path: Path) -> None:
    machine = Machine()
    machine.type = "folder"
    with pytest.raises(FarhandError, match=r"farhand exec dev -- tar -cz some/a > folder\.tar\.gz"):
        _get(machine, tmp_path / "a")


def test_a_name_as_long_as_a_name_may_be_has_room_for_its_part(tmp_path: Path) -> None:
    target = tmp_path / ("ü" * 127)
    _get(Machine(), target)
    assert target.read_bytes() == _CONTENT
