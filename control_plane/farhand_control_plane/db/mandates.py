"""Policies and Mandates as rows."""

from dataclasses import dataclass
from datetime import datetime

from psycopg.types.json import Jsonb

from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.mandate import (
    MandateScope,
    MandateTemplate,
    mandate_hash,
    scope_from_json,
)
from farhand_control_plane.domain.policy import PolicyRules, parse_rules
from farhand_shared.errors import NotFound
from farhand_shared.ids import (
    EvalId,
    InstanceId,
    MandateId,
    MemberId,
    TicketId,
    new_id,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A policy version and its rules."""

    version: int
    rules: PolicyRules


@dataclass(frozen=True, slots=True, kw_only=True)
class MandateView:
    """A Ticket's Mandate, as pages and agents read it."""

    mandate_id: MandateId
    mandate_hash: bytes
    scope: MandateScope
    policy_version: int
    granted_by_member_id: MemberId
    granted_by_name: str
    valid_until: datetime
    withdrawn_at: datetime | None


async def current_policy(tx: Tx, instance_id: InstanceId) -> Policy:
    """Return the newest policy version. Raises NotFound before the instance is set up."""
    cursor = await tx.execute(
        "select version, rules from policies where instance_id = %s order by version desc limit 1",
        (instance_id,),
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound(f"cannot find a policy of instance {instance_id}: set the instance up")
    return Policy(version=row["version"], rules=parse_rules(row["rules"]))


async def grant(
    tx: Tx,
    instance_id: InstanceId,
    ticket_id: TicketId,
    eval_id: EvalId,
    *,
    policy_version: int,
    granted: MandateTemplate,
    granted_by_member_id: MemberId,
) -> bytes:
    """Write a Ticket's Mandate, valid from now; returns its hash."""
    cursor = await tx.execute(
        """
        select date_trunc('milliseconds', farhand_now()) + %s * interval '1 second' as valid_until
        """,
        (granted.valid_for_s,),
    )
    row = await cursor.fetchone()
    assert row is not None  # noqa: S101 - a select without a from has one row; the type allows None
    hashed = mandate_hash(
        instance_id=instance_id,
        ticket_id=ticket_id,
        eval_id=eval_id,
        policy_version=policy_version,
        granted_by_member_id=granted_by_member_id,
        scope=granted.scope,
        valid_until=row["valid_until"],
    )
    await tx.execute(
        """
        insert into mandates
          (instance_id, mandate_id, ticket_id, eval_id, policy_version, scope, mandate_hash,
           granted_by_member_id, valid_until, created_at)
        values (%s, %s, %s, %s, %s, %s, %s, %s, %s, farhand_now())
        """,
        (
            instance_id,
            new_id(),
            ticket_id,
            eval_id,
            policy_version,
            Jsonb(granted.scope.to_json()),
            hashed,
            granted_by_member_id,
            row["valid_until"],
        ),
    )
    return hashed


async def withdraw(
    tx: Tx, instance_id: InstanceId, ticket_id: TicketId, member_id: MemberId, reason: str
) -> bool:
    """Record that a person takes a Ticket's Mandate back; False when it was withdrawn before."""
    cursor = await tx.execute(
        """
        insert into mandate_withdrawals
          (instance_id, mandate_id, withdrawn_by_member_id, reason, withdrawn_at)
        select instance_id, mandate_id, %s, %s, farhand_now()
          from mandates
         where instance_id = %s and ticket_id = %s
        on conflict do nothing
        """,
        (member_id, reason, instance_id, ticket_id),
    )
    return cursor.rowcount == 1


async def of_ticket(tx: Tx, instance_id: InstanceId, ticket_id: TicketId) -> MandateView | None:
    """Return a Ticket's Mandate; None when this instance has no such Ticket."""
    cursor = await tx.execute(
        """
        select ma.mandate_id, ma.mandate_hash, ma.scope, ma.policy_version,
               ma.granted_by_member_id, me.name as granted_by_name, ma.valid_until, w.withdrawn_at
          from mandates ma
          join members me
            on me.instance_id = ma.instance_id and me.member_id = ma.granted_by_member_id
          left join mandate_withdrawals w
            on w.instance_id = ma.instance_id and w.mandate_id = ma.mandate_id
         where ma.instance_id = %s and ma.ticket_id = %s
        """,
        (instance_id, ticket_id),
    )
    row = await cursor.fetchone()
    return None if row is None else MandateView(**{**row, "scope": scope_from_json(row["scope"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    instance_id: InstanceId
    ticket_id: TicketId


async def expired(tx: Tx, limit: int) -> list[Expired]:
    """Return open Tickets of all instances whose Mandate has expired."""
    cursor = await tx.execute(
        """
        select t.instance_id, t.ticket_id
          from tickets t
          join mandates ma on ma.instance_id = t.instance_id and ma.ticket_id = t.ticket_id
         where t.closed_at is null and ma.valid_until <= farhand_now()
         order by t.instance_id, t.ticket_id
         limit %s
        """,
        (limit,),
    )
    return [Expired(**row) for row in await cursor.fetchall()]


async def next_expiry(tx: Tx) -> datetime | None:
    """Return when the next open Ticket's Mandate expires."""
    cursor = await tx.execute(
        """
        select min(ma.valid_until) as at
          from tickets t
          join mandates ma on ma.instance_id = t.instance_id and ma.ticket_id = t.ticket_id
         where t.closed_at is null
        """
    )
    row = await cursor.fetchone()
    return row["at"] if row else None
