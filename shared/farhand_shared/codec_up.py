"""Events from the daemon, each to its message and back."""

from collections.abc import Callable
from typing import Any, Final

from farhand_proto.v1 import link_pb2 as pb
from farhand_shared.codec_command import put_result, result_of
from farhand_shared.codec_facts import facts_message, facts_of
from farhand_shared.codec_fields import (
    STREAM,
    STREAM_TO_PB,
    hash_of,
    id_of,
    member,
    offset_of,
    required,
    text,
)
from farhand_shared.link_events import (
    Decision,
    Hello,
    InputAck,
    LiveAttempt,
    LiveState,
    Omitted,
    Output,
    Pong,
    Quiet,
    Result,
    Started,
    UpEvent,
    Verdict,
)

_VERDICT_TO_PB: Final = {
    Verdict.ALLOW: pb.Decision.VERDICT_ALLOW,
    Verdict.ASK: pb.Decision.VERDICT_ASK,
    Verdict.DENY: pb.Decision.VERDICT_DENY,
}
_VERDICT: Final = {int(v): k for k, v in _VERDICT_TO_PB.items()}
_LIVE_TO_PB: Final = {
    LiveState.JOURNALLED: pb.LiveAttempt.STATE_JOURNALLED,
    LiveState.AWAITING_OWNER: pb.LiveAttempt.STATE_AWAITING_OWNER,
    LiveState.STARTED: pb.LiveAttempt.STATE_STARTED,
    LiveState.FINISHED: pb.LiveAttempt.STATE_FINISHED,
}
_LIVE: Final = {int(v): k for k, v in _LIVE_TO_PB.items()}


def _put_hello(out: pb.UpEvent, event: Hello) -> None:
    out.hello.CopyFrom(
        pb.Hello(
            daemon_instance_id=event.daemon_instance_id,
            boot_id=text(event.boot_id),
            journal_id=event.journal_id,
            journal_counter=event.journal_counter,
            local_time_ms=event.local_time_ms,
            capability=event.capability,
            daemon_version=event.daemon_version,
            trust_level=event.trust_level,
            chosen_by=event.chosen_by,
            allow_inferred=event.allow_inferred,
            concurrency=event.concurrency,
            facts=facts_message(event.facts),
            live=[
                pb.LiveAttempt(
                    attempt_id=live.attempt_id,
                    input_digest=live.input_digest,
                    state=_LIVE_TO_PB[live.state],
                    stdout_produced=live.stdout_produced,
                    stderr_produced=live.stderr_produced,
                    input_received=live.input_received,
                    input_taken=live.input_taken,
                    input_closed=live.input_closed,
                )
                for live in event.live
            ],
        )
    )


def _hello(message: pb.Hello) -> Hello:
    return Hello(
        daemon_instance_id=id_of(message.daemon_instance_id, "hello.daemon_instance_id"),
        boot_id=text(required(message.boot_id, "hello.boot_id")),
        journal_id=text(required(message.journal_id, "hello.journal_id")),
        journal_counter=offset_of(message.journal_counter, "hello.journal_counter"),
        local_time_ms=message.local_time_ms,
        capability=required(message.capability, "hello.capability"),
        daemon_version=text(message.daemon_version),
        trust_level=text(required(message.trust_level, "hello.trust_level")),
        chosen_by=text(required(message.chosen_by, "hello.chosen_by")),
        allow_inferred=message.allow_inferred,
        concurrency=message.concurrency,
        facts=facts_of(message.facts),
        live=tuple(
            LiveAttempt(
                attempt_id=id_of(live.attempt_id, "hello.live.attempt_id"),
                input_digest=_digest_or_none(live.input_digest),
                state=member(_LIVE, live.state, "hello.live.state"),
                stdout_produced=offset_of(live.stdout_produced, "hello.live.stdout_produced"),
                stderr_produced=offset_of(live.stderr_produced, "hello.live.stderr_produced"),
                input_received=offset_of(live.input_received, "hello.live.input_received"),
                input_taken=offset_of(live.input_taken, "hello.live.input_taken"),
                input_closed=live.input_closed,
            )
            for live in message.live
        ),
    )


def _digest_or_none(digest: bytes) -> bytes:
    # A tombstone answers a cancel of something that never arrived: nobody knows its digest.
    return hash_of(digest, "hello.live.input_digest") if digest else b""


def _put_pong(out: pb.UpEvent, event: Pong) -> None:
    out.pong.nonce = event.nonce
    out.pong.SetInParent()  # an all-default message would otherwise be absent


def _pong(message: pb.Pong) -> Pong:
    return Pong(nonce=message.nonce)


def _put_decision(out: pb.UpEvent, event: Decision) -> None:
    into = out.decision
    into.attempt_id = event.attempt_id
    into.verdict = _VERDICT_TO_PB[event.verdict]
    into.plan_hash = event.plan_hash
    into.tier = event.tier
    if event.reason_code or event.message:
        into.reason_code = text(event.reason_code)
        into.message = text(event.message)


def _decision(message: pb.Decision) -> Decision:
    verdict = member(_VERDICT, message.verdict, "decision.verdict")
    plan_hash = message.plan_hash
    if plan_hash or verdict is not Verdict.DENY:  # a refusal may come before there is a plan
        hash_of(plan_hash, "decision.plan_hash")
    return Decision(
        attempt_id=id_of(message.attempt_id, "decision.attempt_id"),
        verdict=verdict,
        plan_hash=plan_hash,
        tier=message.tier,
        reason_code=text(message.reason_code),
        message=text(message.message),
    )


def _put_started(out: pb.UpEvent, event: Started) -> None:
    into = out.started
    into.attempt_id = event.attempt_id
    into.pid = event.pid
    into.started_at_ms = event.started_at_ms
    into.boot_id = text(event.boot_id)


def _started(message: pb.Started) -> Started:
    return Started(
        attempt_id=id_of(message.attempt_id, "started.attempt_id"),
        pid=required(message.pid, "started.pid"),
        started_at_ms=message.started_at_ms,
        boot_id=text(message.boot_id),
    )


def _put_output(out: pb.UpEvent, event: Output) -> None:
    into = out.output
    into.attempt_id = event.attempt_id
    into.stream = STREAM_TO_PB[event.stream]
    into.offset = event.offset
    into.data = event.data


def _output(message: pb.Output) -> Output:
    return Output(
        attempt_id=id_of(message.attempt_id, "output.attempt_id"),
        stream=member(STREAM, message.stream, "output.stream"),
        offset=offset_of(message.offset, "output.offset"),
        data=required(message.data, "output.data"),
    )


def _put_omitted(out: pb.UpEvent, event: Omitted) -> None:
    into = out.omitted
    into.attempt_id = event.attempt_id
    into.stream = STREAM_TO_PB[event.stream]
    into.offset = event.offset
    into.length = event.length


def _omitted(message: pb.Omitted) -> Omitted:
    return Omitted(
        attempt_id=id_of(message.attempt_id, "omitted.attempt_id"),
        stream=member(STREAM, message.stream, "omitted.stream"),
        offset=offset_of(message.offset, "omitted.offset"),
        length=offset_of(required(message.length, "omitted.length"), "omitted.length"),
    )


def _put_input_ack(out: pb.UpEvent, event: InputAck) -> None:
    into = out.input_ack
    into.attempt_id = event.attempt_id
    into.offset = event.offset
    into.closed = event.closed


def _input_ack(message: pb.InputAck) -> InputAck:
    return InputAck(
        attempt_id=id_of(message.attempt_id, "input_ack.attempt_id"),
        offset=offset_of(message.offset, "input_ack.offset"),
        closed=message.closed,
    )


def _put_quiet(out: pb.UpEvent, event: Quiet) -> None:
    into = out.quiet
    into.attempt_id = event.attempt_id
    into.quiet_ms = event.quiet_ms
    into.reads_terminal = event.reads_terminal
    into.takes_input = event.takes_input


def _quiet(message: pb.Quiet) -> Quiet:
    return Quiet(
        attempt_id=id_of(message.attempt_id, "quiet.attempt_id"),
        quiet_ms=offset_of(message.quiet_ms, "quiet.quiet_ms"),
        reads_terminal=message.reads_terminal,
        takes_input=message.takes_input,
    )


def _put_result(out: pb.UpEvent, event: Result) -> None:
    into = out.result
    into.attempt_id = event.attempt_id
    put_result(into.result, event.result)
    into.result_hash = event.result_hash


def _result_event(message: pb.Result) -> Result:
    return Result(
        attempt_id=id_of(message.attempt_id, "result.attempt_id"),
        result=result_of(message.result),
        result_hash=hash_of(message.result_hash, "result.result_hash"),
    )


# Any: the tables pair each key with its own type, which one signature for all cannot say.
UP_TO_PB: Final[dict[type, Callable[[pb.UpEvent, Any], None]]] = {
    Hello: _put_hello,
    Pong: _put_pong,
    Decision: _put_decision,
    Started: _put_started,
    Output: _put_output,
    Omitted: _put_omitted,
    InputAck: _put_input_ack,
    Quiet: _put_quiet,
    Result: _put_result,
}
UP_OF: Final[dict[str, Callable[[Any], UpEvent]]] = {
    "hello": _hello,
    "pong": _pong,
    "decision": _decision,
    "started": _started,
    "output": _output,
    "omitted": _omitted,
    "input_ack": _input_ack,
    "quiet": _quiet,
    "result": _result_event,
}
