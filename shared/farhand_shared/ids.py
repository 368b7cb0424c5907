"""Ids of every kind, as UUIDv7: sortable by time, made by whoever creates the thing.

The wire and the database carry the 36-character text form. A different NewType per kind keeps a
ticket id from being handed where a session id is due.
"""

import os
import re
import time
import uuid
from datetime import UTC, datetime
from typing import Final, NewType

InstanceId = NewType("InstanceId", str)
MemberId = NewType("MemberId", str)
MachineId = NewType("MachineId", str)
SourceId = NewType("SourceId", str)
TriggerId = NewType("TriggerId", str)
ThreadId = NewType("ThreadId", str)
EvalId = NewType("EvalId", str)
TicketId = NewType("TicketId", str)
MandateId = NewType("MandateId", str)
AssignmentId = NewType("AssignmentId", str)
SessionId = NewType("SessionId", str)
CommandId = NewType("CommandId", str)
AttemptId = NewType("AttemptId", str)
QuestionId = NewType("QuestionId", str)
ReportId = NewType("ReportId", str)
OutboxId = NewType("OutboxId", str)
ReplicaId = NewType("ReplicaId", str)
TokenId = NewType("TokenId", str)

_IS_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch
_VARIANTS: Final = "89ab"


def new_id(*, now_ms: int | None = None) -> str:
    """Return a new UUIDv7 (RFC 9562 §5.7) as text.

    ``now_ms`` is the Unix time in milliseconds; the system clock when None.
    """
    ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    random = os.urandom(10).hex()
    time_ = f"{ms & (1 << 48) - 1:012x}"
    variant = _VARIANTS[int(random[4], 16) & 3]
    return f"{time_[:8]}-{time_[8:]}-7{random[1:4]}-{variant}{random[5:8]}-{random[8:]}"


def is_id(text: str) -> bool:
    """Tell whether ``text`` is a UUID in canonical text form (what ids on the wire must be)."""
    return _IS_ID(text) is not None


def id_time(identifier: str) -> datetime:
    """Return the moment a UUIDv7 was made (UTC, millisecond resolution)."""
    ms = uuid.UUID(identifier).int >> 80
    return datetime.fromtimestamp(ms / 1000, tz=UTC)
