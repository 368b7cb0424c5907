"""The schema: migrated, compared with its source, and refused where it does not fit."""

import threading
from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool
from sqlmodel import SQLModel

from farhand_control_plane.db import connect, migrate
from farhand_control_plane.db.tables.schema import METADATA
from farhand_shared.errors import FarhandError, NewerSchema

FUNCTIONS = Path(migrate.__file__).with_name("migrations") / "versions" / "0001_first.sql"


def test_the_migrated_schema_is_what_the_tables_say(every_database_url, other_database_url):
    """By alembic's comparison and by the catalogue's own words, which also hold the checks."""
    migrate.upgrade(every_database_url)
    engine = create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(every_database_url),
        poolclass=NullPool,
    )
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"include_object": _is_no_partition, "compare_type": True}
        )
        assert compare_metadata(context, METADATA) == []

    with psycopg.connect(other_database_url) as connection:
        # Column defaults call it; the tables' source does not hold functions.
        connection.execute(FUNCTIONS.read_text().partition("create table")[0])
    made = create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(other_database_url),
        poolclass=NullPool,
    )
    SQLModel.metadata.create_all(made)
    assert _described(every_database_url) == _described(other_database_url)


def test_a_second_upgrade_changes_nothing_and_needs_no_alembic(database_url, monkeypatch):
    migrate.upgrade(database_url)
    monkeypatch.setattr(migrate, "_run_alembic", lambda dsn: pytest.fail("ran again"))
    migrate.upgrade(database_url)
    assert migrate.check(database_url) == migrate.SCHEMA_VERSION


def test_replicas_that_start_together_migrate_once(database_url):
    errors: list[BaseException] = []

    def upgrade() -> None:
        try:
            migrate.upgrade(database_url)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=upgrade) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert migrate.check(database_url) == migrate.SCHEMA_VERSION


def test_a_failed_migration_leaves_nothing_behind(database_url):
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("create table usage (mine int)")  # in the way of ours
    with pytest.raises(FarhandError, match=r"cannot migrate the .*nothing was changed"):
        migrate.upgrade(database_url)
    with psycopg.connect(database_url) as connection:
        names = connection.execute(
            "select relname from pg_class where relnamespace = 'public'::regnamespace"
        ).fetchall()
    assert names == [("usage",)]


def test_an_empty_database_is_named_and_the_way_out_too(database_url):
    with pytest.raises(migrate.OlderSchema, match=r"it has no schema yet.*run `farhand migrate`"):
        migrate.check(database_url)


def test_a_schema_that_needs_newer_code_is_refused(migrated_url):
    _set_record(migrated_url, schema_version=7, min_code_version=migrate.SCHEMA_VERSION + 1)
    for use in (migrate.check, migrate.upgrade):
        ours = migrate.SCHEMA_VERSION
        said = f"schema is version 7 and needs code of version {ours + 1}, this is version {ours}"
        with pytest.raises(NewerSchema, match=said):
            use(migrated_url)


def test_a_newer_schema_that_this_code_may_use_is_used_and_left_alone(migrated_url):
    _set_record(migrated_url, schema_version=7, min_code_version=1)
    migrate.upgrade(migrated_url)
    assert migrate.check(migrated_url) == 7


def test_a_server_that_is_too_old_is_refused(monkeypatch, database_url):
    monkeypatch.setattr(connect, "OLDEST_SERVER", 99)
    with pytest.raises(connect.DatabaseTooOld, match=r"runs PostgreSQL \d+, 99 or newer is needed"):
        migrate.check(database_url)


def test_an_unreachable_database_is_named_without_its_password(tmp_path):
    with pytest.raises(connect.DatabaseUnreachable) as caught:
        migrate.check(f"host={tmp_path} port=5 dbname=d user=u password=hunter2")
    message = str(caught.value)
    assert message.startswith(f"cannot reach the database at {tmp_path}:5, database d: ")
    assert "hunter2" not in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "dsn",
    ["postgresql://u:hunter2@[bad", "postgresql://u:hunter2@h/d?bogus=1", "host=hunter2 bogus"],
)
def test_an_address_that_cannot_be_read_is_refused_without_being_repeated(dsn):
    """The driver's own message holds the whole address, password and all."""
    with pytest.raises(connect.UnusableDatabaseUrl) as caught:
        migrate.upgrade(dsn)
    message = str(caught.value)
    assert message.startswith("cannot read the database's address: ")
    assert "hunter" not in message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_role_without_rights_is_told_what_it_needs(database_url):
    migrate.upgrade(database_url)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("drop role if exists farhand_test_stranger")
        connection.execute("create role farhand_test_stranger login password 'stranger'")
        dsn = psycopg.conninfo.make_conninfo(
            database_url, user="farhand_test_stranger", password="stranger"
        )
        try:
            with pytest.raises(connect.DatabaseRightsMissing) as caught:
                migrate.upgrade(dsn)
        finally:
            connection.execute("drop role farhand_test_stranger")
    message = str(caught.value)
    assert "permission denied for table schema_record" in message
    assert "let the role own the database" in message
    assert "\n" not in message


def test_output_lies_in_partitions_made_ahead_with_plain_storage(every_database_url):
    migrate.upgrade(every_database_url)
    with psycopg.connect(every_database_url, autocommit=True) as connection:
        storage = connection.execute(
            """
            select c.relname, a.attstorage from pg_attribute a
            join pg_class c on c.oid = a.attrelid
            where a.attname = 'data' and c.relname like 'output_chunks%'
              and c.relkind in ('r', 'p')
            """
        ).fetchall()
        assert len(storage) == 11  # the table, the default, this week and eight more
        assert {kind for _, kind in storage} == {"e"}
        connection.execute(
            "insert into output_chunks select gen_random_uuid(),"
            " date_trunc('week', farhand_now(), 'UTC') + n * interval '7 days',"
            " gen_random_uuid(), 1, 0, 'x' from generate_series(-9, 9) n"
        )
        in_default = connection.execute("select count(*) from output_chunks_default").fetchone()
        assert in_default == (10,)  # nine old weeks and the one after the last made
        # Time goes on: new weeks are made, old ones dropped; a week in the default stays there.
        connection.execute("update schema_record set clock_shift_ms = 21 * 86400000")
        assert connection.execute("select farhand_make_output_weeks(8)").fetchone() == (2,)
        dropped = connection.execute(
            "select farhand_drop_output_before(farhand_now() - interval '7 days')"
        ).fetchone()
        assert dropped == (2,)
        left = connection.execute("select count(*) from output_chunks").fetchone()
        assert left == (19 - 9 - 2,)


def test_facts_refuse_to_be_changed(every_database_url):
    migrate.upgrade(every_database_url)
    with psycopg.connect(every_database_url, autocommit=True) as connection:
        connection.execute("set session_replication_role = replica")  # no parents needed here
        connection.execute(
            "insert into items (instance_id, session_id, item_seq, kind, generation)"
            " values (gen_random_uuid(), gen_random_uuid(), 1, 'input', 1)"
        )
        connection.execute("set session_replication_role = default")
        with pytest.raises(psycopg.errors.RestrictViolation, match="cannot change a row of items"):
            connection.execute("update items set kind = 'notice'")
        guarded = connection.execute(
            "select tgrelid::regclass::text from pg_trigger where tgname like '%never_change'"
        ).fetchall()
    assert sorted(name for (name,) in guarded) == ["items", "mandates", "triggers"]


def test_database_time_can_be_shifted(migrated_url):
    with psycopg.connect(migrated_url, autocommit=True) as connection:
        ask = "select extract(epoch from farhand_now() - clock_timestamp())::float"
        (apart,) = connection.execute(ask).fetchone()
        assert abs(apart) < 5
        connection.execute("update schema_record set clock_shift_ms = 3600000")
        (apart,) = connection.execute(ask).fetchone()
        assert abs(apart - 3600) < 5


def _set_record(dsn: str, **values: int) -> None:
    with psycopg.connect(dsn) as connection:
        for column, value in values.items():
            connection.execute(f"update schema_record set {column} = %s", (value,))


def _is_no_partition(thing, name, kind, reflected, compare_to) -> bool:
    table = name if kind == "table" else getattr(getattr(thing, "table", None), "name", "")
    return not table.startswith(("output_chunks_", "alembic_version"))


def _described(dsn: str) -> list[tuple[str, ...]]:
    """Return columns, constraints and indexes in the server's own words, sorted."""
    with psycopg.connect(dsn) as connection:
        return sorted(
            connection.execute(
                """
                with ours as (
                  select oid as ours_oid, relname from pg_class
                  where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')
                    and relname !~ '^(output_chunks_|alembic_version|test_)'
                )
                select relname, 'column', attname,
                       format_type(atttypid, atttypmod) || ' ' || attnotnull::text
                       || ' ' || attidentity::text
                       || ' ' || coalesce(pg_get_expr(adbin, adrelid), '')
                from ours join pg_attribute on attrelid = ours_oid and attnum > 0
                left join pg_attrdef on adrelid = oid and adnum = attnum
                union all
                select relname, 'constraint', conname, pg_get_constraintdef(c.oid)
                from ours join pg_constraint c on conrelid = ours_oid
                union all
                select relname, 'index', indexrelid::regclass::text, pg_get_indexdef(indexrelid)
                from ours join pg_index on indrelid = ours_oid
                """
            ).fetchall()
        )
