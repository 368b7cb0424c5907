"""Stat, list and read: exact, in pages, and never held up by what is no file."""

import base64
import hashlib
import os
import socket
import threading
from pathlib import Path

import pytest

from farhand_shared.file_operation import ListFolder, ReadFile, StatFile
from tests.integration.endpoint_daemon.files.conftest import Files

ODD_NAMES = [b"new\nline", b"\xff\xfe", b"-rf", b" ", b'"', b"\\", b"\x1b[2J", "é".encode()]


def test_stat_tells_what_is_there(any_files: Files) -> None:
    file = any_files.root / "file"
    file.write_bytes(b"12345")
    file.chmod(0o640)
    (any_files.root / "link").symlink_to("file")
    facts = any_files.facts(StatFile(path=b"link"))
    assert facts["path"] == str(file)
    assert (facts["type"], facts["size"], facts["mode"]) == ("file", 5, "0640")
    assert facts["modified_ms"] == file.stat().st_mtime_ns // 1_000_000
    assert facts["hard_links"] == 1
    facts = any_files.facts(StatFile(path=b"link", nofollow=True))
    assert (facts["type"], facts["target"]) == ("link", "file")
    assert any_files.facts(StatFile(path=b"."))["path"] == str(any_files.root)
    assert any_files.refused(StatFile(path=b"nothing"))["code"] == "not_found"


@pytest.mark.parametrize(("count", "hashed"), [(3, b"123"), (5, b"12345"), (1 << 62, b"12345")])
def test_stat_tells_the_hash_of_a_beginning(files: Files, count: int, hashed: bytes) -> None:
    (files.root / "file").write_bytes(b"12345")
    facts = files.facts(StatFile(path=b"file", hash_bytes=count))
    assert facts["sha256"] == hashlib.sha256(hashed).hexdigest()
    assert facts["version"] == files.facts(StatFile(path=b"file"))["version"]
    assert "sha256" not in files.facts(StatFile(path=b"file"))
    assert "sha256" not in files.facts(StatFile(path=b".", hash_bytes=count))


def test_every_change_is_another_version(files: Files) -> None:
    file = files.root / "file"
    file.write_bytes(b"1")
    versions = {files.facts(StatFile(path=b"file"))["version"]}
    assert files.facts(StatFile(path=b"file"))["version"] in versions
    file.write_bytes(b"22")
    versions.add(files.facts(StatFile(path=b"file"))["version"])
    file.chmod(0o600)
    versions.add(files.facts(StatFile(path=b"file"))["version"])
    assert len(versions) == 3


def test_a_tilde_is_said_not_to_be_the_home(files: Files) -> None:
    assert "~ is not replaced" in files.refused(StatFile(path=b"~/file"))["message"]


def test_a_list_is_sorted_by_bytes_and_tells_each_kind(any_files: Files) -> None:
    for name in ODD_NAMES:
        (any_files.root / os.fsdecode(name)).write_bytes(b"x")
    (any_files.root / "folder").mkdir()
    os.mkfifo(any_files.root / "fifo")
    (any_files.root / "link").symlink_to("/etc/passwd")
    lines = any_files.do(ListFolder(path=b".")).lines
    exact = [
        base64.b64decode(line["path_base64"]) if "path_base64" in line else line["path"].encode()
        for line in lines
    ]
    assert exact == sorted([*ODD_NAMES, b"folder", b"fifo", b"link"])
    types = {line["path"]: line["type"] for line in lines}
    assert (types["folder"], types["fifo"], types["link"]) == ("folder", "fifo", "link")
    (link,) = (line for line in lines if line["type"] == "link")
    assert link["target"] == "/etc/passwd"
    assert next(line for line in lines if "path_base64" in line)["path"] == "\ufffd\ufffd"


PEAK = """
def peak():
    try:
        with open("/proc/self/status") as status:
            return int(status.read().partition("VmHWM:")[2].split()[0])
    except FileNotFoundError:
        return 0
before, run = peak(), process.run
def measured(*args):
    code = run(*args)
    return code if peak() - before < 6 * 1024 else 99
process.run = measured
"""


def test_a_folder_of_a_hundred_thousand_names_comes_in_pages_and_in_little_memory(
    files: Files,
) -> None:
    folder = files.root / "many"
    folder.mkdir()
    for name in "01":  # one file has no room for so many names
        (folder / name).write_bytes(b"")
    descriptor = os.open(folder, os.O_RDONLY)
    for number in range(2, 100_000):  # names are made twice as fast as files
        os.link(str(number % 2), str(number), src_dir_fd=descriptor, dst_dir_fd=descriptor)
    os.close(descriptor)
    seen: list[str] = []
    after = b""
    for number in (10_000, 10_000, 1):
        answer = files.do(ListFolder(path=b"many", after=after, limit=number), setup=PEAK)
        assert answer.facts["more"]
        seen += answer.paths
        after = answer.facts["after"].encode()
    assert seen == sorted(map(str, range(100_000)))[:20_001]
    last = files.do(ListFolder(path=b"many", after=b"9998", limit=10_000), setup=PEAK)
    assert last.paths == [name for name in sorted(map(str, range(100_000))) if name > "9998"]
    assert last.facts == {"more": False}


def test_a_page_that_ends_with_the_folder_says_so(files: Files) -> None:
    for name in "abc":
        (files.root / name).write_bytes(b"")
    assert files.facts(ListFolder(path=b".", limit=3)) == {"more": False}
    assert files.facts(ListFolder(path=b".", limit=2)) == {"more": True, "after": "b"}
    assert files.do(ListFolder(path=b".", after=b"b")).paths == ["c"]
    assert files.do(ListFolder(path=b".", after=b"z")).paths == []


def test_what_is_no_folder_is_not_listed(files: Files) -> None:
    (files.root / "file").write_bytes(b"")
    os.mkfifo(files.root / "fifo")
    for path in (b"file", b"fifo", b"file/"):
        assert files.refused(ListFolder(path=path))["code"] == "not_a_folder"
    assert files.refused(ListFolder(path=b"none"))["code"] == "not_found"


def test_ranges_are_read_exactly(any_files: Files) -> None:
    content = os.urandom(700_000) + b"\r\n\0\xff"
    (any_files.root / "file").write_bytes(content)
    for offset, length in ((0, 0), (0, 1), (699_999, 0), (5, 300_000), (800_000, 0), (3, 10**9)):
        answer = any_files.do(ReadFile(path=b"file", offset=offset, length=length))
        expected = content[offset : offset + length] if length else content[offset:]
        assert answer.stdout == expected
        assert answer.facts["sha256"] == hashlib.sha256(expected).hexdigest()
        assert (answer.facts["sent"], answer.facts["size"]) == (len(expected), len(content))
        assert answer.facts["changed"] is False


def test_another_version_than_the_one_asked_for_is_refused(files: Files) -> None:
    file = files.root / "file"
    file.write_bytes(b"one")
    version = files.facts(StatFile(path=b"file"))["version"]
    assert files.do(ReadFile(path=b"file", offset=1, if_version=version)).stdout == b"ne"
    file.write_bytes(b"two")
    answer = files.do(ReadFile(path=b"file", offset=1, if_version=version))
    assert answer.error["code"] == "changed"
    assert answer.error["expected_version"] == version
    assert answer.error["version"] == files.facts(StatFile(path=b"file"))["version"]
    assert answer.stdout == b""


MEANWHILE = """
pread = os.pread
def once(fd, size, offset):
    os.pread = pread
    chunk = pread(fd, size, offset)
    {change}
    return chunk
os.pread = once
"""


@pytest.mark.parametrize(
    ("change", "sent"),
    [
        ("os.truncate({file!r}, 300_000)", 300_000),
        ("open({file!r}, 'ab').write(b'x' * 1_000_000)", 400_000),
        ("os.unlink({file!r})", 400_000),
    ],
    ids=["cut short", "appended to", "removed"],
)
def test_a_file_that_changes_while_it_is_read_is_said_to(
    files: Files, change: str, sent: int
) -> None:
    file = files.root / "file"
    file.write_bytes(b"a" * 400_000)
    version = files.facts(StatFile(path=b"file"))["version"]
    setup = MEANWHILE.format(change=change.format(file=str(file)))
    answer = files.do(ReadFile(path=b"file"), setup=setup)
    assert answer.stdout == b"a" * sent
    assert (answer.facts["sent"], answer.facts["changed"]) == (sent, True)
    if file.exists():
        file.write_bytes(b"a" * 400_000)
        version = files.facts(StatFile(path=b"file"))["version"]
        assert files.refused(ReadFile(path=b"file", if_version=version), setup=setup)["code"] == (
            "changed"
        )


def test_a_reader_that_is_slow_is_waited_for(files: Files) -> None:
    content = os.urandom(3_000_000)
    (files.root / "file").write_bytes(content)
    with files.start(ReadFile(path=b"file")) as process:
        assert process.stdout.read() == content


def test_a_reader_that_is_gone_ends_it(files: Files) -> None:
    with (files.root / "file").open("wb") as file:
        file.truncate(1 << 40)  # a terabyte, all of it a hole
    with files.start(ReadFile(path=b"file")) as process:
        assert process.stdout.read(1) == b"\0"
        process.stdout.close()
        assert process.wait() != 0


def test_what_is_no_file_is_never_opened(any_files: Files) -> None:
    os.mkfifo(any_files.root / "fifo")
    (any_files.root / "folder").mkdir()
    (any_files.root / "to_fifo").symlink_to("fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(any_files.root / "socket"))
        for path, code in (
            (b"fifo", "not_regular"),
            (b"to_fifo", "not_regular"),
            (b"socket", "not_regular"),
            (b"folder", "not_a_file"),
            (b".", "not_a_file"),
        ):
            assert any_files.refused(ReadFile(path=path))["code"] == code


@pytest.mark.skipif(not Path("/dev/null").is_char_device(), reason="no devices here")
def test_a_device_beneath_a_root_is_not_opened(files: Files) -> None:
    error = files.refused(ReadFile(path=b"/dev/zero"), roots=[Path("/dev")])
    assert error["code"] == "not_regular"
    # The terminal that controls the process, and its own input: names of which the kernel makes
    # what it likes.
    for path in (b"/dev/tty", b"/dev/stdin", b"/dev/fd/0"):
        error = files.refused(ReadFile(path=path), roots=[Path("/dev")])
        assert error["code"] in ("not_regular", "path_denied", "not_found", "permission_denied")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc here")
def test_what_the_system_makes_as_it_is_read_is_read_to_its_end(files: Files) -> None:
    answer = files.do(ReadFile(path=b"/proc/version"), roots=[Path("/proc")])
    assert answer.stdout == Path("/proc/version").read_bytes()
    if Path("/proc/kmsg").exists() and os.geteuid() == 0:  # never ends, and waits for more
        answer = files.do(ReadFile(path=b"/proc/kmsg", length=1 << 20), roots=[Path("/proc")])
        assert answer.code in (0, 1)


def test_a_fifo_that_is_exchanged_for_the_file_does_not_hold_us(any_files: Files) -> None:
    file, fifo = any_files.root / "file", any_files.root / "fifo"
    file.write_bytes(b"x")
    os.mkfifo(fifo)
    stop = threading.Event()

    def exchange() -> None:
        third = any_files.root / "third"
        while not stop.is_set():
            file.rename(third)
            fifo.rename(file)
            file.rename(fifo)
            third.rename(file)

    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        for _ in range(6):
            answer = any_files.do(ReadFile(path=b"file"))
            assert answer.code in (0, 1)
            if answer.code:
                assert answer.error["code"] in ("not_regular", "not_found", "failed")
    finally:
        stop.set()
        thread.join()


def test_the_daemons_own_files_are_neither_read_nor_seen(files: Files) -> None:
    own = files.root / "state" / "daemon"
    own.mkdir(parents=True)
    (own / "identity.json").write_bytes(b"the secret key")
    (files.root / "link").symlink_to(own / "identity.json")
    for path in (b"state/daemon/identity.json", b"link", os.fsencode(own / "identity.json")):
        assert files.refused(ReadFile(path=path), own=[own])["code"] == "path_denied"
        assert files.refused(StatFile(path=path), own=[own])["code"] == "path_denied"
    assert files.refused(ListFolder(path=b"state/daemon"), own=[own])["code"] == "path_denied"
    assert files.do(ListFolder(path=b"state"), own=[own]).paths == ["daemon"]
