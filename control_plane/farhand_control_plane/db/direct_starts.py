"""Direct commands that are stored and offered in one statement, on their link's own replica."""

from dataclasses import dataclass
from typing import Final, LiteralString

from farhand_control_plane.db.attempts import CommandRef
from farhand_control_plane.db.claims import Journal
from farhand_control_plane.db.links import HELD, HeldLink
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.policy import PolicyRules, parse_rules
from farhand_control_plane.domain.words import MemberRole
from farhand_shared.ids import AttemptId, InstanceId, MemberId


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberAuthority:
    """What decides whether a member may start work, cached by a replica.

    ``start_direct`` takes it as a guard: if any of it has changed, nothing is inserted.
    """

    role: MemberRole
    policy_version: int
    policy: PolicyRules


async def member_authority(
    tx: Tx, instance_id: InstanceId, member_id: MemberId
) -> MemberAuthority | None:
    """Return a present member's role and the current policy."""
    cursor = await tx.execute(
        """
        select m.role, p.version, p.rules
          from members m
          join lateral (select version, rules from policies
                         where instance_id = m.instance_id
                         order by version desc limit 1) p on true
         where m.instance_id = %s and m.member_id = %s and m.removed_at is null
        """,
        (instance_id, member_id),
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    return MemberAuthority(
        role=MemberRole(row["role"]),
        policy_version=row["version"],
        policy=parse_rules(row["rules"]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectStart:
    """A direct command that is queued and offered in one statement, on the link's own replica."""

    ref: CommandRef
    member_id: MemberId
    authority: MemberAuthority
    spec: bytes
    input_digest: bytes
    start_within_ms: int


async def start_direct(
    connection: Tx, link: HeldLink, journal: Journal, start: DirectStart
) -> bool:
    """Insert command and attempt as offered, guarded by epoch, status, owner, role and policy.

    False when a guard failed: queue it the ordinary way, which says why. Running it twice with the
    same ids is harmless, ``was_started`` tells then.
    """
    cursor = await connection.execute(
        _START_DIRECT,
        {
            "instance_id": link.instance_id,
            "machine_id": link.machine_id,
            "epoch": link.epoch,
            "command_id": start.ref.command_id,
            "attempt_id": start.ref.attempt_id,
            "member_id": start.member_id,
            "role": start.authority.role.value,
            "policy_version": start.authority.policy_version,
            "title": start.ref.title,
            "spec": start.spec,
            "digest": start.input_digest,
            "start_within_s": start.start_within_ms / 1000,
            "journal_id": journal.journal_id,
            "journal_counter": journal.counter,
        },
        prepare=True,
    )
    return cursor.rowcount == 1


async def was_started(connection: Tx, link: HeldLink, attempt_id: AttemptId) -> bool:
    """Tell whether an insert whose answer was lost did commit."""
    cursor = await connection.execute(
        "select from attempts where instance_id = %s and attempt_id = %s",
        (link.instance_id, attempt_id),
    )
    return await cursor.fetchone() is not None


_START_DIRECT: Final[LiteralString] = f"""
    with held as ({HELD}),
    command as (
      insert into commands (instance_id, command_id, machine_id, requester_member_id, title, spec,
                            input_digest, start_expires_at, created_at)
      select m.instance_id, %(command_id)s::uuid, m.machine_id, r.member_id, %(title)s::text,
             %(spec)s::bytea, %(digest)s::bytea,
             held.now + make_interval(secs => %(start_within_s)s::float8), held.now
        from held
        join machines m on m.instance_id = %(instance_id)s and m.machine_id = %(machine_id)s
        join members r on r.instance_id = m.instance_id and r.member_id = %(member_id)s::uuid
       where m.status = 'active' and m.owner_member_id = r.member_id
         and r.removed_at is null and r.role = %(role)s::text
         and (select max(version) from policies where instance_id = m.instance_id)
             = %(policy_version)s::bigint
      on conflict do nothing
      returning instance_id, command_id, machine_id, created_at
    )
    insert into attempts (instance_id, attempt_id, command_id, machine_id, state, epoch, journal_id,
                          journal_counter, queued_at, offered_at)
    select instance_id, %(attempt_id)s::uuid, command_id, machine_id, 'offered',
           %(epoch)s::bigint, %(journal_id)s::text, %(journal_counter)s::bigint, created_at,
           created_at
      from command"""  # noqa: S608 - constants of ours only
