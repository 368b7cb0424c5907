"""The tables, as SQLModel classes: the only source of the schema. Imported inside ``db/`` alone.

Rules: ``instance_id`` leads every primary, unique and foreign key, so a row of one instance cannot
point at another's. Ids are UUIDs (version 7, made by us). Bytes are ``bytea``; JSON is ``jsonb``
(the item codec escapes U+0000, which jsonb refuses). Times are ``timestamptz``. A state is text
with a check constraint. Nothing stores what can be computed: a ticket has no stage column.
Replicas, the schema's record and the root of the private PKI belong to the deployment, not to an
instance, and are the only tables without the leading ``instance_id``.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlmodel import Field, SQLModel

from farhand_control_plane.domain.words import (
    AssignmentEnd,
    DeliveryState,
    EvalState,
    MachineStatus,
    MemberRole,
    OutboxState,
    QuestionState,
    ReportKind,
    SessionKind,
    Strength,
    TicketOutcome,
    ToolCallState,
    Verdict,
)
from farhand_shared.command import AttemptState

_NOW = text("farhand_now()")


def _id(*, key: bool = False, null: bool = False) -> Any:
    return Field(sa_column=Column(Uuid(as_uuid=False), primary_key=key, nullable=null))


def _text(*, key: bool = False, null: bool = False, default: str | None = None) -> Any:
    server = None if default is None else text(f"'{default}'")
    return Field(sa_column=Column(Text, primary_key=key, nullable=null, server_default=server))


def _bytes(*, null: bool = False) -> Any:
    return Field(sa_column=Column(LargeBinary, nullable=null))


def _int(*, key: bool = False, null: bool = False, default: int | None = None) -> Any:
    server = None if default is None else text(str(default))
    return Field(
        sa_column=Column(
            BigInteger, primary_key=key, nullable=null, server_default=server, autoincrement=False
        )
    )


def _bool(*, default: bool = False) -> Any:
    server = text("true" if default else "false")
    return Field(sa_column=Column(Boolean, nullable=False, server_default=server))


def _json(*, null: bool = False, default: str = "{}") -> Any:
    server = None if null else text(f"'{default}'::jsonb")
    return Field(sa_column=Column(JSONB, nullable=null, server_default=server))


def _time(*, null: bool = False, now: bool = False) -> Any:
    server = _NOW if now else None
    return Field(sa_column=Column(DateTime(timezone=True), nullable=null, server_default=server))


def _texts() -> Any:
    return Field(sa_column=Column(ARRAY(Text), nullable=False, server_default=text("'{}'")))


def _to(table: str, *columns: str, key: tuple[str, ...] | None = None) -> ForeignKeyConstraint:
    """A foreign key within the instance: (instance_id, columns…) → table's own key."""
    target = key or columns
    return ForeignKeyConstraint(
        ["instance_id", *columns],
        [f"{table}.instance_id", *(f"{table}.{c}" for c in target)],
        name=f"fk_{{own}}_{'_'.join(columns)}",
    )


def _one_of(column: str, words: Any) -> CheckConstraint:
    listed = ", ".join(f"'{w.value}'" for w in words)
    return CheckConstraint(f"{column} in ({listed})", name=f"{column}_word")


def _table(name: str, *constraints: Any) -> tuple[Any, ...]:
    for constraint in constraints:
        if isinstance(constraint, ForeignKeyConstraint):
            constraint.name = str(constraint.name).format(own=name)
        elif isinstance(constraint, CheckConstraint):
            constraint.name = f"ck_{name}_{constraint.name}"
    return constraints


_INSTANCE = ("instances", ("instance_id",))


def _instance() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(
        ["instance_id"], ["instances.instance_id"], name="fk_{own}_instance"
    )


# ── the deployment ──────────────────────────────────────────────────────────────────────────────


class SchemaRecord(SQLModel, table=True):
    """One row: what code may run on this schema."""

    __tablename__ = "schema_record"
    one: bool = Field(sa_column=Column(Boolean, primary_key=True, server_default=text("true")))
    min_code_version: int = _int()  # refused when above the running code's SCHEMA_VERSION
    schema_version: int = _int()
    migrated_at: datetime = _time(now=True)
    clock_shift_ms: int = _int(default=0)  # tests shift database time by it; 0 in production
    __table_args__ = (CheckConstraint("one", name="ck_schema_record_one_row"),)


class Replica(SQLModel, table=True):
    __tablename__ = "replicas"
    replica_id: str = _id(key=True)
    address: str = _text()
    version: str = _text()
    started_at: datetime = _time(now=True)
    seen_at: datetime = _time(now=True)


class CaKey(SQLModel, table=True):
    """A root of the private PKI; its private key wrapped by the instance key."""

    __tablename__ = "ca_keys"
    ca_key_id: str = _id(key=True)
    certificate_pem: str = _text()
    spki_sha256: bytes = _bytes()
    wrapped_private_key: bytes = _bytes()
    created_at: datetime = _time(now=True)
    retired_at: datetime | None = _time(null=True)


class Instance(SQLModel, table=True):
    __tablename__ = "instances"
    instance_id: str = _id(key=True)
    name: str = _text()
    next_event_seq: int = _int(default=1)  # taken under the row's lock: events commit in order
    settings: dict[str, Any] = _json()
    created_at: datetime = _time(now=True)


# ── people ──────────────────────────────────────────────────────────────────────────────────────


class Member(SQLModel, table=True):
    __tablename__ = "members"
    instance_id: str = _id(key=True)
    member_id: str = _id(key=True)
    name: str = _text()
    role: str = _text()
    created_at: datetime = _time(now=True)
    removed_at: datetime | None = _time(null=True)
    __table_args__ = _table(__tablename__, _instance(), _one_of("role", MemberRole))


class Identity_(SQLModel, table=True):
    """Who a provider's stable id is here: (slack, U123) → member."""

    __tablename__ = "identities"
    instance_id: str = _id(key=True)
    provider: str = _text(key=True)
    external_id: str = _text(key=True)
    member_id: str = _id()
    proved_at: datetime = _time(now=True)
    __table_args__ = _table(__tablename__, _to("members", "member_id"))


class ApiToken(SQLModel, table=True):
    __tablename__ = "api_tokens"
    instance_id: str = _id(key=True)
    token_id: str = _id(key=True)
    member_id: str = _id()
    name: str = _text()
    token_sha256: bytes = Field(sa_column=Column(LargeBinary, nullable=False, unique=True))
    scopes: list[str] = _texts()
    machine_id: str | None = _id(null=True)  # "this machine" of a CLI that uses this token
    created_at: datetime = _time(now=True)
    expires_at: datetime | None = _time(null=True)
    revoked_at: datetime | None = _time(null=True)
    used_at: datetime | None = _time(null=True)
    __table_args__ = _table(__tablename__, _to("members", "member_id"))


# ── machines ────────────────────────────────────────────────────────────────────────────────────


class Machine(SQLModel, table=True):
    __tablename__ = "machines"
    instance_id: str = _id(key=True)
    machine_id: str = _id(key=True)
    owner_member_id: str = _id()
    name: str = _text()
    status: str = _text()
    trust_level: str = _text(default="off")  # what the machine's file says; shown, never obeyed
    chosen_by: str = _text(default="")
    allow_inferred: bool = _bool()
    concurrency: int = _int(default=4)
    labels: dict[str, Any] = _json()
    facts: dict[str, Any] = _json()
    capability: int = _int(default=0)
    daemon_version: str = _text(default="")
    words: list[str] = _texts()  # six; compared by the maker of the code
    journal_id: str | None = _text(null=True)
    journal_counter: int = _int(default=0)
    created_at: datetime = _time(now=True)
    activated_at: datetime | None = _time(null=True)
    revoked_at: datetime | None = _time(null=True)
    seen_at: datetime | None = _time(null=True)
    __table_args__ = _table(
        __tablename__,
        _to("members", "owner_member_id", key=("member_id",)),
        _one_of("status", MachineStatus),
        Index(
            "uq_machines_name",
            "instance_id",
            "name",
            unique=True,
            postgresql_where=text("status <> 'revoked'"),
        ),
    )


class MachineConnection(SQLModel, table=True):
    """Which replica holds a machine's link. The epoch only grows; the row stays when it closes."""

    __tablename__ = "machine_connections"
    instance_id: str = _id(key=True)
    machine_id: str = _id(key=True)
    replica_id: str | None = _id(null=True)  # null: not connected
    address: str = _text(default="")
    epoch: int = _int(default=0)
    daemon_instance_id: str | None = _text(null=True)
    connected_at: datetime | None = _time(null=True)
    lease_until: datetime | None = _time(null=True)
    __table_args__ = _table(__tablename__, _to("machines", "machine_id"))


class EnrolmentCode(SQLModel, table=True):
    __tablename__ = "enrolment_codes"
    instance_id: str = _id(key=True)
    code_id: str = _id(key=True)
    secret_sha256: bytes = Field(sa_column=Column(LargeBinary, nullable=False, unique=True))
    made_by_member_id: str = _id()
    name: str | None = _text(null=True)  # what the maker wants to call the machine
    created_at: datetime = _time(now=True)
    expires_at: datetime = _time()
    used_at: datetime | None = _time(null=True)
    used_spki_sha256: bytes | None = _bytes(null=True)
    machine_id: str | None = _id(null=True)
    certificate_der: bytes | None = _bytes(null=True)  # given again to the same key
    __table_args__ = _table(
        __tablename__,
        _to("members", "made_by_member_id", key=("member_id",)),
        _to("machines", "machine_id"),
    )


class Certificate(SQLModel, table=True):
    __tablename__ = "certificates"
    instance_id: str = _id(key=True)
    serial: str = _text(key=True)  # hex
    machine_id: str = _id()
    spki_sha256: bytes = _bytes()
    not_before: datetime = _time()
    not_after: datetime = _time()
    issued_at: datetime = _time(now=True)
    replaced_at: datetime | None = _time(null=True)
    revoked_at: datetime | None = _time(null=True)
    __table_args__ = _table(__tablename__, _to("machines", "machine_id"))


# ── from an event to authorised work ────────────────────────────────────────────────────────────


class Policy(SQLModel, table=True):
    __tablename__ = "policies"
    instance_id: str = _id(key=True)
    version: int = _int(key=True)
    rules: dict[str, Any] = _json()
    made_by_member_id: str | None = _id(null=True)  # null: seeded
    created_at: datetime = _time(now=True)
    __table_args__ = _table(__tablename__, _instance())


class Source(SQLModel, table=True):
    __tablename__ = "sources"
    instance_id: str = _id(key=True)
    source_id: str = _id(key=True)
    kind: str = _text()
    name: str = _text()
    settings: dict[str, Any] = _json()
    cursor: dict[str, Any] | None = _json(null=True)  # its own read position
    created_at: datetime = _time(now=True)
    removed_at: datetime | None = _time(null=True)
    __table_args__ = _table(
        __tablename__,
        _instance(),
        UniqueConstraint("instance_id", "kind", "name", name="uq_sources_name"),
    )


class RawDelivery(SQLModel, table=True):
    """What a provider sent, byte for byte, stored before it is answered. Kept 30 days."""

    __tablename__ = "raw_deliveries"
    instance_id: str = _id(key=True)
    source_id: str = _id(key=True)
    delivery_key: str = _text(key=True)
    headers: dict[str, Any] = _json()
    body: bytes = _bytes()
    received_at: datetime = _time(now=True)
    processed_at: datetime | None = _time(null=True)
    error: str | None = _text(null=True)
    __table_args__ = _table(__tablename__, _to("sources", "source_id"))


class Thread(SQLModel, table=True):
    __tablename__ = "threads"
    instance_id: str = _id(key=True)
    thread_id: str = _id(key=True)
    source_id: str = _id()
    external_key: str = _text()
    next_seq: int = _int(default=1)  # thread_seq is given under the row's lock
    created_at: datetime = _time(now=True)
    __table_args__ = _table(
        __tablename__,
        _to("sources", "source_id"),
        UniqueConstraint("instance_id", "source_id", "external_key", name="uq_threads_key"),
    )


class Trigger(SQLModel, table=True):
    __tablename__ = "triggers"
    instance_id: str = _id(key=True)
    trigger_id: str = _id(key=True)
    source_id: str = _id()
    provider_event_id: str = _text()
    revision: str = _text(default="")
    thread_id: str = _id()
    thread_seq: int = _int()
    kind: str = _text()
    sender_external_id: str = _text()
    sender_member_id: str | None = _id(null=True)
    sender_is_bot: bool = _bool()
    strength: str | None = _text(null=True)  # null: not admitted by the gate
    text_: str = Field(sa_column=Column("text", Text, nullable=False, server_default=text("''")))
    details: dict[str, Any] = _json()  # mentions, this_machine, reply_to… as the source gives them
    replaces_trigger_id: str | None = _id(null=True)  # an edit or deletion names the old one
    occurred_at: datetime | None = _time(null=True)
    received_at: datetime = _time(now=True)
    __table_args__ = _table(
        __tablename__,
        _to("sources", "source_id"),
        _to("threads", "thread_id"),
        _to("triggers", "replaces_trigger_id", key=("trigger_id",)),
        UniqueConstraint(
            "instance_id", "source_id", "provider_event_id", "revision", name="uq_triggers_event"
        ),
        UniqueConstraint("instance_id", "thread_id", "thread_seq", name="uq_triggers_thread_seq"),
    )


class Eval(SQLModel, table=True):
    """Judgement over Triggers of one Thread. pending: waits for the Router's step."""

    __tablename__ = "evals"
    instance_id: str = _id(key=True)
    eval_id: str = _id(key=True)
    thread_id: str = _id()
    state: str = _text()
    strength: str = _text()
    requester_member_id: str | None = _id(null=True)
    policy_version: int = _int()
    last_seq_seen: int = _int()  # a Subscription made by this Eval starts right after it
    gate: dict[str, Any] = _json()  # which row of the table decided, and why
    verdict: str | None = _text(null=True)
    attached_ticket_id: str | None = _id(null=True)
    reason: str = _text(default="")
    lease_until: datetime | None = _time(null=True)
    tries: int = _int(default=0)
    created_at: datetime = _time(now=True)
    closed_at: datetime | None = _time(null=True)
    __table_args__ = _table(
        __tablename__,
        _to("threads", "thread_id"),
        ForeignKeyConstraint(
            ["instance_id", "policy_version"],
            ["policies.instance_id", "policies.version"],
            name="fk_{own}_policy_version",
        ),
        _one_of("state", EvalState),
        _one_of("strength", Strength),
        CheckConstraint(
            "verdict is null or verdict in (" + ", ".join(f"'{v.value}'" for v in Verdict) + ")",
            name="verdict_word",
        ),
        CheckConstraint("(state = 'closed') = (verdict is not null)", name="closed_has_verdict"),
        Index(
            "uq_evals_one_running",
            "instance_id",
            "thread_id",
            unique=True,
            postgresql_where=text("state = 'running'"),
        ),
    )


class EvalTrigger(SQLModel, table=True):
    __tablename__ = "eval_triggers"
    instance_id: str = _id(key=True)
    eval_id: str = _id(key=True)
    trigger_id: str = _id(key=True)
    __table_args__ = _table(__tablename__, _to("evals", "eval_id"), _to("triggers", "trigger_id"))


class Ticket(SQLModel, table=True):
    """One authorised unit of work. Only an Eval makes one: eval_id is NOT NULL and unique."""

    __tablename__ = "tickets"
    instance_id: str = _id(key=True)
    ticket_id: str = _id(key=True)
    eval_id: str = _id()
    title: str = _text()
    request: str = _text()
    requester_member_id: str = _id()
    inferred: bool = _bool()
    created_at: datetime = _time(now=True)
    closed_at: datetime | None = _time(null=True)
    outcome: str | None = _text(null=True)
    closed_by_member_id: str | None = _id(null=True)
    __table_args__ = _table(
        __tablename__,
        _to("evals", "eval_id"),
        _to("members", "requester_member_id", key=("member_id",)),
        UniqueConstraint("instance_id", "eval_id", name="uq_tickets_eval"),
        CheckConstraint(
            "outcome is null or outcome in ("
            + ", ".join(f"'{o.value}'" for o in TicketOutcome)
            + ")",
            name="outcome_word",
        ),
        CheckConstraint("(closed_at is null) = (outcome is null)", name="closed_has_outcome"),
    )


class Mandate(SQLModel, table=True):
    """What a Ticket may do and how far. Never updated: a trigger in the database refuses."""

    __tablename__ = "mandates"
    instance_id: str = _id(key=True)
    mandate_id: str = _id(key=True)
    ticket_id: str = _id()
    eval_id: str = _id()
    policy_version: int = _int()
    scope: dict[str, Any] = _json()
    mandate_hash: bytes = _bytes()
    granted_by_member_id: str = _id()
    valid_until: datetime = _time()
    created_at: datetime = _time(now=True)
    __table_args__ = _table(
        __tablename__,
        _to("tickets", "ticket_id"),
        _to("evals", "eval_id"),
        _to("members", "granted_by_member_id", key=("member_id",)),
        UniqueConstraint("instance_id", "ticket_id", name="uq_mandates_ticket"),
    )


class MandateWithdrawal(SQLModel, table=True):
    __tablename__ = "mandate_withdrawals"
    instance_id: str = _id(key=True)
    mandate_id: str = _id(key=True)
    withdrawn_by_member_id: str = _id()
    reason: str = _text(default="")
    withdrawn_at: datetime = _time(now=True)
    __table_args__ = _table(
        __tablename__,
        _to("mandates", "mandate_id"),
        _to("members", "withdrawn_by_member_id", key=("member_id",)),
    )


class Assignment(SQLModel, table=True):
    __tablename__ = "assignments"
    instance_id: str = _id(key=True)
    assignment_id: str = _id(key=True)
    ticket_id: str = _id()
    session_id: str = _id()
    started_at: datetime = _time(now=True)
    ended_at: datetime | None = _time(null=True)
    end_reason: str | None = _text(null=True)
    __table_args__ = _table(
        __tablename__,
        _to("tickets", "ticket_id"),
        _to("sessions", "session_id"),
        CheckConstraint(
            "end_reason is null or end_reason in ("
            + ", ".join(f"'{e.value}'" for e in AssignmentEnd)
            + ")",
            name="end_reason_word",
        ),
        Index(
            "uq_assignments_one_live",
            "instance_id",
            "ticket_id",
            unique=True,
            postgresql_where=text("ended_at is null"),
        ),
        Index("ix_assignments_session", "instance_id", "session_id"),
    )


class Subscription(SQLModel, table=True):
    __tablename__ = "subscriptions"
    instance_id: str = _id(key=True)
    thread_id: str = _id(key=True)
    ticket_id: str = _id(key=True)
    from_seq: int = _int()  # delivers triggers with thread_seq >= from_seq
    created_at: datetime = _time(now=True)
    ended_at: datetime | None = _time(null=True)
    __table_args__ = _table(__tablename__, _to("threads", "thread_id"), _to("tickets", "ticket_id"))


class Delivery(SQLModel, table=True):
    """A Trigger brought to one subscriber. One row per pair: a hand-back never returns there."""

    __tablename__ = "deliveries"
    instance_id: str = _id(key=True)
    trigger_id: str = _id(key=True)
    ticket_id: str = _id(key=True)
    state: str = _text()
    tries: int = _int(default=0)
    next_try_at: datetime | None = _time(null=True)
    error: str | None = _text(null=True)
    created_at: datetime = _time(now=True)
    handed_back_at: datetime | None = _time(null=True)
    __table_args__ = _table(
        __tablename__,
        _to("triggers", "trigger_id"),
        _to("tickets", "ticket_id"),
        _one_of("state", DeliveryState),
    )


class Report(SQLModel, table=True):
    """What a Worker says of its Ticket; people hear it from the Router."""

    __tablename__ = "reports"
    instance_id: str = _id(key=True)
    report_id: str = _id(key=True)
    ticket_id: str = _id()
    session_id: str = _id()
    kind: str = _text()
    text_: str = Field(sa_column=Column("text", Text, nullable=False))
    accept: str = _text(default="")  # what a person is to accept; empty: nothing
    command_ids: list[str] = _json(default="[]")  # whose output is shown with it
    created_at: datetime = _time(now=True)
    delivered_at: datetime | None = _time(null=True)
    __table_args__ = _table(
        __tablename__,
        _to("tickets", "ticket_id"),
        _to("sessions", "session_id"),
        _one_of("kind", ReportKind),
        Index("ix_reports_ticket", "instance_id", "ticket_id", "created_at"),
    )


class Question(SQLModel, table=True):
    __tablename__ = "questions"
    instance_id: str = _id(key=True)
    question_id: str = _id(key=True)
    ticket_id: str | None = _id(null=True)
    thread_id: str | None = _id(null=True)
    text_: str = Field(sa_column=Column("text", Text, nullable=False))
    options: list[str] = _json(default="[]")
    default_option: str | None = _text(null=True)
    if_unanswered: str = _text(default="")
    state: str = _text(default="pending")
    asked_at: datetime = _time(now=True)
    answer: str | None = _text(null=True)
    answered_by_member_id: str | None = _id(null=True)
    settled_at: datetime | None = _time(null=True)
    __table_args__ = _table(
        __tablename__,
        _to("tickets", "ticket_id"),
        _to("threads", "thread_id"),
        _one_of("state", QuestionState),
        Index(
            "ix_questions_pending",
            "instance_id",
            "ticket_id",
            postgresql_where=text("state = 'pending'"),
        ),
    )


class OutboxRow(SQLModel, table=True):
    """An outward effect, stored before it is tried."""

    __tablename__ = "outbox"
    instance_id: str = _id(key=True)
    outbox_id: str = _id(key=True)
    thread_id: str = _id()
    ticket_id: str | None = _id(null=True)
    reply_to_trigger_id: str | None = _id(null=True)
    kind: str = _text()  # acknowledgement, reply, question
    body: dict[str, Any] = _json()  # text, command_ids, report_id, question_id
    idempotency_key: str = _text()
    state: str = _text()
    thread_position: int = Field(
        sa_column=Column(BigInteger, Identity(always=True), nullable=False)
    )
    tries: int = _int(default=0)
    next_try_at: datetime | None = _time(null=True)
    error: str | None = _text(null=True)
    send_result: dict[str, Any] | None = _json(null=True)
    created_at: datetime = _time(now=True)
    sent_at: datetime | None = _time(null=True)
    __table_args__ = _table(
        __tablename__,
        _to("threads", "thread_id"),
        _to("tickets", "ticket_id"),
        _one_of("state", OutboxState),
        UniqueConstraint("instance_id", "idempotency_key", name="uq_outbox_key"),
        Index(
            "ix_outbox_due",
            "next_try_at",
            postgresql_where=text("state in ('ready', 'sending', 'unknown')"),
        ),
    )


# ── sessions ────────────────────────────────────────────────────────────────────────────────────


class Session(SQLModel, table=True):
    __tablename__ = "sessions"
    instance_id: str = _id(key=True)
    session_id: str = _id(key=True)
    kind: str = _text()
    shard_key: str = _text(default="")
    ticket_id: str | None = _id(null=True)
    ready_at: datetime | None = _time(null=True)  # kept by a claim, cleared by a release
    wake_at: datetime | None = _time(null=True)  # the inline wait of a released session
    lease_owner: str | None = _id(null=True)
    lease_until: datetime | None = _time(null=True)
    generation: int = _int(default=0)  # the fence: +1 at each claim
    next_item_seq: int = _int(default=1)
    resumes_charged: int = _int(default=0)
    tombstoned_at: datetime | None = _time(null=True)
    ended_at: datetime | None = _time(null=True)
    error: str | None = _text(null=True)
    created_at: datetime = _time(now=True)
    __table_args__ = _table(
        __tablename__,
        _instance(),
        _one_of("kind", SessionKind),
        Index("ix_sessions_ready", "ready_at", postgresql_where=text("ready_at is not null")),
        Index("ix_sessions_wake", "wake_at", postgresql_where=text("wake_at is not null")),
        Index("ix_sessions_lease", "lease_until", postgresql_where=text("lease_until is not null")),
        Index(
            "uq_sessions_router",
            "instance_id",
            "shard_key",
            unique=True,
            postgresql_where=text("kind = 'router'"),
        ),
    )


class InboxRow(SQLModel, table=True):
    """A message to a session: marked when consumed, never deleted, purged after 30 days."""

    __tablename__ = "inbox"
    instance_id: str = _id(key=True)
    session_id: str = _id(key=True)
    seq: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    kind: str = _text()
    dedupe_key: str = _text()
    wakes: bool = _bool(default=True)
    payload: dict[str, Any] = _json()
    created_at: datetime = _time(now=True)
    consumed_by_seq: int | None = _int(null=True)  # the item that took it
    parked_at: datetime | None = _time(null=True)  # poisoned: a person must look
    __table_args__ = _table(
        __tablename__,
        _to("sessions", "session_id"),
        UniqueConstraint("instance_id", "session_id", "dedupe_key", name="uq_inbox_dedupe"),
        Index(
            "ix_inbox_pending",
            "instance_id",
            "session_id",
            "seq",
            postgresql_where=text("consumed_by_seq is null and parked_at is null"),
        ),
    )


class Item(SQLModel, table=True):
    """One entry of a session's append-only log."""

    __tablename__ = "items"
    instance_id: str = _id(key=True)
    session_id: str = _id(key=True)
    item_seq: int = _int(key=True)
    kind: str = _text()  # input, assistant, tool_results, compaction, notice
    payload: dict[str, Any] = _json()
    generation: int = _int()
    created_at: datetime = _time(now=True)
    __table_args__ = _table(__tablename__, _to("sessions", "session_id"))


class ToolCall(SQLModel, table=True):
    """An effect that an assistant item asked for. The key is its idempotency key."""

    __tablename__ = "tool_calls"
    instance_id: str = _id(key=True)
    session_id: str = _id(key=True)
    item_seq: int = _int(key=True)
    call_index: int = _int(key=True)
    call_id: str = _text()  # the model's name for it
    name: str = _text()
    arguments: dict[str, Any] = _json()
    state: str = _text()
    waits_for: str | None = _text(null=True)  # dedupe key of the inbox row that ends the wait
    wait_until: datetime | None = _time(null=True)
    result: dict[str, Any] | None = _json(null=True)
    created_at: datetime = _time(now=True)
    done_at: datetime | None = _time(null=True)
    __table_args__ = _table(
        __tablename__,
        _to("items", "session_id", "item_seq"),
        _one_of("state", ToolCallState),
        Index(
            "ix_tool_calls_open",
            "instance_id",
            "session_id",
            postgresql_where=text("state <> 'done'"),
        ),
    )


class Usage(SQLModel, table=True):
    """One model call: what it took."""

    __tablename__ = "usage"
    instance_id: str = _id(key=True)
    usage_id: str = _id(key=True)
    session_id: str = _id()
    ticket_id: str | None = _id(null=True)
    model: str = _text()
    prompt_tokens: int = _int(default=0)
    cached_tokens: int = _int(default=0)
    output_tokens: int = _int(default=0)
    price_micros: int = _int(default=0)
    at: datetime = _time(now=True)
    __table_args__ = _table(__tablename__, _to("sessions", "session_id"))


# ── commands ────────────────────────────────────────────────────────────────────────────────────


class Command(SQLModel, table=True):
    """What is asked of a machine."""

    __tablename__ = "commands"
    instance_id: str = _id(key=True)
    command_id: str = _id(key=True)
    machine_id: str = _id()
    requester_member_id: str = _id()
    ticket_id: str | None = _id(null=True)  # null: a direct exec
    session_id: str | None = _id(null=True)
    item_seq: int | None = _int(null=True)
    call_index: int | None = _int(null=True)
    title: str = _text(default="")  # for people: the command as text, cut
    spec: bytes = _bytes()
    input_digest: bytes = _bytes()
    tier: int = Field(sa_column=Column(SmallInteger, nullable=False, server_default=text("5")))
    inferred: bool = _bool()
    mandate_hash: bytes | None = _bytes(null=True)
    supersede_key: str | None = _text(null=True)
    start_expires_at: datetime = _time()
    traceparent: str = _text(default="")
    created_at: datetime = _time(now=True)
    __table_args__ = _table(
        __tablename__,
        _to("machines", "machine_id"),
        _to("members", "requester_member_id", key=("member_id",)),
        _to("tickets", "ticket_id"),
        UniqueConstraint(
            "instance_id", "session_id", "item_seq", "call_index", name="uq_commands_effect"
        ),
        Index("ix_commands_ticket", "instance_id", "ticket_id"),
    )


class Attempt(SQLModel, table=True):
    """One try on one machine. Every write is guarded by state and the machine's current epoch."""

    __tablename__ = "attempts"
    instance_id: str = _id(key=True)
    attempt_id: str = _id(key=True)
    command_id: str = _id()
    machine_id: str = _id()
    state: str = _text()
    epoch: int | None = _int(null=True)  # of the offer; a fact
    journal_id: str | None = _text(null=True)
    journal_counter: int | None = _int(null=True)
    plan_hash: bytes | None = _bytes(null=True)
    queued_at: datetime = _time(now=True)
    offered_at: datetime | None = _time(null=True)
    acknowledged_at: datetime | None = _time(null=True)
    started_at: datetime | None = _time(null=True)
    pid: int | None = _int(null=True)
    boot_id: str | None = _text(null=True)
    stop_reason: str | None = _text(null=True)
    ended_at: datetime | None = _time(null=True)
    reason: str | None = _text(null=True)
    exit_code: int | None = Field(sa_column=Column(Integer, nullable=True))
    signal: int | None = Field(sa_column=Column(Integer, nullable=True))
    error_code: str = _text(default="")
    error: str = _text(default="")
    result_hash: bytes | None = _bytes(null=True)
    result: dict[str, Any] | None = _json(null=True)  # the whole result as JSON
    stdout_stored: int = _int(default=0)  # everything below is stored or omitted
    stderr_stored: int = _int(default=0)
    omitted: list[Any] = _json(default="[]")  # [stream, offset, length]
    __table_args__ = _table(
        __tablename__,
        _to("commands", "command_id"),
        _to("machines", "machine_id"),
        _one_of("state", AttemptState),
        Index("ix_attempts_command", "instance_id", "command_id"),
        Index(
            "ix_attempts_open",
            "instance_id",
            "machine_id",
            "queued_at",
            postgresql_where=text(
                "state in ('queued','offered','awaiting_owner','journalled','started','stopping')"
            ),
        ),
    )


class Approval(SQLModel, table=True):
    """An owner's answer to a machine's ask; binds one attempt and one plan."""

    __tablename__ = "approvals"
    instance_id: str = _id(key=True)
    attempt_id: str = _id(key=True)
    plan_hash: bytes = _bytes()
    state: str = _text(default="pending")
    answered_by_member_id: str | None = _id(null=True)
    asked_at: datetime = _time(now=True)
    answered_at: datetime | None = _time(null=True)
    __table_args__ = _table(
        __tablename__, _to("attempts", "attempt_id"), _one_of("state", QuestionState)
    )


class OutputChunk(SQLModel, table=True):
    """Output bytes, partitioned by the week in which the attempt was made (30 days kept).

    ``week`` is the Monday, taken from the attempt's UUIDv7 (``output.week_of``), so that all chunks
    of one attempt share a partition and (attempt, stream, offset) stays unique.
    """

    __tablename__ = "output_chunks"
    instance_id: str = _id(key=True)
    week: datetime = Field(sa_column=Column(DateTime(timezone=True), primary_key=True))
    attempt_id: str = _id(key=True)
    stream: int = Field(sa_column=Column(SmallInteger, primary_key=True, autoincrement=False))
    start_offset: int = _int(key=True)
    data: bytes = _bytes()
    __table_args__ = ({"postgresql_partition_by": "RANGE (week)"},)


class Event(SQLModel, table=True):
    """What pages and watchers are told, numbered in commit order per instance."""

    __tablename__ = "events"
    instance_id: str = _id(key=True)
    seq: int = _int(key=True)
    kind: str = _text()
    subject_id: str | None = _id(null=True)
    thread_id: str | None = _id(null=True)
    ticket_id: str | None = _id(null=True)
    payload: dict[str, Any] = _json()
    at: datetime = _time(now=True)
    __table_args__ = _table(__tablename__, _instance())
