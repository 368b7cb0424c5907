"""The journal: on disk before anybody may start, whatever a crash leaves of it."""

import asyncio
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import pytest

from farhand_daemon.journal import Decision, Journal, Told
from farhand_daemon.journal_file import EntryState, read_journal, write_journal

DIGEST, OTHER = b"d" * 32, b"e" * 32
DAY_MS = 24 * 3600 * 1000

_Fact = TypeVar("_Fact", bytes, str)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


async def recorded(
    record: Callable[[str, _Fact, Told], None], attempt_id: str, fact: _Fact
) -> None:
    """Return once the fact is on disk; raise the error that keeps it from there."""
    told: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    record(attempt_id, fact, told.set_result)
    if (error := await told) is not None:
        raise error


async def reopened(journal: Journal, path: Path) -> Journal:
    await journal.close()
    return Journal.open(path)


async def test_recorded_start_is_in_the_file_when_the_call_returns(path: Path) -> None:
    journal = Journal.open(path)
    assert journal.decide("a", DIGEST) is Decision.STARTED
    await recorded(journal.record_start, "a", DIGEST)
    on_disk = read_journal(path)
    assert on_disk.entries["a"].state is EntryState.JOURNALLED
    assert on_disk.entries["a"].input_digest == DIGEST
    await journal.close()


async def test_same_id_again_is_existing_and_with_another_input_a_conflict(path: Path) -> None:
    journal = Journal.open(path)
    await recorded(journal.record_start, "a", DIGEST)
    for _ in range(2):
        assert journal.decide("a", DIGEST) is Decision.EXISTING
        assert journal.decide("a", OTHER) is Decision.CONFLICT
        journal = await reopened(journal, path)
    await journal.close()


async def test_id_is_taken_while_its_entry_is_still_being_written(path: Path) -> None:
    journal = Journal.open(path)
    writing = asyncio.create_task(recorded(journal.record_start, "a", DIGEST))
    await asyncio.sleep(0)
    assert journal.decide("a", DIGEST) is Decision.EXISTING
    await writing
    await journal.close()


async def test_tombstone_survives_and_refuses(path: Path) -> None:
    journal = Journal.open(path)
    await recorded(journal.record_tombstone, "a", "cancel")
    journal = await reopened(journal, path)
    assert journal.decide("a", DIGEST) is Decision.TOMBSTONED
    assert journal.entries["a"].reason == "cancel"
    await journal.close()


async def test_tombstone_changes_nothing_for_a_known_id(path: Path) -> None:
    journal = Journal.open(path)
    await recorded(journal.record_start, "a", DIGEST)
    await recorded(journal.record_tombstone, "a", "cancel")
    assert journal.decide("a", DIGEST) is Decision.EXISTING
    await journal.close()


async def test_receipt_keeps_digest_and_hash_and_calls_back_once_synced(path: Path) -> None:
    journal = Journal.open(path)
    await recorded(journal.record_start, "a", DIGEST)
    called: list[EntryState] = []
    journal.record_receipt(
        "a", b"hash", lambda: called.append(read_journal(path).entries["a"].state)
    )
    assert called == []
    await recorded(journal.record_start, "b", DIGEST)  # its flush carries the receipt
    await asyncio.sleep(0)
    assert called == [EntryState.RECEIPTED]
    journal = await reopened(journal, path)
    assert journal.entries["a"].result_hash == b"hash"
    assert journal.decide("a", OTHER) is Decision.CONFLICT
    await journal.close()


async def test_receipt_alone_is_flushed_by_close(path: Path) -> None:
    journal = Journal.open(path)
    await recorded(journal.record_start, "a", DIGEST)
    called: list[bool] = []
    journal.record_receipt("a", b"hash", lambda: called.append(True))
    await journal.close()
    assert called == [True]
    assert read_journal(path).entries["a"].state is EntryState.RECEIPTED


async def test_many_starts_at_once_share_their_flushes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal.open(path)
    syncs = 0
    real = os.fdatasync

    def counted(fd: int) -> None:
        nonlocal syncs
        syncs += 1
        real(fd)

    monkeypatch.setattr(os, "fdatasync", counted)
    await asyncio.gather(*(recorded(journal.record_start, f"a{n}", DIGEST) for n in range(200)))
    assert syncs < 20
    assert len(read_journal(path).entries) == 200
    await journal.close()


async def test_identity_stays_and_counter_never_goes_back(path: Path) -> None:
    journal = Journal.open(path)
    identity = journal.journal_id
    counters = []
    for n in range(3):
        await recorded(journal.record_start, f"a{n}", DIGEST)
        counters.append(journal.counter)
        journal = await reopened(journal, path)
        counters.append(journal.counter)
    assert journal.journal_id == identity
    assert counters == [1, 1, 2, 2, 3, 3]
    await journal.close()


async def test_every_cut_of_the_last_line_leaves_the_rest(path: Path) -> None:
    journal = Journal.open(path)
    await recorded(journal.record_start, "a", DIGEST)
    whole_before = path.read_bytes()
    await recorded(journal.record_start, "b", DIGEST)
    identity = journal.journal_id
    await journal.close()
    content = path.read_bytes()
    for cut in range(len(whole_before), len(content)):
        path.write_bytes(content[:cut])
        journal = Journal.open(path)
        assert set(journal.entries) == {"a"}
        assert journal.journal_id == identity  # the cut start was promised to nobody
        await recorded(journal.record_start, "c", DIGEST)
        journal = await reopened(journal, path)
        assert set(journal.entries) == {"a", "c"}
        await journal.close()


async def test_damage_before_the_end_takes_a_new_identity_and_keeps_what_is_whole(
    path: Path,
) -> None:
    journal = Journal.open(path)
    for name in ("a", "b", "c"):
        await recorded(journal.record_start, name, DIGEST)
    identity = journal.journal_id
    await journal.close()
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"start", b"stArt")
    path.write_bytes(b"".join(lines))
    journal = Journal.open(path)
    assert journal.journal_id != identity
    assert set(journal.entries) == {"a", "c"}
    assert journal.counter == 3
    again = await reopened(journal, path)
    assert again.journal_id == journal.journal_id
    await again.close()


async def test_lost_journal_has_another_identity(path: Path) -> None:
    journal = Journal.open(path)
    await journal.close()
    path.unlink()
    other = Journal.open(path)
    assert other.journal_id != journal.journal_id
    await other.close()


async def test_old_receipts_go_and_open_starts_stay(path: Path) -> None:
    journal = Journal.open(path)
    await recorded(journal.record_start, "open", DIGEST)
    await recorded(journal.record_start, "done", DIGEST)
    journal.record_receipt("done", b"hash", lambda: None)
    await recorded(journal.record_tombstone, "gone", "cancel")
    at_ms = journal.entries["done"].at_ms
    await journal.close()
    kept = Journal.open(path, now_ms=at_ms + 29 * DAY_MS)
    assert set(kept.entries) == {"open", "done", "gone"}
    await kept.close()
    later = Journal.open(path, now_ms=at_ms + 31 * DAY_MS)
    assert set(later.entries) == {"open"}
    assert later.counter == 3
    await later.close()
    assert set(read_journal(path).entries) == {"open"}


async def test_old_receipts_go_while_a_daemon_runs_for_months(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farhand_daemon.journal._COMPACT_BYTES", 2_000)
    journal = Journal.open(path)
    await recorded(journal.record_start, "open", DIGEST)
    await recorded(journal.record_start, "old", DIGEST)
    journal.record_receipt("old", b"hash", lambda: None)
    later_ms = journal.entries["old"].at_ms + 31 * DAY_MS
    monkeypatch.setattr("farhand_daemon.journal._now_ms", lambda: later_ms)
    for n in range(30):
        await recorded(journal.record_start, f"new{n}", DIGEST)
        journal.record_receipt(f"new{n}", b"hash", lambda: None)
    assert {"open", "new0", "new29"} <= set(journal.entries)
    assert "old" not in journal.entries
    await journal.close()
    assert set(read_journal(path).entries) == set(journal.entries)


async def test_compaction_keeps_every_fact(path: Path) -> None:
    journal = Journal.open(path)
    await recorded(journal.record_start, "a", DIGEST)
    await recorded(journal.record_start, "b", OTHER)
    journal.record_receipt("b", b"hash", lambda: None)
    await recorded(journal.record_tombstone, "c", "cancel")
    await journal.close()
    before = read_journal(path)
    write_journal(path, before.journal_id, before.counter, before.entries.items())
    after = read_journal(path)
    assert (after.journal_id, after.counter) == (before.journal_id, before.counter)
    assert after.entries == before.entries
    assert after.good_bytes < before.good_bytes


async def test_large_journal_is_compacted_while_it_is_used(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farhand_daemon.journal._COMPACT_BYTES", 20_000)
    journal = Journal.open(path)
    sizes = []
    for n in range(300):
        await recorded(journal.record_start, f"a{n}", DIGEST)
        journal.record_receipt(f"a{n}", b"hash", lambda: None)
        sizes.append(path.stat().st_size)
    assert any(later < earlier for earlier, later in pairwise(sizes))
    entries, identity = journal.entries, journal.journal_id
    journal = await reopened(journal, path)
    assert journal.entries == entries
    assert journal.journal_id == identity
    await journal.close()


async def test_crash_while_compacting_leaves_the_old_journal(path: Path) -> None:
    journal = Journal.open(path)
    await recorded(journal.record_start, "a", DIGEST)
    await journal.close()
    path.with_suffix(".new").write_bytes(b"half of")
    journal = Journal.open(path)
    assert set(journal.entries) == {"a"}
    await journal.close()


async def test_start_that_cannot_be_written_is_an_error_and_leaves_no_trace(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal.open(path)
    await recorded(journal.record_start, "a", DIGEST)
    real = os.write

    def full(fd: int, data: bytes) -> int:
        real(fd, data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        await recorded(journal.record_start, "b", DIGEST)
    assert journal.decide("b", DIGEST) is Decision.STARTED
    monkeypatch.undo()
    await recorded(journal.record_start, "c", DIGEST)
    identity = journal.journal_id
    journal = await reopened(journal, path)
    assert set(journal.entries) == {"a", "c"}
    assert journal.journal_id == identity
    await journal.close()


async def test_fact_of_a_newer_daemon_is_left_unused(path: Path) -> None:
    from farhand_daemon.journal_file import line_of

    journal = Journal.open(path)
    await journal.close()
    with path.open("ab") as file:
        file.write(line_of({"k": "novelty", "a": "x", "t": 1, "c": 9}))
    journal = Journal.open(path)
    assert journal.entries == {}
    assert journal.counter == 9
    await journal.close()
