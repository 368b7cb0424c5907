"""An executor gives an event back: it goes to others, to judgement, or to a person."""

from dataclasses import dataclass
from typing import assert_never

from farhand_control_plane.db import intake, outbox, questions, subscriptions
from farhand_control_plane.db.intake import TriggerView
from farhand_control_plane.db.mandates import current_policy
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.routing import NextStop, after_hand_back
from farhand_control_plane.ingest import arrival
from farhand_control_plane.ingest.announcements import Announcements
from farhand_shared.errors import NotFound
from farhand_shared.ids import EvalId, InstanceId, QuestionId, TicketId, TriggerId

_QUOTED_CHARACTERS = 200
_IF_UNANSWERED = "nothing is done about it"


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedBack:
    """Where the event went. Neither id: others hold it, or the gate wants no judgement."""

    eval_id: EvalId | None = None
    question_id: QuestionId | None = None  # given back three times: a person decides
    repeated: bool = False  # this Ticket had handed it back before; nothing changed


async def hand_back(
    tx: Tx, instance_id: InstanceId, ticket_id: TicketId, trigger_id: TriggerId, reason: str
) -> HandedBack:
    """Give a delivered Trigger back; it never returns to this Ticket.

    Raises NotFound when the Trigger was not delivered to the Ticket.
    """
    announcements = Announcements(instance_id)
    outcome = await give_back(tx, instance_id, ticket_id, trigger_id, reason, announcements)
    await announcements.store(tx)
    return outcome


async def give_back(
    tx: Tx,
    instance_id: InstanceId,
    ticket_id: TicketId,
    trigger_id: TriggerId,
    reason: str,
    announcements: Announcements,
) -> HandedBack:
    """Do what ``hand_back`` does, for a transaction that goes on and stores the events later."""
    trigger = await intake.trigger(tx, instance_id, trigger_id)
    if trigger is None:
        raise NotFound(f"cannot hand back {trigger_id}: there is no such message")
    await subscriptions.lock_trigger(tx, instance_id, trigger_id)
    if not await subscriptions.mark_handed_back(tx, instance_id, trigger_id, ticket_id, reason):
        if await subscriptions.state_of(tx, instance_id, trigger_id, ticket_id) is None:
            raise NotFound(f"cannot hand back {trigger_id}: it was not delivered to this ticket")
        return HandedBack(repeated=True)
    announcements.add(
        "trigger_handed_back",
        subject_id=trigger_id,
        thread_id=trigger.thread_id,
        ticket_id=ticket_id,
        reason=reason,
    )
    match after_hand_back(await subscriptions.delivered(tx, instance_id, trigger_id)):
        case NextStop.OTHER_SUBSCRIBERS:
            return HandedBack()
        case NextStop.EVALUATION:
            return HandedBack(eval_id=await _judge(tx, instance_id, trigger, announcements))
        case NextStop.PERSON:
            return HandedBack(question_id=await _ask(tx, instance_id, trigger, announcements))
        case other:
            assert_never(other)


async def _judge(
    tx: Tx, instance_id: InstanceId, trigger: TriggerView, announcements: Announcements
) -> EvalId | None:
    """Let the Router decide, as the gate sees the event under the current policy."""
    policy = await current_policy(tx, instance_id)
    admission = await arrival.admit_again(tx, instance_id, trigger, policy.rules)
    return await arrival.evaluate(
        tx,
        instance_id,
        trigger.trigger_id,
        trigger.thread_id,
        trigger.thread_seq,
        admission,
        policy,
        announcements,
    )


async def _ask(
    tx: Tx, instance_id: InstanceId, trigger: TriggerView, announcements: Announcements
) -> QuestionId:
    """Put the event before a person, once: it stays visible until somebody answers."""
    question_id = QuestionId(trigger.trigger_id)  # an event asks at most once, so its id serves
    quoted = trigger.text[:_QUOTED_CHARACTERS]
    text = f"Nobody could take this message: “{quoted}”. What should be done with it?"
    asked = await questions.ask(
        tx,
        instance_id,
        question_id,
        ticket_id=None,
        thread_id=trigger.thread_id,
        text=text,
        if_unanswered=_IF_UNANSWERED,
    )
    if asked:
        # The quotation may be long; what goes out keeps to the limit and the page shows the rest.
        await outbox.enqueue(
            tx,
            instance_id,
            trigger.thread_id,
            kind="question",
            text="Nobody took your message, asked three times. What should be done with it?",
            reply_to_trigger_id=trigger.trigger_id,
            question_id=question_id,
            idempotency_key=f"hand_back:{trigger.trigger_id}",
        )
        announcements.add(
            "question_asked",
            subject_id=question_id,
            thread_id=trigger.thread_id,
            question_id=question_id,
            text=text,
        )
    return question_id
