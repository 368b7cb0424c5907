"""Enrolment codes and certificates: how a computer becomes a machine."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from farhand_control_plane.db import events
from farhand_control_plane.db.listen import MACHINES
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import EventKind, MachineKind, MachineStatus
from farhand_shared.enrolment_code import format_code, new_code
from farhand_shared.errors import Conflict, InvalidInput, NotAllowed, NotFound, Unavailable
from farhand_shared.ids import InstanceId, MachineId, MemberId, new_id
from farhand_shared.limits import ENROLMENT_CODE_S, REDEEM_AGAIN_S

_NAME_TRIES: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeCode:
    text: str  # FH1-…: shown once, only its hash is stored
    code_id: str
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeView:
    """Where a code stands: waiting, or used by ``machine_id`` with these six words."""

    code_id: str
    made_by_member_id: MemberId
    expires_at: datetime
    used_at: datetime | None
    machine_id: MachineId | None
    machine_name: str | None
    words: tuple[str, ...]


async def make_code(
    tx: Tx,
    instance_id: InstanceId,
    member_id: MemberId,
    name: str | None = None,
    *,
    kind: MachineKind = MachineKind.PERSONAL,
    for_machine_id: MachineId | None = None,
) -> MadeCode:
    """Make a single-use code, valid for ten minutes, pinned to the newest root.

    ``name`` is what the maker wants to call the machine, ``kind`` what it will be.
    ``for_machine_id``: it lets in that machine, which is stored and pending, and no other.
    """
    cursor = await tx.execute(
        "select spki_sha256 from ca_keys where retired_at is null order by created_at desc limit 1"
    )
    root = await cursor.fetchone()
    if root is None:
        raise Unavailable("cannot make a code: no replica has made the root key yet; start one")
    code = new_code(root["spki_sha256"])
    code_id = new_id()
    cursor = await tx.execute(
        """
        insert into enrolment_codes (instance_id, code_id, secret_sha256, made_by_member_id, name,
                                     kind, for_machine_id, created_at, expires_at)
        values (%s, %s, %s, %s, %s, %s, %s, farhand_now(),
                farhand_now() + make_interval(secs => %s))
        returning expires_at
        """,
        (
            instance_id,
            code_id,
            _hash(code.secret.reveal()),
            member_id,
            name,
            kind.value,
            for_machine_id,
            ENROLMENT_CODE_S,
        ),
    )
    rows = await cursor.fetchall()
    return MadeCode(text=format_code(code), code_id=code_id, expires_at=rows[0]["expires_at"])


async def end_codes_for(tx: Tx, instance_id: InstanceId, machine_id: MachineId) -> None:
    """End the unused codes that would let in this machine."""
    await tx.execute(
        """
        delete from enrolment_codes
         where instance_id = %s and for_machine_id = %s and used_at is null
        """,
        (instance_id, machine_id),
    )


async def code(tx: Tx, instance_id: InstanceId, code_id: str) -> CodeView | None:
    """Return where a code stands (``machines add --wait`` and the page ask again and again)."""
    cursor = await tx.execute(
        """
        select c.code_id, c.made_by_member_id, c.expires_at, c.used_at, c.machine_id,
               m.name as machine_name, m.words
          from enrolment_codes c
          left join machines m on m.instance_id = c.instance_id and m.machine_id = c.machine_id
         where c.instance_id = %s and c.code_id = %s
        """,
        (instance_id, code_id),
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    return CodeView(**{**row, "words": tuple(row["words"] or ())})


async def confirm(
    tx: Tx,
    instance_id: InstanceId,
    member_id: MemberId,
    machine_id: MachineId,
    words: Sequence[str],
) -> None:
    """Make a pending machine active, because its code's maker compared the six words.

    Idempotent; emits an event, so call it last. Raises NotFound, NotAllowed (another's code),
    InvalidInput (other words) and Conflict (revoked or quarantined).
    """
    cursor = await tx.execute(
        """
        select m.name, m.status, m.words, c.made_by_member_id
          from machines m
          join enrolment_codes c on c.instance_id = m.instance_id and c.machine_id = m.machine_id
         where m.instance_id = %s and m.machine_id = %s
           for no key update of m
        """,
        (instance_id, machine_id),
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("cannot confirm the machine: there is none of that id; list the machines")
    name = row["name"]
    if row["made_by_member_id"] != member_id:
        raise NotAllowed(f"cannot confirm {name}: only the maker of its code may; ask them")
    if [word.strip().lower() for word in words] != row["words"]:
        raise InvalidInput(
            f"cannot confirm {name}: the six words differ; "
            "do not trust that machine, revoke it and make a new code"
        )
    if row["status"] in (MachineStatus.ACTIVE, MachineStatus.PAUSED):
        return
    if row["status"] != MachineStatus.PENDING:
        raise Conflict(f"cannot confirm {name}: it is {row['status']}; enrol it again")
    await tx.execute(
        """
        update machines set status = 'active', activated_at = farhand_now()
         where instance_id = %s and machine_id = %s
        """,
        (instance_id, machine_id),
    )
    await tx.execute("select pg_notify(%s, %s)", (MACHINES, machine_id))
    await events.emit_of_machine(tx, instance_id, EventKind.MACHINE_CONFIRMED, machine_id, name)


# What the enrolment listener does ---------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedCode:
    """A presented code, held until the transaction ends."""

    instance_id: InstanceId
    code_id: str
    made_by_member_id: MemberId
    name: str | None
    kind: MachineKind
    for_machine_id: MachineId | None  # the machine that it lets in; None: it makes one
    expired: bool
    used: bool
    used_spki_sha256: bytes | None
    may_repeat: bool  # used so recently that the same key gets the same answer
    machine_id: MachineId | None
    certificate_der: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Redemption:
    """A machine as its enrolment is answered."""

    machine_id: MachineId
    name: str
    status: MachineStatus
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateRow:
    """An issued certificate and how its machine stands."""

    machine_id: MachineId
    machine_name: str
    machine_status: MachineStatus
    revoked: bool
    replaced: bool
    may_repeat: bool  # replaced so recently that a lost answer may be the reason to ask again


async def lock_code(tx: Tx, secret: bytes) -> LockedCode | None:
    """Return the code with this secret, locked: a second redeemer sees the first one's use."""
    cursor = await tx.execute(
        """
        select instance_id, code_id, made_by_member_id, name, kind, for_machine_id,
               expires_at <= farhand_now() as expired,
               used_at is not null as used, used_spki_sha256, machine_id, certificate_der,
               coalesce(used_at > farhand_now() - make_interval(secs => %s), false) as may_repeat
          from enrolment_codes
         where secret_sha256 = %s
           for update
        """,
        (REDEEM_AGAIN_S, _hash(secret)),
    )
    row = await cursor.fetchone()
    return None if row is None else LockedCode(**{**row, "kind": MachineKind(row["kind"])})


async def insert_machine(
    tx: Tx,
    code: LockedCode,
    *,
    machine_id: MachineId,
    wanted_name: str,
    words: Sequence[str],
    capability: int,
    daemon_version: str,
    trust_level: str,
    chosen_by: str,
) -> str:
    """Store a pending machine owned by the code's maker; return its name, made unique by -2, -3…"""
    for number in range(1, _NAME_TRIES):
        name = wanted_name if number == 1 else f"{wanted_name}-{number}"
        cursor = await tx.execute(
            """
            insert into machines (instance_id, machine_id, owner_member_id, name, kind, status,
                                  words, capability, daemon_version, trust_level, chosen_by,
                                  created_at)
            values (%s, %s, %s, %s, %s, 'pending', %s, %s, %s, %s, %s, farhand_now())
            on conflict (instance_id, name) where status <> 'revoked' do nothing
            returning name
            """,
            (
                code.instance_id,
                machine_id,
                code.made_by_member_id,
                name,
                code.kind.value,
                list(words),
                capability,
                daemon_version,
                trust_level,
                chosen_by,
            ),
        )
        if await cursor.fetchone() is not None:
            return name
    raise Conflict(f"cannot name the machine: {wanted_name} is taken too often; give another name")


async def let_in(
    tx: Tx,
    code: LockedCode,
    *,
    words: Sequence[str],
    capability: int,
    daemon_version: str,
    trust_level: str,
    chosen_by: str,
) -> str:
    """Give the stored, pending machine of a code what its daemon says; return its name.

    A key that an earlier, interrupted enrolment of it left is good for nothing any more. Raises
    NotAllowed when it waits for nobody.
    """
    cursor = await tx.execute(
        """
        update machines
           set words = %s, capability = %s, daemon_version = %s, trust_level = %s, chosen_by = %s
         where instance_id = %s and machine_id = %s and status = 'pending'
        returning name
        """,
        (
            list(words),
            capability,
            daemon_version,
            trust_level,
            chosen_by,
            code.instance_id,
            code.for_machine_id,
        ),
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotAllowed(
            "cannot enrol: the code was made for a machine that waits for nobody any more"
        )
    await tx.execute(
        """
        update certificates set revoked_at = farhand_now()
         where instance_id = %s and machine_id = %s and revoked_at is null
        """,
        (code.instance_id, code.for_machine_id),
    )
    return str(row["name"])


async def use_code(
    tx: Tx, code: LockedCode, *, machine_id: MachineId, spki_sha256: bytes, certificate_der: bytes
) -> None:
    """Mark a locked code as used by this key."""
    await tx.execute(
        """
        update enrolment_codes
           set used_at = farhand_now(), used_spki_sha256 = %s, machine_id = %s, certificate_der = %s
         where instance_id = %s and code_id = %s and used_at is null
        """,
        (spki_sha256, machine_id, certificate_der, code.instance_id, code.code_id),
    )


async def redemption(tx: Tx, code: LockedCode) -> Redemption | None:
    """Return the machine that a used code made."""
    cursor = await tx.execute(
        """
        select machine_id, name, status, words
          from machines
         where instance_id = %s and machine_id = %s
        """,
        (code.instance_id, code.machine_id),
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    return Redemption(
        machine_id=row["machine_id"],
        name=row["name"],
        status=MachineStatus(row["status"]),
        words=tuple(row["words"]),
    )


async def insert_certificate(
    tx: Tx,
    instance_id: InstanceId,
    machine_id: MachineId,
    *,
    serial: str,
    spki_sha256: bytes,
    not_before: datetime,
    not_after: datetime,
) -> None:
    await tx.execute(
        """
        insert into certificates (instance_id, serial, machine_id, spki_sha256, not_before,
                                  not_after, issued_at)
        values (%s, %s, %s, %s, %s, %s, farhand_now())
        """,
        (instance_id, serial, machine_id, spki_sha256, not_before, not_after),
    )


async def lock_certificate(tx: Tx, instance_id: InstanceId, serial: str) -> CertificateRow | None:
    """Return an issued certificate, locked against a second renewal at the same time."""
    cursor = await tx.execute(
        """
        select c.machine_id, m.name as machine_name, m.status as machine_status,
               c.revoked_at is not null as revoked, c.replaced_at is not null as replaced,
               coalesce(c.replaced_at > farhand_now() - make_interval(secs => %s), false)
                 as may_repeat
          from certificates c
          join machines m on m.instance_id = c.instance_id and m.machine_id = c.machine_id
         where c.instance_id = %s and c.serial = %s
           for update of c
        """,
        (REDEEM_AGAIN_S, instance_id, serial),
    )
    row: dict[str, Any] | None = await cursor.fetchone()
    if row is None:
        return None
    return CertificateRow(**{**row, "machine_status": MachineStatus(row["machine_status"])})


async def mark_replaced(tx: Tx, instance_id: InstanceId, serial: str) -> None:
    """Note that a newer certificate exists; the old one serves until its own end."""
    await tx.execute(
        """
        update certificates set replaced_at = coalesce(replaced_at, farhand_now())
         where instance_id = %s and serial = %s
        """,
        (instance_id, serial),
    )


def _hash(secret: bytes) -> bytes:
    """One round is enough: the secret is 128 random bits, good for ten minutes."""
    return hashlib.sha256(secret).digest()
