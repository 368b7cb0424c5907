"""Kills by the kernel for memory are counted where it tells of them."""

from pathlib import Path

from farhand_daemon.supervisor.oom import OomCounter, own_memory_events


def test_counter_reads_the_kernels_count_each_time(tmp_path: Path) -> None:
    events = tmp_path / "memory.events"
    events.write_text("low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 0\n")
    counter = OomCounter(str(events))
    assert counter.read() == 2
    events.write_text("low 0\nhigh 0\nmax 7\noom 4\noom_kill 3\noom_group_kill 0\n")
    assert counter.read() == 3


def test_where_nothing_is_told_the_count_is_zero(tmp_path: Path) -> None:
    assert OomCounter(None).read() == 0
    assert OomCounter(str(tmp_path / "none")).read() == 0


def test_own_file_is_that_of_our_cgroup() -> None:
    path = own_memory_events()
    assert path is None or path.startswith("/sys/fs/cgroup")
