"""A process is the same one only when pid, start time and boot agree."""

import os
import subprocess

import pytest

from farhand_daemon.process_identity import boot_id, is_alive, start_time, stat_fields


def test_this_process_is_alive_under_its_own_facts_only() -> None:
    pid, started = os.getpid(), start_time(os.getpid())
    assert started is not None
    assert is_alive(pid, started, boot_id())
    assert not is_alive(pid, started + 1, boot_id())
    assert not is_alive(pid, started, "another boot")


def test_ended_process_is_not_alive_even_as_a_zombie() -> None:
    child = subprocess.Popen(["sleep", "1000"])
    started = start_time(child.pid)
    assert started is not None
    assert is_alive(child.pid, started, boot_id())
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert start_time(child.pid) == started  # the zombie still holds the number
    assert not is_alive(child.pid, started, boot_id())
    child.wait()
    assert start_time(child.pid) is None


@pytest.mark.parametrize("name", ["a) R 1 (", "with space", "()"])
def test_odd_process_names_do_not_confuse_the_fields(name: str) -> None:
    script = f"printf '%s' '{name}' > /proc/self/comm; cat /proc/self/comm; exec cat"
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=-1) as child:
        assert child.stdout is not None
        child.stdout.read(1)
        fields = stat_fields(child.pid)
        assert fields is not None
        assert int(fields[1]) == os.getpid()
        assert child.stdin is not None
        child.stdin.close()
