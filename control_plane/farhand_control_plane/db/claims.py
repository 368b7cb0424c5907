"""How queued commands leave the queue: claimed under a link's epoch, refused, or expired.

A claim asks again whether the command may start, in the transaction that offers it.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from farhand_control_plane.db import events
from farhand_control_plane.db.attempts import CommandRef
from farhand_control_plane.db.command_end import EndedCommand, announce
from farhand_control_plane.db.links import HELD, HeldLink
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.authority import (
    MandateFacts,
    Refusal,
    StartFacts,
    TicketFacts,
    refuse_start,
)
from farhand_control_plane.domain.mandate import scope_from_json
from farhand_control_plane.domain.policy import NO_RULE, PolicyRules, parse_rules
from farhand_control_plane.domain.words import MachineStatus, MemberRole, TicketOutcome
from farhand_shared.command import AttemptState
from farhand_shared.ids import AttemptId, CommandId, InstanceId
from farhand_shared.link_events import Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """An attempt that is offered from now on; the offer goes out after the commit."""

    ref: CommandRef
    offer: Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """The machine's journal as its Hello told, kept with the offer to judge a later Hello."""

    journal_id: str
    counter: int


async def claim_next(
    tx: Tx, link: HeldLink, journal: Journal, *, attempt_id: AttemptId | None = None
) -> Claimed | EndedCommand | None:
    """Take the oldest queued attempt of the link's machine: offered, or ended and announced.

    None when nothing may be claimed: an empty queue, a machine that is not active, an epoch that is
    not ours, or a newer command that waits for the one it supersedes. With ``attempt_id`` exactly
    this one, which was offered before and is offered again.
    """
    cursor = await tx.execute(
        f"""
        with held as ({HELD})
        select a.attempt_id, a.command_id, c.session_id, c.ticket_id, c.title, c.spec,
               c.input_digest, c.requester_member_id, c.tier, c.inferred, c.mandate_hash,
               c.traceparent, c.start_expires_at, farhand_now() as now,
               m.name as machine_name, m.status as machine_status, m.owner_member_id,
               m.allow_inferred, r.role as requester_role,
               p.rules as policy, t.outcome as ticket_outcome, t.inferred as ticket_inferred,
               e.gate ->> 'inferred_rule' as inferred_rule,
               d.mandate_hash as granted_hash, d.scope, d.valid_until,
               w.mandate_id is not null as withdrawn
          from held
          join attempts a on a.instance_id = %(instance_id)s and a.machine_id = %(machine_id)s
          join commands c on c.instance_id = a.instance_id and c.command_id = a.command_id
          join machines m on m.instance_id = a.instance_id and m.machine_id = a.machine_id
          join lateral (select rules from policies
                         where instance_id = a.instance_id
                         order by version desc limit 1) p on true
          left join members r on r.instance_id = c.instance_id
                             and r.member_id = c.requester_member_id and r.removed_at is null
          left join tickets t on t.instance_id = c.instance_id and t.ticket_id = c.ticket_id
          left join evals e on e.instance_id = t.instance_id and e.eval_id = t.eval_id
          left join mandates d on d.instance_id = t.instance_id and d.ticket_id = t.ticket_id
          left join mandate_withdrawals w on w.instance_id = d.instance_id
                                         and w.mandate_id = d.mandate_id
         where m.status = 'active'
           and case when %(attempt_id)s::uuid is null then a.state = 'queued'
                    else a.attempt_id = %(attempt_id)s::uuid and a.state = 'offered' end
           and (c.supersede_key is null or not exists (
                 select from attempts o
                   join commands oc on oc.instance_id = o.instance_id
                                   and oc.command_id = o.command_id
                  where o.instance_id = a.instance_id and o.machine_id = a.machine_id
                    and oc.supersede_key = c.supersede_key and o.attempt_id <> a.attempt_id
                    and o.state in ('offered', 'awaiting_owner', 'journalled', 'started',
                                    'stopping')))
         order by a.queued_at, a.attempt_id
         limit 1
           for update of a skip locked
        """,  # noqa: S608 - constants of ours only
        {**_fence(link), "attempt_id": attempt_id},
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    if row["start_expires_at"] <= row["now"]:
        return await _end(tx, link, row, AttemptState.EXPIRED, _EXPIRED)
    refusal = refuse_start(_facts(link, row))
    if refusal is not None:
        return await _end(tx, link, row, AttemptState.REFUSED, refusal)
    await tx.execute(
        """
        update attempts
           set state = 'offered', epoch = %s, journal_id = %s, journal_counter = %s,
               offered_at = farhand_now()
         where instance_id = %s and attempt_id = %s
        """,
        (link.epoch, journal.journal_id, journal.counter, link.instance_id, row["attempt_id"]),
    )
    return Claimed(ref=_ref(row), offer=_offer(link, row))


async def expire_queued(tx: Tx, *, limit: int = 100) -> int:
    """End queued attempts whose machine did not come in time; returns how many."""
    cursor = await tx.execute(
        """
        with late as (
          select a.instance_id, a.attempt_id
            from attempts a
            join commands c on c.instance_id = a.instance_id and c.command_id = a.command_id
           where a.state = 'queued' and c.start_expires_at <= farhand_now()
           limit %s
             for update of a skip locked
        )
        update attempts a
           set state = 'expired', reason = 'expired', error_code = 'expired', error = %s,
               ended_at = farhand_now()
          from late, commands c, machines m
         where a.instance_id = late.instance_id and a.attempt_id = late.attempt_id
           and c.instance_id = a.instance_id and c.command_id = a.command_id
           and m.instance_id = a.instance_id and m.machine_id = a.machine_id
        returning a.instance_id, a.command_id, a.attempt_id, a.state, c.session_id, c.ticket_id,
                  c.title, m.name as machine_name
        """,
        (limit, _EXPIRED.message),
    )
    expired = [
        EndedCommand(result=None, **{**row, "state": AttemptState(row["state"])})
        for row in await cursor.fetchall()
    ]
    await announce(tx, expired)
    return len(expired)


_EXPIRED = Refusal(
    code="expired", message="its machine did not come online in time; ask for it again"
)


def _fence(link: HeldLink) -> dict[str, Any]:
    return {
        "instance_id": link.instance_id,
        "machine_id": link.machine_id,
        "epoch": link.epoch,
    }


async def _end(
    tx: Tx, link: HeldLink, row: dict[str, Any], state: AttemptState, refusal: Refusal
) -> EndedCommand:
    reason = "expired" if state is AttemptState.EXPIRED else "reauthorisation"
    await tx.execute(
        """
        update attempts
           set state = %s, reason = %s, error_code = %s, error = %s, ended_at = farhand_now()
         where instance_id = %s and attempt_id = %s
        """,
        (
            state.value,
            reason,
            refusal.code,
            refusal.message,
            link.instance_id,
            row["attempt_id"],
        ),
    )
    ref = _ref(row)
    end = EndedCommand(
        instance_id=link.instance_id,
        command_id=ref.command_id,
        attempt_id=ref.attempt_id,
        session_id=ref.session_id,
        ticket_id=ref.ticket_id,
        machine_name=row["machine_name"],
        title=ref.title,
        state=state,
        result=None,
    )
    await announce(tx, [end])
    if state is AttemptState.REFUSED and ref.ticket_id is not None:
        await _ask(tx, link.instance_id, ref, row["machine_name"], refusal)
    return end


async def _ask(
    tx: Tx, instance_id: InstanceId, ref: CommandRef, machine_name: str, refusal: Refusal
) -> None:
    """Put the refusal before a person: one open question per ticket, whatever else is refused."""
    cursor = await tx.execute(
        """
        insert into questions (instance_id, question_id, ticket_id, text, if_unanswered, asked_at)
        select %s, %s, %s, %s, %s, farhand_now()
         where not exists (select from questions
                            where instance_id = %s and ticket_id = %s and state = 'pending'
                              and if_unanswered = %s)
        returning question_id
        """,
        (
            instance_id,
            question_id_of(ref.command_id),
            ref.ticket_id,
            f"“{ref.title}” was not started on {machine_name}: {refusal.message}. "
            "Shall the work go on another way, or stop?",
            _NOTHING_RUNS,
            instance_id,
            ref.ticket_id,
            _NOTHING_RUNS,
        ),
    )
    row = await cursor.fetchone()
    if row is not None:
        await events.emit(
            tx,
            instance_id,
            "question_asked",
            subject_id=row["question_id"],
            ticket_id=ref.ticket_id,
            payload={"question_id": row["question_id"], "command_id": ref.command_id},
        )


_NOTHING_RUNS = "the refused command stays refused"


def question_id_of(command_id: CommandId) -> str:
    """A refused command asks at most one question, so its id serves as the question's."""
    return command_id


def _ref(row: dict[str, Any]) -> CommandRef:
    return CommandRef(
        attempt_id=row["attempt_id"],
        command_id=row["command_id"],
        session_id=row["session_id"],
        ticket_id=row["ticket_id"],
        title=row["title"],
    )


def _offer(link: HeldLink, row: dict[str, Any]) -> Offer:
    now: datetime = row["now"]
    left = row["start_expires_at"] - now
    return Offer(
        attempt_id=row["attempt_id"],
        command_id=row["command_id"],
        stream_epoch=link.epoch,
        spec=row["spec"],
        input_digest=row["input_digest"],
        start_within_ms=max(1, int(left.total_seconds() * 1000)),
        tier=row["tier"],
        inferred=row["inferred"],
        requester=row["requester_member_id"],
        ticket_id=row["ticket_id"] or "",
        mandate_hash=row["mandate_hash"] or b"",
        traceparent=row["traceparent"],
    )


def _facts(link: HeldLink, row: dict[str, Any]) -> StartFacts:
    policy = parse_rules(row["policy"])
    return StartFacts(
        now=row["now"],
        requester_member_id=row["requester_member_id"],
        requester_role=None if row["requester_role"] is None else MemberRole(row["requester_role"]),
        machine_id=link.machine_id,
        machine_name=row["machine_name"],
        machine_status=MachineStatus(row["machine_status"]),
        machine_owner_member_id=row["owner_member_id"],
        machine_allow_inferred=row["allow_inferred"],
        inferred=row["inferred"],
        tier=row["tier"],
        mandate_hash=row["mandate_hash"],
        policy=policy,
        ticket=None if row["ticket_id"] is None else _ticket_facts(row, policy),
    )


def _ticket_facts(row: dict[str, Any], policy: PolicyRules) -> TicketFacts:
    mandate = None
    if row["granted_hash"] is not None:
        mandate = MandateFacts(
            mandate_hash=row["granted_hash"],
            scope=scope_from_json(row["scope"]),
            valid_until=row["valid_until"],
            withdrawn=row["withdrawn"],
        )
    outcome = row["ticket_outcome"]
    return TicketFacts(
        outcome=None if outcome is None else TicketOutcome(outcome),
        inferred=row["ticket_inferred"],
        inferred_mode=policy.inferred.get(row["inferred_rule"] or "", NO_RULE).mode,
        mandate=mandate,
    )
