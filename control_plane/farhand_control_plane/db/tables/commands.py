"""Commands, their attempts and output."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    Column,
    DateTime,
    Index,
    Integer,
    SmallInteger,
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
    QuestionState,
)
from farhand_shared.command import AttemptState


class Command(SQLModel, table=True):
    """What is asked of a machine."""

    __tablename__ = "commands"
    instance_id: str = id_column(key=True)
    command_id: str = id_column(key=True)
    machine_id: str = id_column()
    requester_member_id: str = id_column()
    ticket_id: str | None = id_column(null=True)  # null: a direct exec
    session_id: str | None = id_column(null=True)
    item_seq: int | None = int_column(null=True)
    call_index: int | None = int_column(null=True)
    title: str = text_column(default="")  # for people: the command as text, cut
    spec: bytes = bytes_column()
    input_digest: bytes = bytes_column()
    tier: int = Field(sa_column=Column(SmallInteger, nullable=False, server_default=text("5")))
    inferred: bool = bool_column()
    mandate_hash: bytes | None = bytes_column(null=True)
    supersede_key: str | None = text_column(null=True)
    start_expires_at: datetime = time_column()
    traceparent: str = text_column(default="")
    created_at: datetime = time_column(now=True)
    __table_args__ = named(
        __tablename__,
        within_instance("machines", "machine_id"),
        within_instance("members", "requester_member_id", key=("member_id",)),
        within_instance("tickets", "ticket_id"),
        # The instance comes last in these: with it first and no statistics yet, the planner takes
        # them for the primary key, and reads every row of the instance per lookup.
        UniqueConstraint(
            "session_id", "item_seq", "call_index", "instance_id", name="uq_commands_effect"
        ),
        Index("ix_commands_ticket", "ticket_id", "instance_id"),
    )


class Attempt(SQLModel, table=True):
    """One try on one machine. Every write is guarded by state and the machine's current epoch."""

    __tablename__ = "attempts"
    instance_id: str = id_column(key=True)
    attempt_id: str = id_column(key=True)
    command_id: str = id_column()
    machine_id: str = id_column()
    state: str = text_column()
    epoch: int | None = int_column(null=True)  # of the offer; a fact
    journal_id: str | None = text_column(null=True)
    journal_counter: int | None = int_column(null=True)
    plan_hash: bytes | None = bytes_column(null=True)
    queued_at: datetime = time_column(now=True)
    offered_at: datetime | None = time_column(null=True)
    acknowledged_at: datetime | None = time_column(null=True)
    started_at: datetime | None = time_column(null=True)
    pid: int | None = int_column(null=True)
    boot_id: str | None = text_column(null=True)
    stop_reason: str | None = text_column(null=True)
    ended_at: datetime | None = time_column(null=True)
    reason: str | None = text_column(null=True)
    exit_code: int | None = Field(sa_column=Column(Integer, nullable=True))
    signal: int | None = Field(sa_column=Column(Integer, nullable=True))
    error_code: str = text_column(default="")
    error: str = text_column(default="")
    result_hash: bytes | None = bytes_column(null=True)
    result: dict[str, Any] | None = json_column(null=True)  # the whole result as JSON
    stdout_stored: int = int_column(default=0)  # everything below is stored or omitted
    stderr_stored: int = int_column(default=0)
    omitted: list[Any] = json_column(default="[]")  # [stream, offset, length]
    __table_args__ = named(
        __tablename__,
        within_instance("commands", "command_id"),
        within_instance("machines", "machine_id"),
        one_of("state", AttemptState),
        Index("ix_attempts_command", "command_id", "instance_id"),  # as in commands
        Index(
            "ix_attempts_open",
            "instance_id",
            "machine_id",
            "queued_at",
            postgresql_where=text(
                "state in ('queued','offered','awaiting_owner','journalled','started','stopping')"
            ),
        ),
        Index(
            "ix_attempts_provisional",
            "instance_id",
            "machine_id",
            "ended_at",
            postgresql_where=text("state in ('lost','indeterminate')"),
        ),
    )


class Approval(SQLModel, table=True):
    """An owner's answer to a machine's ask; binds one attempt and one plan."""

    __tablename__ = "approvals"
    instance_id: str = id_column(key=True)
    attempt_id: str = id_column(key=True)
    plan_hash: bytes = bytes_column()
    state: str = text_column(default="pending")
    answered_by_member_id: str | None = id_column(null=True)
    asked_at: datetime = time_column(now=True)
    answered_at: datetime | None = time_column(null=True)
    __table_args__ = named(
        __tablename__, within_instance("attempts", "attempt_id"), one_of("state", QuestionState)
    )


class InputCall(SQLModel, table=True):
    """What one replica asks another to do with a command's input; gone once it is answered."""

    __tablename__ = "input_calls"
    instance_id: str = id_column(key=True)
    call_id: str = id_column(key=True)
    attempt_id: str = id_column()
    request: dict[str, Any] = json_column()
    data: bytes = bytes_column()
    answer: dict[str, Any] | None = json_column(null=True)
    created_at: datetime = time_column(now=True)


class OutputChunk(SQLModel, table=True):
    """Output bytes, partitioned by the week in which the attempt was made (30 days kept).

    ``week`` is the Monday, taken from the attempt's UUIDv7 (``output.week_of``), so that all chunks
    of one attempt share a partition and (attempt, stream, offset) stays unique.
    """

    __tablename__ = "output_chunks"
    instance_id: str = id_column(key=True)
    week: datetime = Field(sa_column=Column(DateTime(timezone=True), primary_key=True))
    attempt_id: str = id_column(key=True)
    stream: int = Field(sa_column=Column(SmallInteger, primary_key=True, autoincrement=False))
    start_offset: int = int_column(key=True)
    data: bytes = bytes_column()
    __table_args__ = ({"postgresql_partition_by": "RANGE (week)"},)
