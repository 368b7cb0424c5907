"""What alembic runs: the migrations on the connection that ``migrate.upgrade`` hands over."""

from alembic import context

# The caller holds the lock and commits: a failed or killed migration leaves the old schema whole.
context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
