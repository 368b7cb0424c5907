"""What an instance needs before its first message; made once, found again ever after."""

from dataclasses import dataclass
from typing import Final

from psycopg.types.json import Jsonb

from farhand_control_plane.db import sessions
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.policy import SEEDED_RULES
from farhand_control_plane.domain.words import MemberRole, SessionKind
from farhand_shared.ids import InstanceId, MemberId, SessionId, SourceId, new_id

INSTANCE_NAME: Final = "farhand"
OWNER_NAME: Final = "owner"
CHAT_KIND: Final = "chat"
CHAT_NAME: Final = "chat"
_LOCK: Final = 0x666172686E6401  # "farhnd" 1: one replica sets up at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrap:
    """The ids everything else starts from. ``policy_version`` is the newest."""

    instance_id: InstanceId
    owner_member_id: MemberId
    chat_source_id: SourceId
    router_session_id: SessionId
    policy_version: int


async def ensure_instance(tx: Tx) -> Bootstrap:
    """Return the instance, made with its owner, policy, chat source and Router if absent.

    Replicas that start together make it once: a transaction-level advisory lock orders them.
    """
    await tx.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
    cursor = await tx.execute(
        "select instance_id from instances where name = %s order by created_at limit 1",
        (INSTANCE_NAME,),
    )
    row = await cursor.fetchone()
    if row is None:
        await _make(tx, InstanceId(new_id()))
    return await _read(tx)


async def _make(tx: Tx, instance_id: InstanceId) -> None:
    await tx.execute(
        "insert into instances (instance_id, name) values (%s, %s)", (instance_id, INSTANCE_NAME)
    )
    await tx.execute(
        "insert into members (instance_id, member_id, name, role) values (%s, %s, %s, %s)",
        (instance_id, new_id(), OWNER_NAME, MemberRole.OWNER.value),
    )
    await tx.execute(
        "insert into policies (instance_id, version, rules) values (%s, 1, %s)",
        (instance_id, Jsonb(SEEDED_RULES)),
    )
    await tx.execute(
        "insert into sources (instance_id, source_id, kind, name) values (%s, %s, %s, %s)",
        (instance_id, new_id(), CHAT_KIND, CHAT_NAME),
    )
    await sessions.create(tx, instance_id, SessionKind.ROUTER)


async def _read(tx: Tx) -> Bootstrap:
    cursor = await tx.execute(
        """
        select i.instance_id,
               (select m.member_id from members m
                where m.instance_id = i.instance_id and m.role = 'owner' and m.removed_at is null
                order by m.created_at, m.member_id limit 1) as owner_member_id,
               (select s.source_id from sources s
                where s.instance_id = i.instance_id and s.kind = %(chat_kind)s
                  and s.name = %(chat_name)s) as chat_source_id,
               (select s.session_id from sessions s
                where s.instance_id = i.instance_id and s.kind = 'router' and s.shard_key = '')
                 as router_session_id,
               (select max(p.version) from policies p where p.instance_id = i.instance_id)
                 as policy_version
        from instances i
        where i.name = %(name)s
        order by i.created_at
        limit 1
        """,
        {"name": INSTANCE_NAME, "chat_kind": CHAT_KIND, "chat_name": CHAT_NAME},
    )
    row = await cursor.fetchone()
    if row is None:
        raise LookupError("the instance was removed while it was read")
    return Bootstrap(**row)
