"""The spool against a model: every byte is either readable as it was written or a counted gap."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farhand_daemon.spool import (
    DATA_AT,
    BytesGone,
    DamagedSpool,
    RingState,
    SpoolReader,
    SpoolWriter,
    spool_path,
    spooled_attempts,
)

HEAD, TAIL = 16, 48
SUPERVISOR: dict[str, object] = {"pid": 1, "start_time": 2, "boot_id": "boot", "socket": "1.sock"}


def a_writer(
    folder: Path, attempt_id: str = "a", *, head: int = HEAD, tail: int = TAIL
) -> SpoolWriter:
    return SpoolWriter(
        spool_path(os.fspath(folder), attempt_id), attempt_id, SUPERVISOR, head=head, tail=tail
    )


def readable(reader: SpoolReader, stream: int) -> dict[int, int]:
    """Give every readable byte by its offset."""
    found: dict[int, int] = {}
    offset = 0
    while True:
        try:
            data = reader.read(stream, offset, 7)
        except BytesGone as gone:
            if gone.next_offset <= offset:
                raise
            offset = gone.next_offset
            continue
        if not data:
            return found
        found |= {offset + index: value for index, value in enumerate(data)}
        offset += len(data)


@settings(deadline=None, max_examples=150)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.integers(0, 1), st.integers(1, TAIL)),
            st.tuples(st.just("ack"), st.integers(0, 1), st.integers(0, 400)),
        ),
        max_size=40,
    )
)
def test_what_was_written_is_readable_or_a_counted_gap(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    writer = a_writer(folder)
    reader = SpoolReader(writer.path)
    written: list[bytes] = [b"", b""]
    acked = [0, 0]
    missing: list[set[int]] = [set(), set()]  # dropped before they were acknowledged
    for action, stream, amount in steps:
        if action == "ack":
            writer.acknowledge(stream, amount)
            acked[stream] = max(acked[stream], min(amount, len(written[stream])))
            continue
        before = len(written[stream])
        chunk = bytes((before + index) % 251 for index in range(amount))
        fits = writer.rings[stream].room() >= amount
        writer.append(stream, memoryview(chunk))
        written[stream] += chunk
        front = max(HEAD, len(written[stream]) - TAIL)
        dropped = set(range(HEAD, front)) - set(range(acked[stream])) - missing[stream]
        newly = {o for o in dropped if o >= max(HEAD, before - TAIL)}
        missing[stream] |= newly
        assert not (fits and newly), "with room nothing unacknowledged may go"
    for stream in (0, 1):
        total = len(written[stream])
        assert reader.produced(stream + 1) == total
        bytes_found = readable(reader, stream + 1)
        kept = set(range(min(HEAD, total))) | set(range(max(HEAD, total - TAIL), total))
        assert set(bytes_found) == kept
        assert all(bytes_found[offset] == written[stream][offset] for offset in kept)
        assert reader.omitted_bytes(stream + 1) == len(missing[stream])
        gaps = [offset for low, high in reader.omitted(stream + 1) for offset in range(low, high)]
        assert set(gaps) <= missing[stream]
        above = {offset for offset in missing[stream] if offset >= acked[stream]}
        assert above <= set(gaps), "a gap the server has not passed is always told"
    reader.close()
    writer.close()


def test_room_is_what_fits_without_loss() -> None:
    ring = RingState(HEAD, TAIL)
    assert ring.room() == HEAD + TAIL
    ring.produced = HEAD + TAIL
    assert ring.room() == 0
    ring.acked = 10  # inside the head, which stays: nothing is won
    assert ring.room() == 0
    ring.acked = HEAD + 5
    assert ring.room() == 5


def test_start_and_exit_are_there_once_written(tmp_path: Path) -> None:
    writer = a_writer(tmp_path)
    reader = SpoolReader(writer.path)
    assert (reader.started(), reader.exit_record()) == (None, None)
    writer.put_started({"pid": 5})
    writer.put_exit(b'{"exit_code":3}')
    assert reader.started() == {"pid": 5}
    assert reader.exit_record() == b'{"exit_code":3}'
    assert reader.supervisor == SUPERVISOR
    assert reader.attempt_id == "a"


def test_half_written_exit_record_is_none(tmp_path: Path) -> None:
    writer = a_writer(tmp_path)
    writer.put_exit(b'{"exit_code":3}')
    with Path(writer.path).open("r+b") as file:
        file.seek(4096 + 8 + 3)
        file.write(b"\0")
    assert SpoolReader(writer.path).exit_record() is None


def test_attempt_id_is_used_once(tmp_path: Path) -> None:
    a_writer(tmp_path)
    with pytest.raises(FileExistsError):
        a_writer(tmp_path)


def test_file_is_sparse(tmp_path: Path) -> None:
    writer = a_writer(tmp_path, head=16 << 20, tail=48 << 20)
    writer.append(1, memoryview(b"x"))
    status = os.stat(writer.path)  # noqa: PTH116 - a string
    assert status.st_blocks * 512 <= DATA_AT + 3 * 4096


@pytest.mark.parametrize("content", [b"", b"\0" * DATA_AT, b"junk" * 10_000])
def test_what_is_no_spool_is_said_to_be_damaged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.spool"
    path.write_bytes(content)
    with pytest.raises(DamagedSpool, match="not a whole spool"):
        SpoolReader(os.fspath(path))


def test_damaged_offsets_are_not_believed(tmp_path: Path) -> None:
    writer = a_writer(tmp_path)
    with Path(writer.path).open("r+b") as file:
        file.seek(2048 + 10)
        file.write(b"\xff")
    with pytest.raises(DamagedSpool, match="checksum"):
        SpoolReader(writer.path).produced(1)


@pytest.mark.parametrize("attempt_id", ["", "..", "a/b", "a\0b", "é", "x" * 101, "."])
def test_attempt_id_that_is_no_file_name_is_refused(attempt_id: str) -> None:
    with pytest.raises(ValueError, match="plain attempt id"):
        spool_path("/spool", attempt_id)


def test_spooled_attempts_are_listed_and_nothing_else(tmp_path: Path) -> None:
    a_writer(tmp_path, "b-1")
    a_writer(tmp_path, "a_2")
    (tmp_path / "x.request").touch()
    assert spooled_attempts(os.fspath(tmp_path)) == ["a_2", "b-1"]


def test_full_disk_counts_nothing_and_the_same_chunk_can_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = a_writer(tmp_path)
    reader = SpoolReader(writer.path)
    for _ in range(4):
        writer.append(0, memoryview(b"a" * 32))
    real, full = os.pwrite, True

    def pwrite(fd: int, data: bytes, at: int) -> int:
        if full and at >= DATA_AT:
            raise OSError(28, "No space left on device")
        return real(fd, data, at)

    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(OSError, match="No space"):
        writer.append(0, memoryview(b"b" * 32))
    assert reader.produced(1) == 128
    full = False
    writer.append(0, memoryview(b"b" * 32))
    assert reader.produced(1) == 160
    assert reader.omitted_bytes(1) == 160 - HEAD - TAIL
    assert reader.read(1, 128, 100) == b"b" * 32
