"""Links and sessions in the database, on each server that we support, beside the release before."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

from farhand_control_plane.db import migrate, sign_in_links, tokens
from farhand_control_plane.db.bootstrap import Bootstrap, ensure_instance
from farhand_control_plane.db.pool import Database
from farhand_control_plane.db.sign_in_links import Grant
from farhand_control_plane.db.tokens import Caller
from farhand_control_plane.domain.access import ALL_SCOPES, Scope

FIRST = Path(migrate.__file__).with_name("migrations") / "versions" / "0001_first.sql"

# What the release before runs on these tables.
OLD_AUTHENTICATE = """
    select t.instance_id, t.member_id, m.role, t.token_id, t.scopes, t.machine_id, t.expires_at,
           (t.used_at is null or t.used_at < farhand_now() - interval '1 minute') as stale
      from api_tokens t
      join members m on m.instance_id = t.instance_id and m.member_id = t.member_id
     where t.token_sha256 = %s
       and t.revoked_at is null
       and (t.expires_at is null or t.expires_at > farhand_now())
       and m.removed_at is null
"""
OLD_CREATE = """
    insert into api_tokens (instance_id, token_id, member_id, name, token_sha256, scopes,
                            machine_id, expires_at, created_at)
    values (%s, gen_random_uuid(), %s, 'old', %s, '{read}', null, null, farhand_now())
"""


@pytest.fixture
async def pool(every_database_url: str) -> AsyncIterator[Database]:
    await asyncio.to_thread(migrate.upgrade, every_database_url)
    async with Database(every_database_url) as pool:
        yield pool


async def owner(pool: Database) -> tuple[Bootstrap, Caller]:
    """Make a token of the owner; return who presents it."""
    async with pool.transaction() as tx:
        ours = await ensure_instance(tx)
        await tokens.create(
            tx,
            ours.instance_id,
            ours.owner_member_id,
            name="t",
            token_sha256=digest("token"),
            scopes=ALL_SCOPES,
        )
        caller = await tokens.authenticate(tx, digest("token"))
    assert caller is not None
    return ours, caller


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


async def test_a_link_is_used_by_exactly_one_of_many(pool: Database) -> None:
    _, caller = await owner(pool)
    async with pool.transaction() as tx:
        await sign_in_links.create(
            tx, caller, link_sha256=digest("link"), scopes=[Scope.READ], lasts_s=60
        )
    ready, go = asyncio.Semaphore(0), asyncio.Event()

    async def use() -> Grant:
        async with pool.transaction() as tx:
            await tx.execute("select 1")  # the transactions overlap for sure
            ready.release()
            await go.wait()
            return await sign_in_links.use(tx, digest("link"))

    using = [asyncio.create_task(use()) for _ in range(6)]
    for _ in using:
        await ready.acquire()
    go.set()
    outcomes = await asyncio.gather(*using, return_exceptions=True)
    (grant,) = [outcome for outcome in outcomes if isinstance(outcome, Grant)]
    assert (grant.member_id, grant.scopes) == (caller.member_id, (Scope.READ,))
    losers = {str(outcome) for outcome in outcomes if outcome is not grant}
    assert losers == {"the link was used already, and it works once"}


async def test_a_link_whose_use_failed_is_as_good_as_before(pool: Database) -> None:
    _, caller = await owner(pool)
    async with pool.transaction() as tx:
        await sign_in_links.create(
            tx, caller, link_sha256=digest("link"), scopes=[Scope.READ], lasts_s=60
        )

    async def use_and_die() -> None:
        async with pool.transaction() as tx:
            await sign_in_links.use(tx, digest("link"))
            raise RuntimeError("died before the session was stored")

    with pytest.raises(RuntimeError, match="died"):
        await use_and_die()
    async with pool.transaction() as tx:
        await sign_in_links.use(tx, digest("link"))


async def test_a_session_opens_with_both_halves_and_is_no_token(pool: Database) -> None:
    ours, _ = await owner(pool)
    async with pool.transaction() as tx:
        await tokens.create_session(
            tx,
            ours.instance_id,
            ours.owner_member_id,
            name="page",
            session_sha256=digest("secret"),
            page_key_sha256=digest("key"),
            scopes=[Scope.READ],
            lasts_s=60,
        )
        found = await tokens.authenticate_session(tx, digest("secret"), digest("key"))
        assert found is not None
        assert found.session
        assert await tokens.authenticate(tx, digest("secret")) is None
        assert await tokens.authenticate(tx, digest("key")) is None
        assert await tokens.authenticate_session(tx, digest("secret"), digest("no")) is None
        assert await tokens.authenticate_session(tx, digest("token"), digest("key")) is None
        await tokens.revoke_session(tx, ours.instance_id, digest("token"))  # a token is none
        assert await tokens.authenticate(tx, digest("token")) is not None
        await tokens.revoke_session(tx, ours.instance_id, digest("secret"))
        assert await tokens.authenticate_session(tx, digest("secret"), digest("key")) is None


async def test_a_session_always_has_an_end(pool: Database) -> None:
    await owner(pool)
    with pytest.raises(psycopg.errors.CheckViolation):
        async with pool.transaction() as tx:
            await tx.execute("update api_tokens set page_key_sha256 = 'x'")


def test_a_database_of_the_first_release_keeps_its_tokens(every_database_url: str) -> None:
    with psycopg.connect(every_database_url, autocommit=True) as connection:
        connection.execute(FIRST.read_bytes())
        connection.execute("create table alembic_version (version_num varchar(32) primary key)")
        connection.execute("insert into alembic_version values ('0001')")
        connection.execute(
            "insert into instances (instance_id, name) values (gen_random_uuid(), 'i')"
        )
        connection.execute(
            "insert into members (instance_id, member_id, name, role)"
            " select instance_id, gen_random_uuid(), 'm', 'owner' from instances"
        )
        ids = connection.execute("select instance_id, member_id from members").fetchone()
        assert ids is not None
        connection.execute(OLD_CREATE, (*ids, digest("before")))
        migrate.upgrade(every_database_url)
        assert migrate.check(every_database_url) == migrate.SCHEMA_VERSION

        # The release before still runs beside us: it may start, and finds and makes tokens.
        record = connection.execute("select min_code_version from schema_record").fetchone()
        assert record == (1,)
        connection.execute(OLD_CREATE, (*ids, digest("after")))
        for text in ("before", "after"):
            assert connection.execute(OLD_AUTHENTICATE, (digest(text),)).fetchone() is not None
        count = connection.execute(
            "select count(*) from api_tokens where page_key_sha256 is null"
        ).fetchone()
        assert count == (2,)
