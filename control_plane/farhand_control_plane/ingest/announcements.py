"""Events gathered while a transaction does its work, and stored last.

Storing an event takes the lock of the instance's row, and no lock may be taken after that one.
"""

from typing import Any

from farhand_control_plane.db import events
from farhand_control_plane.db.transaction import Tx
from farhand_shared.ids import InstanceId, ThreadId, TicketId


class Announcements:
    """What watchers of one instance will be told, in order."""

    def __init__(self, instance_id: InstanceId) -> None:
        self._instance_id = instance_id
        self._kept: list[dict[str, Any]] = []

    def add(
        self,
        event: str,
        /,
        *,
        subject_id: str | None = None,
        thread_id: ThreadId | None = None,
        ticket_id: TicketId | None = None,
        **payload: Any,  # JSON values whose names belong to the kind of event
    ) -> None:
        self._kept.append(
            {
                "kind": event,
                "subject_id": subject_id,
                "thread_id": thread_id,
                "ticket_id": ticket_id,
                "payload": payload,
            }
        )

    async def store(self, tx: Tx) -> None:
        """Store what was gathered. Call it once, last in the transaction."""
        for event in self._kept:
            await events.emit(tx, self._instance_id, **event)
        self._kept.clear()
