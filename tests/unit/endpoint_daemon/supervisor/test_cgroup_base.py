"""Which control groups are ours, told from texts of /proc and folders like the kernel's.

A system has its controllers in version 1 or 2, and a delegated group only under systemd; so the
rules are tried on folders, and what the kernel does with them by the integration tests.
"""

import os
from pathlib import Path

import pytest

from farhand_daemon import process_identity
from farhand_daemon.supervisor import cgroup_base
from farhand_daemon.supervisor.cgroup import Group, Hierarchy, event_count, group_name, owner_of
from farhand_daemon.supervisor.cgroup_base import SUBGROUP, sweep, usable_hierarchies


def group_folder(path: Path, controllers: str = "cpu memory pids") -> Path:
    """Make a folder like a group of version 2."""
    path.mkdir(parents=True)
    (path / "cgroup.controllers").write_text(controllers + "\n")
    for name in ("cgroup.procs", "cgroup.subtree_control"):
        (path / name).write_text("")
    return path


def v2_mounts(point: Path, root: str = "/") -> str:
    return f"30 24 0:26 {root} {point} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


def found(own: str, mounts: str, *, is_root: bool = False) -> list[tuple[str, str]]:
    return [(h.base, h.home) for h in usable_hierarchies(own, mounts, is_root=is_root)]


def test_one_level_below_its_unit_the_daemon_divides_the_unit(tmp_path: Path) -> None:
    unit = group_folder(tmp_path / "app.slice" / "farhandd.service")
    own = group_folder(unit / SUBGROUP)
    text = f"0::/app.slice/farhandd.service/{SUBGROUP}\n"
    assert found(text, v2_mounts(tmp_path)) == [(str(unit), str(own))]
    assert (unit / "cgroup.subtree_control").read_text() == "+memory +pids"


def test_controllers_that_are_not_offered_are_not_asked_for(tmp_path: Path) -> None:
    unit = group_folder(tmp_path / "u.service", "cpu pids")
    group_folder(unit / SUBGROUP)
    found(f"0::/u.service/{SUBGROUP}\n", v2_mounts(tmp_path))
    assert (unit / "cgroup.subtree_control").read_text() == "+pids"


def test_a_terminals_daemon_divides_nothing(tmp_path: Path) -> None:
    group_folder(tmp_path / "user.slice" / "session-2.scope")
    assert found("0::/user.slice/session-2.scope\n", v2_mounts(tmp_path)) == []
    assert found("0::/user.slice/session-2.scope\n", v2_mounts(tmp_path), is_root=True) == []


def test_a_delegated_unit_of_an_older_systemd_is_divided_without_controllers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else systemd could not start the daemon there again: EBUSY while commands run."""
    unit = group_folder(tmp_path / "farhandd.service")
    marks = {(str(unit), "user.delegate"): b"1"}
    monkeypatch.setattr(cgroup_base.os, "getxattr", lambda path, name: marks[path, name])
    assert found("0::/farhandd.service\n", v2_mounts(tmp_path)) == [(str(unit), str(unit))]
    assert (unit / "cgroup.subtree_control").read_text() == ""


def test_root_of_a_container_divides_what_it_sees(tmp_path: Path) -> None:
    group_folder(tmp_path / "tree")
    mounts = v2_mounts(tmp_path / "tree")
    assert found("0::/\n", mounts, is_root=True) == [(str(tmp_path / "tree"),) * 2]
    assert found("0::/\n", mounts) == []


def test_only_the_part_of_a_tree_that_is_mounted_can_be_used(tmp_path: Path) -> None:
    unit = group_folder(tmp_path / "u.service")
    group_folder(unit / SUBGROUP)
    inside = v2_mounts(tmp_path, root="/docker/abc")
    assert found(f"0::/docker/abc/u.service/{SUBGROUP}\n", inside)
    assert found(f"0::/docker/other/u.service/{SUBGROUP}\n", inside) == []


def test_a_group_that_may_not_be_written_is_not_ours(tmp_path: Path) -> None:
    unit = tmp_path / "u.service"
    (unit / SUBGROUP).mkdir(parents=True)  # no cgroup.procs, as where others own it
    assert found(f"0::/u.service/{SUBGROUP}\n", v2_mounts(tmp_path)) == []


def test_version_1_is_roots_and_only_its_memory_and_pids(tmp_path: Path) -> None:
    for name in ("memory", "pids", "cpu"):
        (tmp_path / name / "here").mkdir(parents=True)
        (tmp_path / name / "here" / "cgroup.procs").write_text("")
    own = "9:name=systemd:/here\n8:pids:/here\n4:memory:/here\n1:cpu,cpuacct:/here\n"
    mounts = "".join(
        f"30 24 0:26 / {tmp_path / name} rw - cgroup cgroup rw,{name}\n"
        for name in ("memory", "pids", "cpu")
    )
    bases = {Path(base).parent.name for base, _ in found(own, mounts, is_root=True)}
    assert bases == {"memory", "pids"}
    assert found(own, mounts) == []


def test_a_system_without_them_has_none() -> None:
    assert found("", "") == []


def test_names_tell_their_owner_and_nothing_else_does() -> None:
    assert owner_of(group_name(12, 345)) == (12, 345)
    assert owner_of(group_name(12, 345, 6)) == (12, 345)
    for other in ("farhand-x", "farhand-1", "system.slice", "farhand-1-x", "farhand-"):
        assert owner_of(other) is None


def test_the_groups_of_dead_supervisors_are_removed_and_no_others(tmp_path: Path) -> None:
    us = process_identity.start_time(os.getpid()) or 0
    ours, dead, busy = (
        tmp_path / group_name(os.getpid(), us),
        tmp_path / group_name(os.getpid(), us + 1),
        tmp_path / group_name(os.getpid(), us + 2, 1),
    )
    for folder in (ours, dead, busy, tmp_path / "user.slice"):
        folder.mkdir()
    (busy / "somebody").mkdir()  # the kernel, too, refuses to remove what is in use
    sweep([Hierarchy(str(tmp_path), str(tmp_path)), Hierarchy("/nonexistent", "/nonexistent")])
    assert {p.name for p in tmp_path.iterdir()} == {ours.name, busy.name, "user.slice"}


@pytest.fixture
def group(tmp_path: Path) -> Group:
    made = Group.make("farhand-1-2", [Hierarchy(str(tmp_path), str(tmp_path))])
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("files", "written"),
    [
        (("memory.max", "memory.swap.max"), {"memory.max": "4096", "memory.swap.max": "0"}),
        (
            ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
            {"memory.limit_in_bytes": "4096", "memory.memsw.limit_in_bytes": "4096"},
        ),
        (("memory.max",), {"memory.max": "4096"}),
    ],
)
def test_memory_is_limited_with_swap_in_the_words_of_each_version(
    group: Group, tmp_path: Path, files: tuple[str, ...], written: dict[str, str]
) -> None:
    for name in files:
        (tmp_path / group.name / name).write_text("")
    assert group.limit_memory(4096)
    assert {name: (tmp_path / group.name / name).read_text() for name in written} == written


def test_what_a_system_does_not_limit_is_said(group: Group) -> None:
    assert not group.limit_memory(4096)
    assert not group.limit_processes(4)
    assert group.oom_kills() is None
    assert group.refused_processes() == 0


def test_kills_for_memory_are_counted_in_the_files_of_each_version(
    group: Group, tmp_path: Path
) -> None:
    folder = tmp_path / group.name
    (folder / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    assert group.oom_kills() == 3
    (folder / "memory.events").write_text("low 0\nmax 12\noom 2\noom_kill 1\noom_group_kill 0\n")
    assert group.oom_kills() == 1
    (folder / "pids.events").write_text("max 7\n")
    assert group.refused_processes() == 7


def test_a_kill_forbids_births_first_and_uses_the_systems_own_where_there_is_one(
    group: Group, tmp_path: Path
) -> None:
    folder = tmp_path / group.name
    for name in ("pids.max", "cgroup.kill"):
        (folder / name).write_text("")
    group.kill()
    assert (folder / "pids.max").read_text() == "0"
    assert (folder / "cgroup.kill").read_text() == "1"


def test_who_could_not_come_out_of_a_group_survives_its_kill(group: Group, tmp_path: Path) -> None:
    folder = tmp_path / group.name
    (folder / "cgroup.kill").write_text("")
    (folder / "cgroup.procs").write_text(f"{os.getpid()}\n")
    group.kill()
    assert (folder / "cgroup.kill").read_text() == ""


def test_a_group_that_cannot_be_made_everywhere_leaves_nothing(tmp_path: Path) -> None:
    hierarchies = [Hierarchy(str(tmp_path), "/"), Hierarchy("/nonexistent", "/")]
    assert Group.make("farhand-1-2", hierarchies) is None
    assert not list(tmp_path.iterdir())


def test_counts_that_are_not_there_are_none() -> None:
    assert event_count(None, b"max") is None
    assert event_count(b"maximum 3\n", b"max") is None
