"""Tickets with their mandates, executors, subscriptions, reports, questions and replies."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Identity,
    Index,
    Text,
    UniqueConstraint,
    text,
)
from sqlmodel import Field, SQLModel

from farhand_control_plane.db.tables.columns import (
    bool_column,
    bytes_column,
    id_column,
    int_column,
    json_column,
    named,
    one_of,
    text_column,
    time_column,
    within_instance,
)
from farhand_control_plane.domain.words import (
    AssignmentEnd,
    DeliveryState,
    OutboxState,
    QuestionState,
    ReportKind,
    TicketOutcome,
)


class Ticket(SQLModel, table=True):
    """One authorised unit of work. Only an Eval makes one: eval_id is NOT NULL and unique."""

    __tablename__ = "tickets"
    instance_id: str = id_column(key=True)
    ticket_id: str = id_column(key=True)
    eval_id: str = id_column()
    title: str = text_column()
    request: str = text_column()
    requester_member_id: str = id_column()
    inferred: bool = bool_column()
    created_at: datetime = time_column(now=True)
    closed_at: datetime | None = time_column(null=True)
    outcome: str | None = text_column(null=True)
    closed_by_member_id: str | None = id_column(null=True)
    __table_args__ = named(
        __tablename__,
        within_instance("evals", "eval_id"),
        within_instance("members", "requester_member_id", key=("member_id",)),
        UniqueConstraint("instance_id", "eval_id", name="uq_tickets_eval"),
        CheckConstraint(
            "outcome is null or outcome in ("
            + ", ".join(f"'{o.value}'" for o in TicketOutcome)
            + ")",
            name="outcome_word",
        ),
        CheckConstraint("(closed_at is null) = (outcome is null)", name="closed_has_outcome"),
        Index(
            "ix_tickets_open",
            "instance_id",
            "created_at",
            postgresql_where=text("closed_at is null"),
        ),
        Index(
            "ix_tickets_closed",
            "instance_id",
            "closed_at",
            "ticket_id",
            postgresql_where=text("closed_at is not null"),
        ),
    )


class Mandate(SQLModel, table=True):
    """What a Ticket may do and how far. Never updated: a trigger in the database refuses."""

    __tablename__ = "mandates"
    instance_id: str = id_column(key=True)
    mandate_id: str = id_column(key=True)
    ticket_id: str = id_column()
    eval_id: str = id_column()
    policy_version: int = int_column()
    scope: dict[str, Any] = json_column()
    mandate_hash: bytes = bytes_column()
    granted_by_member_id: str = id_column()
    valid_until: datetime = time_column()
    created_at: datetime = time_column(now=True)
    __table_args__ = named(
        __tablename__,
        within_instance("tickets", "ticket_id"),
        within_instance("evals", "eval_id"),
        within_instance("members", "granted_by_member_id", key=("member_id",)),
        UniqueConstraint("instance_id", "ticket_id", name="uq_mandates_ticket"),
    )


class MandateWithdrawal(SQLModel, table=True):
    __tablename__ = "mandate_withdrawals"
    instance_id: str = id_column(key=True)
    mandate_id: str = id_column(key=True)
    withdrawn_by_member_id: str = id_column()
    reason: str = text_column(default="")
    withdrawn_at: datetime = time_column(now=True)
    __table_args__ = named(
        __tablename__,
        within_instance("mandates", "mandate_id"),
        within_instance("members", "withdrawn_by_member_id", key=("member_id",)),
    )


class Assignment(SQLModel, table=True):
    __tablename__ = "assignments"
    instance_id: str = id_column(key=True)
    assignment_id: str = id_column(key=True)
    ticket_id: str = id_column()
    session_id: str = id_column()
    started_at: datetime = time_column(now=True)
    ended_at: datetime | None = time_column(null=True)
    end_reason: str | None = text_column(null=True)
    __table_args__ = named(
        __tablename__,
        within_instance("tickets", "ticket_id"),
        within_instance("sessions", "session_id"),
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
        Index("ix_assignments_ticket", "instance_id", "ticket_id", "started_at"),
    )


class Subscription(SQLModel, table=True):
    __tablename__ = "subscriptions"
    instance_id: str = id_column(key=True)
    thread_id: str = id_column(key=True)
    ticket_id: str = id_column(key=True)
    from_seq: int = int_column()  # delivers triggers with thread_seq >= from_seq
    created_at: datetime = time_column(now=True)
    ended_at: datetime | None = time_column(null=True)
    __table_args__ = named(
        __tablename__,
        within_instance("threads", "thread_id"),
        within_instance("tickets", "ticket_id"),
        Index("ix_subscriptions_ticket", "instance_id", "ticket_id"),
    )


class Delivery(SQLModel, table=True):
    """A Trigger brought to one subscriber. One row per pair: a hand-back never returns there."""

    __tablename__ = "deliveries"
    instance_id: str = id_column(key=True)
    trigger_id: str = id_column(key=True)
    ticket_id: str = id_column(key=True)
    state: str = text_column()
    tries: int = int_column(default=0)
    next_try_at: datetime | None = time_column(null=True)
    error: str | None = text_column(null=True)
    created_at: datetime = time_column(now=True)
    handed_back_at: datetime | None = time_column(null=True)
    __table_args__ = named(
        __tablename__,
        within_instance("triggers", "trigger_id"),
        within_instance("tickets", "ticket_id"),
        one_of("state", DeliveryState),
        Index("ix_deliveries_ticket", "instance_id", "ticket_id"),
        Index("ix_deliveries_late", "next_try_at", postgresql_where=text("state = 'pending'")),
    )


class Report(SQLModel, table=True):
    """What a Worker says of its Ticket; people hear it from the Router."""

    __tablename__ = "reports"
    instance_id: str = id_column(key=True)
    report_id: str = id_column(key=True)
    ticket_id: str = id_column()
    session_id: str = id_column()
    kind: str = text_column()
    text_: str = Field(sa_column=Column("text", Text, nullable=False))
    accept: str = text_column(default="")  # what a person is to accept; empty: nothing
    command_ids: list[str] = json_column(default="[]")  # whose output is shown with it
    created_at: datetime = time_column(now=True)
    delivered_at: datetime | None = time_column(null=True)
    __table_args__ = named(
        __tablename__,
        within_instance("tickets", "ticket_id"),
        within_instance("sessions", "session_id"),
        one_of("kind", ReportKind),
        Index("ix_reports_ticket", "instance_id", "ticket_id", "created_at"),
        Index(
            "ix_reports_undelivered",
            "created_at",
            postgresql_where=text("delivered_at is null and kind <> 'progress'"),
        ),
    )


class Question(SQLModel, table=True):
    __tablename__ = "questions"
    instance_id: str = id_column(key=True)
    question_id: str = id_column(key=True)
    ticket_id: str | None = id_column(null=True)
    thread_id: str | None = id_column(null=True)
    text_: str = Field(sa_column=Column("text", Text, nullable=False))
    options: list[str] = json_column(default="[]")
    default_option: str | None = text_column(null=True)
    if_unanswered: str = text_column(default="")
    state: str = text_column(default="pending")
    asked_at: datetime = time_column(now=True)
    answer: str | None = text_column(null=True)
    answered_by_member_id: str | None = id_column(null=True)
    settled_at: datetime | None = time_column(null=True)
    __table_args__ = named(
        __tablename__,
        within_instance("tickets", "ticket_id"),
        within_instance("threads", "thread_id"),
        one_of("state", QuestionState),
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
    instance_id: str = id_column(key=True)
    outbox_id: str = id_column(key=True)
    thread_id: str = id_column()
    ticket_id: str | None = id_column(null=True)
    reply_to_trigger_id: str | None = id_column(null=True)
    kind: str = text_column()  # acknowledgement, reply, question
    body: dict[str, Any] = json_column()  # text, command_ids, report_id, question_id
    idempotency_key: str = text_column()
    state: str = text_column()
    thread_position: int = Field(
        sa_column=Column(BigInteger, Identity(always=True), nullable=False)
    )
    tries: int = int_column(default=0)
    next_try_at: datetime | None = time_column(null=True)
    error: str | None = text_column(null=True)
    send_result: dict[str, Any] | None = json_column(null=True)
    created_at: datetime = time_column(now=True)
    sent_at: datetime | None = time_column(null=True)
    __table_args__ = named(
        __tablename__,
        within_instance("threads", "thread_id"),
        within_instance("tickets", "ticket_id"),
        one_of("state", OutboxState),
        UniqueConstraint("instance_id", "idempotency_key", name="uq_outbox_key"),
        Index("ix_outbox_ticket", "instance_id", "ticket_id"),
        Index(
            "ix_outbox_thread_sent",
            "instance_id",
            "thread_id",
            "sent_at",
            "outbox_id",
            postgresql_where=text("state = 'sent'"),
        ),
        Index(
            "ix_outbox_order",
            "instance_id",
            "thread_id",
            "thread_position",
            postgresql_where=text("state in ('ready', 'sending', 'unknown')"),
        ),
        Index(
            "ix_outbox_due",
            "next_try_at",
            postgresql_where=text("state in ('ready', 'sending', 'unknown')"),
        ),
    )
