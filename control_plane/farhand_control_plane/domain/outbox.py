"""The life of an outward effect: every move that is allowed, and when to try again.

A row that may have gone out is ``unknown`` until somebody looked: only proof of absence leads back
to ``ready``.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from farhand_control_plane.domain.words import OutboxState
from farhand_shared.errors import Conflict

FIRST_RETRY_S: Final = 2
RETRY_CAP_S: Final = 60
TRIES_MAX: Final = 10  # about six minutes; then a person looks
CLAIM_S: Final = 60  # a claim older than this died with its replica; longer than any send may take


class OutboxEvent(StrEnum):
    APPROVE = "approve"
    DISCARD = "discard"
    CLAIM = "claim"
    SENT = "sent"
    ABSENT = "absent"  # certainly not sent, or proven absent
    UNCLEAR = "unclear"  # tried, outcome unknown; also a claim that lapsed
    REFUSED = "refused"  # never will be sent as it is
    RETRY = "retry"  # a person wants a dead row tried again


MOVES: Final = {
    (OutboxState.DRAFT, OutboxEvent.APPROVE): OutboxState.READY,
    (OutboxState.DRAFT, OutboxEvent.DISCARD): OutboxState.DISCARDED,
    (OutboxState.READY, OutboxEvent.DISCARD): OutboxState.DISCARDED,
    (OutboxState.READY, OutboxEvent.CLAIM): OutboxState.SENDING,
    (OutboxState.SENDING, OutboxEvent.SENT): OutboxState.SENT,
    (OutboxState.SENDING, OutboxEvent.ABSENT): OutboxState.READY,
    (OutboxState.SENDING, OutboxEvent.UNCLEAR): OutboxState.UNKNOWN,
    (OutboxState.SENDING, OutboxEvent.REFUSED): OutboxState.DEAD,
    (OutboxState.UNKNOWN, OutboxEvent.SENT): OutboxState.SENT,
    (OutboxState.UNKNOWN, OutboxEvent.ABSENT): OutboxState.READY,
    (OutboxState.UNKNOWN, OutboxEvent.UNCLEAR): OutboxState.UNKNOWN,
    (OutboxState.UNKNOWN, OutboxEvent.REFUSED): OutboxState.DEAD,
    (OutboxState.DEAD, OutboxEvent.RETRY): OutboxState.UNKNOWN,
    (OutboxState.DEAD, OutboxEvent.DISCARD): OutboxState.DISCARDED,
}


def step(state: OutboxState, event: OutboxEvent) -> OutboxState:
    """Return the next state; raise Conflict for a move that the table lacks."""
    try:
        return MOVES[state, event]
    except KeyError:
        raise Conflict(f"cannot {event} an outbox row that is {state}; read it again") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """Where a try leaves the row. ``retry_in_s`` None: no further try is planned."""

    state: OutboxState
    retry_in_s: float | None


def settle(
    state: OutboxState, event: OutboxEvent, *, tries: int, retry_after_s: float | None = None
) -> Settlement:
    """Return what a send or a look-up leads to, after ``tries`` tries in all.

    A row that fails too often is dead: a person looks, and may have it tried again.
    """
    reached = step(state, event)
    if reached in (OutboxState.READY, OutboxState.UNKNOWN):
        if tries >= TRIES_MAX:
            return Settlement(state=OutboxState.DEAD, retry_in_s=None)
        # An unclear send is looked up soon; later look-ups and retries back off.
        wait = min(FIRST_RETRY_S << min(max(tries - 1, 0), 10), RETRY_CAP_S)
        return Settlement(state=reached, retry_in_s=max(wait, retry_after_s or 0))
    return Settlement(state=reached, retry_in_s=None)
