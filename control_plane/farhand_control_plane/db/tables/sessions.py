"""The session engine: sessions, inbox, log, calls, usage."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Identity,
    Index,
    UniqueConstraint,
    text,
)
from sqlmodel import Field, SQLModel

from farhand_control_plane.db.tables.columns import (
    bool_column,
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
    SessionKind,
    ToolCallState,
)


class Session(SQLModel, table=True):
    __tablename__ = "sessions"
    instance_id: str = id_column(key=True)
    session_id: str = id_column(key=True)
    kind: str = text_column()
    shard_key: str = text_column(default="")
    ticket_id: str | None = id_column(null=True)
    ready_at: datetime | None = time_column(null=True)  # kept by a claim, cleared by a release
    wake_at: datetime | None = time_column(null=True)  # the inline wait of a released session
    lease_owner: str | None = id_column(null=True)
    lease_until: datetime | None = time_column(null=True)
    generation: int = int_column(default=0)  # the fence: +1 at each claim
    next_item_seq: int = int_column(default=1)
    resumes_charged: int = int_column(default=0)
    tombstoned_at: datetime | None = time_column(null=True)
    ended_at: datetime | None = time_column(null=True)
    error: str | None = text_column(null=True)
    created_at: datetime = time_column(now=True)
    __table_args__ = named(
        __tablename__,
        of_instance(),
        one_of("kind", SessionKind),
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
    instance_id: str = id_column(key=True)
    session_id: str = id_column(key=True)
    seq: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    kind: str = text_column()
    dedupe_key: str = text_column()
    wakes: bool = bool_column(default=True)
    payload: dict[str, Any] = json_column()
    created_at: datetime = time_column(now=True)
    consumed_by_seq: int | None = int_column(null=True)  # the item that took it
    parked_at: datetime | None = time_column(null=True)  # poisoned: a person must look
    __table_args__ = named(
        __tablename__,
        within_instance("sessions", "session_id"),
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
    instance_id: str = id_column(key=True)
    session_id: str = id_column(key=True)
    item_seq: int = int_column(key=True)
    kind: str = text_column()  # input, assistant, tool_results, compaction, notice
    payload: dict[str, Any] = json_column()
    generation: int = int_column()
    created_at: datetime = time_column(now=True)
    __table_args__ = named(__tablename__, within_instance("sessions", "session_id"))


class ToolCall(SQLModel, table=True):
    """An effect that an assistant item asked for. The key is its idempotency key."""

    __tablename__ = "tool_calls"
    instance_id: str = id_column(key=True)
    session_id: str = id_column(key=True)
    item_seq: int = int_column(key=True)
    call_index: int = int_column(key=True)
    call_id: str = text_column()  # the model's name for it
    name: str = text_column()
    arguments: dict[str, Any] = json_column()
    state: str = text_column()
    waits_for: str | None = text_column(null=True)  # dedupe key of the inbox row that ends the wait
    wait_until: datetime | None = time_column(null=True)
    result: dict[str, Any] | None = json_column(null=True)
    created_at: datetime = time_column(now=True)
    done_at: datetime | None = time_column(null=True)
    __table_args__ = named(
        __tablename__,
        within_instance("items", "session_id", "item_seq"),
        one_of("state", ToolCallState),
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
    instance_id: str = id_column(key=True)
    usage_id: str = id_column(key=True)
    session_id: str = id_column()
    ticket_id: str | None = id_column(null=True)
    model: str = text_column()
    prompt_tokens: int = int_column(default=0)
    cached_tokens: int = int_column(default=0)
    output_tokens: int = int_column(default=0)
    price_micros: int = int_column(default=0)
    at: datetime = time_column(now=True)
    __table_args__ = named(__tablename__, within_instance("sessions", "session_id"))
