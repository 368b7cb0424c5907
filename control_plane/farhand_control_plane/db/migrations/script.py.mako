"""${message}."""

from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    """Add only what the previous release can live with; raise min_code_version when it cannot."""
    ${upgrades if upgrades else "pass"}
