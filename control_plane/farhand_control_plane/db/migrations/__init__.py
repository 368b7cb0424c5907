"""Migrations of the schema, run by ``db/migrate.py``."""
