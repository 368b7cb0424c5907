"""Live events: stored ones first, then each new one as the database says that it is there.

The number of an event is its id in the stream, so a client that comes back with the last one it
saw misses nothing and sees nothing twice.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from farhand_control_plane.db import events
from farhand_control_plane.db.events import StoredEvent
from farhand_control_plane.db.listen import EVENTS, TOKENS, Listener
from farhand_control_plane.db.pool import Database
from farhand_shared.errors import NotAllowed
from farhand_shared.ids import InstanceId, ThreadId, TicketId

# A comment this often keeps proxies from closing a quiet stream, and finds clients that are gone.
_HEARTBEAT_S: Final = 15.0
_BATCH: Final = 200


class EventStreams:
    """The open event streams of one replica."""

    def __init__(self, database: Database, listener: Listener) -> None:
        self._database = database
        self._waiting: dict[asyncio.Event, InstanceId] = {}
        self._closing = False
        listener.subscribe(EVENTS, self._wake)
        listener.subscribe(TOKENS, lambda _: self._wake(""))  # each looks whether it was its own

    def _wake(self, payload: str) -> None:
        """Wake the streams of an instance; all of them when a telling may have been missed."""
        for news, instance_id in self._waiting.items():
            if not payload or payload == instance_id:
                news.set()

    def close(self) -> None:
        """End every stream after what it has: a stop of the server does not wait for them."""
        self._closing = True
        for news in self._waiting:
            news.set()

    async def stream(
        self,
        instance_id: InstanceId,
        after: int,
        *,
        check: Callable[[], Awaitable[object]],
        thread_id: ThreadId | None = None,
        ticket_id: TicketId | None = None,
    ) -> AsyncIterator[bytes]:
        """Yield server-sent events numbered above ``after`` until the server stops.

        ``check`` raises NotAllowed once the caller is none any more; the stream ends before it
        tells anything more. Who comes back is told why.
        """
        news = asyncio.Event()
        self._waiting[news] = instance_id
        try:
            yield b": farhand events\n\n"  # the client sees at once that the stream is open
            while not self._closing:
                news.clear()  # before reading: what comes meanwhile wakes the next round
                try:
                    await check()
                except NotAllowed:
                    return
                async with self._database.transaction() as tx:
                    found = await events.read_after(
                        tx, instance_id, after, thread_id=thread_id, ticket_id=ticket_id,
                        limit=_BATCH,
                    )  # fmt: skip
                if found:
                    after = found[-1].seq
                    yield b"".join(encode(event) for event in found)
                    continue
                try:
                    async with asyncio.timeout(_HEARTBEAT_S):
                        await news.wait()
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            del self._waiting[news]


def encode(event: StoredEvent) -> bytes:
    """Return one event as the stream carries it: one line of ASCII, whatever counts as a break."""
    data = json.dumps(
        {
            "seq": event.seq,
            "kind": event.kind,
            "subject_id": event.subject_id,
            "thread_id": event.thread_id,
            "ticket_id": event.ticket_id,
            "payload": event.payload,
            "at": event.at.isoformat(),
        },
        separators=(",", ":"),
    )
    return f"id: {event.seq}\ndata: {data}\n\n".encode("ascii")
