"""What commands wrote, as stored bytes: read by pages and agents, written by the link's holder."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from farhand_control_plane.db.transaction import Tx
from farhand_shared.ids import AttemptId, InstanceId, id_time
from farhand_shared.link_events import Stream

STREAM_NUMBER: Final = {Stream.STDOUT: 1, Stream.STDERR: 2}  # as in the table


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputView:
    """The first and last bytes of one stream."""

    head: bytes
    tail: bytes  # empty when the head is everything
    total: int  # bytes the command wrote, as far as the server knows
    omitted: int  # of these, how many lie between head and tail or were never kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """A stored range of one stream."""

    start: int
    end: int


def week_of(attempt_id: AttemptId) -> datetime:
    """Return the Monday (UTC) that partitions an attempt's output, from the time in its id."""
    made = id_time(attempt_id)
    monday = made - timedelta(days=made.weekday())
    return datetime(monday.year, monday.month, monday.day, tzinfo=UTC)


async def read(
    tx: Tx, instance_id: InstanceId, attempt_id: AttemptId, stream: Stream, offset: int, limit: int
) -> bytes:
    """Return up to ``limit`` stored bytes from ``offset``; b"" where nothing is stored.

    Stops at a gap: what follows one is read from the gap's end (``extents`` tells where).
    """
    parts: list[bytes] = []
    position, room = offset, limit
    # Numbers are sent as the smallest type that holds them, and the sum of two need not fit it.
    # The chunk that holds the offset begins at or before it; the primary key finds it backwards.
    cursor = await tx.execute(
        """
        select start_offset,
               substring(data from (greatest(%(offset)s::bigint - start_offset, 0) + 1)::int
                              for %(limit)s::int) as data
          from output_chunks
         where instance_id = %(instance_id)s and week = %(week)s and attempt_id = %(attempt_id)s
           and stream = %(stream)s
           and start_offset >= coalesce(
                 (select max(start_offset) from output_chunks
                   where instance_id = %(instance_id)s and week = %(week)s
                     and attempt_id = %(attempt_id)s and stream = %(stream)s
                     and start_offset <= %(offset)s::bigint), %(offset)s::bigint)
           and start_offset < %(offset)s::bigint + %(limit)s::bigint
         order by start_offset
        """,
        {
            "offset": offset,
            "limit": limit,
            "instance_id": instance_id,
            "week": week_of(attempt_id),
            "attempt_id": attempt_id,
            "stream": STREAM_NUMBER[stream],
        },
    )
    async for row in cursor:
        start = max(row["start_offset"], offset)
        data: bytes = row["data"]
        if start > position or room <= 0:
            break
        data = data[position - start :][:room]
        parts.append(data)
        position += len(data)
        room -= len(data)
    return b"".join(parts)


async def extents(
    tx: Tx, instance_id: InstanceId, attempt_id: AttemptId, stream: Stream
) -> list[Extent]:
    """Return the stored ranges of a stream, in order, neighbours joined."""
    cursor = await tx.execute(
        """
        select start_offset as start, start_offset + octet_length(data) as "end"
          from output_chunks
         where instance_id = %s and week = %s and attempt_id = %s and stream = %s
         order by start_offset
        """,
        (instance_id, week_of(attempt_id), attempt_id, STREAM_NUMBER[stream]),
    )
    joined: list[Extent] = []
    async for row in cursor:
        if joined and row["start"] <= joined[-1].end:
            joined[-1] = Extent(start=joined[-1].start, end=max(joined[-1].end, row["end"]))
        else:
            joined.append(Extent(start=row["start"], end=row["end"]))
    return joined


async def head_tail(
    tx: Tx, instance_id: InstanceId, attempt_id: AttemptId, stream: Stream, head: int, tail: int
) -> OutputView:
    """Return the first ``head`` and last ``tail`` stored bytes of a stream, without overlap."""
    cursor = await tx.execute(
        """
        select stdout_stored, stderr_stored,
               coalesce((result -> 'stdout' ->> 'produced')::bigint, 0) as stdout_produced,
               coalesce((result -> 'stderr' ->> 'produced')::bigint, 0) as stderr_produced
          from attempts
         where instance_id = %s and attempt_id = %s
        """,
        (instance_id, attempt_id),
    )
    row = await cursor.fetchone()
    if row is None:
        return OutputView(head=b"", tail=b"", total=0, omitted=0)
    total = max(row[f"{stream.value}_stored"], row[f"{stream.value}_produced"])
    first = await read(tx, instance_id, attempt_id, stream, 0, head)
    tail_from = max(total - tail, len(first))
    last = await read(tx, instance_id, attempt_id, stream, tail_from, tail) if tail else b""
    if not last and tail and tail_from < total:
        # The end was not kept from there on: give what is stored behind the last gap.
        ranges = await extents(tx, instance_id, attempt_id, stream)
        if ranges and ranges[-1].end > len(first):
            tail_from = max(ranges[-1].start, ranges[-1].end - tail, len(first))
            last = await read(tx, instance_id, attempt_id, stream, tail_from, tail)
    return OutputView(head=first, tail=last, total=total, omitted=total - len(first) - len(last))


async def store(
    tx: Tx,
    instance_id: InstanceId,
    attempt_id: AttemptId,
    stream: Stream,
    chunks: Sequence[tuple[int, bytes]],
) -> None:
    """Insert ranges of one stream (offset, bytes); ranges that are there already stay as they are.

    The caller holds the machine's epoch in this transaction (``attempts.hold``).
    """
    await tx.execute(
        """
        insert into output_chunks (instance_id, week, attempt_id, stream, start_offset, data)
        select %s, %s, %s, %s, chunk.start_offset, chunk.data
          from unnest(%b::bigint[], %b::bytea[]) as chunk(start_offset, data)
        on conflict do nothing
        """,
        (
            instance_id,
            week_of(attempt_id),
            attempt_id,
            STREAM_NUMBER[stream],
            [offset for offset, _ in chunks],
            [data for _, data in chunks],
        ),
    )
