"""What a machine says of its attempts, written by the replica that holds its link.

Every write is a compare-and-set on the attempt's state and stored offsets, in one statement that
also holds the machine's current epoch (``links.HELD``). No row back means: the link is another's
by now, or the attempt has moved on; ``standing`` tells which.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString

from psycopg.types.json import Jsonb

from farhand_control_plane.db.command_end import EndedCommand, announce
from farhand_control_plane.db.links import HELD, HeldLink
from farhand_control_plane.db.listen import ATTEMPTS
from farhand_control_plane.db.output import STREAM_NUMBER, week_of
from farhand_control_plane.db.transaction import Tx
from farhand_shared.command import (
    AttemptEvent,
    AttemptState,
    CommandResult,
    ExitReason,
    event_of_result,
)
from farhand_shared.exec_frames import result_to_json
from farhand_shared.ids import AttemptId, CommandId, SessionId, TicketId
from farhand_shared.link_events import Stream

OPEN_STATES: Final = frozenset(
    {
        AttemptState.OFFERED,
        AttemptState.AWAITING_OWNER,
        AttemptState.JOURNALLED,
        AttemptState.STARTED,
        AttemptState.STOPPING,
    }
)  # once offered, not yet ended
_OPEN: Final[LiteralString] = (
    "('offered', 'awaiting_owner', 'journalled', 'started', 'stopping')"  # once offered
)
# A real result replaces these once; never what a revocation ended.
_UPGRADABLE: Final[LiteralString] = (
    "(a.state in ('lost', 'indeterminate') and a.reason is distinct from 'revoked')"
)

_STATE_OF: Final = {
    AttemptEvent.EXIT: AttemptState.EXITED,
    AttemptEvent.FAIL_TO_SPAWN: AttemptState.SPAWN_ERROR,
    AttemptEvent.REFUSE: AttemptState.REFUSED,
    AttemptEvent.CANCEL_PROVEN: AttemptState.CANCELLED_BEFORE_START,
    AttemptEvent.LOSE_TRACK: AttemptState.INDETERMINATE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRef:
    """What the holder of a link keeps of a command while it runs."""

    attempt_id: AttemptId
    command_id: CommandId
    session_id: SessionId | None
    ticket_id: TicketId | None
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What has come from the machine since the last write. Times are seconds ago."""

    attempt_id: AttemptId
    stdout_from: int  # stored so far, as this replica knows it
    stderr_from: int
    stdout_to: int
    stderr_to: int
    chunks: Sequence[tuple[Stream, int, bytes]] = ()  # (stream, offset, bytes), all to be stored
    omitted: Sequence[tuple[Stream, int, int]] = ()  # (stream, offset, length), never to come
    allowed: bool = False
    asked: bool = False
    plan_hash: bytes | None = None
    started_ago_s: float | None = None
    pid: int | None = None
    boot_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The machine's result, with what is not yet stored of the story before it."""

    progress: Progress
    result: CommandResult
    result_hash: bytes
    extra_omitted: Sequence[tuple[Stream, int, int]] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How an attempt stands for a writer whose write found nothing to change."""

    held: bool  # this link's epoch is still the newest
    state: AttemptState | None  # None: the attempt is not kept any more
    result_hash: bytes | None
    stdout_stored: int
    stderr_stored: int


def state_of_result(result: CommandResult) -> AttemptState:
    """Return the state that a machine's result ends an attempt in."""
    if result.reason is ExitReason.REFUSED and result.error_code == "expired":
        return AttemptState.EXPIRED
    return _STATE_OF[event_of_result(result)]


async def advance(connection: Tx, link: HeldLink, progress: Progress) -> AttemptState | None:
    """Store progress in one statement; None when nothing was changed."""
    cursor = await connection.execute(_ADVANCE, _arguments(link, progress), prepare=True)
    row = await cursor.fetchone()
    return None if row is None else AttemptState(row["state"])


async def record(connection: Tx, link: HeldLink, ending: Ending) -> AttemptState | None:
    """Store a result with the last of the output in one statement; None when it was not taken.

    Taken once: an attempt that has a result keeps it.
    """
    result = ending.result
    arguments = _arguments(link, ending.progress)
    arguments |= {
        "end_state": state_of_result(result).value,
        "reason": result.reason.value,
        "exit_code": result.exit_code,
        "signal": result.signal,
        "error_code": _text(result.error_code),
        "error": _text(result.error),
        "result_hash": ending.result_hash,
        "result": Jsonb(result_to_json(result)),
        "omitted": Jsonb(_omitted([*ending.progress.omitted, *ending.extra_omitted])),
    }
    cursor = await connection.execute(_RECORD, arguments, prepare=True)
    row = await cursor.fetchone()
    return None if row is None else AttemptState(row["state"])


async def lock_state(tx: Tx, link: HeldLink, attempt_id: AttemptId) -> AttemptState | None:
    """Lock an attempt until commit and return its state."""
    cursor = await tx.execute(
        "select state from attempts where instance_id = %s and attempt_id = %s for update",
        (link.instance_id, attempt_id),
    )
    row = await cursor.fetchone()
    return None if row is None else AttemptState(row["state"])


async def standing(connection: Tx, link: HeldLink, attempt_id: AttemptId) -> Standing:
    """Return how an attempt and the link stand now."""
    cursor = await connection.execute(
        """
        select coalesce(l.epoch = %s, false) as held, a.state, a.result_hash,
               coalesce(a.stdout_stored, 0) as stdout_stored,
               coalesce(a.stderr_stored, 0) as stderr_stored
          from (select) as one
          left join machine_connections l on l.instance_id = %s and l.machine_id = %s
          left join attempts a on a.instance_id = %s and a.attempt_id = %s
        """,
        (link.epoch, link.instance_id, link.machine_id, link.instance_id, attempt_id),
    )
    rows = await cursor.fetchall()
    row = rows[0]
    return Standing(**{**row, "state": AttemptState(row["state"]) if row["state"] else None})


async def lose(
    tx: Tx, link: HeldLink, machine_name: str, ref: CommandRef, reason: str
) -> EndedCommand | None:
    """Say that nobody can know what became of an attempt; None when it has ended already."""
    cursor = await tx.execute(
        f"""
        with held as ({HELD})
        update attempts a
           set state = 'indeterminate', reason = %(reason)s, error = %(error)s,
               ended_at = farhand_now()
          from held
         where a.instance_id = %(instance_id)s and a.attempt_id = %(attempt_id)s
           and a.state in {_OPEN}
        """,  # noqa: S608 - constants of ours only
        {
            **_fence(link),
            "attempt_id": ref.attempt_id,
            "reason": reason,
            "error": _LOST_BECAUSE.get(reason, reason),
        },
    )
    if cursor.rowcount == 0:
        return None
    return ended(link, machine_name, ref, AttemptState.INDETERMINATE, None)


def ended(
    link: HeldLink,
    machine_name: str,
    ref: CommandRef,
    state: AttemptState,
    result: CommandResult | None,
    *,
    late: bool = False,
) -> EndedCommand:
    """Return what ``command_end.announce`` tells of an attempt on this link's machine."""
    return EndedCommand(
        instance_id=link.instance_id,
        command_id=ref.command_id,
        attempt_id=ref.attempt_id,
        session_id=ref.session_id,
        ticket_id=ref.ticket_id,
        machine_name=machine_name,
        title=ref.title,
        state=state,
        result=result,
        late=late,
    )


async def give_up_unseen(tx: Tx, *, after_days: int, limit: int = 100) -> int:
    """Call attempts ``lost`` whose machine has not been heard for so long; provisional."""
    cursor = await tx.execute(
        f"""
        with gone as (
          select a.instance_id, a.attempt_id
            from attempts a
            join machines m on m.instance_id = a.instance_id and m.machine_id = a.machine_id
           where a.state in {_OPEN}
             and m.seen_at < farhand_now() - make_interval(days => %s)
           limit %s
             for update of a skip locked
        )
        update attempts a
           set state = 'lost', reason = 'machine_unseen', ended_at = farhand_now(),
               error = 'the machine has not been heard for ' || %s || ' days'
          from gone, commands c, machines m
         where a.instance_id = gone.instance_id and a.attempt_id = gone.attempt_id
           and c.instance_id = a.instance_id and c.command_id = a.command_id
           and m.instance_id = a.instance_id and m.machine_id = a.machine_id
        returning a.instance_id, a.command_id, a.attempt_id, a.state, c.session_id, c.ticket_id,
                  c.title, m.name as machine_name
        """,  # noqa: S608 - constants of ours only
        (after_days, limit, str(after_days)),
    )
    lost = [
        EndedCommand(result=None, **{**row, "state": AttemptState(row["state"])})
        for row in await cursor.fetchall()
    ]
    await announce(tx, lost)
    return len(lost)


_LOST_BECAUSE: Final = {
    "journal_replaced": "the machine's journal was replaced: it may have run, nobody can know",
    "journal_rolled_back": "the machine's home was rolled back: it may have run, nobody can know",
    "not_held": "the machine no longer knows of it: it may have run, nobody can know",
    "digest_conflict": "the machine holds another command under this id",
}

# Shared by both writes: facts and offsets move on, chunks follow where the row did.
_SET: Final[LiteralString] = """
           acknowledged_at = case when %(acknowledged)s::bool
                                  then coalesce(a.acknowledged_at, held.now)
                                  else a.acknowledged_at end,
           plan_hash = coalesce(%(plan_hash)s::bytea, a.plan_hash),
           started_at = case when %(started_ago_s)s::float8 is null then a.started_at
                             else coalesce(a.started_at, held.now
                                    - make_interval(secs => %(started_ago_s)s::float8)) end,
           pid = coalesce(%(pid)s::bigint, a.pid),
           boot_id = coalesce(%(boot_id)s::text, a.boot_id),
           omitted = case when %(omitted)s::jsonb = '[]'::jsonb then a.omitted
                          else a.omitted || %(omitted)s::jsonb end,
           stdout_stored = %(stdout_to)s::bigint,
           stderr_stored = %(stderr_to)s::bigint"""
_WHERE: Final[LiteralString] = """
         where a.instance_id = %(instance_id)s::uuid and a.attempt_id = %(attempt_id)s::uuid
           and a.stdout_stored = %(stdout_from)s::bigint
           and a.stderr_stored = %(stderr_from)s::bigint"""
_CHUNKS: Final[LiteralString] = """
        chunks as (
          insert into output_chunks (instance_id, week, attempt_id, stream, start_offset, data)
          select %(instance_id)s::uuid, %(week)s::timestamptz, %(attempt_id)s::uuid, chunk.stream,
                 chunk.start_offset, chunk.data
            from moved, unnest(%(streams)b::smallint[], %(offsets)b::bigint[], %(datas)b::bytea[])
                        as chunk(stream, start_offset, data)
          on conflict do nothing
        )"""
_ADVANCE: Final[LiteralString] = f"""
        with held as ({HELD}),
        moved as (
        update attempts a
           set state = case
                 when %(started_ago_s)s::float8 is not null
                      and a.state in ('offered', 'awaiting_owner', 'journalled') then 'started'
                 when %(allowed)s::bool and a.state in ('offered', 'awaiting_owner')
                      then 'journalled'
                 when %(asked)s::bool and a.state = 'offered' then 'awaiting_owner'
                 else a.state end,
        {_SET}
          from held
        {_WHERE}
           and (a.state in {_OPEN} or {_UPGRADABLE})
        returning a.state),
        {_CHUNKS}
        select state from moved"""  # noqa: S608 - constants of ours only
_RECORD: Final[LiteralString] = f"""
        with held as ({HELD}),
        moved as (
        update attempts a
           set state = case when %(end_state)s::text = 'indeterminate' and a.state = 'lost'
                            then a.state else %(end_state)s::text end,
               ended_at = case when a.ended_at is null or a.state <> %(end_state)s::text
                               then held.now else a.ended_at end,
               reason = %(reason)s::text, exit_code = %(exit_code)s::int,
               signal = %(signal)s::int, error_code = %(error_code)s::text,
               error = %(error)s::text, result_hash = %(result_hash)s::bytea,
               result = %(result)s::jsonb,
        {_SET}
          from held
        {_WHERE}
           and a.result_hash is null
           and (a.state in {_OPEN} or {_UPGRADABLE})
        returning a.state),
        {_CHUNKS}
        select state from moved"""  # noqa: S608 - constants of ours only


def _fence(link: HeldLink) -> dict[str, Any]:
    return {
        "instance_id": link.instance_id,
        "machine_id": link.machine_id,
        "epoch": link.epoch,
    }


def _arguments(link: HeldLink, progress: Progress) -> dict[str, Any]:
    return {
        **_fence(link),
        "attempt_id": progress.attempt_id,
        "week": week_of(progress.attempt_id),
        "allowed": progress.allowed,
        "asked": progress.asked,
        "acknowledged": progress.allowed or progress.started_ago_s is not None,
        "plan_hash": progress.plan_hash,
        "started_ago_s": progress.started_ago_s,
        "pid": progress.pid,
        "boot_id": progress.boot_id,
        "omitted": Jsonb(_omitted(progress.omitted)),
        "stdout_from": progress.stdout_from,
        "stderr_from": progress.stderr_from,
        "stdout_to": progress.stdout_to,
        "stderr_to": progress.stderr_to,
        "streams": [STREAM_NUMBER[stream] for stream, _, _ in progress.chunks],
        "offsets": [offset for _, offset, _ in progress.chunks],
        "datas": [data for _, _, data in progress.chunks],
    }


def _omitted(ranges: Sequence[tuple[Stream, int, int]]) -> list[list[Any]]:
    return [[stream.value, offset, length] for stream, offset, length in ranges]


def _text(text: str) -> str:
    """Text columns refuse U+0000."""
    return text.replace("\0", "\N{SYMBOL FOR NULL}")


async def announce_news(connection: Tx, attempt_ids: Collection[AttemptId]) -> None:
    """Wake whoever follows these attempts, on every replica."""
    await connection.execute(
        "select pg_notify(%s, id) from unnest(%s::text[]) as news(id)",
        (ATTEMPTS, list(attempt_ids)),
    )
