"""Input on its way to a command: both ends of the link, each by itself."""

import pytest

from farhand_shared.command import AttemptState, CommandResult, ExitReason
from farhand_shared.errors import ProtocolError
from farhand_shared.limits import FLUSH_S, FRAME_BYTES, INPUT_WINDOW_BYTES, KIB
from farhand_shared.link_actions import InputTaken, ResizeTerminal, TakeInput
from farhand_shared.link_daemon import DaemonLink
from farhand_shared.link_events import (
    DownEvent,
    Hello,
    Input,
    InputAck,
    LiveAttempt,
    LiveState,
    Resize,
    Result,
    Started,
    Stream,
    UpEvent,
    Welcome,
)
from farhand_shared.link_replica import ReplicaLink
from farhand_shared.reconcile import AttemptView, reconcile
from tests.fakes.hellos import NOW_MS, a_hello

DIGEST = b"d" * 32
STARTED = Started(attempt_id="a", pid=1, started_at_ms=0, boot_id="b")
RESULT = Result(
    attempt_id="a",
    result=CommandResult(reason=ExitReason.EXIT, exit_code=0),
    result_hash=b"h" * 32,
)


def given(offset: int, data: bytes = b"", *, end: bool = False) -> Input:
    return Input(attempt_id="a", offset=offset, data=data, end=end)


# The daemon's end


def a_daemon(received: int | None = 0, taken: int = 0, *, closed: bool = False) -> DaemonLink:
    """Return a welcomed link with a running command, which has told all it has to tell."""
    link = DaemonLink()
    link.restore(
        "a",
        input_digest=DIGEST,
        state=LiveState.STARTED,
        started=STARTED,
        input_received=received,
        input_taken=taken,
        input_closed=closed,
    )
    link.on_connected(a_hello())
    up(link)
    link.receive(
        [
            Welcome(
                server_time_ms=0,
                stream_epoch=1,
                capability=3,
                min_capability=1,
                machine_name="m",
            )
        ],
        0.0,
    )
    up(link)
    return link


def up(link: DaemonLink) -> list[UpEvent]:
    def nothing(attempt_id: str, stream: Stream, offset: int, n: int) -> bytes:
        return b""

    return link.next_frame(0.0, FRAME_BYTES, nothing)


def take(link: DaemonLink, *events: DownEvent) -> list[Input]:
    actions = link.receive(events, 0.0)
    return [action.input for action in actions if isinstance(action, TakeInput)]


def test_input_reaches_the_command_once_whatever_overlaps() -> None:
    link = a_daemon()
    assert take(link, given(0, b"abc"), given(3, b"d")) == [given(0, b"abc"), given(3, b"d")]
    assert take(link, given(0, b"abc"), given(3, b"d")) == []
    assert take(link, given(2, b"cdef", end=True)) == [given(4, b"ef", end=True)]
    assert take(link, given(6, end=True)) == []


def test_input_with_a_gap_breaks_the_protocol() -> None:
    link = a_daemon()
    with pytest.raises(ProtocolError, match="input from byte 5: bytes from 0 are missing"):
        take(link, given(5, b"x"))


def test_input_past_its_end_breaks_the_protocol() -> None:
    link = a_daemon()
    take(link, given(0, b"x", end=True))
    with pytest.raises(ProtocolError, match="it goes on after its end"):
        take(link, given(1, b"y"))


def test_more_input_than_the_window_breaks_the_protocol() -> None:
    link = a_daemon()
    take(link, given(0, b"x" * INPUT_WINDOW_BYTES))
    with pytest.raises(ProtocolError, match="more than 1,048,576 bytes are not taken"):
        take(link, given(INPUT_WINDOW_BYTES, b"y"))
    link.input_taken("a", 1)
    assert take(link, given(INPUT_WINDOW_BYTES, b"y")) == [given(INPUT_WINDOW_BYTES, b"y")]


def test_what_was_taken_is_told_in_company_and_a_quarter_of_the_window_at_once() -> None:
    link = a_daemon()
    take(link, given(0, b"x" * INPUT_WINDOW_BYTES))
    link.input_taken("a", 10)
    assert link.next_due(5.0) == 5.0 + FLUSH_S
    link.input_taken("a", INPUT_WINDOW_BYTES // 4)
    assert link.next_due(5.0) == 5.0
    assert up(link) == [InputAck(attempt_id="a", offset=INPUT_WINDOW_BYTES // 4)]
    link.input_taken("a", 7)
    assert link.next_due(6.0) is None


def test_a_command_without_input_says_nothing_of_it() -> None:
    link = a_daemon()
    assert link.next_due(9.0) is None
    link.on_connected(a_hello())
    (hello,) = up(link)
    assert isinstance(hello, Hello)
    assert hello.live == (
        LiveAttempt(attempt_id="a", input_digest=DIGEST, state=LiveState.STARTED),
    )


def test_nothing_more_is_taken_once_it_is_closed() -> None:
    link = a_daemon()
    take(link, given(0, b"abc"))
    link.input_taken("a", 1, closed=True)
    assert up(link) == [InputAck(attempt_id="a", offset=1, closed=True)]
    assert take(link, given(3, b"more")) == []


def test_input_for_an_attempt_that_is_over_or_unknown_is_dropped() -> None:
    link = a_daemon()
    link.finished(RESULT)
    assert take(link, given(0, b"x"), given(9, b"gap")) == []
    link.input_taken("a", 1)
    assert [event for event in up(link) if isinstance(event, InputAck)] == []
    link.forget("a")
    assert take(link, given(0, b"x")) == []
    assert link.receive([Resize(attempt_id="a", rows=1, columns=1)], 0.0) == []


def test_after_a_restart_input_goes_on_at_what_the_supervisor_has() -> None:
    link = a_daemon(received=8, taken=3)
    link.on_connected(a_hello())
    (hello,) = up(link)
    assert isinstance(hello, Hello)
    (live,) = hello.live
    assert (live.input_received, live.input_taken) == (8, 3)
    link = a_daemon(received=8, taken=3)
    assert take(link, given(3, b"4567890")) == [given(8, b"90")]


def test_while_the_supervisor_is_silent_the_replicas_offset_counts() -> None:
    link = a_daemon(received=None)
    assert take(link, given(700, b"x")) == [given(700, b"x")]
    with pytest.raises(ProtocolError, match="missing"):
        take(link, given(702, b"y"))


def test_what_was_taken_is_told_again_on_the_next_stream() -> None:
    link = DaemonLink()
    link.restore(
        "a",
        input_digest=DIGEST,
        state=LiveState.STARTED,
        input_received=8,
        input_taken=3,
        input_closed=True,
    )
    link.on_connected(a_hello())
    up(link)
    welcome = Welcome(
        server_time_ms=0, stream_epoch=1, capability=3, min_capability=1, machine_name="m"
    )
    link.receive([welcome], 0.0)
    assert up(link) == [InputAck(attempt_id="a", offset=3, closed=True)]


def test_a_new_size_reaches_the_terminal() -> None:
    link = a_daemon()
    resize = Resize(attempt_id="a", rows=50, columns=132)
    assert link.receive([resize], 0.0) == [ResizeTerminal(resize=resize)]


# The replica's end


def a_replica(*, started: bool = True, received: int = 0, taken: int = 0) -> ReplicaLink:
    state = LiveState.STARTED if started else LiveState.JOURNALLED
    hello = a_hello(
        LiveAttempt(
            attempt_id="a",
            input_digest=DIGEST,
            state=state,
            input_received=received,
            input_taken=taken,
        )
    )
    view = AttemptView(
        attempt_id="a",
        state=AttemptState.STARTED,
        input_digest=DIGEST,
        acknowledged=True,
        journal_id="j",
    )
    link = ReplicaLink(now=0.0)
    link.receive([hello], now=0.0, wall_ms=NOW_MS)
    link.welcome(
        server_time_ms=NOW_MS,
        stream_epoch=4,
        machine_name="m",
        views=[view],
        outcomes=reconcile([view], hello),
    )
    link.next_frame()
    return link


def typed(attempt_id: str, offset: int, n: int) -> bytes:
    return bytes((offset + i) % 251 for i in range(n))


def down(link: ReplicaLink) -> list[DownEvent]:
    events = []
    while link.has_frame:
        events += link.next_frame(typed)
    return events


def acked(link: ReplicaLink, offset: int, *, closed: bool = False) -> list[object]:
    ack = InputAck(attempt_id="a", offset=offset, closed=closed)
    return list(link.receive([ack], now=0.0, wall_ms=NOW_MS))


def test_input_goes_out_as_far_as_the_window_reaches() -> None:
    link = a_replica()
    link.input("a", 3 * INPUT_WINDOW_BYTES)
    events = down(link)
    assert all(isinstance(event, Input) and len(event.data) <= FRAME_BYTES for event in events)
    sent = b"".join(event.data for event in events if isinstance(event, Input))
    assert sent == typed("a", 0, INPUT_WINDOW_BYTES)
    assert acked(link, 5) == [InputTaken(attempt_id="a", offset=5, closed=False)]
    assert down(link) == [given(INPUT_WINDOW_BYTES, typed("a", INPUT_WINDOW_BYTES, 5))]


def test_input_waits_for_the_start() -> None:
    link = a_replica(started=False)
    link.input("a", 3, ended=True)
    link.resize("a", 10, 20)
    assert down(link) == []
    link.receive([STARTED], now=0.0, wall_ms=NOW_MS)
    resize = Resize(attempt_id="a", rows=10, columns=20)
    assert down(link) == [resize, given(0, typed("a", 0, 3), end=True)]


def test_the_end_goes_out_once_and_alone_if_it_comes_late() -> None:
    link = a_replica()
    link.input("a", 2)
    assert down(link) == [given(0, typed("a", 0, 2))]
    link.input("a", 2, ended=True)
    assert down(link) == [given(2, end=True)]
    link.input("a", 2, ended=True)
    assert down(link) == []


def test_on_a_new_stream_input_goes_on_where_the_machine_says() -> None:
    link = a_replica(received=8, taken=3)
    link.input("a", 10, ended=True)
    assert down(link) == [given(8, typed("a", 8, 2), end=True)]
    assert acked(link, 3) == [InputTaken(attempt_id="a", offset=3, closed=False)]
    assert acked(link, 3) == []


def test_a_command_that_reads_no_more_is_sent_no_more() -> None:
    link = a_replica()
    link.input("a", 5)
    down(link)
    assert acked(link, 2, closed=True) == [InputTaken(attempt_id="a", offset=2, closed=True)]
    link.input("a", 50, ended=True)
    assert down(link) == []


def test_only_the_newest_size_goes_out() -> None:
    link = a_replica()
    link.resize("a", 10, 20)
    link.resize("a", 30, 40)
    assert down(link) == [Resize(attempt_id="a", rows=30, columns=40)]
    assert down(link) == []


def test_nothing_goes_to_a_command_that_ended() -> None:
    link = a_replica()
    link.receive([RESULT], now=0.0, wall_ms=NOW_MS)
    link.input("a", 5, ended=True)
    link.resize("a", 1, 1)
    assert down(link) == []
    link.recorded("a", RESULT.result_hash)
    link.input("a", 9)
    assert link.input_of("a") is None
    assert len(down(link)) == 1


def test_input_that_is_not_there_after_all_stalls_nothing() -> None:
    link = a_replica()
    link.input("a", 5)
    assert link.next_frame(lambda attempt_id, offset, n: b"") == []
    assert not link.has_frame


def test_several_commands_take_turns() -> None:
    hello = a_hello(
        *(
            LiveAttempt(attempt_id=name, input_digest=DIGEST, state=LiveState.STARTED)
            for name in "ab"
        )
    )
    views = [
        AttemptView(
            attempt_id=name,
            state=AttemptState.STARTED,
            input_digest=DIGEST,
            acknowledged=True,
            journal_id="j",
        )
        for name in "ab"
    ]
    link = ReplicaLink(now=0.0)
    link.receive([hello], now=0.0, wall_ms=NOW_MS)
    link.welcome(
        server_time_ms=NOW_MS,
        stream_epoch=4,
        machine_name="m",
        views=views,
        outcomes=reconcile(views, hello),
    )
    link.next_frame()
    for name in "ab":
        link.input(name, 600 * KIB)
    turns = [event.attempt_id for event in down(link) if isinstance(event, Input)]
    assert turns[:4] == ["a", "b", "a", "b"]
