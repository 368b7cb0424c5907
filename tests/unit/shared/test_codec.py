"""Link events survive the wire; what is missing or wrong is named."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farhand_proto.v1 import link_pb2 as pb
from farhand_shared import codec
from farhand_shared.command import (
    Argv,
    CommandResult,
    CommandSpec,
    ExitReason,
    Limits,
    Note,
    Pty,
    Shell,
    StreamTotals,
)
from farhand_shared.errors import InvalidInput, ProtocolError, TooLarge
from farhand_shared.ids import new_id
from farhand_shared.limits import SPEC_MAX_BYTES
from farhand_shared.link_events import (
    Approval,
    Bye,
    Cancel,
    Decision,
    Drain,
    Facts,
    Gone,
    Hello,
    Input,
    InputAck,
    LiveAttempt,
    LiveState,
    Offer,
    Omitted,
    Output,
    OutputAck,
    Ping,
    Pong,
    Quiet,
    Repository,
    Resize,
    Result,
    ResultAck,
    Started,
    StoredOutput,
    Stream,
    Survey,
    Verdict,
    Welcome,
    size_hint,
)

ids = st.builds(new_id)
hashes = st.binary(min_size=32, max_size=32)
offsets = st.integers(0, 1 << 62)
positive = st.integers(1, 1 << 62)
small = st.integers(1, 2**32 - 1)
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
words = st.text("abc_", min_size=1, max_size=9)
times = st.integers(-(2**62), 2**62)
streams = st.sampled_from(Stream)

totals = st.builds(
    StreamTotals,
    produced=offsets,
    omitted_from=offsets,
    omitted=offsets,
    sha256=hashes | st.just(b""),
)
results = st.builds(
    CommandResult,
    reason=st.sampled_from(ExitReason),
    exit_code=st.none() | st.integers(-(2**31), 2**31 - 1),
    signal=st.none() | st.integers(1, 64),
    error_code=texts,
    error=texts,
    stdout=totals,
    stderr=totals,
    stdout_left_open=st.booleans(),
    wall_ms=offsets,
    notes=st.lists(st.builds(Note, code=words, text=texts), max_size=2).map(tuple),
)
facts = st.builds(
    Facts,
    hostname=texts,
    os=words,
    os_version=texts,
    arch=texts,
    user=texts,
    home=st.binary(max_size=9),
    cpus=small,
    memory_bytes=offsets,
    time_zone=texts,
    labels=st.lists(st.tuples(texts, texts), max_size=2).map(tuple),
    survey=st.none()
    | st.builds(
        Survey,
        disk_bytes=offsets,
        disk_free_bytes=offsets,
        gpus=st.lists(texts, max_size=2).map(tuple),
        has_battery=st.booleans(),
        on_battery=st.booleans(),
        battery_percent=small,
        tools=st.lists(st.tuples(texts, texts), max_size=2).map(tuple),
        repositories=st.lists(
            st.builds(Repository, remote=texts, path=st.binary(max_size=9)), max_size=2
        ).map(tuple),
    ),
    update_problem=texts,
)
live = st.builds(
    LiveAttempt,
    attempt_id=ids,
    input_digest=hashes | st.just(b""),
    state=st.sampled_from(LiveState),
    stdout_produced=offsets,
    stderr_produced=offsets,
    input_received=offsets,
    input_taken=offsets,
    input_closed=st.booleans(),
)
sizes = st.integers(1, 65_535)
specs = st.binary(min_size=1, max_size=30)
up_events = st.one_of(
    st.builds(
        Hello,
        daemon_instance_id=ids,
        boot_id=words,
        journal_id=words,
        journal_counter=offsets,
        local_time_ms=times,
        capability=small,
        daemon_version=texts,
        trust_level=words,
        chosen_by=words,
        allow_inferred=st.booleans(),
        concurrency=small,
        facts=facts,
        live=st.lists(live, max_size=3).map(tuple),
    ),
    st.builds(Pong, nonce=offsets),
    st.builds(
        Decision,
        attempt_id=ids,
        verdict=st.sampled_from(Verdict),
        plan_hash=hashes,
        tier=small,
        reason_code=texts,
        message=texts,
    ),
    st.builds(Started, attempt_id=ids, pid=small, started_at_ms=times, boot_id=texts),
    st.builds(Output, attempt_id=ids, stream=streams, offset=offsets, data=st.binary(min_size=1)),
    st.builds(Omitted, attempt_id=ids, stream=streams, offset=offsets, length=positive),
    st.builds(InputAck, attempt_id=ids, offset=offsets, closed=st.booleans()),
    st.builds(
        Quiet,
        attempt_id=ids,
        quiet_ms=offsets,
        reads_terminal=st.booleans(),
        takes_input=st.booleans(),
    ),
    st.builds(Result, attempt_id=ids, result=results, result_hash=hashes),
)
stored = st.builds(StoredOutput, attempt_id=ids, stream=streams, offset=offsets)
offers = st.builds(
    lambda spec, **rest: Offer(spec=spec, input_digest=codec.input_digest(spec), **rest),
    spec=specs,
    attempt_id=ids,
    command_id=ids,
    stream_epoch=positive,
    start_within_ms=positive,
    tier=small,
    inferred=st.booleans(),
    requester=words,
    ticket_id=texts,
    mandate_hash=hashes | st.just(b""),
    traceparent=texts,
)
down_events = st.one_of(
    st.builds(
        Welcome,
        server_time_ms=times,
        stream_epoch=positive,
        capability=small,
        min_capability=small,
        machine_name=texts,
        stored=st.lists(stored, max_size=3).map(tuple),
    ),
    st.builds(Ping, nonce=offsets),
    offers,
    st.builds(Approval, attempt_id=ids, plan_hash=hashes),
    st.builds(OutputAck, attempt_id=ids, stream=streams, offset=offsets),
    st.builds(ResultAck, attempt_id=ids, result_hash=hashes),
    st.builds(Cancel, attempt_id=ids, reason=words),
    st.builds(Gone, attempt_id=ids),
    st.builds(Input, attempt_id=ids, offset=offsets, data=st.binary(min_size=1), end=st.booleans()),
    st.builds(Input, attempt_id=ids, offset=offsets, data=st.just(b""), end=st.just(True)),
    st.builds(Resize, attempt_id=ids, rows=sizes, columns=sizes),
    st.builds(Drain, within_ms=offsets),
    st.builds(Bye, code=words, message=texts, retry=st.booleans()),
)


@given(st.lists(up_events, max_size=6))
def test_up_events_survive_the_wire(events: list[Any]) -> None:
    message = codec.encode_up(events)
    assert codec.decode_up(message) == events
    assert len(message) <= sum(map(size_hint, events))


@given(st.lists(down_events, max_size=6))
def test_down_events_survive_the_wire(events: list[Any]) -> None:
    message = codec.encode_down(events)
    assert codec.decode_down(message) == events
    assert len(message) <= sum(map(size_hint, events))


@given(
    st.builds(
        CommandSpec,
        run=st.builds(Shell, script=st.binary())
        | st.builds(Argv, argv=st.lists(st.binary(), min_size=1).map(tuple)),
        cwd=st.none() | st.binary(),
        env=st.lists(st.tuples(st.binary(), st.binary())).map(tuple),
        execution_timeout_ms=offsets,
        grace_ms=offsets,
        stdin=st.booleans(),
        pty=st.none() | st.builds(Pty, rows=sizes, columns=sizes, term=st.binary(max_size=9)),
        limits=st.builds(
            Limits,
            memory_bytes=st.just(0) | st.integers(4 << 20, 1 << 50),
            processes=st.just(0) | st.integers(1, 1 << 22),
            open_files=st.just(0) | st.integers(32, 1 << 22),
        ),
    )
)
def test_a_specification_survives_byte_for_byte(spec: CommandSpec) -> None:
    encoded = codec.encode_spec(spec)
    assert codec.decode_spec(encoded) == spec
    assert codec.encode_spec(codec.decode_spec(encoded)) == encoded


@given(results)
def test_a_result_survives_and_keeps_its_hash(result: CommandResult) -> None:
    again = codec.decode_result(codec.encode_result(result))
    assert again == result
    assert codec.result_hash(again) == codec.result_hash(result)


@given(st.binary())
def test_garbage_is_a_protocol_error_or_nothing_known(message: bytes) -> None:
    for decode in (codec.decode_up, codec.decode_down, codec.decode_spec, codec.decode_result):
        with suppress(ProtocolError):
            decode(message)


def test_event_kinds_from_a_newer_peer_are_left_out() -> None:
    newer = bytes([0x0A, 4, 0xFA, 0x06, 1, 0x41])  # events { field 111: "A" }
    known = codec.encode_up([Pong(nonce=1)])
    assert codec.decode_up(newer + known + newer) == [Pong(nonce=1)]


ENDED = pb.CommandResult(reason=pb.CommandResult.REASON_EXIT)
ID = "0190a000-0000-7000-8000-000000000000"


def up(**event: Any) -> bytes:
    return pb.Up(events=[pb.UpEvent(**event)]).SerializeToString()


def down(**event: Any) -> bytes:
    return pb.Down(events=[pb.DownEvent(**event)]).SerializeToString()


@pytest.mark.parametrize(
    ("message", "decode", "field"),
    [
        (up(hello=pb.Hello()), codec.decode_up, "hello.daemon_instance_id"),
        (up(hello=pb.Hello(daemon_instance_id=ID)), codec.decode_up, "hello.boot_id"),
        (up(started=pb.Started(attempt_id="x")), codec.decode_up, "started.attempt_id"),
        (up(started=pb.Started(attempt_id=ID)), codec.decode_up, "started.pid"),
        (up(decision=pb.Decision(attempt_id=ID)), codec.decode_up, "decision.verdict"),
        (
            up(decision=pb.Decision(attempt_id=ID, verdict=pb.Decision.VERDICT_ALLOW)),
            codec.decode_up,
            "decision.plan_hash",
        ),
        (up(output=pb.Output(attempt_id=ID)), codec.decode_up, "output.stream"),
        (
            up(output=pb.Output(attempt_id=ID, stream=pb.STREAM_STDOUT)),
            codec.decode_up,
            "output.data",
        ),
        (
            up(output=pb.Output(attempt_id=ID, stream=pb.STREAM_STDOUT, offset=2**63, data=b"x")),
            codec.decode_up,
            "output.offset",
        ),
        (
            up(omitted=pb.Omitted(attempt_id=ID, stream=pb.STREAM_STDERR)),
            codec.decode_up,
            "omitted.length",
        ),
        (up(result=pb.Result(attempt_id=ID)), codec.decode_up, "result.reason"),
        (
            up(
                result=pb.Result(
                    attempt_id=ID, result=pb.CommandResult(reason=pb.CommandResult.REASON_EXIT)
                )
            ),
            codec.decode_up,
            "result.result_hash",
        ),
        (down(welcome=pb.Welcome()), codec.decode_down, "welcome.stream_epoch"),
        (down(offer=pb.Offer()), codec.decode_down, "offer.spec"),
        (
            down(offer=pb.Offer(spec=b"x", input_digest=b"y" * 32)),
            codec.decode_down,
            "offer.input_digest",
        ),
        (down(cancel=pb.Cancel(attempt_id=ID)), codec.decode_down, "cancel.reason"),
        (
            down(output_ack=pb.OutputAck(attempt_id=ID)),
            codec.decode_down,
            "output_ack.stream",
        ),
        (down(gone=pb.Gone()), codec.decode_down, "gone.attempt_id"),
        (down(bye=pb.Bye()), codec.decode_down, "bye.code"),
        (down(input=pb.Input(attempt_id=ID, offset=1)), codec.decode_down, "input.data"),
        (down(resize=pb.Resize(attempt_id=ID, rows=24)), codec.decode_down, "resize"),
        (
            pb.CommandSpec(
                shell=pb.Shell(script=b"x"), pty=pb.Pty(rows=24, columns=70_000)
            ).SerializeToString(),
            codec.decode_spec,
            "command.pty",
        ),
        (b"\x08", codec.decode_up, "a message from the machine"),
        (b"\x08", codec.decode_down, "a message from the control plane"),
        (b"", codec.decode_spec, "command.run"),
        (pb.CommandSpec(argv=pb.Argv()).SerializeToString(), codec.decode_spec, "command.argv"),
        (b"", codec.decode_result, "result.reason"),
    ],
)
def test_the_missing_or_wrong_field_is_named(
    message: bytes, decode: Callable[[bytes], object], field: str
) -> None:
    with pytest.raises(ProtocolError, match=rf"^cannot read {field}: "):
        decode(message)


def test_an_enum_value_from_a_newer_peer_is_named() -> None:
    message = up(output=pb.Output(attempt_id=ID, stream=9, data=b"x"))  # type: ignore[arg-type] # on purpose
    with pytest.raises(ProtocolError, match=r"output\.stream: 9 is unknown"):
        codec.decode_up(message)


def test_text_from_the_wire_has_no_nul_and_no_lone_surrogate() -> None:
    started = Started(attempt_id=ID, pid=1, started_at_ms=0, boot_id="a\0b\udcffc")
    (received,) = codec.decode_up(codec.encode_up([started]))
    assert isinstance(received, Started)
    assert received.boot_id == "a\N{REPLACEMENT CHARACTER}b?c"


def test_a_huge_command_names_its_size_and_the_limit() -> None:
    spec = CommandSpec(run=Shell(script=b"x" * SPEC_MAX_BYTES))
    with pytest.raises(TooLarge, match=r"the command is 6,291,\d+ bytes, the limit is 6,291,456"):
        codec.encode_spec(spec)


def test_an_empty_argv_is_refused() -> None:
    with pytest.raises(InvalidInput, match="empty argv"):
        codec.encode_spec(CommandSpec(run=Argv(argv=())))


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (Limits(memory_bytes=1024), "memory to 1,024: give 4,194,304 to "),
        (Limits(processes=-1), "processes to -1: give 1 to "),
        (Limits(open_files=3), "open files to 3: give 32 to "),
    ],
)
def test_a_limit_that_no_system_could_hold_is_refused(limits: Limits, said: str) -> None:
    with pytest.raises(InvalidInput, match=f"cannot limit {said}"):
        codec.encode_spec(CommandSpec(run=Shell(script=b"x"), limits=limits))


@pytest.mark.parametrize(("rows", "columns"), [(0, 80), (24, 0), (24, 65_536)])
def test_a_terminal_without_a_size_is_refused(rows: int, columns: int) -> None:
    spec = CommandSpec(run=Shell(script=b"x"), pty=Pty(rows=rows, columns=columns))
    with pytest.raises(InvalidInput, match=f"{rows} rows and {columns} columns: each is 1 to"):
        codec.encode_spec(spec)
