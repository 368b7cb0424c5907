"""What is due in a session, read from the database alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from farhand_control_plane.db import session_log
from farhand_control_plane.db.leases import Claim
from farhand_control_plane.db.session_log import StoredCall, StoredMessage
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import ToolCallState
from farhand_control_plane.engine import failures
from farhand_control_plane.engine.contract import LogItem
from farhand_control_plane.engine.settings import EngineSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Calls that nobody has carried out yet, in their order."""

    calls: Sequence[StoredCall]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Calls whose result may still come inline; the others have theirs."""

    calls: Sequence[StoredCall]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResults:
    """All calls of the last thought, each with its result."""

    calls: Sequence[StoredCall]


@dataclass(frozen=True, slots=True, kw_only=True)
class Think:
    """A model call. No message at all: there are only results to think about."""

    batch: Sequence[StoredMessage]
    pending: int  # messages there were to choose from


@dataclass(frozen=True, slots=True, kw_only=True)
class Park:
    """A message that makes every step fail."""

    message: StoredMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """Nothing is due."""


Due = Act | Wait | WriteResults | Think | Park | Rest


async def look(
    tx: Tx, claim: Claim, log: Sequence[LogItem], charged: int, settings: EngineSettings
) -> Due:
    """Say what a session needs next, given its log and how often it has failed in a row."""
    last = newest(log)
    if last is not None and last.kind == "assistant":
        calls = await session_log.calls_of(tx, claim, last.item_seq)
        if intended := [call for call in calls if call.state is ToolCallState.INTENDED]:
            return Act(calls=intended)
        if waiting := [call for call in calls if call.state is ToolCallState.WAITING]:
            return Wait(calls=waiting)
        if calls:
            return WriteResults(calls=calls)
    has_results = last is not None and last.kind == "tool_results"
    # Digest entries are read along; alone they make nobody think.
    if not has_results and not await session_log.has_waking(tx, claim):
        return Rest()
    if has_results and charged:
        # After a failure the results go alone: it may be theirs, and no message's.
        return Think(batch=(), pending=0)
    messages = await session_log.pending(tx, claim, limit=settings.max_batch)
    if failures.is_poison(claim.kind, len(messages), charged, settings):
        return Park(message=messages[0])
    size = failures.batch_size(claim.kind, len(messages), charged)
    return Think(batch=messages[:size], pending=len(messages))


def newest(log: Sequence[LogItem]) -> LogItem | None:
    """Return the entry that says where the session stands; None when it has just begun."""
    for item in reversed(log):
        if item.kind in ("input", "assistant", "tool_results"):
            return item
    return None
