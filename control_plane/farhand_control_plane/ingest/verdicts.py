"""A pending Eval is closed, with everything the verdict brings, in one transaction."""

from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from farhand_control_plane.db import (
    evals,
    intake,
    mandates,
    outbox,
    sessions,
    subscriptions,
    ticket_records,
)
from farhand_control_plane.db.evals import LockedEval
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain import authority
from farhand_control_plane.domain.admission import rule_of
from farhand_control_plane.domain.feedback import acknowledgement, clean_title, storable
from farhand_control_plane.domain.mandate import ScopeRequest, grant
from farhand_control_plane.domain.policy import AcceptMode
from farhand_control_plane.domain.routing import subscription_start
from farhand_control_plane.domain.words import EvalState, Strength, TicketOutcome, Verdict
from farhand_control_plane.ingest import closing, people
from farhand_control_plane.ingest.announcements import Announcements
from farhand_shared.errors import Conflict, NotAllowed, NotFound
from farhand_shared.ids import EvalId, InstanceId, MemberId, SessionId, TicketId


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
    reason: str = ""


async def close_eval(
    tx: Tx, instance_id: InstanceId, eval_id: EvalId, decision: Decision
) -> Closed:
    """Write the verdict and all that follows from it in ``tx``.

    Accept makes Ticket, Mandate, Worker session, Assignment, Subscription and, for an explicit
    request, the one acknowledgement. Raises NotFound (eval or ticket), Conflict (already closed:
    says how; or the Ticket cannot take the event), NotAllowed (the requester may not),
    InvalidInput. After an error nothing was written.
    """
    announcements = Announcements(instance_id)
    async with tx.transaction():  # a savepoint: the caller may go on after an error
        judged = await evals.lock_eval(tx, instance_id, eval_id)
        if judged is None:
            raise NotFound(f"cannot close eval {eval_id}: there is none")
        if judged.state is EvalState.CLOSED:
            raise Conflict(f"cannot close eval {eval_id}: {_how_it_closed(judged)}")
        closed = await _decide(tx, instance_id, judged, decision, announcements)
        await evals.close_eval(
            tx,
            instance_id,
            judged.eval_id,
            closed.verdict,
            reason=closed.reason,
            ticket_id=closed.ticket_id,
        )
        if closed.verdict in (Verdict.ACCEPT, Verdict.ATTACH) and closed.ticket_id is not None:
            await _catch_up(tx, instance_id, judged, closed.ticket_id, announcements)
    announcements.add(
        "eval_closed",
        subject_id=judged.eval_id,
        thread_id=judged.thread_id,
        ticket_id=closed.ticket_id,
        eval_id=judged.eval_id,
        verdict=closed.verdict.value,
        reason=closed.reason,
        observed=closed.observed,
    )
    await announcements.store(tx)
    return closed


async def _decide(
    tx: Tx,
    instance_id: InstanceId,
    judged: LockedEval,
    decision: Decision,
    announcements: Announcements,
) -> Closed:
    match decision:
        case Accept():
            return await _accept(tx, instance_id, judged, decision, announcements)
        case Attach(ticket_id=ticket_id):
            return await _attach(tx, instance_id, judged, ticket_id)
        case Stop(ticket_id=ticket_id):
            return await _stop(tx, instance_id, judged, ticket_id, announcements)
        case Answer():
            return Closed(verdict=Verdict.ANSWER)
        case Ignore(reason=reason):
            return Closed(verdict=Verdict.IGNORE, reason=storable(reason))
        case other:
            assert_never(other)


async def _accept(
    tx: Tx,
    instance_id: InstanceId,
    judged: LockedEval,
    decision: Accept,
    announcements: Announcements,
) -> Closed:
    title = clean_title(decision.title)
    policy = await mandates.current_policy(tx, instance_id)
    requester = judged.requester_member_id
    if judged.strength is Strength.INFERRED:
        # The rule as it is now: between the gate and this moment a person may have changed it.
        rule = rule_of(policy.rules.inferred, str(judged.gate.get("inferred_rule", "")))
        if judged.gate.get("mode") != AcceptMode.AUTO or rule.mode is not AcceptMode.AUTO:
            reason = f"observed: would have opened “{title}”"
            return Closed(verdict=Verdict.ACCEPT, observed=True, reason=reason)
        requester = rule.set_by_member_id
    role = await people.role_of(tx, instance_id, requester)
    authority.check_may_start(policy.rules, role)
    if requester is None:
        raise NotAllowed("cannot open a ticket: nobody asked for it; ignore the event")
    granted = grant(policy.rules.mandate, decision.request)
    triggers = await intake.triggers_of_eval(tx, instance_id, judged.eval_id)
    ticket_id = await ticket_records.add_ticket(
        tx,
        instance_id,
        judged.eval_id,
        title=title,
        request="\n".join(trigger.text for trigger in triggers),
        requester_member_id=requester,
        inferred=judged.strength is Strength.INFERRED,
    )
    await mandates.grant(
        tx,
        instance_id,
        ticket_id,
        judged.eval_id,
        policy_version=policy.version,
        granted=granted,
        granted_by_member_id=requester,
    )
    session_id = await ticket_records.assign(tx, instance_id, ticket_id)
    await subscriptions.subscribe(
        tx, instance_id, ticket_id, judged.thread_id, subscription_start(judged.last_seq_seen)
    )
    await sessions.append(
        tx,
        instance_id,
        session_id,
        kind="ticket",
        dedupe_key=f"ticket:{ticket_id}",
        payload={"ticket_id": ticket_id},
    )
    if judged.strength is Strength.EXPLICIT and triggers:
        source = triggers[0].trigger_id
        await outbox.enqueue(
            tx,
            instance_id,
            judged.thread_id,
            kind="acknowledgement",
            text=acknowledgement(title),
            ticket_id=ticket_id,
            reply_to_trigger_id=source,
            idempotency_key=f"acknowledgement:{source}",
        )
    announcements.add(
        "ticket_opened",
        subject_id=ticket_id,
        thread_id=judged.thread_id,
        ticket_id=ticket_id,
        title=title,
        eval_id=judged.eval_id,
    )
    return Closed(verdict=Verdict.ACCEPT, ticket_id=ticket_id, session_id=session_id)


async def _attach(
    tx: Tx, instance_id: InstanceId, judged: LockedEval, ticket_id: TicketId
) -> Closed:
    ticket = await ticket_records.lock(tx, instance_id, ticket_id)
    if ticket is None:
        raise NotFound(f"cannot attach to ticket {ticket_id}: there is none")
    if ticket.outcome is not None:
        raise Conflict(f"cannot attach to ticket {ticket_id}: it is closed ({ticket.outcome})")
    if ticket_id in await intake.handed_back_by(tx, instance_id, judged.eval_id):
        raise Conflict(
            f"cannot attach to ticket {ticket_id}: it handed this event back; "
            "accept it as new work, or choose another ticket"
        )
    await subscriptions.subscribe(
        tx, instance_id, ticket_id, judged.thread_id, subscription_start(judged.last_seq_seen)
    )
    for trigger in await intake.triggers_of_eval(tx, instance_id, judged.eval_id):
        await subscriptions.deliver(tx, instance_id, trigger.trigger_id, ticket_id)
    return Closed(verdict=Verdict.ATTACH, ticket_id=ticket_id)


async def _stop(
    tx: Tx,
    instance_id: InstanceId,
    judged: LockedEval,
    ticket_id: TicketId,
    announcements: Announcements,
) -> Closed:
    if judged.strength is not Strength.EXPLICIT or not judged.gate.get("may_stop"):
        raise NotAllowed("cannot stop the ticket: only a person who asks for it explicitly may")
    member_id: MemberId | None = judged.requester_member_id
    await people.check_may_stop(tx, instance_id, member_id)
    ticket = await closing.lock_open(tx, instance_id, ticket_id)
    await closing.close(
        tx,
        instance_id,
        ticket,
        TicketOutcome.STOPPED,
        announcements,
        member_id=member_id,
        reason="a person asked for it",
    )
    return Closed(verdict=Verdict.STOP, ticket_id=ticket_id)


async def _catch_up(
    tx: Tx,
    instance_id: InstanceId,
    judged: LockedEval,
    ticket_id: TicketId,
    announcements: Announcements,
) -> None:
    """Deliver what arrived on the Thread while the Eval ran and nobody has taken since.

    An Eval that waits over such an event is closed: the event has found its Ticket. The Router
    has not read it, or it would be the Router's to decide.
    """
    router = await sessions.router_of(tx, instance_id)
    waiting = await evals.untaken(
        tx, instance_id, judged.thread_id, subscription_start(judged.last_seq_seen), router
    )
    for one in waiting:
        await subscriptions.deliver(tx, instance_id, one.trigger_id, ticket_id)
        if one.eval_id is None:
            continue
        reason = "it arrived while the ticket's own eval ran"
        await evals.close_eval(
            tx, instance_id, one.eval_id, Verdict.ATTACH, reason=reason, ticket_id=ticket_id
        )
        announcements.add(
            "eval_closed",
            subject_id=one.eval_id,
            thread_id=judged.thread_id,
            ticket_id=ticket_id,
            eval_id=one.eval_id,
            verdict=Verdict.ATTACH.value,
            reason=reason,
        )


def _how_it_closed(judged: LockedEval) -> str:
    verdict = "" if judged.verdict is None else judged.verdict.value
    concerned = (
        "" if judged.attached_ticket_id is None else f" (ticket {judged.attached_ticket_id})"
    )
    return f"it was closed before: {verdict}{concerned}"
