"""An event as the stream carries it, and what the payload of each kind holds."""

from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel, Field

from farhand_control_plane.domain.words import EventKind as Kind

_MACHINE: Final = "about a machine; machine (its name)"

# What `subject_id` names, then the payload's fields. Fields that are not known are to be left out.
PAYLOADS: Final[dict[Kind, str]] = {
    Kind.TRIGGER_RECEIVED: "about a trigger; text, sender_member_id",
    Kind.TRIGGER_HANDED_BACK: "about a trigger; reason",
    Kind.EVAL_OPENED: "about an eval; trigger_ids",
    Kind.EVAL_CLOSED: "about an eval; eval_id, verdict, reason, observed",
    Kind.TICKET_OPENED: "about a ticket; title, eval_id",
    Kind.TICKET_CLOSED: "about a ticket; title, outcome, reason",
    Kind.REPORT_MADE: "about a report; report_id, kind, trigger_ids",
    Kind.REPLY_SENT: "about what was sent (an item of GET /v1/chat); kind, text, command_ids, "
    "report_id, question_id, reply_to_trigger_id",
    Kind.QUESTION_ASKED: "about a question; question_id, and text, options, command_id if known",
    Kind.QUESTION_SETTLED: "about a question; question_id, state, trigger_id",
    Kind.COMMAND_WAITING: "about a command that waits for its machine; command_id, machine, "
    "because (offline, paused or being made), since (when the machine was last heard), until",
    Kind.COMMAND_STARTED: "about a command; command_id, machine, title, state, exit_status (null)",
    Kind.COMMAND_ENDED: "about a command; command_id, machine, title, state, exit_status",
    Kind.MODEL_UNAVAILABLE: "about a session; session_kind, reason",
    Kind.NEEDS_PERSON: "about a session; session_kind, what, and what that needs",
    Kind.SESSION_TOMBSTONED: "about a session that gave up; session_kind, reason",
    Kind.MACHINE_ENROLLED: f"{_MACHINE}, words: it is pending until a person confirms the words",
    Kind.MACHINE_CONFIRMED: _MACHINE,
    Kind.MACHINE_REVOKED: _MACHINE,
    Kind.MACHINE_RENAMED: "about a machine; machine (its new name), before",
    Kind.MACHINE_LABELLED: f"{_MACHINE}, labels (those that people gave it)",
    Kind.MACHINE_DESCRIBED: f"{_MACHINE}: it tells other facts, labels or limits than before",
    Kind.MACHINE_UPDATED: f"{_MACHINE}, version (of its daemon, now), before",
    Kind.MACHINE_UPDATE_FAILED: f"{_MACHINE}, reason: a version failed there, the one before runs",
    Kind.MACHINE_PAUSED: f"{_MACHINE}: nothing more starts there until it is resumed",
    Kind.MACHINE_RESUMED: _MACHINE,
    Kind.MACHINE_ONLINE: _MACHINE,
    Kind.MACHINE_OFFLINE: f"{_MACHINE}: its link ended, or its replica did and nobody has heard it",
}


class Event(BaseModel):
    """One event of GET /v1/events: the JSON after `data:`; `seq` is its `id:` too.

    Only commands of a ticket are told.
    """

    seq: int
    kind: Kind
    subject_id: str | None = Field(description="the id of what it is about")
    thread_id: str | None
    ticket_id: str | None
    payload: dict[str, Any] = Field(
        description="by kind. " + " · ".join(f"{kind}: {text}" for kind, text in PAYLOADS.items())
    )
    at: datetime
