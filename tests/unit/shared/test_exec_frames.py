"""The framing of a streamed command."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farhand_shared.command import CommandResult, ExitReason, Note, StreamTotals
from farhand_shared.errors import ProtocolError
from farhand_shared.exec_frames import (
    PAYLOAD_MAX_BYTES,
    Frame,
    FrameDecoder,
    FrameKind,
    encode_frame,
    encode_json_frame,
    result_from_json,
    result_to_json,
)

frames = st.lists(st.builds(Frame, st.sampled_from(FrameKind), st.binary(max_size=50)))
totals = st.builds(
    StreamTotals,
    produced=st.integers(0, 2**60),
    omitted_from=st.integers(0, 2**60),
    omitted=st.integers(0, 2**60),
    sha256=st.binary(max_size=32),
)
results = st.builds(
    CommandResult,
    reason=st.sampled_from(ExitReason),
    exit_code=st.none() | st.integers(0, 255),
    signal=st.none() | st.integers(1, 64),
    error_code=st.text(),
    error=st.text(),
    stdout=totals,
    stderr=totals,
    stdout_left_open=st.booleans(),
    wall_ms=st.integers(0, 2**40),
    notes=st.lists(st.builds(Note, code=st.text(), text=st.text()), max_size=2).map(tuple),
)


@given(frames, st.data())
def test_frames_survive_any_chunking(sent: list[Frame], data: st.DataObject) -> None:
    body = b"".join(encode_frame(frame.kind, frame.payload) for frame in sent)
    decoder = FrameDecoder()
    received: list[Frame] = []
    while body:
        size = data.draw(st.integers(1, len(body)))
        received += decoder.feed(body[:size])
        body = body[size:]
    decoder.close()
    assert received == sent


@given(results)
def test_a_result_survives_json(result: CommandResult) -> None:
    frame = encode_json_frame(FrameKind.EXIT, {"result": result_to_json(result), "committed": True})
    (decoded,) = FrameDecoder().feed(frame)
    assert result_from_json(decoded.json()["result"]) == result


def test_a_kind_from_a_newer_server_is_left_out() -> None:
    newer = b"\xc8" + (3).to_bytes(4, "big") + b"abc"
    assert FrameDecoder().feed(newer + encode_frame(FrameKind.COMMITTED)) == [
        Frame(FrameKind.COMMITTED, b"")
    ]


def test_a_body_that_ends_inside_a_frame_is_an_error() -> None:
    decoder = FrameDecoder()
    assert decoder.feed(encode_frame(FrameKind.STDOUT, b"abc")[:-1]) == []
    with pytest.raises(ProtocolError, match="ends inside a frame"):
        decoder.close()


def test_something_else_than_frames_is_an_error_at_once() -> None:
    with pytest.raises(ProtocolError, match=f"the limit is {PAYLOAD_MAX_BYTES:,}"):
        FrameDecoder().feed(b"<html>not ours</html>")


@pytest.mark.parametrize("payload", [b"", b"[]", b"\xff", b"{"])
def test_a_payload_that_is_no_json_object_is_an_error(payload: bytes) -> None:
    with pytest.raises(ProtocolError, match="state frame"):
        Frame(FrameKind.STATE, payload).json()


@pytest.mark.parametrize("value", [{}, {"reason": "bored"}])
def test_a_result_that_is_none_is_an_error(value: dict[str, str]) -> None:
    with pytest.raises(ProtocolError, match="cannot read a result"):
        result_from_json(value)


def test_importing_the_frames_loads_the_standard_library_only() -> None:
    code = (
        "import sys, farhand_shared.exec_frames as m;"
        "print(sorted({n.split('.')[0] for n in sys.modules}"
        " - set(sys.stdlib_module_names) - {'__main__'}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(eval(run.stdout))
    assert not {n for n in loaded if n in ("google", "grpc", "cryptography", "farhand_proto")}
    assert "farhand_shared" in loaded
