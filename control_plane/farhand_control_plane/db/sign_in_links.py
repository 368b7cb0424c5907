"""Sign-in links: each opens one session, once, within some minutes. Only hashes are stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from farhand_control_plane.db.tokens import Caller
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.access import Scope
from farhand_shared.errors import FarhandError
from farhand_shared.ids import InstanceId, MemberId, new_id


class LinkUnusable(FarhandError):
    """The text is the reason: used, old, or not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Whom a link signs in, and what for."""

    instance_id: InstanceId
    member_id: MemberId
    scopes: tuple[Scope, ...]


async def create(
    tx: Tx, maker: Caller, *, link_sha256: bytes, scopes: Sequence[Scope], lasts_s: int
) -> datetime:
    """Store the hash of a link that signs its maker in; return when it ends."""
    cursor = await tx.execute(
        """
        insert into sign_in_links (instance_id, link_id, link_sha256, member_id, scopes,
                                   made_with_token_id, created_at, expires_at)
        values (%s, %s, %s, %s, %s, %s, farhand_now(), farhand_now() + make_interval(secs => %s))
        returning expires_at
        """,
        (
            maker.instance_id,
            new_id(),
            link_sha256,
            maker.member_id,
            [scope.value for scope in scopes],
            maker.token_id,
            lasts_s,
        ),
    )
    rows = await cursor.fetchall()
    expires_at: datetime = rows[0]["expires_at"]
    return expires_at


async def use(tx: Tx, link_sha256: bytes) -> Grant:
    """Use a link up and return what it grants; raise LinkUnusable.

    Of several who use it at once one wins: the others wait for its row and find it used. A link
    opens nothing any more when its member was removed, or the token revoked that it was made with.
    """
    cursor = await tx.execute(
        """
        update sign_in_links l
           set used_at = farhand_now()
          from members m, api_tokens t
         where l.link_sha256 = %s
           and l.used_at is null
           and l.expires_at > farhand_now()
           and m.instance_id = l.instance_id and m.member_id = l.member_id
           and m.removed_at is null
           and t.instance_id = l.instance_id and t.token_id = l.made_with_token_id
           and t.revoked_at is null
        returning l.instance_id, l.member_id, l.scopes
        """,
        (link_sha256,),
    )
    row = await cursor.fetchone()
    if row is None:
        raise LinkUnusable(await _why(tx, link_sha256))
    return Grant(
        instance_id=row["instance_id"],
        member_id=row["member_id"],
        scopes=tuple(scope for scope in Scope if scope.value in row["scopes"]),
    )


async def _why(tx: Tx, link_sha256: bytes) -> str:
    cursor = await tx.execute(
        """
        select used_at is not null as used, expires_at <= farhand_now() as old
          from sign_in_links
         where link_sha256 = %s
        """,
        (link_sha256,),
    )
    row = await cursor.fetchone()
    if row is None:
        return "the link is not known here"
    if row["used"]:
        return "the link was used already, and it works once"
    return "the link is too old" if row["old"] else "the link was withdrawn"


async def forget_old(tx: Tx, kept_s: int) -> int:
    """Delete links that ended longer ago than this; return how many."""
    cursor = await tx.execute(
        "delete from sign_in_links where expires_at < farhand_now() - make_interval(secs => %s)",
        (kept_s,),
    )
    return cursor.rowcount
