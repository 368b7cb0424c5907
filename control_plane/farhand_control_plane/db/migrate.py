"""The schema's version: bringing a database up to this code, and refusing one that is not for it.

Schema versions are the numbers of migrations. A migration must be safe for the previous release
(add, backfill, switch, remove later), because replicas of both run side by side for a while. One
that cannot be raises ``min_code_version`` in the schema's record to the lowest version of the code
that may still run; older code then refuses to start instead of doing harm.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg
from psycopg import Connection

from farhand_control_plane.db.connect import Row, connect_blocking, place, rights_missing
from farhand_shared.errors import FarhandError, NewerSchema

SCHEMA_VERSION: Final = 6  # the newest migration of this code
MIGRATIONS: Final = Path(__file__).with_name("migrations")
_LOCK: Final = 0x666172686E6400  # "farhnd" 0: one process migrates at a time


class OlderSchema(FarhandError):
    """The database has no schema yet, or one from before this code."""

    code = "older_schema"


def upgrade(dsn: str) -> None:
    """Bring the database to this code's schema; does nothing when it is there already.

    Several replicas may call it at once: one works, the others wait and find it done. All happens
    in one transaction, so being killed in the middle changes nothing. A database that is ahead is
    left alone if this code may run on it. Raises NewerSchema otherwise, DatabaseUnreachable,
    DatabaseTooOld, DatabaseRightsMissing.
    """
    # Most starts end here, and alembic (0.5 s of imports) is never loaded.
    with connect_blocking(dsn, "farhand migrate") as connection, _rights(dsn):
        if _version_or_refuse(connection, dsn) >= SCHEMA_VERSION:
            return
        connection.execute("select pg_advisory_lock(%s)", (_LOCK,))  # freed by closing
        if _version_or_refuse(connection, dsn) >= SCHEMA_VERSION:
            return
        try:
            _run_alembic(dsn)
        except psycopg.Error as error:
            raise _failed(dsn, error) from error


def check(dsn: str) -> int:
    """Return the schema's version, proved to be one this code runs on.

    Raises NewerSchema, OlderSchema, DatabaseUnreachable or DatabaseTooOld.
    """
    with connect_blocking(dsn, "farhand check") as connection, _rights(dsn):
        version = _version_or_refuse(connection, dsn)
    if version < SCHEMA_VERSION:
        found = f"its schema is version {version}" if version else "it has no schema yet"
        raise OlderSchema(
            f"cannot run on the database at {place(dsn)}: {found}, this code needs version"
            f" {SCHEMA_VERSION}; run `farhand migrate`"
        )
    return version


@contextmanager
def _rights(dsn: str) -> Iterator[None]:
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise rights_missing(dsn, error) from error


def _version_or_refuse(connection: Connection[Row], dsn: str) -> int:
    """Return the schema's version, 0 for none; raise NewerSchema when it needs newer code."""
    found = connection.execute("select to_regclass('schema_record') as record").fetchone()
    if found is None or found["record"] is None:
        return 0
    record = connection.execute(
        "select schema_version, min_code_version from schema_record"
    ).fetchone()
    if record is None:
        return 0
    if record["min_code_version"] > SCHEMA_VERSION:
        raise NewerSchema(
            f"cannot run on the database at {place(dsn)}: its schema is version"
            f" {record['schema_version']} and needs code of version {record['min_code_version']},"
            f" this is version {SCHEMA_VERSION}; install the newer release"
        )
    return int(record["schema_version"])


def _run_alembic(dsn: str) -> None:
    """Run the missing migrations in one transaction on a connection of SQLAlchemy's own."""
    # Imported here: no other start pays for them.
    from alembic import command
    from alembic.config import Config
    from sqlalchemy import create_engine
    from sqlalchemy.exc import DBAPIError
    from sqlalchemy.pool import NullPool

    engine = create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(dsn, application_name="farhand migrate"),
        poolclass=NullPool,
    )
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except DBAPIError as error:
        if isinstance(error.orig, psycopg.errors.InsufficientPrivilege):
            raise rights_missing(dsn, error.orig) from error
        raise _failed(dsn, error.orig or error) from error


def _failed(dsn: str, error: BaseException) -> FarhandError:
    return FarhandError(
        f"cannot migrate the database at {place(dsn)}: {error};"
        " nothing was changed: mend the cause and run it again"
    )
