"""Frames come out as they went in, however the bytes are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farhand_daemon.supervisor import wire


@given(
    frames=st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=50)), max_size=10),
    size=st.integers(1, 20),
)
def test_frames_survive_any_cut(frames: list[tuple[int, bytes]], size: int) -> None:
    content = b"".join(wire.frame(kind, payload) for kind, payload in frames)
    reader = wire.FrameReader()
    got = [f for at in range(0, len(content), size) for f in reader.feed(content[at : at + size])]
    assert got == frames


def test_absurd_length_is_refused() -> None:
    with pytest.raises(ValueError, match="announced"):
        wire.FrameReader().feed(wire.HEADER.pack(1, 1 << 30))


@given(
    argv=st.lists(st.binary(max_size=20), max_size=5),
    env=st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9)), max_size=5),
    cwd=st.binary(max_size=20),
)
def test_request_keeps_every_byte(
    argv: list[bytes], env: list[tuple[bytes, bytes]], cwd: bytes
) -> None:
    facts: dict[str, object] = {"attempt_id": "a", "umask": 18}
    assert wire.decode_request(wire.encode_request(facts, argv, env, cwd)) == (
        facts,
        argv,
        env,
        cwd,
    )
