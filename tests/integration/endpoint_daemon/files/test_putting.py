"""Put: bytes from standard input become a file once all are right, or are gone on with later."""

import hashlib
import os
import stat
import time
from pathlib import Path

import pytest

from farhand_shared.file_operation import ABSENT, Expect, PutFile, StatFile, WriteFile
from tests.integration.endpoint_daemon.files.conftest import Files, names
from tests.integration.endpoint_daemon.files.forge import Process

CONTENT = os.urandom(1_500_000) + b"\r\n\0\xff"


def sha256(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def put(content: bytes = CONTENT, *, resume: int = 0, expect: Expect = None) -> PutFile:
    return PutFile(
        path=b"file",
        size=len(content),
        sha256=sha256(content),
        expect=expect,
        resume_offset=resume,
    )


def part(files: Files, content: bytes = CONTENT) -> Path:
    return files.root / f".file.farhand-part-{sha256(content).hex()[:16]}"


def received(files: Files) -> int:
    number = files.facts(StatFile(path=b"file", put_sha256=sha256(CONTENT)))["received"]
    assert isinstance(number, int)
    return number


def test_what_is_put_is_there_byte_for_byte(any_files: Files) -> None:
    facts = any_files.facts(put(), stdin=CONTENT)
    assert (any_files.root / "file").read_bytes() == CONTENT
    assert names(any_files.root) == ["file"]
    assert (facts["sha256"], facts["size"]) == (sha256(CONTENT).hex(), len(CONTENT))
    assert (facts["created"], facts["mode"]) == (True, "0644")
    assert any_files.facts(put(b""), stdin=b"")["size"] == 0
    assert (any_files.root / "file").read_bytes() == b""


def test_mode_and_links_are_as_in_a_write(files: Files) -> None:
    (files.root / "target").write_bytes(b"old")
    (files.root / "target").chmod(0o755)
    (files.root / "file").symlink_to("target")
    assert files.facts(put(), stdin=CONTENT)["mode"] == "0755"
    assert (files.root / "file").is_symlink()
    assert (files.root / "target").read_bytes() == CONTENT
    operation = PutFile(
        path=b"new/folder/file", size=1, sha256=sha256(b"x"), mode=0o600, make_parents=True
    )
    assert files.facts(operation, stdin=b"x")["mode"] == "0600"


def test_what_ended_early_is_gone_on_with(files: Files) -> None:
    (files.root / "file").write_bytes(b"before")
    error = files.refused(put(), stdin=CONTENT[:1_000_000])
    assert (error["code"], error["received"]) == ("bad_content", 1_000_000)
    assert (files.root / "file").read_bytes() == b"before"
    assert stat.S_IMODE(part(files).stat().st_mode) == 0o600
    assert received(files) == 1_000_000
    # Again from an earlier byte than what is kept: what is there after it is written anew.
    error = files.refused(put(resume=900_000), stdin=CONTENT[900_000:1_200_000])
    assert error["received"] == 1_200_000
    assert files.facts(put(resume=1_200_000), stdin=CONTENT[1_200_000:])["size"] == len(CONTENT)
    assert (files.root / "file").read_bytes() == CONTENT
    assert received(files) == 0
    assert names(files.root) == ["file"]


def test_what_is_kept_is_told_where_no_file_is_yet(files: Files) -> None:
    files.refused(put(), stdin=CONTENT[:10])
    facts = files.facts(StatFile(path=b"file", put_sha256=sha256(CONTENT)))
    assert (facts["type"], facts["received"]) == ("none", 10)
    facts = files.facts(StatFile(path=b"file", put_sha256=sha256(b"other")))
    assert facts["received"] == 0


def test_more_than_is_kept_cannot_be_gone_on_from(files: Files) -> None:
    error = files.refused(put(resume=5), stdin=b"")
    assert (error["code"], error["received"]) == ("cannot_resume", 0)
    assert names(files.root) == []
    files.refused(put(), stdin=CONTENT[:100])
    error = files.refused(put(resume=101), stdin=b"")
    assert (error["code"], error["received"]) == ("cannot_resume", 100)
    assert received(files) == 100


@pytest.mark.parametrize(
    "stdin",
    [CONTENT[:-1] + b"x", CONTENT + b"x", CONTENT + bytes(1_000_000)],
    ids=["another", "one too many", "many too many"],
)
def test_what_is_not_what_was_announced_is_not_kept(files: Files, stdin: bytes) -> None:
    (files.root / "file").write_bytes(b"before")
    assert files.refused(put(), stdin=stdin)["code"] == "bad_content"
    assert (files.root / "file").read_bytes() == b"before"
    assert names(files.root) == ["file"]


def test_a_part_that_was_changed_meanwhile_is_found_out(files: Files) -> None:
    files.refused(put(), stdin=CONTENT[:1000])
    part(files).write_bytes(b"x" * 1000)
    error = files.refused(put(resume=1000), stdin=CONTENT[1000:])
    assert error["code"] == "bad_content"
    assert names(files.root) == []


def test_what_must_be_there_is_looked_at_before_and_after(files: Files) -> None:
    file = files.root / "file"
    file.write_bytes(b"theirs")
    assert files.refused(put(expect=ABSENT))["code"] == "exists"
    assert files.refused(put(expect=sha256(b"mine")))["code"] == "changed"
    with files.start(put(expect=sha256(b"theirs"))) as process:
        process.stdin.write(CONTENT[:1000])
        process.stdin.flush()
        deadline = time.monotonic() + 30
        while not part(files).exists() or not part(files).stat().st_size:
            assert time.monotonic() < deadline
        file.write_bytes(b"changed while it came")
        _, stderr = process.communicate(CONTENT[1000:])
    assert b'"changed"' in stderr
    assert file.read_bytes() == b"changed while it came"
    assert names(files.root) == ["file"]


def begin(files: Files, begin: bytes) -> Process:
    """Start a put, and return once it has taken the first bytes."""
    process = files.start(put())
    process.stdin.write(begin)
    process.stdin.flush()
    deadline = time.monotonic() + 30
    while not part(files).exists() or part(files).stat().st_size < len(begin):
        assert time.monotonic() < deadline
    return process


@pytest.mark.parametrize("number", [15, 9], ids=["TERM", "KILL"])
def test_what_arrived_before_it_was_ended_is_gone_on_with(files: Files, number: int) -> None:
    (files.root / "file").write_bytes(b"before")
    with begin(files, CONTENT[:1000]) as process:
        process.send_signal(number)
        assert process.wait() == -number
    assert received(files) == 1000
    assert (files.root / "file").read_bytes() == b"before"
    files.facts(put(resume=1000), stdin=CONTENT[1000:])
    assert names(files.root) == ["file"]


def test_one_that_is_ended_before_its_first_byte_leaves_nothing(files: Files) -> None:
    with begin(files, b"") as process:
        process.send_signal(15)
        assert process.wait() == -15
    assert names(files.root) == []


def test_two_puts_of_the_same_do_not_mix(files: Files) -> None:
    with begin(files, CONTENT[:1000]) as process:
        assert files.refused(put(), stdin=CONTENT)["code"] == "busy"
        other = PutFile(path=b"file", size=1, sha256=sha256(b"x"))
        files.facts(other, stdin=b"x")
        _, stderr = process.communicate(CONTENT[1000:])
        assert process.wait() == 0, stderr
    assert (files.root / "file").read_bytes() == CONTENT
    assert names(files.root) == ["file"]


@pytest.mark.parametrize("what", ["link out", "link in", "second name", "fifo"])
def test_what_lies_in_wait_under_the_name_of_the_part_is_not_written_to(
    files: Files, tmp_path: Path, what: str
) -> None:
    victim = (tmp_path if what == "link out" else files.root) / "victim"
    victim.write_bytes(b"untouched")
    trap = part(files)
    if what.startswith("link"):
        trap.symlink_to(victim)
    elif what == "second name":
        trap.hardlink_to(victim)
    else:
        os.mkfifo(trap)
    assert files.facts(StatFile(path=b"file", put_sha256=sha256(CONTENT)))["received"] == 0
    files.facts(put(), stdin=CONTENT)
    assert victim.read_bytes() == b"untouched"
    assert (files.root / "file").read_bytes() == CONTENT
    assert not trap.exists()


def test_a_folder_under_the_name_of_the_part_is_a_refusal(files: Files) -> None:
    part(files).mkdir()
    assert files.do(put(), stdin=CONTENT).code == 1
    assert not (files.root / "file").exists()


def test_a_limit_on_the_size_of_files_leaves_nothing(files: Files) -> None:
    setup = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
    error = files.refused(put(), stdin=CONTENT, setup=setup)
    assert error["code"] == "too_big"
    assert names(files.root) == []


def test_what_cannot_fit_on_the_disk_is_refused_at_once(files: Files) -> None:
    operation = PutFile(path=b"file", size=1 << 60, sha256=sha256(b"x"))
    error = files.refused(operation, stdin=b"x")
    assert error["code"] == "disk_full"
    assert names(files.root) == []


def test_parts_that_nobody_goes_on_with_are_gone_after_a_day(files: Files) -> None:
    yesterday = time.time() - 25 * 3600
    old = files.root / ".other.farhand-part-0123456789abcdef"
    young = files.root / ".other.farhand-part-fedcba9876543210"
    persons = files.root / ".notes.farhand-part-of-my-life"
    for path in (old, young, persons):
        path.write_bytes(b"x")
    for path in (old, persons):
        os.utime(path, (yesterday, yesterday))
    files.facts(put(), stdin=CONTENT)
    assert not old.exists()
    assert young.exists()
    assert persons.exists()


def test_the_daemons_own_folder_takes_nothing(files: Files) -> None:
    own = files.root / "daemon"
    own.mkdir()
    (own / "machine.toml").write_bytes(b"mine")
    for path in (b"daemon/machine.toml", b"daemon/new", b"daemon/deep/new"):
        operation = PutFile(path=path, size=1, sha256=sha256(b"x"), make_parents=True)
        assert files.refused(operation, stdin=b"x", own=[own])["code"] == "path_denied"
        write = WriteFile(path=path, data=b"x", make_parents=True)
        assert files.refused(write, own=[own])["code"] == "path_denied"
    assert names(own) == ["machine.toml"]
    assert (own / "machine.toml").read_bytes() == b"mine"
