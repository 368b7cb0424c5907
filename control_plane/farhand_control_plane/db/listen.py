"""Hearing NOTIFY: one connection per process, every channel, and a rescan after each gap."""

import asyncio
import logging
import random
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import psycopg
from psycopg import AsyncConnection

from farhand_control_plane.db.connect import Row, connect
from farhand_shared.errors import FarhandError

_log = logging.getLogger(__name__)

SESSIONS: Final = "farhand_sessions"  # payload empty: some session became ready
COMMANDS: Final = "farhand_commands"  # payload: machine_id with something queued or to be stopped,
# or machine_id and attempt_id: of an attempt that is lost or indeterminate, to be ended
ATTEMPTS: Final = "farhand_attempts"  # payload: attempt_id whose output or state moved on
OUTBOX: Final = "farhand_outbox"  # payload empty: something is to be sent
EVENTS: Final = "farhand_events"  # payload: instance_id with a new event
MACHINES: Final = "farhand_machines"  # payload: machine_id whose status changed (revoked, …)
TOKENS: Final = "farhand_tokens"  # payload: hex of the hash of a token that was revoked
ENVIRONMENTS: Final = "farhand_environments"  # payload empty: one is wanted, or is to go
# payload: attempt_id and call_id of input that its holder is to take, or call_id: it is answered
INPUTS: Final = "farhand_inputs"
CHANNELS: Final = (
    SESSIONS,
    COMMANDS,
    ATTEMPTS,
    OUTBOX,
    EVENTS,
    MACHINES,
    TOKENS,
    ENVIRONMENTS,
    INPUTS,
)

PROBE_S: Final = 15.0  # a silent connection is asked for a sign of life this often
PROBE_ANSWER_S: Final = 5.0
RECONNECT_FIRST_S: Final = 0.1
RECONNECT_CAP_S: Final = 5.0

Callback = Callable[[str], None]


class Listener:
    """Calls subscribers back for each NOTIFY on their channel, in the event loop.

    A notification is a hint, never the work itself: none is kept while the connection is down, so
    after every (re)connect each subscriber is called once with ``""`` and looks for itself. Needs a
    direct connection: a pooler in transaction mode does not pass notifications on.
    """

    def __init__(self, dsn: str, *, application_name: str = "farhand listen") -> None:
        self._dsn = dsn
        self._application_name = application_name
        self._subscribers: dict[str, list[Callback]] = {channel: [] for channel in CHANNELS}
        self._task: asyncio.Task[None] | None = None

    def subscribe(self, channel: str, callback: Callback) -> Callable[[], None]:
        """Have ``callback(payload)`` called for each NOTIFY; returns what ends it.

        The callback returns quickly and raises nothing: it sets an event or puts into a queue.
        """
        self._subscribers[channel].append(callback)
        return lambda: self._subscribers[channel].remove(callback)

    async def open(self) -> None:
        """Start hearing; returns when the channels are heard. Raises what ``connect`` raises."""
        connection = await self._listening()
        self._task = asyncio.create_task(self._run(connection), name="listen")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _listening(self) -> AsyncConnection[Row]:
        connection = await connect(self._dsn, self._application_name)
        try:
            await connection.execute("; ".join(f"listen {channel}" for channel in CHANNELS))
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _run(self, connection: AsyncConnection[Row] | None) -> None:
        wait_s = RECONNECT_FIRST_S
        while True:
            try:
                if connection is None:
                    connection = await self._listening()
                    _log.info("listening again")
                wait_s = RECONNECT_FIRST_S
                for channel in CHANNELS:
                    self._call(channel, "")
                await self._hear(connection)
            except (FarhandError, OSError) as error:
                _log.warning("not listening: %s", error)
            finally:
                if connection is not None:
                    await connection.close()
                    connection = None
            # Spread, so that many replicas do not come back as one.
            await asyncio.sleep(wait_s * (0.5 + random.random() / 2))  # noqa: S311 - not a secret
            wait_s = min(wait_s * 2, RECONNECT_CAP_S)

    async def _hear(self, connection: AsyncConnection[Row]) -> None:
        """Pass notifications on until the connection is lost."""
        try:
            while True:
                async for notification in connection.notifies(timeout=PROBE_S):
                    self._call(notification.channel, notification.payload)
                async with asyncio.timeout(PROBE_ANSWER_S):
                    await connection.execute("select 1")
        except (psycopg.Error, TimeoutError) as error:
            _log.warning("the listening connection was lost: %s", error)

    def _call(self, channel: str, payload: str) -> None:
        for callback in tuple(self._subscribers.get(channel, ())):
            callback(payload)
