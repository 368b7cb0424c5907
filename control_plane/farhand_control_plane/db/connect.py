"""One way to open a connection: adapters, settings and plain errors are the same everywhere."""

from typing import Any, Final

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.abc import AdaptContext
from psycopg.adapt import Buffer, Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Format
from psycopg.rows import dict_row
from psycopg.types.json import set_json_dumps, set_json_loads

from farhand_control_plane.db import json_codec
from farhand_shared.errors import FarhandError, InvalidInput, NotAllowed, Unavailable

OLDEST_SERVER: Final = 15  # major version
CONNECT_TIMEOUT_S: Final = 10

# A replica that is paused inside a transaction must not keep its row locks for ever: the server
# ends the transaction, and the replica's next statement fails.
_SETTINGS: Final = (
    "select set_config('idle_in_transaction_session_timeout', '30s', false),"
    " set_config('TimeZone', 'UTC', false)"
)

Row = dict[str, Any]


class DatabaseUnreachable(Unavailable):
    """No connection, or the connection was lost; the same call may work later."""

    code = "database_unreachable"


class DatabaseTooOld(FarhandError):
    code = "database_too_old"


class DatabaseRightsMissing(NotAllowed):
    """The role may connect and not do what the product needs."""

    code = "database_rights_missing"


def rights_missing(dsn: str, error: psycopg.Error) -> DatabaseRightsMissing:
    """Return a server's "permission denied" as an error that says who must grant what."""
    denied = str(error).strip().splitlines()[0] if str(error).strip() else "permission denied"
    return DatabaseRightsMissing(
        f"cannot use the database at {place(dsn)}: {denied}; let the role own the database, or "
        "grant it all rights on the schema and its tables"
    )


class UnusableDatabaseUrl(InvalidInput):
    """The DSN cannot be read. The driver's own words repeat it, password and all: not shown."""


class _UuidText(Loader):
    format = Format.TEXT

    def load(self, data: Buffer) -> str:
        return bytes(data).decode()


class _UuidBinary(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> str:
        digits = bytes(data).hex()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def place(dsn: str) -> str:
    """Return where a DSN points, for messages: host, port and database, never the password."""
    parts = _parsed(dsn)
    port = f":{parts['port']}" if "port" in parts else ""
    return f"{parts.get('host', 'the local socket')}{port}, database {parts.get('dbname', '?')}"


def _parsed(dsn: str) -> dict[str, Any]:
    try:
        return conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        raise UnusableDatabaseUrl(
            "cannot read the database's address: it is not a well-formed postgresql:// URL; "
            "correct it, with special characters of the password percent-encoded"
        ) from None


async def connect(dsn: str, application_name: str) -> AsyncConnection[Row]:
    """Return an open connection in autocommit mode; who asked for it closes it.

    Raises UnusableDatabaseUrl, DatabaseUnreachable or DatabaseTooOld.
    """
    _parsed(dsn)
    try:
        connection = await AsyncConnection.connect(
            dsn,
            autocommit=True,
            row_factory=dict_row,
            connect_timeout=CONNECT_TIMEOUT_S,
            application_name=application_name,
        )
    except psycopg.OperationalError as error:
        raise _unreachable(dsn, error) from error
    try:
        _refuse_old_server(dsn, connection.info.server_version)
        _adapt(connection)
        await connection.execute(_SETTINGS)
    except BaseException:
        await connection.close()
        raise
    return connection


def connect_blocking(dsn: str, application_name: str) -> Connection[Row]:
    """The same for code without an event loop (migrations, checks)."""
    _parsed(dsn)
    try:
        connection = psycopg.connect(
            dsn,
            autocommit=True,
            row_factory=dict_row,
            connect_timeout=CONNECT_TIMEOUT_S,
            application_name=application_name,
        )
    except psycopg.OperationalError as error:
        raise _unreachable(dsn, error) from error
    try:
        _refuse_old_server(dsn, connection.info.server_version)
        _adapt(connection)
        connection.execute(_SETTINGS)
    except BaseException:
        connection.close()
        raise
    return connection


def is_lost(error: BaseException) -> bool:
    """Tell whether ``error`` says that the server or the connection is gone."""
    if isinstance(error, DatabaseUnreachable):
        return True
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    # A SQLSTATE means that the server answered: then only its farewells count (it shuts down, it
    # refuses connections, it ended a transaction that stood idle), not a cancelled statement.
    state = error.sqlstate
    return state is None or state == "25P03" or state[:3] in ("080", "57P")


def _adapt(context: AdaptContext) -> None:
    adapters = context.adapters
    assert adapters is not None  # noqa: S101 - a connection has its own; the type allows None
    adapters.register_loader("uuid", _UuidText)
    adapters.register_loader("uuid", _UuidBinary)
    set_json_dumps(json_codec.dumps, context)
    set_json_loads(json_codec.loads, context)


def _refuse_old_server(dsn: str, version: int) -> None:
    major = version // 10_000
    if major < OLDEST_SERVER:
        raise DatabaseTooOld(
            f"cannot use the database at {place(dsn)}: it runs PostgreSQL {major},"
            f" {OLDEST_SERVER} or newer is needed; upgrade it or name another"
        )


def _unreachable(dsn: str, error: psycopg.OperationalError) -> DatabaseUnreachable:
    reason = str(error).strip().splitlines()[-1].strip() if str(error).strip() else "no answer"
    return DatabaseUnreachable(
        f"cannot reach the database at {place(dsn)}: {reason};"
        " check that it runs and that its address is right"
    )
