"""The replica's end: what is accepted, stored and recorded, and how silence is noticed."""

from dataclasses import replace
from typing import Any

import pytest

from farhand_shared.command import RECEIPTED, AttemptState, CommandResult, ExitReason, StreamTotals
from farhand_shared.errors import ProtocolError
from farhand_shared.limits import FRAME_BYTES, WINDOW_BYTES
from farhand_shared.link_actions import (
    HelloAccepted,
    PeerSilent,
    RecordDecision,
    RecordResult,
    RecordStart,
    Rejected,
    ReplicaAction,
    ResultConflict,
    StoreOmission,
    StoreOutput,
    TellQuiet,
)
from farhand_shared.link_events import (
    Approval,
    Bye,
    Cancel,
    Decision,
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
from farhand_shared.link_replica import ReplicaLink
from farhand_shared.reconcile import AttemptView, reconcile
from tests.fakes.hellos import NOW_MS, a_hello

DIGEST = b"d" * 32
OUT, ERR = Stream.STDOUT, Stream.STDERR


def a_view(state: AttemptState = AttemptState.STARTED, **changes: Any) -> AttemptView:
    values: dict[str, Any] = {
        "attempt_id": "a",
        "state": state,
        "input_digest": DIGEST,
        "acknowledged": True,
        "started": True,
        "journal_id": "j",
    }
    return AttemptView(**values | changes)


def live(state: LiveState = LiveState.STARTED, attempt_id: str = "a") -> LiveAttempt:
    return LiveAttempt(attempt_id=attempt_id, input_digest=DIGEST, state=state)


def an_offer(spec: bytes = b"s") -> Offer:
    return Offer(
        attempt_id="a",
        command_id="c",
        stream_epoch=1,
        spec=spec,
        input_digest=DIGEST,
        start_within_ms=5000,
        tier=0,
        inferred=False,
        requester="r",
    )


def receive(link: ReplicaLink, *events: UpEvent, now: float = 0.0) -> list[ReplicaAction]:
    return link.receive(events, now=now, wall_ms=NOW_MS)


def open_link(*views: AttemptView, hello: Hello | None = None) -> ReplicaLink:
    link = ReplicaLink(now=0.0)
    hello = hello or a_hello(*(live(attempt_id=view.attempt_id) for view in views))
    assert receive(link, hello) == [HelloAccepted(hello=hello)]
    link.welcome(
        server_time_ms=NOW_MS,
        stream_epoch=4,
        machine_name="m",
        views=views,
        outcomes=reconcile(views, hello),
    )
    return link


def offered_link() -> ReplicaLink:
    link = open_link()
    link.offer(an_offer())
    link.next_frame()
    return link


def out(offset: int, data: bytes, stream: Stream = OUT) -> Output:
    return Output(attempt_id="a", stream=stream, offset=offset, data=data)


def store(offset: int, data: bytes) -> StoreOutput:
    return StoreOutput(attempt_id="a", stream=OUT, offset=offset, data=data)


def a_result(mark: bytes = b"h", *, stdout: int = 0) -> Result:
    result = CommandResult(
        reason=ExitReason.EXIT, exit_code=0, stdout=StreamTotals(produced=stdout)
    )
    return Result(attempt_id="a", result=result, result_hash=mark * 32)


# Opening


@pytest.mark.parametrize(("ahead_s", "says"), [(301, "301 s ahead of"), (-301, "301 s behind")])
def test_a_clock_that_is_far_off_is_told_so(ahead_s: int, says: str) -> None:
    link = ReplicaLink(now=0.0)
    (action,) = receive(link, a_hello(local_time_ms=NOW_MS + ahead_s * 1000))
    assert isinstance(action, Rejected)
    assert action.bye.code == "clock_skew"
    assert says in action.bye.message
    assert link.next_frame() == [action.bye]


def test_a_clock_that_is_five_minutes_off_is_fine() -> None:
    link = ReplicaLink(now=0.0)
    hello = a_hello(local_time_ms=NOW_MS - 300_000)
    assert receive(link, hello) == [HelloAccepted(hello=hello)]
    assert receive(link, hello) == []  # the same again
    with pytest.raises(ProtocolError, match="second hello"):
        receive(link, a_hello(daemon_instance_id="other"))


def test_a_daemon_that_is_too_old_is_told_to_update(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("farhand_shared.link_replica.MIN_CAPABILITY", 3)
    link = ReplicaLink(now=0.0)
    (action,) = receive(link, a_hello(capability=2))
    assert isinstance(action, Rejected)
    assert (action.bye.code, action.bye.retry) == ("too_old", False)
    assert "capability 2" in action.bye.message


def test_work_before_the_welcome_breaks_the_protocol() -> None:
    link = ReplicaLink(now=0.0)
    with pytest.raises(ProtocolError, match="output: it came before the welcome"):
        receive(link, out(0, b"x"))
    receive(link, a_hello())
    with pytest.raises(ProtocolError, match="result: it came before the welcome"):
        receive(link, a_result())


def test_the_welcome_carries_offsets_and_is_followed_by_cancels_and_gones() -> None:
    views = (
        a_view(stdout_stored=7),
        a_view(AttemptState.STOPPING, attempt_id="s", stderr_stored=2, stop_reason="revoked"),
    )
    hello = a_hello(live(), live(attempt_id="s"), live(attempt_id="z"))
    link = open_link(*views, hello=hello)
    assert link.welcomed
    welcome, *rest = link.next_frame()
    assert isinstance(welcome, Welcome)
    assert welcome.stream_epoch == 4
    assert welcome.stored == (
        StoredOutput(attempt_id="a", stream=OUT, offset=7),
        StoredOutput(attempt_id="s", stream=ERR, offset=2),
    )
    assert rest == [Cancel(attempt_id="s", reason="revoked"), Gone(attempt_id="z")]
    assert receive(link, out(7, b"x")) == [store(7, b"x")]


def test_there_is_one_welcome_after_one_hello() -> None:
    for link in (ReplicaLink(now=0.0), open_link()):
        with pytest.raises(ProtocolError, match="no unanswered hello"):
            link.welcome(server_time_ms=0, stream_epoch=1, machine_name="m", views=[], outcomes=[])


# Facts, output, results


def test_facts_are_recorded_once_however_often_they_come() -> None:
    link = offered_link()
    allow = Decision(attempt_id="a", verdict=Verdict.ALLOW, plan_hash=b"p" * 32, tier=0)
    ask = replace(allow, verdict=Verdict.ASK)
    started = Started(attempt_id="a", pid=1, started_at_ms=0, boot_id="b")
    assert receive(link, ask, ask, allow, allow, ask, started, started) == [
        RecordDecision(decision=ask),
        RecordDecision(decision=allow),
        RecordStart(started=started),
    ]
    resumed = open_link(a_view())
    assert receive(resumed, allow, started) == []


def test_output_is_stored_without_gap_or_repetition() -> None:
    link = offered_link()
    assert receive(link, out(0, b"abc"), out(0, b"abc"), out(1, b"bcde"), out(2, b"c")) == [
        store(0, b"abc"),
        store(3, b"de"),
    ]
    with pytest.raises(ProtocolError, match="bytes from 5 are missing"):
        receive(link, out(6, b"x"))


def test_an_omission_explains_a_gap_once() -> None:
    link = offered_link()
    gap = Omitted(attempt_id="a", stream=OUT, offset=2, length=8)
    assert receive(link, out(0, b"abc"), gap, gap, out(10, b"x")) == [
        store(0, b"abc"),
        StoreOmission(attempt_id="a", stream=OUT, offset=3, length=7),
        store(10, b"x"),
    ]


def test_more_than_the_window_breaks_the_protocol_but_a_gap_does_not_count() -> None:
    link = offered_link()
    receive(link, out(0, b"x" * WINDOW_BYTES))
    with pytest.raises(ProtocolError, match="are not acknowledged"):
        receive(link, out(WINDOW_BYTES, b"x"))
    link.stored("a", OUT, 1)
    receive(link, out(WINDOW_BYTES, b"x"))
    link = offered_link()
    gap = Omitted(attempt_id="a", stream=OUT, offset=0, length=3 * WINDOW_BYTES)
    assert len(receive(link, gap, out(3 * WINDOW_BYTES, b"x"))) == 2


def test_acknowledgements_are_one_per_stream_and_only_grow() -> None:
    link = offered_link()
    receive(link, out(0, b"abcdef"))
    link.stored("a", OUT, 2)
    link.stored("a", OUT, 5)
    link.stored("a", OUT, 3)
    link.stored("unknown", OUT, 3)
    assert link.has_frame
    assert link.next_frame() == [OutputAck(attempt_id="a", stream=OUT, offset=5)]
    link.stored("a", OUT, 99)
    assert link.next_frame() == [OutputAck(attempt_id="a", stream=OUT, offset=6)]
    assert not link.has_frame


def test_a_result_is_taken_once_and_acknowledged_when_recorded() -> None:
    link = offered_link()
    assert receive(link, a_result(), a_result()) == [RecordResult(result=a_result())]
    assert not link.has_frame
    ack = ResultAck(attempt_id="a", result_hash=b"h" * 32)
    link.recorded("a", b"h" * 32)
    assert link.next_frame() == [ack]
    assert receive(link, a_result()) == []  # again, after the commit
    assert link.next_frame() == [ack]
    assert receive(link, out(0, b"late")) == []
    link.cancel("a", "cancel")
    assert link.next_frame() == []


def test_a_recorded_attempt_can_be_cancelled_where_its_process_may_live_on() -> None:
    link = offered_link()
    receive(link, a_result())
    link.recorded("a", b"h" * 32)
    link.next_frame()
    link.cancel_recorded("a", b"h" * 32, "cancel")
    assert link.next_frame() == [Cancel(attempt_id="a", reason="cancel")]
    kept = replace(
        a_result(b"o"),
        result=CommandResult(reason=ExitReason.INDETERMINATE, error_code=RECEIPTED),
    )
    assert receive(link, kept) == []  # only the receipt is kept there: no other result
    assert link.next_frame() == [ResultAck(attempt_id="a", result_hash=b"h" * 32)]


def test_another_result_is_refused_and_reported() -> None:
    link = offered_link()
    conflict = ResultConflict(attempt_id="a", recorded_hash=b"h" * 32, refused_hash=b"o" * 32)
    assert receive(link, a_result(), a_result(b"o"))[1:] == [conflict]
    link.recorded("a", b"h" * 32)
    link.next_frame()
    assert receive(link, a_result(b"o")) == [conflict]
    assert link.next_frame() == [ResultAck(attempt_id="a", result_hash=b"h" * 32)]


def test_a_result_recorded_on_an_earlier_stream_is_acknowledged_at_once() -> None:
    view = a_view(AttemptState.EXITED, result_hash=b"h" * 32)
    link = open_link(view, hello=a_hello(live(LiveState.FINISHED)))
    link.next_frame()
    assert receive(link, a_result()) == []
    assert link.next_frame() == [ResultAck(attempt_id="a", result_hash=b"h" * 32)]


def test_a_result_before_its_last_byte_breaks_the_protocol() -> None:
    link = offered_link()
    with pytest.raises(ProtocolError, match="stdout has 3 bytes, only 2 arrived"):
        receive(link, out(0, b"ab"), a_result(stdout=3))


def test_what_is_not_known_is_gone_and_told_once() -> None:
    link = open_link()
    link.next_frame()
    assert receive(link, out(0, b"x"), out(1, b"x"), a_result()) == []
    assert link.next_frame() == [Gone(attempt_id="a")]


def test_the_answer_to_a_cancel_of_the_never_offered_is_welcome() -> None:
    link = open_link()
    link.cancel("a", "cancel")
    assert receive(link, a_result()) == [RecordResult(result=a_result())]


# Sending


def test_a_large_offer_has_a_frame_of_its_own_and_order_is_kept() -> None:
    link = open_link()
    large = an_offer(b"s" * FRAME_BYTES)
    link.offer(large)
    link.approve("a", b"p" * 32)
    link.drain(10)
    assert [type(event) for event in link.next_frame()] == [Welcome]
    assert link.next_frame() == [large]
    assert link.next_frame() == [
        Approval(attempt_id="a", plan_hash=b"p" * 32),
        Drain(within_ms=10),
    ]


def test_nothing_follows_a_bye_and_nothing_is_taken_after_it() -> None:
    link = offered_link()
    receive(link, out(0, b"x"))
    link.stored("a", OUT, 1)
    bye = Bye(code="revoked", message="", retry=False)
    link.bye(bye)
    link.cancel("a", "revoked")
    assert link.next_frame() == [OutputAck(attempt_id="a", stream=OUT, offset=1), bye]
    assert receive(link, out(1, b"y")) == []
    assert not link.has_frame


# Liveness


def test_a_ping_goes_out_every_15_s_and_is_due_in_10() -> None:
    link = open_link()
    link.next_frame()
    assert link.next_tick() == 15.0
    assert link.tick(14.9) == []
    assert not link.has_frame
    assert link.tick(15.0) == []
    assert link.next_frame() == [Ping(nonce=1)]
    assert link.next_tick() == 25.0
    receive(link, Pong(nonce=1), now=16.0)
    assert link.pong_nonce == 1
    assert link.next_tick() == 30.0
    link.tick(30.0)
    assert link.tick(39.9) == []
    assert link.tick(40.0) == [PeerSilent()]


def test_any_frame_is_a_sign_of_life_but_no_answer_to_a_probe() -> None:
    link = offered_link()
    nonce = link.probe(5.0)
    assert Ping(nonce=nonce) in link.next_frame()
    receive(link, out(0, b"x"), now=14.0)
    assert link.last_heard_at == 14.0
    assert link.tick(15.0) == []
    assert link.pong_nonce < nonce
    assert link.tick(24.0) == [PeerSilent()]


def test_a_stream_without_hello_is_silent_after_10_s() -> None:
    link = ReplicaLink(now=100.0)
    assert link.next_tick() == 110.0
    assert link.tick(109.0) == []
    assert link.tick(110.0) == [PeerSilent()]


def test_a_pong_without_ping_breaks_the_protocol() -> None:
    with pytest.raises(ProtocolError, match="answers no ping"):
        receive(open_link(), Pong(nonce=1))


def test_a_hint_is_passed_on_as_it_comes_and_never_after_the_result() -> None:
    quiet = Quiet(attempt_id="a", quiet_ms=1, reads_terminal=False, takes_input=True)
    link = offered_link()
    assert receive(link, quiet) == [TellQuiet(quiet=quiet)]
    receive(link, a_result())
    assert receive(link, quiet) == []
