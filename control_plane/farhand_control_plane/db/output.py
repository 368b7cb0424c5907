"""What commands wrote, as stored bytes: reads for pages and agents, writes for the link's holder."""

from dataclasses import dataclass

from farhand_control_plane.db.transaction import Tx
from farhand_shared.ids import AttemptId, InstanceId
from farhand_shared.link_events import Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputView:
    """The first and last bytes of one stream."""

    head: bytes
    tail: bytes  # empty when the head is everything
    total: int  # bytes the command wrote, as far as the server knows
    omitted: int  # of these, how many lie between head and tail or were never kept


async def read(
    tx: Tx, instance_id: InstanceId, attempt_id: AttemptId, stream: Stream, offset: int, limit: int
) -> bytes:
    """Return up to ``limit`` stored bytes from ``offset``; b"" where nothing is stored."""
    raise NotImplementedError


async def head_tail(
    tx: Tx, instance_id: InstanceId, attempt_id: AttemptId, stream: Stream, head: int, tail: int
) -> OutputView:
    """Return the first ``head`` and last ``tail`` stored bytes of a stream, without overlap."""
    raise NotImplementedError
