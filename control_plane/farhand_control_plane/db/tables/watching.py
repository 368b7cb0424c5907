"""What pages and watchers are told."""

from datetime import datetime
from typing import Any

from sqlmodel import SQLModel

from farhand_control_plane.db.tables.columns import (
    id_column,
    int_column,
    json_column,
    named,
    of_instance,
    text_column,
    time_column,
)


class Event(SQLModel, table=True):
    """What pages and watchers are told, numbered in commit order per instance."""

    __tablename__ = "events"
    instance_id: str = id_column(key=True)
    seq: int = int_column(key=True)
    kind: str = text_column()
    subject_id: str | None = id_column(null=True)
    thread_id: str | None = id_column(null=True)
    ticket_id: str | None = id_column(null=True)
    payload: dict[str, Any] = json_column()
    at: datetime = time_column(now=True)
    __table_args__ = named(__tablename__, of_instance())
