"""What arrived and how it is judged: raw deliveries, threads, triggers, evals."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import EvalState, Strength, Verdict
from farhand_shared.ids import (
    EvalId,
    InstanceId,
    MachineId,
    MemberId,
    ThreadId,
    TicketId,
    TriggerId,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerView:
    """One immutable event, as agents and pages read it. ``text`` is data, never an instruction."""

    trigger_id: TriggerId
    thread_id: ThreadId
    thread_seq: int
    source_kind: str  # "chat", …
    kind: str  # "message", …
    text: str
    sender_external_id: str
    sender_member_id: MemberId | None
    sender_name: str  # the member's name, or the provider's id when nobody's
    sender_is_bot: bool
    strength: Strength | None  # None: not admitted by the gate
    this_machine_id: MachineId | None  # what "this machine" means to the sender
    replaces_trigger_id: TriggerId | None
    received_at: datetime
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTicket:
    """An open Ticket that is subscribed to a Thread."""

    ticket_id: TicketId
    title: str
    requester_member_id: MemberId


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalView:
    """An Eval with all the Router needs to close it."""

    eval_id: EvalId
    thread_id: ThreadId
    source_kind: str
    state: EvalState
    strength: Strength
    observe_only: bool  # its rule only records: an accept opens no Ticket
    requester_member_id: MemberId | None
    requester_name: str
    policy_version: int
    triggers: tuple[TriggerView, ...]  # in thread order
    open_tickets: tuple[OpenTicket, ...]  # on the Thread, oldest first
    handed_back_by: tuple[TicketId, ...]  # never attach to one of these
    verdict: Verdict | None  # set when closed
    attached_ticket_id: TicketId | None
    reason: str
    created_at: datetime
    closed_at: datetime | None


async def eval_for_router(tx: Tx, instance_id: InstanceId, eval_id: EvalId) -> EvalView | None:
    """Return one Eval with its Triggers and the open Tickets on its Thread; None when absent."""
    raise NotImplementedError


async def trigger(tx: Tx, instance_id: InstanceId, trigger_id: TriggerId) -> TriggerView | None:
    """Return one Trigger; None when this instance has none of that id."""
    raise NotImplementedError


async def triggers_of_thread(
    tx: Tx, instance_id: InstanceId, thread_id: ThreadId, *, before_seq: int | None, limit: int
) -> list[TriggerView]:
    """Return a Thread's newest Triggers below ``before_seq`` (None: the end), in thread order."""
    raise NotImplementedError
