"""What a command finds when it starts: exactly what was asked, and nothing of ours."""

import hashlib
import os
from pathlib import Path

import pytest

from farhand_daemon.supervisor.records import Reason, SpawnSpec
from tests.fakes.supervised_lab import PATH, Lab


async def test_output_exit_code_and_hashes_are_those_of_the_command(lab: Lab) -> None:
    record, stdout, stderr = await lab.run(lab.shell("echo out; echo err >&2; exit 3"))
    assert (record.reason, record.exit_code, record.signal) == (Reason.EXIT, 3, None)
    assert (stdout, stderr) == (b"out\n", b"err\n")
    assert record.sha256 == (hashlib.sha256(stdout).digest(), hashlib.sha256(stderr).digest())
    assert record.total_bytes == (4, 4)
    assert record.omitted_bytes == (0, 0)
    assert record.started is not None
    assert not record.stdout_left_open
    assert not record.descendants_left


async def test_start_is_told_before_the_exit(lab: Lab) -> None:
    handle = await lab.start(lab.spec("true"))
    await handle.ended()
    assert lab.recorder.told == [("started", handle.attempt_id), ("exited", handle.attempt_id)]


async def test_nul_and_invalid_utf8_in_output_arrive_as_they_were(lab: Lab) -> None:
    _, stdout, _ = await lab.run(lab.shell(r"printf 'a\377b\000c\n'"))
    assert stdout == b"a\xffb\0c\n"


async def test_environment_is_exactly_the_one_given(lab: Lab) -> None:
    env = ((b"PATH", PATH), (b"ODD\xff", b"\xfe=x\n"), (b"EMPTY", b""))
    spec = SpawnSpec(argv=(b"env", b"-0"), env=env, cwd=b"/")
    _, stdout, _ = await lab.run(spec)
    assert sorted(stdout.split(b"\0")[:-1]) == sorted(b"=".join(pair) for pair in env)


async def test_arguments_reach_the_program_byte_for_byte(lab: Lab) -> None:
    odd = [b"", b"x y", b'a"b', b"$HOME", b"\xff\xfe", b"tail\\", b"new\nline", b"*"]
    _, stdout, _ = await lab.run(lab.spec("printf", r"%s\0", *odd))
    assert stdout.split(b"\0")[:-1] == odd


async def test_working_directory_may_have_any_name(lab: Lab, tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/odd \xff\n"
    os.mkdir(folder)  # noqa: PTH102 - bytes
    _, stdout, _ = await lab.run(lab.spec("pwd", cwd=folder))
    assert stdout == folder + b"\n"


async def test_no_descriptor_of_ours_is_inherited(lab: Lab) -> None:
    for _ in range(3):  # also by what a recycled supervisor starts
        _, stdout, _ = await lab.run(lab.spec("ls", "/proc/self/fd"))
        assert stdout.split() == [b"0", b"1", b"2", b"3"]  # 3 is the folder being listed


async def test_stdin_is_the_null_device(lab: Lab) -> None:
    record, stdout, _ = await lab.run(lab.shell("readlink /proc/self/fd/0; cat; echo end"))
    assert stdout == b"/dev/null\nend\n"
    assert record.exit_code == 0


async def test_no_signal_is_ignored_or_blocked(lab: Lab) -> None:
    _, stdout, _ = await lab.run(lab.spec("cat", "/proc/self/status"))
    status = dict(line.split(b":\t", 1) for line in stdout.splitlines() if b":\t" in line)
    of_the_c_library = 0b11 << 31  # glibc's posix_spawn has its own signals 32 and 33 ignored
    for name in (b"SigBlk", b"SigIgn", b"SigCgt"):
        assert int(status[name], 16) & ~of_the_c_library == 0, name


async def test_sigpipe_ends_a_writer_nobody_reads(lab: Lab) -> None:
    record, stdout, _ = await lab.run(lab.shell("(yes; echo $? >&2) | head -n 1"))
    assert stdout == b"y\n"
    assert record.exit_code == 0


async def test_command_leads_its_own_session_without_a_terminal(lab: Lab) -> None:
    _, stdout, _ = await lab.run(lab.spec("cat", "/proc/self/stat"))
    pid, (_, _, group, session, terminal) = (
        stdout.split()[0],
        stdout[stdout.rfind(b")") + 2 :].split()[:5],
    )
    assert (group, session, terminal) == (pid, pid, b"0")


async def test_umask_is_the_commands_own(lab: Lab) -> None:
    for mask in (0o027, 0o077, 0o000):
        _, stdout, _ = await lab.run(lab.shell("umask", umask=mask))
        assert int(stdout, 8) == mask


async def test_program_is_searched_in_the_path_of_the_command(lab: Lab, tmp_path: Path) -> None:
    program = tmp_path / "hello"
    program.write_text("#!/bin/sh\necho hello from $0\n")
    program.chmod(0o755)
    env = ((b"PATH", b"/nowhere:" + os.fsencode(tmp_path)),)
    spec = SpawnSpec(argv=(b"hello",), env=env, cwd=b"/")
    _, stdout, _ = await lab.run(spec)
    assert stdout == b"hello from " + os.fsencode(program) + b"\n"


async def test_relative_program_is_relative_to_the_working_directory(
    lab: Lab, tmp_path: Path
) -> None:
    program = tmp_path / "run.sh"
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o755)
    _, stdout, _ = await lab.run(lab.spec("./run.sh", cwd=os.fsencode(tmp_path)))
    assert stdout == b"ran\n"


@pytest.mark.parametrize("program", ["no-such-program", "/no/such/program", "./no-such"])
async def test_absent_program_is_not_found(lab: Lab, program: str) -> None:
    record, _, _ = await lab.run(lab.spec(program))
    assert (record.reason, record.exit_code) == (Reason.SPAWN_ERROR, 127)
    assert record.problem is not None
    assert record.problem.kind == "not_found"
    assert program in record.problem.message
    assert record.started is None


async def test_what_cannot_be_executed_says_why(lab: Lab, tmp_path: Path) -> None:
    plain, orphan, blank = tmp_path / "plain", tmp_path / "orphan", tmp_path / "blank"
    plain.write_text("text")
    plain.chmod(0o644)
    orphan.write_text("#!/no/such/interpreter\n")
    orphan.chmod(0o755)
    blank.write_text("echo no first line\n")
    blank.chmod(0o755)
    for program, word in (
        (plain, "permission denied"),
        (orphan, "interpreter"),
        (blank, "#!"),
        (tmp_path, "folder"),
    ):
        record, _, _ = await lab.run(lab.spec(str(program)))
        assert (record.reason, record.exit_code) == (Reason.SPAWN_ERROR, 126)
        assert record.problem is not None
        assert record.problem.kind == "not_executable"
        assert word in record.problem.message


async def test_missing_working_directory_is_named(lab: Lab, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for cwd in (tmp_path / "none", file):
        record, _, _ = await lab.run(lab.spec("true", cwd=os.fsencode(cwd)))
        assert (record.reason, record.exit_code) == (Reason.CWD_MISSING, None)
        assert record.problem is not None
        assert str(cwd) in record.problem.message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every folder")
async def test_forbidden_working_directory_is_named(lab: Lab, tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0)
    record, _, _ = await lab.run(lab.spec("true", cwd=os.fsencode(folder)))
    assert record.reason is Reason.CWD_DENIED
    assert record.problem is not None
    assert str(folder) in record.problem.message


async def test_a_command_of_3_mb_names_item_size_and_limit(lab: Lab) -> None:
    record, _, _ = await lab.run(lab.spec("true", b"x" * 3_000_000))
    assert record.reason is Reason.SPAWN_ERROR
    assert record.problem is not None
    assert record.problem.kind == "too_big"
    assert record.problem.item == "argv[1]"
    assert record.problem.size_bytes == 3_000_001
    assert record.problem.limit_bytes == 131_072
    assert "argv[1] is 3,000,001 bytes, the limit is 131,072 bytes" in record.problem.message
    assert not list((lab.state_dir / "spool").glob("*.request"))


async def test_a_large_variable_names_itself(lab: Lab) -> None:
    record, _, _ = await lab.run(lab.spec("true", env=((b"BIG", b"x" * 156_573),)))
    assert record.problem is not None
    assert record.problem.item == "env BIG"
    assert record.problem.size_bytes == 156_578  # with the name, the equals sign and the NUL


async def test_many_small_arguments_name_their_sum(lab: Lab) -> None:
    record, _, _ = await lab.run(lab.spec("true", *[b"x" * 100] * 40_000))
    assert record.problem is not None
    assert record.problem.kind == "too_big"
    assert record.problem.item == "argv and env together"
    assert record.problem.limit_bytes == os.sysconf("SC_ARG_MAX")
    assert (record.problem.size_bytes or 0) > 4_000_000


@pytest.mark.parametrize(
    ("argv", "env", "cwd", "item"),
    [
        ((b"true", b"a\0b"), (), b"/", "argv[1]"),
        ((b"true",), ((b"NAME", b"a\0b"),), b"/", "env NAME"),
        ((b"true",), ((b"A=B", b"c"),), b"/", "env A=B"),
        ((b"true",), ((b"", b"c"),), b"/", "env "),
        ((b"true",), (), b"/a\0b", "cwd"),
        ((), (), b"/", "argv[0]"),
        ((b"",), (), b"/", "argv[0]"),
    ],
)
async def test_what_no_program_can_be_given_is_refused_by_name(
    lab: Lab,
    argv: tuple[bytes, ...],
    env: tuple[tuple[bytes, bytes], ...],
    cwd: bytes,
    item: str,
) -> None:
    record, _, _ = await lab.run(SpawnSpec(argv=argv, env=env, cwd=cwd))
    assert record.reason is Reason.SPAWN_ERROR
    assert record.problem is not None
    assert (record.problem.kind, record.problem.item) == ("invalid", item)


async def test_large_but_possible_arguments_work(lab: Lab) -> None:
    argument = b"x" * 131_071
    _, stdout, _ = await lab.run(lab.spec("printf", "%s", argument))
    assert stdout == argument
