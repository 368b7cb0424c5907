"""The folders of versions: switching, the way back, and what may be removed."""

import subprocess
import sys
from pathlib import Path

import pytest

from farhand_daemon.update.slots import Slot, Slots, own_slot, used_by_processes

A, B, C = "a" * 16, "b" * 16, "c" * 16


@pytest.fixture
def slots(tmp_path: Path) -> Slots:
    folder = tmp_path / "farhandd-program"
    for name in (A, B, C):
        add(folder, name)
    return Slots(folder)


def add(folder: Path, name: str) -> None:
    (folder / name / "bin").mkdir(parents=True)
    (folder / name / "bin" / "farhandd").touch()
    (folder / name / "complete").touch()


def test_switching_makes_what_was_current_the_way_back(slots: Slots) -> None:
    assert slots.current() is None
    slots.make_current(slots.named(A * 4))
    assert slots.current() == Slot(slots.folder / A)
    assert slots.previous() is None
    slots.make_current(slots.named(B))
    slots.make_current(slots.named(B))
    assert slots.current() == slots.named(B)
    assert slots.previous() == slots.named(A)
    assert (slots.folder / "current").readlink() == slots.folder / B


def test_half_a_version_is_none(slots: Slots) -> None:
    slots.make_current(slots.named(A))
    (slots.folder / A / "complete").unlink()
    assert slots.current() is None


def test_a_version_knows_itself_also_by_the_link(slots: Slots) -> None:
    slots.make_current(slots.named(B))
    for prefix in (slots.folder / B, slots.folder / "current"):
        assert own_slot(prefix) == (slots, slots.named(B))
    assert own_slot(Path(sys.prefix)) is None


def test_only_what_nobody_needs_is_removed(slots: Slots) -> None:
    for name in (A, B):
        slots.make_current(slots.named(name))
    (slots.folder / "homes").touch()
    add(slots.folder, "d" * 16)
    slots.prune([C])
    assert {path.name for path in slots.folder.iterdir()} == {
        *(A, B, C, "current", "previous", "homes")
    }


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows what other processes run")
def test_a_version_that_a_process_runs_from_stays(slots: Slots) -> None:
    for name in (A, B):
        slots.make_current(slots.named(name))
    program = slots.folder / C / "bin" / "python"
    program.symlink_to(sys.executable)
    command = [program, "-IS", "-c", "print(flush=True); input()"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, executable=sys.executable
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()  # while it is being executed the system shows no words of it
        assert used_by_processes(slots.folder) == {C}
        slots.prune(())
        assert slots.named(C).is_complete()
        process.communicate(b"\n")
    slots.prune(())
    assert not slots.named(C).folder.exists()
