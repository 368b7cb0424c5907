"""Calls between replicas about the input of commands."""

from pathlib import Path

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Run the frozen DDL beside this file."""
    statements = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    # Through the driver itself: it takes many statements at once and reads no % or : in them.
    connection = op.get_bind().connection.driver_connection
    assert connection is not None  # noqa: S101 - alembic has just connected; the type allows None
    connection.execute(statements)
