"""What belongs to the deployment, not to an instance; and the instances themselves."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    text,
)
from sqlmodel import Field, SQLModel

from farhand_control_plane.db.tables.columns import (
    bytes_column,
    id_column,
    int_column,
    json_column,
    text_column,
    time_column,
)


class SchemaRecord(SQLModel, table=True):
    """One row: what code may run on this schema."""

    __tablename__ = "schema_record"
    one: bool = Field(sa_column=Column(Boolean, primary_key=True, server_default=text("true")))
    min_code_version: int = int_column()  # refused when above the running code's SCHEMA_VERSION
    schema_version: int = int_column()
    migrated_at: datetime = time_column(now=True)
    clock_shift_ms: int = int_column(default=0)  # tests shift database time by it; 0 in production
    __table_args__ = (CheckConstraint("one", name="ck_schema_record_one_row"),)


class Replica(SQLModel, table=True):
    __tablename__ = "replicas"
    replica_id: str = id_column(key=True)
    address: str = text_column()
    version: str = text_column()
    started_at: datetime = time_column(now=True)
    seen_at: datetime = time_column(now=True)


class CaKey(SQLModel, table=True):
    """A root of the private PKI; its private key wrapped by the instance key."""

    __tablename__ = "ca_keys"
    ca_key_id: str = id_column(key=True)
    certificate_pem: str = text_column()
    spki_sha256: bytes = bytes_column()
    wrapped_private_key: bytes = bytes_column()
    created_at: datetime = time_column(now=True)
    retired_at: datetime | None = time_column(null=True)


class Instance(SQLModel, table=True):
    __tablename__ = "instances"
    instance_id: str = id_column(key=True)
    name: str = text_column()
    next_event_seq: int = int_column(
        default=1
    )  # taken under the row's lock: events commit in order
    settings: dict[str, Any] = json_column()
    created_at: datetime = time_column(now=True)
