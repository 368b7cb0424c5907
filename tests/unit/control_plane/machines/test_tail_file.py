"""The newest bytes of a stream, whatever the sizes of the writes."""

from hypothesis import given
from hypothesis import strategies as st

from farhand_control_plane.machines.tail_file import TailFile


@given(
    size=st.integers(min_value=1, max_value=64),
    start=st.integers(min_value=0, max_value=1000),
    writes=st.lists(st.binary(max_size=100)),
)
def test_it_keeps_exactly_the_last_bytes(size: int, start: int, writes: list[bytes]) -> None:
    tail = TailFile(size, start)
    written = b""
    for data in writes:
        tail.append(data)
        written += data
    got, offset = b"", tail.start
    while data := tail.read(offset, 7):
        got += data
        offset += len(data)
    assert got == written[-size:]
    assert tail.end == start + len(written) == offset
    assert tail.read(tail.end, 1) == b""
    if tail.start > 0:
        assert tail.read(tail.start - 1, 1) == b""
    tail.close()


def test_after_a_gap_only_what_follows_is_kept() -> None:
    tail = TailFile(10, 0)
    tail.append(b"before")
    tail.skip_to(100)
    tail.append(b"after")
    assert (tail.start, tail.end) == (100, 105)
    assert tail.read(100, 99) == b"after"
    assert tail.read(5, 1) == b""
    tail.close()
