"""From an event to its judgement."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
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
    of_instance,
    one_of,
    text_column,
    time_column,
    within_instance,
)
from farhand_control_plane.domain.words import (
    EvalState,
    Strength,
    Verdict,
)


class Policy(SQLModel, table=True):
    __tablename__ = "policies"
    instance_id: str = id_column(key=True)
    version: int = int_column(key=True)
    rules: dict[str, Any] = json_column()
    made_by_member_id: str | None = id_column(null=True)  # null: seeded
    created_at: datetime = time_column(now=True)
    __table_args__ = named(__tablename__, of_instance())


class Source(SQLModel, table=True):
    __tablename__ = "sources"
    instance_id: str = id_column(key=True)
    source_id: str = id_column(key=True)
    kind: str = text_column()
    name: str = text_column()
    settings: dict[str, Any] = json_column()
    cursor: dict[str, Any] | None = json_column(null=True)  # its own read position
    created_at: datetime = time_column(now=True)
    removed_at: datetime | None = time_column(null=True)
    __table_args__ = named(
        __tablename__,
        of_instance(),
        UniqueConstraint("instance_id", "kind", "name", name="uq_sources_name"),
    )


class RawDelivery(SQLModel, table=True):
    """What a provider sent, byte for byte, stored before it is answered. Kept 30 days."""

    __tablename__ = "raw_deliveries"
    instance_id: str = id_column(key=True)
    source_id: str = id_column(key=True)
    delivery_key: str = text_column(key=True)
    headers: dict[str, Any] = json_column()
    body: bytes = bytes_column()
    received_at: datetime = time_column(now=True)
    processed_at: datetime | None = time_column(null=True)
    error: str | None = text_column(null=True)
    __table_args__ = named(__tablename__, within_instance("sources", "source_id"))


class Thread(SQLModel, table=True):
    __tablename__ = "threads"
    instance_id: str = id_column(key=True)
    thread_id: str = id_column(key=True)
    source_id: str = id_column()
    external_key: str = text_column()
    next_seq: int = int_column(default=1)  # thread_seq is given under the row's lock
    created_at: datetime = time_column(now=True)
    __table_args__ = named(
        __tablename__,
        within_instance("sources", "source_id"),
        UniqueConstraint("instance_id", "source_id", "external_key", name="uq_threads_key"),
    )


class Trigger(SQLModel, table=True):
    __tablename__ = "triggers"
    instance_id: str = id_column(key=True)
    trigger_id: str = id_column(key=True)
    source_id: str = id_column()
    provider_event_id: str = text_column()
    revision: str = text_column(default="")
    thread_id: str = id_column()
    thread_seq: int = int_column()
    kind: str = text_column()
    sender_external_id: str = text_column()
    sender_member_id: str | None = id_column(null=True)
    sender_is_bot: bool = bool_column()
    strength: str | None = text_column(null=True)  # null: not admitted by the gate
    text_: str = Field(sa_column=Column("text", Text, nullable=False, server_default=text("''")))
    details: dict[str, Any] = (
        json_column()
    )  # mentions, this_machine, reply_to… as the source gives them
    replaces_trigger_id: str | None = id_column(null=True)  # an edit or deletion names the old one
    occurred_at: datetime | None = time_column(null=True)
    received_at: datetime = time_column(now=True)
    __table_args__ = named(
        __tablename__,
        within_instance("sources", "source_id"),
        within_instance("threads", "thread_id"),
        within_instance("triggers", "replaces_trigger_id", key=("trigger_id",)),
        UniqueConstraint(
            "instance_id", "source_id", "provider_event_id", "revision", name="uq_triggers_event"
        ),
        UniqueConstraint("instance_id", "thread_id", "thread_seq", name="uq_triggers_thread_seq"),
        Index(
            "ix_triggers_thread_received", "instance_id", "thread_id", "received_at", "trigger_id"
        ),
    )


class Eval(SQLModel, table=True):
    """Judgement over Triggers of one Thread. pending: waits for the Router's step."""

    __tablename__ = "evals"
    instance_id: str = id_column(key=True)
    eval_id: str = id_column(key=True)
    thread_id: str = id_column()
    state: str = text_column()
    strength: str = text_column()
    requester_member_id: str | None = id_column(null=True)
    policy_version: int = int_column()
    last_seq_seen: int = int_column()  # a Subscription made by this Eval starts right after it
    gate: dict[str, Any] = json_column()  # which row of the table decided, and why
    verdict: str | None = text_column(null=True)
    attached_ticket_id: str | None = id_column(null=True)
    reason: str = text_column(default="")
    lease_until: datetime | None = time_column(null=True)
    tries: int = int_column(default=0)
    created_at: datetime = time_column(now=True)
    closed_at: datetime | None = time_column(null=True)
    __table_args__ = named(
        __tablename__,
        within_instance("threads", "thread_id"),
        ForeignKeyConstraint(
            ["instance_id", "policy_version"],
            ["policies.instance_id", "policies.version"],
            name="fk_{own}_policy_version",
        ),
        one_of("state", EvalState),
        one_of("strength", Strength),
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
    instance_id: str = id_column(key=True)
    eval_id: str = id_column(key=True)
    trigger_id: str = id_column(key=True)
    __table_args__ = named(
        __tablename__,
        within_instance("evals", "eval_id"),
        within_instance("triggers", "trigger_id"),
        Index("ix_eval_triggers_trigger", "instance_id", "trigger_id"),
    )
