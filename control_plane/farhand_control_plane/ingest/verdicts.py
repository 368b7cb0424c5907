"""A pending Eval is closed, with everything the verdict brings, in one transaction."""

from dataclasses import dataclass, field
from typing import TypeAlias

from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.mandate import ScopeRequest
from farhand_control_plane.domain.words import Verdict
from farhand_shared.ids import EvalId, InstanceId, SessionId, TicketId


@dataclass(frozen=True, slots=True, kw_only=True)
class Accept:
    """Open a Ticket. ``title`` is short and for people."""

    title: str
    request: ScopeRequest = field(default_factory=ScopeRequest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attach:
    """Deliver the events to an open Ticket and subscribe it to the Thread."""

    ticket_id: TicketId


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """It was a question; the reply is sent apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Stop an open Ticket: only when an entitled person asked explicitly."""

    ticket_id: TicketId


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignore:
    reason: str


Decision: TypeAlias = Accept | Attach | Answer | Stop | Ignore


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """What a verdict made."""

    verdict: Verdict
    ticket_id: TicketId | None = None  # opened, attached to or stopped
    session_id: SessionId | None = None  # of the Worker that was made
    observed: bool = False  # accepted by a rule in observe mode: recorded, nothing granted


async def close_eval(
    tx: Tx, instance_id: InstanceId, eval_id: EvalId, decision: Decision
) -> Closed:
    """Write the verdict and all that follows from it in ``tx``.

    Accept makes Ticket, Mandate, Worker session, Assignment, Subscription and, for an explicit
    request, the one acknowledgement. Raises NotFound (eval or ticket), Conflict (already closed:
    says how; or the Ticket cannot take the event), NotAllowed (the requester may not), InvalidInput.
    After an error nothing was written.
    """
    raise NotImplementedError
