"""Events from the replica, each to its message and back."""

from collections.abc import Callable
from typing import Any, Final

from farhand_proto.v1 import link_pb2 as pb
from farhand_shared.codec_command import input_digest, is_window
from farhand_shared.codec_fields import (
    STREAM,
    STREAM_TO_PB,
    broken,
    hash_of,
    id_of,
    member,
    offset_of,
    required,
    text,
)
from farhand_shared.link_events import (
    Approval,
    Bye,
    Cancel,
    DownEvent,
    Drain,
    Gone,
    Input,
    Offer,
    OutputAck,
    Ping,
    Resize,
    ResultAck,
    StoredOutput,
    Welcome,
)


def _put_welcome(out: pb.DownEvent, event: Welcome) -> None:
    into = out.welcome
    into.server_time_ms = event.server_time_ms
    into.stream_epoch = event.stream_epoch
    into.capability = event.capability
    into.min_capability = event.min_capability
    into.machine_name = text(event.machine_name)
    for stored in event.stored:
        into.stored.add(
            attempt_id=stored.attempt_id,
            stream=STREAM_TO_PB[stored.stream],
            offset=stored.offset,
        )


def _welcome(message: pb.Welcome) -> Welcome:
    return Welcome(
        server_time_ms=message.server_time_ms,
        stream_epoch=required(message.stream_epoch, "welcome.stream_epoch"),
        capability=required(message.capability, "welcome.capability"),
        min_capability=required(message.min_capability, "welcome.min_capability"),
        machine_name=text(message.machine_name),
        stored=tuple(
            StoredOutput(
                attempt_id=id_of(stored.attempt_id, "welcome.stored.attempt_id"),
                stream=member(STREAM, stored.stream, "welcome.stored.stream"),
                offset=offset_of(stored.offset, "welcome.stored.offset"),
            )
            for stored in message.stored
        ),
    )


def _put_ping(out: pb.DownEvent, event: Ping) -> None:
    out.ping.nonce = event.nonce
    out.ping.SetInParent()  # as for Pong


def _ping(message: pb.Ping) -> Ping:
    return Ping(nonce=message.nonce)


def _put_offer(out: pb.DownEvent, event: Offer) -> None:
    into = out.offer
    into.attempt_id = event.attempt_id
    into.command_id = event.command_id
    into.stream_epoch = event.stream_epoch
    into.spec = event.spec
    into.input_digest = event.input_digest
    into.start_within_ms = event.start_within_ms
    into.tier = event.tier
    into.inferred = event.inferred
    into.requester = event.requester
    into.ticket_id = event.ticket_id
    into.mandate_hash = event.mandate_hash
    into.traceparent = event.traceparent


def _offer(message: pb.Offer) -> Offer:
    spec = required(message.spec, "offer.spec")
    digest = hash_of(message.input_digest, "offer.input_digest")
    if input_digest(spec) != digest:
        broken("offer.input_digest", "it is not the digest of offer.spec")
    return Offer(
        attempt_id=id_of(message.attempt_id, "offer.attempt_id"),
        command_id=id_of(message.command_id, "offer.command_id"),
        stream_epoch=required(message.stream_epoch, "offer.stream_epoch"),
        spec=spec,
        input_digest=digest,
        start_within_ms=required(message.start_within_ms, "offer.start_within_ms"),
        tier=message.tier,
        inferred=message.inferred,
        requester=required(message.requester, "offer.requester"),
        ticket_id=message.ticket_id,
        mandate_hash=message.mandate_hash,
        traceparent=message.traceparent,
    )


def _put_approval(out: pb.DownEvent, event: Approval) -> None:
    out.approval.attempt_id = event.attempt_id
    out.approval.plan_hash = event.plan_hash


def _approval(message: pb.Approval) -> Approval:
    return Approval(
        attempt_id=id_of(message.attempt_id, "approval.attempt_id"),
        plan_hash=hash_of(message.plan_hash, "approval.plan_hash"),
    )


def _put_cancel(out: pb.DownEvent, event: Cancel) -> None:
    out.cancel.attempt_id = event.attempt_id
    out.cancel.reason = event.reason


def _cancel(message: pb.Cancel) -> Cancel:
    return Cancel(
        attempt_id=id_of(message.attempt_id, "cancel.attempt_id"),
        reason=required(message.reason, "cancel.reason"),
    )


def _put_output_ack(out: pb.DownEvent, event: OutputAck) -> None:
    into = out.output_ack
    into.attempt_id = event.attempt_id
    into.stream = STREAM_TO_PB[event.stream]
    into.offset = event.offset


def _output_ack(message: pb.OutputAck) -> OutputAck:
    return OutputAck(
        attempt_id=id_of(message.attempt_id, "output_ack.attempt_id"),
        stream=member(STREAM, message.stream, "output_ack.stream"),
        offset=offset_of(message.offset, "output_ack.offset"),
    )


def _put_result_ack(out: pb.DownEvent, event: ResultAck) -> None:
    out.result_ack.attempt_id = event.attempt_id
    out.result_ack.result_hash = event.result_hash


def _result_ack(message: pb.ResultAck) -> ResultAck:
    return ResultAck(
        attempt_id=id_of(message.attempt_id, "result_ack.attempt_id"),
        result_hash=hash_of(message.result_hash, "result_ack.result_hash"),
    )


def _put_gone(out: pb.DownEvent, event: Gone) -> None:
    out.gone.attempt_id = event.attempt_id


def _gone(message: pb.Gone) -> Gone:
    return Gone(attempt_id=id_of(message.attempt_id, "gone.attempt_id"))


def _put_input(out: pb.DownEvent, event: Input) -> None:
    into = out.input
    into.attempt_id = event.attempt_id
    into.offset = event.offset
    into.data = event.data
    into.end = event.end


def _input(message: pb.Input) -> Input:
    if not message.data and not message.end:
        broken("input.data", "it is missing")
    return Input(
        attempt_id=id_of(message.attempt_id, "input.attempt_id"),
        offset=offset_of(message.offset, "input.offset"),
        data=message.data,
        end=message.end,
    )


def _put_resize(out: pb.DownEvent, event: Resize) -> None:
    into = out.resize
    into.attempt_id = event.attempt_id
    into.rows = event.rows
    into.columns = event.columns


def _resize(message: pb.Resize) -> Resize:
    if not is_window(message.rows, message.columns):
        broken("resize", f"{message.rows} rows and {message.columns} columns are no size")
    return Resize(
        attempt_id=id_of(message.attempt_id, "resize.attempt_id"),
        rows=message.rows,
        columns=message.columns,
    )


def _put_drain(out: pb.DownEvent, event: Drain) -> None:
    out.drain.within_ms = event.within_ms
    out.drain.SetInParent()  # as for Pong


def _drain(message: pb.Drain) -> Drain:
    return Drain(within_ms=message.within_ms)


def _put_bye(out: pb.DownEvent, event: Bye) -> None:
    out.bye.code = event.code
    out.bye.message = text(event.message)
    out.bye.retry = event.retry


def _bye(message: pb.Bye) -> Bye:
    return Bye(
        code=required(message.code, "bye.code"),
        message=text(message.message),
        retry=message.retry,
    )


# Any: as in codec_up.
DOWN_TO_PB: Final[dict[type, Callable[[pb.DownEvent, Any], None]]] = {
    Welcome: _put_welcome,
    Ping: _put_ping,
    Offer: _put_offer,
    Approval: _put_approval,
    Cancel: _put_cancel,
    OutputAck: _put_output_ack,
    ResultAck: _put_result_ack,
    Gone: _put_gone,
    Input: _put_input,
    Resize: _put_resize,
    Drain: _put_drain,
    Bye: _put_bye,
}
DOWN_OF: Final[dict[str, Callable[[Any], DownEvent]]] = {
    "welcome": _welcome,
    "ping": _ping,
    "offer": _offer,
    "approval": _approval,
    "cancel": _cancel,
    "output_ack": _output_ack,
    "result_ack": _result_ack,
    "gone": _gone,
    "input": _input,
    "resize": _resize,
    "drain": _drain,
    "bye": _bye,
}
