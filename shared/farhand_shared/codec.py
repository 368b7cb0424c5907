"""Link events to bytes and back: the only hand-written importer of the link's messages.

The gRPC adapters pass these bytes through (a generic stream_stream method without serialisers).
"""

from collections.abc import Sequence
from typing import Final

from farhand_shared.command import CommandResult, CommandSpec
from farhand_shared.link_events import DownEvent, UpEvent

CONNECT_METHOD: Final = "/farhand_proto.v1.Link/Connect"


def encode_up(events: Sequence[UpEvent]) -> bytes:
    """Return one ``Up`` message."""
    raise NotImplementedError


def decode_up(message: bytes) -> list[UpEvent]:
    """Return the events of one ``Up`` message; kinds from a newer peer are left out.

    Raises ProtocolError naming the field that is missing or wrong.
    """
    raise NotImplementedError


def encode_down(events: Sequence[DownEvent]) -> bytes:
    """Return one ``Down`` message."""
    raise NotImplementedError


def decode_down(message: bytes) -> list[DownEvent]:
    """Return the events of one ``Down`` message; as ``decode_up``."""
    raise NotImplementedError


def encode_spec(spec: CommandSpec) -> bytes:
    """Return the opaque bytes that an offer carries; TooLarge past SPEC_MAX_BYTES."""
    raise NotImplementedError


def decode_spec(spec: bytes) -> CommandSpec:
    """Return what ``encode_spec`` was given; ProtocolError for a kind of command we do not know."""
    raise NotImplementedError


def input_digest(spec: bytes) -> bytes:
    """Return SHA-256 of the encoded specification."""
    raise NotImplementedError


def encode_result(result: CommandResult) -> bytes:
    """Return the result's bytes, as the daemon's journal and the digest use them."""
    raise NotImplementedError


def decode_result(result: bytes) -> CommandResult:
    raise NotImplementedError


def result_hash(result: CommandResult) -> bytes:
    """Return SHA-256 of ``encode_result``; made once, by the machine, then only compared."""
    raise NotImplementedError
