"""Machines, who holds their links, how they enrol."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    Column,
    Index,
    LargeBinary,
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
    texts_column,
    time_column,
    within_instance,
)
from farhand_control_plane.domain.words import (
    EnvironmentState,
    MachineKind,
    MachineStatus,
)


class Machine(SQLModel, table=True):
    __tablename__ = "machines"
    instance_id: str = id_column(key=True)
    machine_id: str = id_column(key=True)
    owner_member_id: str = id_column()
    name: str = text_column()
    kind: str = text_column(default=MachineKind.PERSONAL.value)
    status: str = text_column()
    trust_level: str = text_column(
        default="off"
    )  # what the machine's file says; shown, never obeyed
    chosen_by: str = text_column(default="")
    allow_inferred: bool = bool_column()
    concurrency: int = int_column(default=4)
    labels: dict[str, Any] = json_column()
    facts: dict[str, Any] = json_column()
    capability: int = int_column(default=0)
    daemon_version: str = text_column(default="")
    words: list[str] = texts_column()  # six; compared by the maker of the code
    journal_id: str | None = text_column(null=True)
    journal_counter: int = int_column(default=0)
    created_at: datetime = time_column(now=True)
    activated_at: datetime | None = time_column(null=True)
    revoked_at: datetime | None = time_column(null=True)
    seen_at: datetime | None = time_column(null=True)
    __table_args__ = named(
        __tablename__,
        within_instance("members", "owner_member_id", key=("member_id",)),
        one_of("status", MachineStatus),
        one_of("kind", MachineKind),
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
    instance_id: str = id_column(key=True)
    machine_id: str = id_column(key=True)
    replica_id: str | None = id_column(null=True)  # null: not connected
    address: str = text_column(default="")
    epoch: int = int_column(default=0)
    daemon_instance_id: str | None = text_column(null=True)
    connected_at: datetime | None = time_column(null=True)
    lease_until: datetime | None = time_column(null=True)
    __table_args__ = named(__tablename__, within_instance("machines", "machine_id"))


class EnrolmentCode(SQLModel, table=True):
    __tablename__ = "enrolment_codes"
    instance_id: str = id_column(key=True)
    code_id: str = id_column(key=True)
    secret_sha256: bytes = Field(sa_column=Column(LargeBinary, nullable=False, unique=True))
    made_by_member_id: str = id_column()
    name: str | None = text_column(null=True)  # what the maker wants to call the machine
    kind: str = text_column(default=MachineKind.PERSONAL.value)  # of the machine that it makes
    for_machine_id: str | None = id_column(null=True)  # lets in this machine, which is stored
    created_at: datetime = time_column(now=True)
    expires_at: datetime = time_column()
    used_at: datetime | None = time_column(null=True)
    used_spki_sha256: bytes | None = bytes_column(null=True)
    machine_id: str | None = id_column(null=True)
    certificate_der: bytes | None = bytes_column(null=True)  # given again to the same key
    __table_args__ = named(
        __tablename__,
        within_instance("members", "made_by_member_id", key=("member_id",)),
        within_instance("machines", "machine_id"),
        within_instance("machines", "for_machine_id", key=("machine_id",)),
        one_of("kind", MachineKind),
    )


class Environment(SQLModel, table=True):
    """A machine on demand, from the wish for it to the proof that nothing of it is left."""

    __tablename__ = "environments"
    instance_id: str = id_column(key=True)
    machine_id: str = id_column(key=True)  # also what its provisioner knows it by
    requester_member_id: str = id_column()
    ticket_id: str | None = id_column(null=True)  # null: a person asked for it directly
    provisioner: str = text_column()
    place: str = text_column(default="")  # where it lies; only replicas there reach it
    state: str = text_column()
    reason: str = text_column(default="")  # why it is to be destroyed, for people
    error: str = text_column(default="")  # of the last try
    allow_inferred: bool = bool_column()
    tries: int = int_column(default=0)  # of what the state wants
    retry_at: datetime | None = time_column(null=True)
    generation: int = int_column(default=0)  # of the lease; only its holder writes
    leased_by: str | None = id_column(null=True)  # a replica
    lease_until: datetime | None = time_column(null=True)
    created_at: datetime = time_column(now=True)
    ready_at: datetime | None = time_column(null=True)
    expires_at: datetime = time_column()
    destroying_at: datetime | None = time_column(null=True)
    destroyed_at: datetime | None = time_column(null=True)
    __table_args__ = named(
        __tablename__,
        within_instance("machines", "machine_id"),
        within_instance("members", "requester_member_id", key=("member_id",)),
        within_instance("tickets", "ticket_id"),
        one_of("state", EnvironmentState),
        Index(
            "uq_environments_ticket",
            "instance_id",
            "ticket_id",
            unique=True,
            postgresql_where=text("state in ('creating', 'ready')"),
        ),
        Index(
            "ix_environments_open",
            "provisioner",
            "created_at",
            postgresql_where=text("state <> 'destroyed'"),
        ),
    )


class Certificate(SQLModel, table=True):
    __tablename__ = "certificates"
    instance_id: str = id_column(key=True)
    serial: str = text_column(key=True)  # hex
    machine_id: str = id_column()
    spki_sha256: bytes = bytes_column()
    not_before: datetime = time_column()
    not_after: datetime = time_column()
    issued_at: datetime = time_column(now=True)
    replaced_at: datetime | None = time_column(null=True)
    revoked_at: datetime | None = time_column(null=True)
    __table_args__ = named(__tablename__, within_instance("machines", "machine_id"))
