"""Transactions over a few kept connections."""

import asyncio
import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Final, Self

from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus

from farhand_control_plane.db.connect import DatabaseUnreachable, Row, connect, is_lost
from farhand_control_plane.db.transaction import Tx

MAX_CONNECTIONS: Final = 16  # per replica; Postgres serves 100 by default
ROLLBACK_S: Final = 5.0


class Database:
    """The database as this process sees it: ``async with database.transaction() as tx``.

    Connections are opened when first needed and kept; at most ``max_connections`` at once, further
    callers wait their turn. Nothing is retried: who opened a transaction knows what may be run
    again.
    """

    def __init__(
        self, dsn: str, *, application_name: str = "farhand", max_connections: int = MAX_CONNECTIONS
    ) -> None:
        self.dsn = dsn
        self._application_name = application_name
        self._turns = asyncio.Semaphore(max_connections)
        self._idle: list[AsyncConnection[Row]] = []
        self._open = False

    async def open(self) -> None:
        """Prove that the database can be used. Raises DatabaseUnreachable or DatabaseTooOld."""
        self._idle.append(await connect(self.dsn, self._application_name))
        self._open = True

    async def close(self) -> None:
        """Close what is idle; connections in use are closed when their transaction ends."""
        self._open = False
        while self._idle:
            await self._idle.pop().close()

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

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Tx]:
        """Give a transaction (READ COMMITTED): committed at the end, rolled back on any error.

        ``tx.transaction()`` inside makes a savepoint. An error at the commit itself means that the
        outcome is unknown.
        """
        async with self.autocommit() as connection:
            await connection.execute("begin")
            try:
                yield connection
            except BaseException:
                await _roll_back(connection)
                raise
            await connection.execute("commit")

    @asynccontextmanager
    async def autocommit(self) -> AsyncIterator[Tx]:
        """Give a connection on which each statement is its own transaction.

        For paths that do all their work in one statement: it saves two round trips.
        """
        async with self._turns:
            connection = await self._take()
            try:
                yield connection
            except Exception as error:
                if is_lost(error):
                    await self._drop_idle()  # they are gone too; the next caller connects anew
                    if not isinstance(error, DatabaseUnreachable):
                        raise DatabaseUnreachable(
                            f"cannot finish a database call: the connection was lost ({error});"
                            " try again when the database answers"
                        ) from error
                raise
            finally:
                await self._give_back(connection)

    async def _take(self) -> AsyncConnection[Row]:
        if not self._open:
            raise DatabaseUnreachable("cannot use the database: it was closed; start again")
        while self._idle:
            connection = self._idle.pop()
            if _is_usable(connection):
                return connection
            await connection.close()
        return await connect(self.dsn, self._application_name)

    async def _give_back(self, connection: AsyncConnection[Row]) -> None:
        clean = connection.info.transaction_status == TransactionStatus.IDLE
        if self._open and clean and not connection.closed:
            self._idle.append(connection)
        else:
            await connection.close()

    async def _drop_idle(self) -> None:
        while self._idle:
            await self._idle.pop().close()


def _is_usable(connection: AsyncConnection[Row]) -> bool:
    """Say whether an idle connection is still there, without a round trip.

    The server sends nothing on an idle connection except that it is going away, so anything to
    read (or the end of the stream) means: do not use it.
    """
    if connection.closed:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


async def _roll_back(connection: AsyncConnection[Row]) -> None:
    """Roll back; a connection that cannot is closed, which makes the server do it."""
    try:
        async with asyncio.timeout(ROLLBACK_S):
            await connection.rollback()
    except Exception:
        await connection.close()
    except asyncio.CancelledError:
        # Cancelled once more; or the time was up in a task that is being cancelled, which Python
        # before 3.11.4 tells with this exception too.
        await connection.close()
        raise
