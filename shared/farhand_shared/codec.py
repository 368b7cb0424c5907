"""Link events to bytes and back: with its parts the only hand-written importer of the messages.

The gRPC adapters pass these bytes through (a generic stream_stream method without serialisers).
What is absent, unspecified or out of range is a ProtocolError naming the field; event kinds that
only a newer peer knows are left out.
"""

from collections.abc import Sequence
from typing import Final

from google.protobuf.message import DecodeError

from farhand_proto.v1 import link_pb2 as pb
from farhand_shared.codec_command import (
    decode_result,
    decode_spec,
    encode_result,
    encode_spec,
    input_digest,
    result_hash,
)
from farhand_shared.codec_down import DOWN_OF, DOWN_TO_PB
from farhand_shared.codec_fields import broken
from farhand_shared.codec_up import UP_OF, UP_TO_PB
from farhand_shared.link_events import DownEvent, UpEvent

__all__ = [
    "CONNECT_METHOD",
    "decode_down",
    "decode_result",
    "decode_spec",
    "decode_up",
    "encode_down",
    "encode_result",
    "encode_spec",
    "encode_up",
    "input_digest",
    "result_hash",
]

CONNECT_METHOD: Final = "/farhand_proto.v1.Link/Connect"


def encode_up(events: Sequence[UpEvent]) -> bytes:
    """Return one ``Up`` message."""
    message = pb.Up()
    add = message.events.add
    for event in events:
        UP_TO_PB[type(event)](add(), event)
    return message.SerializeToString()


def decode_up(message: bytes) -> list[UpEvent]:
    """Return the events of one ``Up`` message; kinds from a newer peer are left out.

    Raises ProtocolError naming the field that is missing or wrong.
    """
    try:
        parsed = pb.Up.FromString(message)
    except DecodeError:
        broken("a message from the machine", "it is not an Up message")
    events: list[UpEvent] = []
    for event in parsed.events:
        kind = event.WhichOneof("event")
        if kind is not None:
            events.append(UP_OF[kind](getattr(event, kind)))
    return events


def encode_down(events: Sequence[DownEvent]) -> bytes:
    """Return one ``Down`` message."""
    message = pb.Down()
    add = message.events.add
    for event in events:
        DOWN_TO_PB[type(event)](add(), event)
    return message.SerializeToString()


def decode_down(message: bytes) -> list[DownEvent]:
    """Return the events of one ``Down`` message; as ``decode_up``."""
    try:
        parsed = pb.Down.FromString(message)
    except DecodeError:
        broken("a message from the control plane", "it is not a Down message")
    events: list[DownEvent] = []
    for event in parsed.events:
        kind = event.WhichOneof("event")
        if kind is not None:
            events.append(DOWN_OF[kind](getattr(event, kind)))
    return events
