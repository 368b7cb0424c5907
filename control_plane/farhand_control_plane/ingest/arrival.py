"""Where an event goes once it is a Trigger: to subscribers, to judgement, or only on record."""

from collections.abc import Sequence

from farhand_control_plane.db import evals, sessions, subscriptions
from farhand_control_plane.db.intake import TriggerView
from farhand_control_plane.db.mandates import Policy
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.admission import Admission, Arrival, admit
from farhand_control_plane.domain.policy import PolicyRules
from farhand_control_plane.domain.words import MemberRole
from farhand_control_plane.ingest import people
from farhand_control_plane.ingest.announcements import Announcements
from farhand_shared.ids import EvalId, InstanceId, ThreadId, TicketId, TriggerId


async def deliver_to_subscribers(
    tx: Tx,
    instance_id: InstanceId,
    thread_id: ThreadId,
    trigger_id: TriggerId,
    seq: int,
    *,
    revives: bool,
) -> tuple[TicketId, ...]:
    """Bring a Trigger to every open Ticket that hears its Thread; returns them.

    Grants nothing: the text reaches the executors, their Mandates stay as they are. ``revives``: a
    person spoke to them, so an executor that had given up tries again.
    """
    subscribers = await subscriptions.live_subscribers(tx, instance_id, thread_id, seq)
    for ticket_id in subscribers:
        await subscriptions.deliver(tx, instance_id, trigger_id, ticket_id)
        worker = await subscriptions.worker_of(tx, instance_id, ticket_id) if revives else None
        if worker is not None:
            await sessions.revive(tx, instance_id, worker)
    return tuple(subscribers)


async def note_for_router(
    tx: Tx, instance_id: InstanceId, trigger_id: TriggerId, *, delivered_to: Sequence[TicketId]
) -> None:
    """Put a digest entry into the Router's inbox: it sees every event, and sleeps on."""
    await sessions.append(
        tx,
        instance_id,
        await sessions.router_of(tx, instance_id),
        kind="digest",
        dedupe_key=f"digest:{trigger_id}",
        payload={"trigger_id": trigger_id, "delivered_to": " ".join(delivered_to)},
        wakes=False,
    )


async def admit_again(
    tx: Tx, instance_id: InstanceId, trigger: TriggerView, rules: PolicyRules
) -> Admission:
    """Return what the gate says of a stored Trigger now; its Thread has had a Ticket."""
    role: MemberRole | None = await people.role_of(tx, instance_id, trigger.sender_member_id)
    return admit(
        Arrival(
            source_kind=trigger.source_kind,
            event_kind=trigger.kind,
            sender_external_id=trigger.sender_external_id,
            sender_member_id=None if role is None else trigger.sender_member_id,
            sender_is_bot=trigger.sender_is_bot,
            addressed=bool(trigger.details.get("addressed")),
            on_ticket_thread=True,
        ),
        rules,
    )


async def evaluate(
    tx: Tx,
    instance_id: InstanceId,
    trigger_id: TriggerId,
    thread_id: ThreadId,
    seq: int,
    admission: Admission,
    policy: Policy,
    announcements: Announcements,
) -> EvalId | None:
    """Open an Eval over one Trigger and wake the Router; None when the gate wants none."""
    if admission.strength is None or not admission.judged:
        return None
    eval_id = await evals.open_eval(
        tx,
        instance_id,
        thread_id,
        [trigger_id],
        strength=admission.strength,
        requester_member_id=admission.requester_member_id,
        policy_version=policy.version,
        last_seq_seen=seq,
        gate=admission.to_json(),
    )
    await sessions.append(
        tx,
        instance_id,
        await sessions.router_of(tx, instance_id),
        kind="eval",
        dedupe_key=f"eval:{eval_id}",
        payload={"eval_id": eval_id},
    )
    announcements.add(
        "eval_opened", subject_id=eval_id, thread_id=thread_id, trigger_ids=[trigger_id]
    )
    return eval_id
