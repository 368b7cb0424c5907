"""The chat source: one message from a person becomes one Trigger."""

import json
from dataclasses import dataclass
from typing import Final

from farhand_control_plane.db import arrivals, intake, machines
from farhand_control_plane.db.arrivals import LockedThread
from farhand_control_plane.db.mandates import Policy, current_policy
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.admission import Admission, Arrival, admit
from farhand_control_plane.domain.feedback import person_text
from farhand_control_plane.domain.words import Strength
from farhand_control_plane.ingest import arrival, people
from farhand_control_plane.ingest.announcements import Announcements
from farhand_shared.errors import Conflict, InvalidInput, NotFound
from farhand_shared.ids import (
    EvalId,
    InstanceId,
    MachineId,
    MemberId,
    SourceId,
    ThreadId,
    TicketId,
    TriggerId,
    is_id,
)
from farhand_shared.limits import CHAT_MESSAGE_MAX_BYTES

KIND: Final = "chat"
_MESSAGE: Final = "message"
_KEY_MAX_CHARACTERS: Final = 200  # of a conversation's key and of a client's message id


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """What a person wrote. ``client_message_id`` names it: the same id again is the same event."""

    instance_id: InstanceId
    source_id: SourceId
    member_id: MemberId
    conversation: str  # the Thread's key within the source
    client_message_id: str
    text: str
    this_machine_id: MachineId | None = None  # what "this machine" means to the sender
    replaces_client_message_id: str | None = None  # an edit names the message it replaces


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """What a message became."""

    trigger_id: TriggerId
    thread_id: ThreadId
    eval_id: EvalId | None  # None: only delivered
    delivered_to: tuple[TicketId, ...]
    duplicate: bool  # it had arrived before; the ids are the first one's


async def accept_chat(tx: Tx, message: ChatMessage) -> Accepted:
    """Store a message and bring it where it belongs; durable once ``tx`` commits.

    An edit is a new Trigger that names the old one; an edit that changes nothing is none. Raises
    InvalidInput (empty, unstorable), TooLarge (64 KiB), NotFound (source, member or machine of
    another instance; the message to edit), Conflict (the id was used for another text).
    """
    person_text(message.text, what="chat message", limit_bytes=CHAT_MESSAGE_MAX_BYTES)
    _check_key("conversation", message.conversation)
    _check_key("client_message_id", message.client_message_id)
    await _check_ids(tx, message)
    thread = await arrivals.lock_thread(
        tx, message.instance_id, message.source_id, message.conversation
    )
    event_id, revision = _event_id(message, message.client_message_id), ""
    replaces = None
    if message.replaces_client_message_id is not None:
        event_id = _event_id(message, message.replaces_client_message_id)
        revision = message.client_message_id
        replaces = await _edited(tx, message, thread, event_id)
    arrived = await intake.find_event(
        tx, message.instance_id, message.source_id, event_id, revision
    )
    if arrived is None and replaces is not None and replaces.text == message.text:
        arrived = replaces
    if arrived is not None:
        return await _as_before(tx, message, arrived)

    await arrivals.store_raw(
        tx,
        message.instance_id,
        message.source_id,
        f"{event_id}:{revision}",
        json.dumps({"conversation": message.conversation, "text": message.text}).encode(),
        {},
    )
    policy = await current_policy(tx, message.instance_id)
    admission = _admission(message, thread, policy)
    trigger_id = await arrivals.add_trigger(
        tx,
        message.instance_id,
        thread,
        arrivals.NewTrigger(
            source_id=message.source_id,
            provider_event_id=event_id,
            revision=revision,
            kind=_MESSAGE,
            text=message.text,
            sender_external_id=message.member_id,
            sender_member_id=message.member_id,
            sender_is_bot=False,
            strength=admission.strength,
            details={"addressed": True, "this_machine_id": message.this_machine_id},
            replaces_trigger_id=None if replaces is None else replaces.trigger_id,
        ),
    )
    if trigger_id is None:  # the same id arrived at this moment in another conversation
        first = await intake.find_event(
            tx, message.instance_id, message.source_id, event_id, revision
        )
        if first is None:
            raise Conflict("cannot accept the message: its event was removed; send it again")
        return await _as_before(tx, message, first)
    return await _bring(tx, message, thread, trigger_id, admission, policy)


async def _bring(
    tx: Tx,
    message: ChatMessage,
    thread: LockedThread,
    trigger_id: TriggerId,
    admission: Admission,
    policy: Policy,
) -> Accepted:
    announcements = Announcements(message.instance_id)
    announcements.add(
        "trigger_received",
        subject_id=trigger_id,
        thread_id=thread.thread_id,
        text=message.text,
        sender_member_id=message.member_id,
    )
    delivered_to = await arrival.deliver_to_subscribers(
        tx,
        message.instance_id,
        thread.thread_id,
        trigger_id,
        thread.next_seq,
        revives=admission.strength is Strength.EXPLICIT,
    )
    eval_id = None
    if not delivered_to:
        eval_id = await arrival.evaluate(
            tx,
            message.instance_id,
            trigger_id,
            thread.thread_id,
            thread.next_seq,
            admission,
            policy,
            announcements,
        )
    if eval_id is None:
        await arrival.note_for_router(
            tx, message.instance_id, trigger_id, delivered_to=delivered_to
        )
    await announcements.store(tx)
    return Accepted(
        trigger_id=trigger_id,
        thread_id=thread.thread_id,
        eval_id=eval_id,
        delivered_to=delivered_to,
        duplicate=False,
    )


def _admission(message: ChatMessage, thread: LockedThread, policy: Policy) -> Admission:
    return admit(
        Arrival(
            source_kind=KIND,
            event_kind=_MESSAGE,
            sender_external_id=message.member_id,
            sender_member_id=message.member_id,
            sender_is_bot=False,
            addressed=True,  # a chat with the agent is a direct message by its nature
            on_ticket_thread=thread.had_ticket,
        ),
        policy.rules,
    )


def _event_id(message: ChatMessage, client_message_id: str) -> str:
    # The member is part of it: nobody reads or shadows another's message by guessing its id.
    return f"{message.member_id}:{client_message_id}"


async def _edited(
    tx: Tx, message: ChatMessage, thread: LockedThread, event_id: str
) -> intake.TriggerView:
    newest = await intake.newest_revision(tx, message.instance_id, message.source_id, event_id)
    if newest is None or newest.thread_id != thread.thread_id:
        raise NotFound(
            f"cannot edit message {message.replaces_client_message_id!r}: "
            "this conversation has none of yours of that id"
        )
    return newest


async def _as_before(tx: Tx, message: ChatMessage, arrived: intake.TriggerView) -> Accepted:
    if arrived.text != message.text:
        raise Conflict(
            "cannot accept the message: its client_message_id was used for another text; "
            "give each message its own"
        )
    fate = await intake.fate(tx, message.instance_id, arrived.trigger_id)
    return Accepted(
        trigger_id=arrived.trigger_id,
        thread_id=arrived.thread_id,
        eval_id=fate.eval_id,
        delivered_to=fate.delivered_to,
        duplicate=True,
    )


async def _check_ids(tx: Tx, message: ChatMessage) -> None:
    kind = None
    if is_id(message.source_id):
        kind = await intake.source_kind(tx, message.instance_id, message.source_id)
    if kind != KIND:
        raise NotFound(f"cannot accept the message: there is no chat source {message.source_id}")
    if await people.role_of(tx, message.instance_id, message.member_id) is None:
        raise NotFound(f"cannot accept the message: there is no member {message.member_id}")
    machine_id = message.this_machine_id
    if machine_id is not None and (
        not is_id(machine_id) or await machines.get(tx, message.instance_id, machine_id) is None
    ):
        raise NotFound(f"cannot accept the message: there is no machine {machine_id}")


def _check_key(name: str, key: str) -> None:
    person_text(key, what=name)
    if len(key) > _KEY_MAX_CHARACTERS:
        raise InvalidInput(
            f"cannot accept the message: {name} has {len(key)} characters, "
            f"the limit is {_KEY_MAX_CHARACTERS}; use a shorter one"
        )
