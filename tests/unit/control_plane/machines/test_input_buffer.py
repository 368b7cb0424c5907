"""One command's input in a replica's memory: exactly what the machine may still need."""

from hypothesis import given
from hypothesis import strategies as st

from farhand_control_plane.machines.input_buffer import InputBuffer
from farhand_shared.limits import INPUT_WINDOW_BYTES

WHOLE = bytes(range(251)) * 4


@given(
    st.lists(
        st.tuples(st.sampled_from(["append", "take"]), st.integers(0, 200)),
        max_size=30,
    )
)
def test_it_holds_what_came_in_and_was_not_taken(steps: list[tuple[str, int]]) -> None:
    buffer = InputBuffer(0, taken=0, now=0.0)
    for step, size in steps:
        if step == "append":
            buffer.append(WHOLE[buffer.received : buffer.received + size])
        else:
            buffer.take(min(buffer.taken + size, buffer.received), closed=False)
        assert buffer.start == buffer.taken <= buffer.received
        held = buffer.received - buffer.start
        assert buffer.read(buffer.start, INPUT_WINDOW_BYTES) == WHOLE[buffer.start :][:held]
        assert buffer.room() == INPUT_WINDOW_BYTES - held
        if buffer.start:
            assert buffer.read(buffer.start - 1, 10) == b""


def test_it_begins_where_the_machine_stands() -> None:
    buffer = InputBuffer(70, taken=50, now=0.0)
    assert (buffer.start, buffer.received, buffer.taken) == (70, 70, 50)
    assert buffer.room() == INPUT_WINDOW_BYTES - 20


def test_it_begins_anew_when_the_machine_has_lost_what_is_not_here() -> None:
    buffer = InputBuffer(70, taken=50, now=0.0)
    buffer.append(b"abc")
    buffer.ended = True
    buffer.rewind(60)
    assert (buffer.start, buffer.received, buffer.taken, buffer.ended) == (60, 60, 50, False)
    assert buffer.read(60, 10) == b""
