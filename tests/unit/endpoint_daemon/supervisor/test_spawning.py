"""What a failed start says."""

import errno
import os
from pathlib import Path

import pytest

from farhand_daemon.supervisor.spawning import (
    SpawnFailure,
    cwd_failure,
    find_program,
    too_big_item,
)


def test_forbidden_folder_is_denied_and_not_missing() -> None:
    failure = cwd_failure(b"/closed", PermissionError(errno.EACCES, "Permission denied"))
    assert failure.reason == "cwd_denied"
    assert str(failure).startswith("cannot start in working directory /closed: permission denied; ")


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENOTDIR, errno.ELOOP])
def test_folder_that_is_not_there_is_missing(number: int) -> None:
    assert cwd_failure(b"/x", OSError(number, "why")).reason == "cwd_missing"


def test_largest_string_over_the_limit_is_named() -> None:
    argv, env = [b"true", b"x" * 140_000], [(b"A", b"y" * 150_000)]
    assert too_big_item(argv, env, 1 << 21) == ("env A", 150_003, 131_072)


def test_without_a_large_string_the_sum_is_named() -> None:
    item, size, limit = too_big_item([b"x" * 100_000] * 30, [], 1 << 21)
    assert (item, limit) == ("argv and env together", 1 << 21)
    assert size > 3_000_000


def test_string_of_exactly_the_limit_is_not_named() -> None:
    assert too_big_item([b"x" * 131_071], [], 5)[0] == "argv and env together"


def test_first_executable_in_the_path_wins(tmp_path: Path) -> None:
    for name, mode in (("first", 0o644), ("second", 0o755), ("third", 0o755)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tool").touch(mode)
    path = b":".join(os.fsencode(tmp_path / name) for name in ("none", "first", "second", "third"))
    assert find_program(b"tool", [(b"PATH", path)]) == os.fsencode(tmp_path / "second" / "tool")


def test_only_unexecutable_ones_are_not_executable(tmp_path: Path) -> None:
    (tmp_path / "tool").touch(0o644)
    with pytest.raises(SpawnFailure) as failure:
        find_program(b"tool", [(b"PATH", os.fsencode(tmp_path))])
    assert failure.value.exit_code == 126


def test_folder_of_that_name_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "tool").mkdir()
    with pytest.raises(SpawnFailure) as failure:
        find_program(b"tool", [(b"PATH", os.fsencode(tmp_path))])
    assert failure.value.exit_code == 127


def test_message_shows_odd_names_in_one_line() -> None:
    with pytest.raises(SpawnFailure) as failure:
        find_program(b"no\n\xff" + b"x" * 500, [(b"PATH", b"/bin")])
    message = str(failure.value)
    assert "\n" not in message
    assert r"no\n\xff" in message
    assert len(message) < 300
