"""The closed vocabularies of the domain. Tables, API and pages use exactly these values."""

from enum import StrEnum


class MemberRole(StrEnum):
    OWNER = "owner"
    MEMBER = "member"
    VIEWER = "viewer"  # sees, starts and stops nothing


class MachineStatus(StrEnum):
    PENDING = "pending"
    ACTIVE = "active"
    PAUSED = "paused"
    QUARANTINED = "quarantined"
    REVOKED = "revoked"


class MachineKind(StrEnum):
    """How a machine came to be; set when its code is made, never by the machine."""

    PERSONAL = "personal"  # a person's own computer
    MANAGED = "managed"  # set up by root or an image; a machine user, no prompts
    ON_DEMAND = "on_demand"  # an environment that a provisioner made, and destroys


class EnvironmentState(StrEnum):
    """Where an environment on demand stands. Intents are stored before anything is done."""

    CREATING = "creating"
    READY = "ready"
    DESTROYING = "destroying"
    DESTROYED = "destroyed"


class Strength(StrEnum):
    """How clearly somebody asked. Source: the gate's table."""

    EXPLICIT = "explicit"
    INFERRED = "inferred"


class EvalState(StrEnum):
    RUNNING = "running"  # being assessed, under a lease
    PENDING = "pending"  # waits for the Router's step
    CLOSED = "closed"


class Verdict(StrEnum):
    ACCEPT = "accept"
    ATTACH = "attach"
    ANSWER = "answer"
    STOP = "stop"
    IGNORE = "ignore"
    UNAVAILABLE = "unavailable"


class TicketOutcome(StrEnum):
    DONE = "done"
    STOPPED = "stopped"
    EXPIRED = "expired"


class Stage(StrEnum):
    """Computed, never stored."""

    NEEDS_PERSON = "needs_person"
    QUEUED = "queued"
    IDLE = "idle"
    WORKING = "working"
    CLOSED = "closed"


class Needs(StrEnum):
    """Why a Ticket needs a person."""

    DELIVERY = "delivery"
    ANSWER = "answer"
    REVIEW = "review"
    BLOCKED = "blocked"
    FAILED = "failed"


class AssignmentEnd(StrEnum):
    FINISHED = "finished"
    STOPPED = "stopped"
    TOMBSTONED = "tombstoned"
    REPLACED = "replaced"


class DeliveryState(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    HANDED_BACK = "handed_back"
    FAILED = "failed"


class ReportKind(StrEnum):
    PROGRESS = "progress"
    QUESTION = "question"
    READY = "ready"
    BLOCKED = "blocked"
    FAILED = "failed"


class QuestionState(StrEnum):
    PENDING = "pending"
    ANSWERED = "answered"
    DENIED = "denied"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"


class OutboxState(StrEnum):
    DRAFT = "draft"
    READY = "ready"
    SENDING = "sending"
    SENT = "sent"
    UNKNOWN = "unknown"  # tried, outcome not known: reconciled before any retry
    DEAD = "dead"
    DISCARDED = "discarded"


class SessionKind(StrEnum):
    ROUTER = "router"
    WORKER = "worker"
    WATCHDOG = "watchdog"


class ToolCallState(StrEnum):
    INTENDED = "intended"
    WAITING = "waiting"  # its result may still come inline
    DONE = "done"


class EventKind(StrEnum):
    """What pages and watchers are told. What the payload of each holds: api/event_document.py."""

    TRIGGER_RECEIVED = "trigger_received"
    TRIGGER_HANDED_BACK = "trigger_handed_back"
    EVAL_OPENED = "eval_opened"
    EVAL_CLOSED = "eval_closed"
    TICKET_OPENED = "ticket_opened"
    TICKET_CLOSED = "ticket_closed"
    REPORT_MADE = "report_made"
    REPLY_SENT = "reply_sent"
    QUESTION_ASKED = "question_asked"
    QUESTION_SETTLED = "question_settled"
    COMMAND_WAITING = "command_waiting"
    COMMAND_STARTED = "command_started"
    COMMAND_ENDED = "command_ended"
    MODEL_UNAVAILABLE = "model_unavailable"
    NEEDS_PERSON = "needs_person"
    SESSION_TOMBSTONED = "session_tombstoned"
    MACHINE_ENROLLED = "machine_enrolled"
    MACHINE_CONFIRMED = "machine_confirmed"
    MACHINE_REVOKED = "machine_revoked"
    MACHINE_RENAMED = "machine_renamed"
    MACHINE_LABELLED = "machine_labelled"
    MACHINE_DESCRIBED = "machine_described"
    MACHINE_UPDATED = "machine_updated"
    MACHINE_UPDATE_FAILED = "machine_update_failed"
    MACHINE_PAUSED = "machine_paused"
    MACHINE_RESUMED = "machine_resumed"
    MACHINE_ONLINE = "machine_online"
    MACHINE_OFFLINE = "machine_offline"
