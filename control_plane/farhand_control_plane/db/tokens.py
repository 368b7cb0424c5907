"""API tokens: who a presented token is, and how tokens come and go. Only hashes are stored.

A browser's session is a token that opens nothing without its page key; its row has that one's hash.
It is listed and revoked as every other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from farhand_control_plane.db.listen import TOKENS
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.access import Scope
from farhand_control_plane.domain.words import MemberRole
from farhand_shared.ids import InstanceId, MachineId, MemberId, TokenId, new_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who makes a request, and what the token in hand allows."""

    instance_id: InstanceId
    member_id: MemberId
    role: MemberRole
    token_id: TokenId
    scopes: frozenset[Scope]
    machine_id: MachineId | None  # "this machine" of the client that uses this token
    expires_at: datetime | None
    session: bool = False  # a browser's


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenView:
    """A token as people may see it: everything but the token."""

    token_id: TokenId
    member_id: MemberId
    name: str
    scopes: tuple[Scope, ...]
    machine_id: MachineId | None
    created_at: datetime
    expires_at: datetime | None
    used_at: datetime | None


def _scopes(words: Sequence[str]) -> tuple[Scope, ...]:
    """A scope of a later release, in a database shared with it, opens nothing here."""
    return tuple(scope for scope in Scope if scope.value in words)


async def authenticate(tx: Tx, token_sha256: bytes) -> Caller | None:
    """Return the caller of a live token, whose last use is noted to the minute; None otherwise."""
    return await _caller(tx, token_sha256, None)


async def authenticate_session(
    tx: Tx, session_sha256: bytes, page_key_sha256: bytes
) -> Caller | None:
    """Return the caller of a live session, given both its halves; None otherwise."""
    return await _caller(tx, session_sha256, page_key_sha256)


async def _caller(tx: Tx, token_sha256: bytes, page_key_sha256: bytes | None) -> Caller | None:
    cursor = await tx.execute(
        """
        select t.instance_id, t.member_id, m.role, t.token_id, t.scopes, t.machine_id, t.expires_at,
               (t.used_at is null or t.used_at < farhand_now() - interval '1 minute') as stale
          from api_tokens t
          join members m on m.instance_id = t.instance_id and m.member_id = t.member_id
         where t.token_sha256 = %s
           and t.page_key_sha256 is not distinct from %s
           and t.revoked_at is null
           and (t.expires_at is null or t.expires_at > farhand_now())
           and m.removed_at is null
        """,
        (token_sha256, page_key_sha256),
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    if row["stale"]:
        await tx.execute(
            """
            update api_tokens set used_at = farhand_now()
             where instance_id = %s and token_id = %s
            """,
            (row["instance_id"], row["token_id"]),
        )
    return Caller(
        instance_id=row["instance_id"],
        member_id=row["member_id"],
        role=MemberRole(row["role"]),
        token_id=row["token_id"],
        scopes=frozenset(_scopes(row["scopes"])),
        machine_id=row["machine_id"],
        expires_at=row["expires_at"],
        session=page_key_sha256 is not None,
    )


async def create(
    tx: Tx,
    instance_id: InstanceId,
    member_id: MemberId,
    *,
    name: str,
    token_sha256: bytes,
    scopes: Sequence[Scope],
    machine_id: MachineId | None = None,
    expires_at: datetime | None = None,
) -> TokenView:
    """Store the hash of a new token."""
    cursor = await tx.execute(
        """
        insert into api_tokens (instance_id, token_id, member_id, name, token_sha256, scopes,
                                machine_id, expires_at, created_at)
        values (%s, %s, %s, %s, %s, %s, %s, %s, farhand_now())
        returning *
        """,
        (
            instance_id,
            new_id(),
            member_id,
            name,
            token_sha256,
            [scope.value for scope in scopes],
            machine_id,
            expires_at,
        ),
    )
    row = await cursor.fetchone()
    assert row is not None, "insert … returning gives its row"  # noqa: S101  # for the type checker
    return _view(row)


async def create_session(
    tx: Tx,
    instance_id: InstanceId,
    member_id: MemberId,
    *,
    name: str,
    session_sha256: bytes,
    page_key_sha256: bytes,
    scopes: Sequence[Scope],
    lasts_s: int,
) -> datetime:
    """Store the hashes of a new session; return when it ends."""
    cursor = await tx.execute(
        """
        insert into api_tokens (instance_id, token_id, member_id, name, token_sha256,
                                page_key_sha256, scopes, created_at, expires_at)
        values (%s, %s, %s, %s, %s, %s, %s, farhand_now(),
                farhand_now() + make_interval(secs => %s))
        returning expires_at
        """,
        (
            instance_id,
            new_id(),
            member_id,
            name,
            session_sha256,
            page_key_sha256,
            [scope.value for scope in scopes],
            lasts_s,
        ),
    )
    rows = await cursor.fetchall()
    expires_at: datetime = rows[0]["expires_at"]
    return expires_at


async def list_live(
    tx: Tx, instance_id: InstanceId, *, limit: int, after: TokenId | None = None
) -> list[TokenView]:
    """Return tokens that still open something, oldest first, from the one after ``after``."""
    cursor = await tx.execute(
        """
        select *
          from api_tokens
         where instance_id = %s
           and revoked_at is null
           and (expires_at is null or expires_at > farhand_now())
           and (%s::uuid is null or token_id > %s::uuid)
         order by token_id
         limit %s
        """,
        (instance_id, after, after, limit),
    )
    return [_view(row) for row in await cursor.fetchall()]


async def revoke(tx: Tx, instance_id: InstanceId, token_id: TokenId) -> bool:
    """Revoke at once, on every replica; False when there is no such live token."""
    cursor = await tx.execute(
        """
        update api_tokens set revoked_at = farhand_now()
         where instance_id = %s and token_id = %s and revoked_at is null
        returning encode(token_sha256, 'hex') as hash
        """,
        (instance_id, token_id),
    )
    row = await cursor.fetchone()
    if row is None:
        return False
    await tx.execute("select pg_notify(%s, %s)", (TOKENS, row["hash"]))
    return True


async def revoke_session(tx: Tx, instance_id: InstanceId, session_sha256: bytes) -> None:
    """Revoke the live session with this secret, if there is one."""
    cursor = await tx.execute(
        """
        select token_id
          from api_tokens
         where instance_id = %s and token_sha256 = %s and page_key_sha256 is not null
        """,
        (instance_id, session_sha256),
    )
    row = await cursor.fetchone()
    if row is not None:
        await revoke(tx, instance_id, row["token_id"])


async def forget_ended_sessions(tx: Tx, kept_s: int) -> int:
    """Delete sessions that ended longer ago than this; return how many.

    Sessions only: of a token that somebody made by hand the row tells who had what, for good.
    """
    cursor = await tx.execute(
        """
        delete from api_tokens t
         where t.page_key_sha256 is not null
           and least(t.expires_at, t.revoked_at) < farhand_now() - make_interval(secs => %s)
           and not exists (
             select from sign_in_links l
              where l.instance_id = t.instance_id and l.made_with_token_id = t.token_id
           )
        """,
        (kept_s,),
    )
    return cursor.rowcount


def _view(row: dict[str, Any]) -> TokenView:
    return TokenView(
        token_id=row["token_id"],
        member_id=row["member_id"],
        name=row["name"],
        scopes=_scopes(row["scopes"]),
        machine_id=row["machine_id"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        used_at=row["used_at"],
    )
