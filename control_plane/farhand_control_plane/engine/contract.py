"""What the session engine and the agents that live in it agree on.

The engine owns claims, leases, fences, the log, the inbox and the order of commits. An agent owns
meaning: how a batch reads, what the model is asked, what a tool does. One step is

    claim → read the batch → think (one model call) → commit input, assistant item, tool intents and
    consumed marks in one fenced transaction → act on each intent, each with its result in one
    fenced transaction → results item → think again while there were calls → release.

A crash may repeat ``think``; it never repeats an effect, because ``act`` and the record of its
result commit together and the intent's key (session, item_seq, call_index) is unique.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import SessionKind
from farhand_shared.ids import InstanceId, SessionId, TicketId

Json = dict[str, Any]  # JSON objects whose shape the agents own


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRef:
    """The session being stepped, and the generation that fences this claim."""

    instance_id: InstanceId
    session_id: SessionId
    kind: SessionKind
    ticket_id: TicketId | None
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxMessage:
    """One pending message. ``dedupe_key`` is unique in the session."""

    seq: int
    kind: str
    dedupe_key: str
    payload: Json
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LogItem:
    """One entry of the append-only log.

    ``kind``: ``input`` (a read batch), ``assistant`` (what the model said, with its calls),
    ``tool_results`` (payload ``{"results": [{"call_id", "content"}]}``), ``notice``,
    ``compaction``.
    """

    item_seq: int
    kind: str
    payload: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolIntent:
    """A call that the model asked for. ``call_id`` is the model's name for it."""

    call_index: int
    call_id: str
    name: str
    arguments: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRecord:
    model: str
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    price_micros: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Thought:
    """The outcome of one model call: the assistant item, the calls in it, what it took."""

    payload: Json
    calls: tuple[ToolIntent, ...] = ()
    usage: UsageRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDone:
    """The call's result, as the model will read it."""

    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolWaits:
    """The result may still come inline: the inbox row with this dedupe key ends the wait.

    The session is released meanwhile. After ``wait_s``, or when any other message arrives first,
    the call is given ``otherwise`` as its result and the row comes later as an event.
    """

    waits_for: str
    wait_s: float
    otherwise: str


class ModelUnavailable(Exception):
    """The model failed after the client's own retries; the step ends without a trace.

    The engine releases the session with its messages still pending and retries with back-off.
    """

    def __init__(self, reason: str, *, retry_after_s: float = 2.0) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class Agent(Protocol):
    """The meaning of one kind of session."""

    async def read(self, tx: Tx, ref: SessionRef, batch: Sequence[InboxMessage]) -> Json:
        """Return the ``input`` item for a batch; may read the database, writes nothing."""
        ...

    async def think(self, ref: SessionRef, items: Sequence[LogItem]) -> Thought:
        """Make one model call over the whole log (the last item is the newest input or results).

        No database. Raises ModelUnavailable when the service does not answer.
        """
        ...

    async def act(
        self, tx: Tx, ref: SessionRef, item_seq: int, intent: ToolIntent
    ) -> ToolDone | ToolWaits:
        """Carry out one call inside ``tx``; every effect is a row keyed by the intent.

        A bad call (unknown tool, wrong arguments) is a ToolDone that says so; nothing is raised for
        what the model can mend.
        """
        ...

    async def resolve(self, tx: Tx, ref: SessionRef, message: InboxMessage) -> str:
        """Return the inline result of a waiting call whose inbox row has arrived."""
        ...

    async def settle(self, tx: Tx, ref: SessionRef, items: Sequence[LogItem]) -> None:
        """Called in the releasing transaction when the model had nothing more to call.

        Possibly again for the same last item (a release that found a new message is not one), so
        what it writes carries a key. It may write to its own session: that keeps it awake.
        """
        ...

    async def set_aside(self, tx: Tx, ref: SessionRef, message: InboxMessage, reason: str) -> None:
        """Called in the transaction that parks a message which fails alone: tell a person."""
        ...

    async def give_up(self, tx: Tx, ref: SessionRef, reason: str) -> None:
        """Called in the transaction that makes the session a tombstone (five charged resumes)."""
        ...
