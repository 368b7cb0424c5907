"""The replica's end of the link, without I/O: one object per stream.

It never awaits and never reads a clock: ``now`` is the caller's monotonic time, ``wall_ms`` Unix
time in milliseconds. The shell writes ``next_frame`` whenever it is not empty.
"""

from collections.abc import Iterable, Sequence

from farhand_shared.link_actions import ReplicaAction
from farhand_shared.link_events import Bye, DownEvent, Hello, Offer, Stream, UpEvent
from farhand_shared.reconcile import AttemptView, Outcome


class ReplicaLink:
    """What one stream has received, owes and waits for."""

    def __init__(self, *, now: float) -> None:
        raise NotImplementedError

    @property
    def hello(self) -> Hello | None:
        """The accepted Hello; None before."""
        raise NotImplementedError

    @property
    def welcomed(self) -> bool:
        raise NotImplementedError

    @property
    def last_heard_at(self) -> float:
        raise NotImplementedError

    def receive(
        self, events: Sequence[UpEvent], *, now: float, wall_ms: int
    ) -> list[ReplicaAction]:
        """Return what one received frame asks for, in order.

        Raises ProtocolError: call ``bye`` with code ``protocol`` and close.
        """
        raise NotImplementedError

    def welcome(
        self,
        *,
        server_time_ms: int,
        stream_epoch: int,
        machine_name: str,
        views: Iterable[AttemptView],
        outcomes: Iterable[Outcome],
    ) -> None:
        """Answer the Hello: queue Welcome, cancels and gones; reoffers are the caller's to make.

        ``views`` and ``outcomes`` are what went into and came out of ``reconcile``.
        """
        raise NotImplementedError

    def offer(self, offer: Offer) -> None:
        """Queue an offer (first or repeated) whose row is committed."""
        raise NotImplementedError

    def cancel(self, attempt_id: str, reason: str) -> None:
        raise NotImplementedError

    def approve(self, attempt_id: str, plan_hash: bytes) -> None:
        raise NotImplementedError

    def stored(self, attempt_id: str, stream: Stream, offset: int) -> None:
        """Report that everything below ``offset`` may be acknowledged (stored, or read)."""
        raise NotImplementedError

    def recorded(self, attempt_id: str, result_hash: bytes) -> None:
        """Report the hash of the committed result: it is acknowledged, once per arrival."""
        raise NotImplementedError

    def drain(self, within_ms: int) -> None:
        raise NotImplementedError

    def bye(self, bye: Bye) -> None:
        """Queue the last event of the stream; everything queued later is dropped."""
        raise NotImplementedError

    def tick(self, now: float) -> list[ReplicaAction]:
        """Queue the pings that are due; return [PeerSilent] when the answer is overdue."""
        raise NotImplementedError

    def next_tick(self) -> float:
        """Return the ``now`` at which ``tick`` has something to do."""
        raise NotImplementedError

    @property
    def has_frame(self) -> bool:
        raise NotImplementedError

    def next_frame(self) -> list[DownEvent]:
        """Return the events of the next message, FRAME_BYTES or one larger event; [] when none."""
        raise NotImplementedError
