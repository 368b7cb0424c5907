"""The daemon's end: what goes out, when, in which order, and what events ask for."""

import pytest

from farhand_shared.command import CommandResult, ExitReason, StreamTotals
from farhand_shared.errors import ProtocolError
from farhand_shared.limits import FLUSH_S, FRAME_BYTES, MIB, WINDOW_BYTES
from farhand_shared.link_actions import (
    Acknowledged,
    ApprovePlan,
    CancelAttempt,
    Closed,
    DigestConflict,
    DrainRequested,
    ForgetAttempt,
    ResultAcknowledged,
    StartOffered,
    Welcomed,
)
from farhand_shared.link_daemon import DaemonLink
from farhand_shared.link_events import (
    Approval,
    Bye,
    Cancel,
    Decision,
    DownEvent,
    Drain,
    Gone,
    Hello,
    LiveAttempt,
    LiveState,
    Offer,
    Omitted,
    Output,
    OutputAck,
    Ping,
    Pong,
    Quiet,
    Result,
    ResultAck,
    Started,
    StoredOutput,
    Stream,
    UpEvent,
    Verdict,
    Welcome,
)
from tests.fakes.hellos import a_hello

DIGEST = b"d" * 32
OUT, ERR = Stream.STDOUT, Stream.STDERR
BYE = Bye(code="paused", message="", retry=True)


def a_welcome(*stored: StoredOutput, epoch: int = 1) -> Welcome:
    return Welcome(
        server_time_ms=0,
        stream_epoch=epoch,
        capability=1,
        min_capability=1,
        machine_name="m",
        stored=stored,
    )


def an_offer(attempt_id: str = "a", digest: bytes = DIGEST) -> Offer:
    return Offer(
        attempt_id=attempt_id,
        command_id="c",
        stream_epoch=1,
        spec=b"s",
        input_digest=digest,
        start_within_ms=5000,
        tier=0,
        inferred=False,
        requester="r",
    )


def a_decision(verdict: Verdict = Verdict.ALLOW, attempt_id: str = "a") -> Decision:
    return Decision(attempt_id=attempt_id, verdict=verdict, plan_hash=b"p" * 32, tier=0)


def a_start(attempt_id: str = "a") -> Started:
    return Started(attempt_id=attempt_id, pid=1, started_at_ms=0, boot_id="b")


def a_result(attempt_id: str = "a", *, stdout: int = 0, stderr: int = 0) -> Result:
    result = CommandResult(
        reason=ExitReason.EXIT,
        exit_code=0,
        stdout=StreamTotals(produced=stdout),
        stderr=StreamTotals(produced=stderr),
    )
    return Result(attempt_id=attempt_id, result=result, result_hash=b"h" * 32)


def stored(offset: int, stream: Stream = OUT) -> StoredOutput:
    return StoredOutput(attempt_id="a", stream=stream, offset=offset)


def spool(attempt_id: str, stream: Stream, offset: int, n: int) -> bytes:
    return b"x" * n


def frame(link: DaemonLink, now: float = 0.0, room: int = FRAME_BYTES) -> list[UpEvent]:
    return link.next_frame(now, room, spool)


def open_link(*events: DownEvent, link: DaemonLink | None = None) -> DaemonLink:
    """Return a link that has sent its Hello and received a Welcome and then ``events``."""
    link = link or DaemonLink()
    link.on_connected(a_hello())
    frame(link)
    if not any(isinstance(event, Welcome) for event in events):
        events = (a_welcome(), *events)
    link.receive(events, 0.0)
    return link


def running_link(produced: int = 0) -> DaemonLink:
    link = open_link(an_offer())
    link.decision(a_decision())
    link.started(a_start())
    if produced:
        link.produced("a", OUT, produced)
    return link


# Opening


def test_hello_is_the_first_and_only_frame_before_the_welcome() -> None:
    link = DaemonLink()
    assert link.next_due(0.0) is None
    assert frame(link) == []
    link.restore("a", input_digest=DIGEST, state=LiveState.STARTED, stdout_produced=3)
    link.on_connected(a_hello())
    assert link.next_due(5.0) == 5.0
    (hello,) = frame(link)
    assert isinstance(hello, Hello)
    assert hello.live == (
        LiveAttempt(
            attempt_id="a", input_digest=DIGEST, state=LiveState.STARTED, stdout_produced=3
        ),
    )
    assert frame(link) == []
    assert link.next_due(5.0) is None
    assert not link.may_start


def test_nothing_may_start_before_the_welcome_of_this_stream() -> None:
    link = open_link()
    assert link.may_start
    link.on_disconnected()
    assert not link.may_start
    assert not link.connected
    link.on_connected(a_hello())
    assert not link.may_start


@pytest.mark.parametrize(
    "event",
    [
        an_offer(),
        Cancel(attempt_id="a", reason="cancel"),
        Gone(attempt_id="a"),
        OutputAck(attempt_id="a", stream=OUT, offset=0),
        Approval(attempt_id="a", plan_hash=b"p" * 32),
    ],
)
def test_work_before_the_welcome_breaks_the_protocol(event: DownEvent) -> None:
    link = DaemonLink()
    link.on_connected(a_hello())
    frame(link)
    with pytest.raises(ProtocolError, match="before the welcome"):
        link.receive([event], 0.0)


def test_a_welcome_without_hello_or_of_another_epoch_breaks_the_protocol() -> None:
    link = DaemonLink()
    link.on_connected(a_hello())
    with pytest.raises(ProtocolError, match="no hello was sent"):
        link.receive([a_welcome()], 0.0)
    link = open_link()
    assert link.receive([a_welcome()], 0.0) == []
    with pytest.raises(ProtocolError, match="second welcome"):
        link.receive([a_welcome(epoch=2)], 0.0)


def test_cancels_that_come_with_the_welcome_are_acted_on_before_the_queue_moves() -> None:
    link = DaemonLink()
    link.restore("a", input_digest=DIGEST, state=LiveState.JOURNALLED)
    link.on_connected(a_hello())
    frame(link)
    welcome = a_welcome()
    cancel, gone = Cancel(attempt_id="a", reason="cancel"), Gone(attempt_id="z")
    actions = link.receive([welcome, cancel, gone, an_offer("b")], 0.0)
    assert actions == [
        CancelAttempt(attempt_id="a", reason="cancel", known=True),
        ForgetAttempt(attempt_id="z"),
        Welcomed(welcome=welcome),
        StartOffered(offer=an_offer("b"), start_by=5.0),
    ]


# Offers, cancels, ends


def test_an_offer_is_handed_out_once_with_its_deadline() -> None:
    link = open_link()
    assert link.receive([an_offer()], 100.0) == [StartOffered(offer=an_offer(), start_by=105.0)]
    assert link.receive([an_offer()], 100.0) == []
    assert link.live() == ()  # the journal has not answered
    link.decision(a_decision(Verdict.ASK))
    assert [live.state for live in link.live()] == [LiveState.AWAITING_OWNER]
    link.decision(a_decision())
    assert [live.state for live in link.live()] == [LiveState.JOURNALLED]


def test_a_repeated_offer_makes_the_attempt_answer_again() -> None:
    link = running_link()
    assert frame(link) == [a_decision(), a_start()]
    assert link.receive([an_offer()], 0.0) == []
    assert frame(link) == [a_decision(), a_start()]


def test_another_input_under_a_known_id_is_denied_and_the_attempt_goes_on() -> None:
    link = running_link()
    frame(link)
    actions = link.receive([an_offer(digest=b"e" * 32)], 0.0)
    assert actions == [DigestConflict(attempt_id="a")]
    (denied,) = frame(link)
    assert isinstance(denied, Decision)
    assert (denied.verdict, denied.reason_code) == (Verdict.DENY, "digest_conflict")
    assert [live.state for live in link.live()] == [LiveState.STARTED]


def test_a_cancel_of_the_unknown_asks_for_a_tombstone_that_answers() -> None:
    link = open_link()
    cancel = Cancel(attempt_id="a", reason="superseded")
    assert link.receive([cancel], 0.0) == [
        CancelAttempt(attempt_id="a", reason="superseded", known=False)
    ]
    link.finished(a_result())
    assert link.live()[0].input_digest == b""
    assert link.receive([an_offer()], 0.0) == []  # never started
    assert frame(link) == [a_result()]
    assert link.receive([cancel], 0.0) == []  # its result is on its way


def test_a_cancel_is_passed_on_while_nobody_knows_how_it_ended() -> None:
    link = running_link()
    lost = CommandResult(reason=ExitReason.INDETERMINATE)
    link.finished(Result(attempt_id="a", result=lost, result_hash=b"h" * 32))
    assert link.receive([Cancel(attempt_id="a", reason="cancel")], 0.0) == [
        CancelAttempt(attempt_id="a", reason="cancel", known=True)
    ]


def test_a_result_is_sent_once_per_stream_until_acknowledged() -> None:
    link = running_link()
    link.finished(a_result())
    assert frame(link)[-1] == a_result()
    assert frame(link) == []
    open_link(link=link)
    assert frame(link) == [a_decision(), a_start(), a_result()]
    ack = ResultAck(attempt_id="a", result_hash=b"h" * 32)
    assert link.receive([ack], 0.0) == [
        ResultAcknowledged(attempt_id="a", result_hash=b"h" * 32, same=True)
    ]
    assert link.receive([ack], 0.0) == []
    assert link.live() == ()


def test_the_first_result_stands_and_a_refused_one_is_reported() -> None:
    link = running_link()
    link.finished(a_result())
    link.finished(a_result(stdout=5))
    assert frame(link)[-1] == a_result()
    (action,) = link.receive([ResultAck(attempt_id="a", result_hash=b"o" * 32)], 0.0)
    assert isinstance(action, ResultAcknowledged)
    assert not action.same


def test_what_is_gone_is_forgotten_and_reports_about_it_are_ignored() -> None:
    link = running_link()
    assert link.receive([Gone(attempt_id="a")], 0.0) == [ForgetAttempt(attempt_id="a")]
    link.produced("a", OUT, 5)
    link.omitted("a", OUT, 0, 5)
    link.decision(a_decision())
    link.started(a_start())
    late = OutputAck(attempt_id="a", stream=OUT, offset=9)
    assert link.receive([late], 0.0) == []
    assert frame(link) == []


def test_other_events_ask_for_what_they_say() -> None:
    link = open_link()
    approval = Approval(attempt_id="a", plan_hash=b"p" * 32)
    assert link.receive([approval, Drain(within_ms=1500), BYE], 0.0) == [
        ApprovePlan(attempt_id="a", plan_hash=b"p" * 32),
        DrainRequested(within_s=1.5),
        Closed(bye=BYE),
    ]
    assert not link.connected
    assert link.next_due(0.0) is None
    assert frame(link) == []


# Output


def test_the_story_of_a_short_command_is_one_frame() -> None:
    link = running_link(produced=3)
    link.produced("a", ERR, 2)
    link.finished(a_result(stdout=3, stderr=2))
    assert frame(link) == [
        a_decision(),
        a_start(),
        Output(attempt_id="a", stream=OUT, offset=0, data=b"xxx"),
        Output(attempt_id="a", stream=ERR, offset=0, data=b"xx"),
        a_result(stdout=3, stderr=2),
    ]


def test_the_window_holds_output_back_and_the_result_behind_it() -> None:
    total = WINDOW_BYTES + 5
    link = running_link(produced=total)
    link.finished(a_result(stdout=total))
    sent = 0
    while events := frame(link):
        sent += sum(len(event.data) for event in events if isinstance(event, Output))
        assert not any(isinstance(event, Result) for event in events)
    assert sent == WINDOW_BYTES
    assert link.next_due(0.0) is None
    ack = OutputAck(attempt_id="a", stream=OUT, offset=5)
    assert link.receive([ack], 0.0) == [Acknowledged(attempt_id="a", stream=OUT, offset=5)]
    assert link.receive([ack], 0.0) == []
    assert link.next_due(0.0) == 0.0
    assert frame(link) == [
        Output(attempt_id="a", stream=OUT, offset=WINDOW_BYTES, data=b"xxxxx"),
        a_result(stdout=total),
    ]


def test_an_acknowledgement_of_what_was_not_sent_breaks_the_protocol() -> None:
    link = running_link(produced=3)
    with pytest.raises(ProtocolError, match="only 0 were sent"):
        link.receive([OutputAck(attempt_id="a", stream=OUT, offset=1)], 0.0)


def test_a_dropped_range_is_told_and_skipped() -> None:
    link = DaemonLink()
    link.restore("a", input_digest=DIGEST, state=LiveState.STARTED, stdout_produced=10)
    link.omitted("a", OUT, 4, 2)
    link.omitted("a", OUT, 6, 1)
    open_link(link=link)
    assert frame(link) == [
        Output(attempt_id="a", stream=OUT, offset=0, data=b"xxxx"),
        Omitted(attempt_id="a", stream=OUT, offset=4, length=3),
        Output(attempt_id="a", stream=OUT, offset=7, data=b"xxx"),
    ]


def test_sending_goes_on_where_the_server_is_even_inside_a_dropped_range() -> None:
    link = DaemonLink()
    link.restore("a", input_digest=DIGEST, state=LiveState.STARTED, stdout_produced=10)
    link.omitted("a", OUT, 4, 4)
    link.on_connected(a_hello())
    frame(link)
    actions = link.receive([a_welcome(stored(5))], 0.0)
    assert actions[0] == Acknowledged(attempt_id="a", stream=OUT, offset=5)
    assert frame(link) == [
        Omitted(attempt_id="a", stream=OUT, offset=5, length=3),
        Output(attempt_id="a", stream=OUT, offset=8, data=b"xx"),
    ]


def test_a_server_that_knows_less_than_it_acknowledged_is_told_what_is_gone() -> None:
    link = DaemonLink()
    link.restore(
        "a", input_digest=DIGEST, state=LiveState.STARTED, stdout_produced=10, stdout_acked=6
    )
    open_link(a_welcome(stored(2)), link=link)
    assert frame(link) == [
        Omitted(attempt_id="a", stream=OUT, offset=2, length=4),
        Output(attempt_id="a", stream=OUT, offset=6, data=b"xxxx"),
    ]


def test_a_server_that_has_more_than_the_spool_gets_the_result_at_once() -> None:
    link = DaemonLink()
    link.restore(
        "a",
        input_digest=DIGEST,
        state=LiveState.FINISHED,
        stdout_produced=3,
        result=a_result(stdout=3),
    )
    open_link(a_welcome(stored(9)), link=link)
    assert frame(link) == [a_result(stdout=3)]


def test_bytes_that_the_spool_lost_are_declared_instead_of_stalling() -> None:
    link = running_link(produced=8)
    link.finished(a_result(stdout=8))
    lost = link.next_frame(0.0, FRAME_BYTES, lambda _a, _s, offset, n: b"x" * min(n, 5 - offset))
    assert lost[2:] == [
        Output(attempt_id="a", stream=OUT, offset=0, data=b"xxxxx"),
        Omitted(attempt_id="a", stream=OUT, offset=5, length=3),
        a_result(stdout=8),
    ]


def test_a_frame_stays_near_its_size_and_every_writer_gets_a_part() -> None:
    names = [f"a{i}" for i in range(4)]
    link = open_link(*(an_offer(name) for name in names))
    for name in names:
        link.decision(a_decision(attempt_id=name))
        link.produced(name, OUT, MIB)
    events = frame(link)
    sizes = {name: 0 for name in names}
    for event in events:
        if isinstance(event, Output):
            sizes[event.attempt_id] += len(event.data)
    assert sum(sizes.values()) <= FRAME_BYTES
    assert sum(sizes.values()) > FRAME_BYTES * 0.95
    assert min(sizes.values()) > FRAME_BYTES / 5


# Timing


def test_facts_wait_for_company_and_no_longer_than_a_flush() -> None:
    link = running_link()
    assert link.next_due(10.0) == 10.0 + FLUSH_S
    assert link.next_due(10.015) == 10.0 + FLUSH_S
    assert frame(link, 10.02) == [a_decision(), a_start()]
    assert link.next_due(10.03) is None


def test_a_verdict_that_somebody_waits_for_goes_at_once() -> None:
    for verdict in (Verdict.ASK, Verdict.DENY):
        link = open_link(an_offer())
        link.decision(a_decision(verdict))
        assert link.next_due(10.0) == 10.0


def test_the_first_bytes_after_quiet_go_at_once_and_the_next_after_a_flush() -> None:
    link = running_link(produced=1)
    assert link.next_due(10.0) == 10.0
    frame(link, 10.0)
    link.produced("a", OUT, 2)
    assert link.next_due(10.005) == 10.0 + FLUSH_S
    assert link.next_due(11.0) == 11.0
    link.produced("a", OUT, 2 + FRAME_BYTES)
    assert link.next_due(10.005) == 10.005


def test_a_result_and_a_pong_go_at_once() -> None:
    link = running_link(produced=1)
    frame(link, 10.0)
    link.produced("a", OUT, 2)
    link.finished(a_result(stdout=2))
    assert link.next_due(10.001) == 10.001
    frame(link, 10.001)
    link.receive([Ping(nonce=7)], 10.002)
    assert link.next_due(10.002) == 10.002
    assert frame(link, 10.002) == [Pong(nonce=7)]


def test_pings_are_answered_before_the_welcome_too() -> None:
    link = DaemonLink()
    link.on_connected(a_hello())
    frame(link)
    link.receive([Ping(nonce=1)], 0.0)
    assert frame(link) == [Pong(nonce=1)]


# Hints

QUIET = Quiet(attempt_id="a", quiet_ms=15_000, reads_terminal=True, takes_input=False)


def test_a_hint_follows_all_that_was_written_and_is_told_once() -> None:
    link = running_link(produced=3)
    link.quiet(QUIET)
    sent = frame(link)
    assert [type(event) for event in sent][-2:] == [Output, Quiet]
    assert sent[-1] == QUIET
    assert frame(link, now=1.0) == []


def test_a_hint_is_over_when_the_command_writes_ends_or_is_forgotten() -> None:
    for over in (
        lambda link: link.produced("a", OUT, 4),
        lambda link: link.finished(a_result(stdout=3)),
        lambda link: link.forget("a"),
    ):
        link = running_link(produced=3)
        link.quiet(QUIET)
        over(link)
        assert QUIET not in frame(link)


def test_a_hint_is_not_kept_for_another_stream() -> None:
    link = running_link()
    link.on_disconnected()
    link.quiet(QUIET)
    open_link(link=link)
    assert QUIET not in frame(link)
