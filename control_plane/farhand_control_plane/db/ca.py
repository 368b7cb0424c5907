"""The roots of the private PKI as rows: certificate in clear, private key wrapped."""

from dataclasses import dataclass, field
from typing import Final

from farhand_control_plane.db.transaction import Tx

_CREATE_LOCK: Final = 0x46_48_43_41  # "FHCA": one replica makes the first root, the others wait


@dataclass(frozen=True, slots=True, kw_only=True)
class CaKey:
    ca_key_id: str
    certificate_pem: str
    spki_sha256: bytes
    wrapped_private_key: bytes = field(repr=False)


async def lock_creation(tx: Tx) -> None:
    """Hold the right to make a root until the transaction ends."""
    await tx.execute("select pg_advisory_xact_lock(%s)", (_CREATE_LOCK,))


async def newest(tx: Tx) -> CaKey | None:
    """Return the root that signs, None in a fresh database."""
    cursor = await tx.execute(
        """
        select ca_key_id, certificate_pem, spki_sha256, wrapped_private_key
          from ca_keys
         where retired_at is null
         order by created_at desc
         limit 1
        """
    )
    row = await cursor.fetchone()
    return None if row is None else CaKey(**row)


async def insert(
    tx: Tx, *, ca_key_id: str, certificate_pem: str, spki_sha256: bytes, wrapped: bytes
) -> None:
    """Store a new root; hold ``lock_creation``."""
    await tx.execute(
        """
        insert into ca_keys (ca_key_id, certificate_pem, spki_sha256, wrapped_private_key)
        values (%s, %s, %s, %s)
        """,
        (ca_key_id, certificate_pem, spki_sha256, wrapped),
    )
