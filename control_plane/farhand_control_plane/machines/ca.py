"""The private certificate authority: its root is in the database, its key never in clear there.

The key is wrapped with AES-256-GCM by the instance key, which comes from a file or the environment
and is never stored; the row's id is the associated data, so a wrapped key fits its own row only.
"""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from farhand_control_plane.db import ca
from farhand_control_plane.db.pool import Database
from farhand_shared import pki
from farhand_shared.errors import InvalidInput
from farhand_shared.ids import InstanceId, MachineId, ReplicaId, new_id

INSTANCE_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12  # GCM's own size; random, one encryption per key row


class CertificateAuthority:
    """Signs for one instance. Holds the unwrapped key in memory only."""

    def __init__(
        self,
        root: pki.KeyedCertificate,
        instance_id: InstanceId,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._root = root
        self._instance_id = instance_id
        self._now = now
        self.root_spki_sha256 = pki.spki_sha256(pki.spki_of_certificate(root.certificate_pem))

    @property
    def root_pem(self) -> bytes:
        """The root's certificate: what machines pin."""
        return self._root.certificate_pem

    def server_leaf(self, replica_id: ReplicaId) -> pki.KeyedCertificate:
        """Return a fresh key and certificate for a replica's two listeners."""
        identity = pki.ReplicaIdentity(instance_id=self._instance_id, replica_id=replica_id)
        return pki.issue_server_leaf(self._root, identity, now=self._now())

    def issue(self, csr_der: bytes, instance_id: InstanceId, machine_id: MachineId) -> bytes:
        """Return a machine's certificate (DER); InvalidInput for a request that proves no key."""
        identity = pki.MachineIdentity(instance_id=instance_id, machine_id=machine_id)
        return pki.issue_machine_certificate(self._root, csr_der, identity, now=self._now())

    def machine_of(self, certificate_der: bytes, *, grace_days: int = 0) -> pki.MachineIdentity:
        """Return whose certificate it is; NotAllowed unless this root issued it and it is in date.

        ``grace_days`` admits an expired one that long after its end.
        """
        return pki.check_machine_certificate(
            certificate_der, self.root_pem, now=self._now(), grace_days=grace_days
        )


async def open_authority(
    database: Database, instance_id: InstanceId, instance_key: bytes
) -> CertificateAuthority:
    """Return the instance's authority, made now if the database has none yet.

    Raises InvalidInput for a key of the wrong length and for one that does not unwrap it.
    """
    if len(instance_key) != INSTANCE_KEY_BYTES:
        raise InvalidInput(
            f"cannot use the instance key: it is {len(instance_key)} bytes, "
            f"not {INSTANCE_KEY_BYTES}; give the key this database was made with"
        )
    async with database.transaction() as tx:
        row = await ca.newest(tx)
        if row is None:
            await ca.lock_creation(tx)
            row = await ca.newest(tx)
        if row is None:
            root = pki.create_root(instance_id, now=datetime.now(UTC))
            key_id = new_id()
            await ca.insert(
                tx,
                ca_key_id=key_id,
                certificate_pem=root.certificate_pem.decode(),
                spki_sha256=pki.spki_sha256(pki.spki_of_certificate(root.certificate_pem)),
                wrapped=wrap(instance_key, key_id, root.key_pem),
            )
            return CertificateAuthority(root, instance_id)
    certificate = row.certificate_pem.encode()
    key = unwrap(instance_key, row.ca_key_id, row.wrapped_private_key)
    return CertificateAuthority(
        pki.KeyedCertificate(key_pem=key, certificate_pem=certificate), instance_id
    )


def wrap(instance_key: bytes, key_id: str, private_key: bytes) -> bytes:
    """Return nonce and ciphertext of a private key, bound to the row ``key_id``."""
    # Imported here: 100 ms that a replica pays once, at start, and other commands never.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(instance_key).encrypt(nonce, private_key, key_id.encode())


def unwrap(instance_key: bytes, key_id: str, wrapped: bytes) -> bytes:
    """Return the private key that ``wrap`` was given."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce, sealed = wrapped[:_NONCE_BYTES], wrapped[_NONCE_BYTES:]
    try:
        return AESGCM(instance_key).decrypt(nonce, sealed, key_id.encode())
    except InvalidTag as error:
        raise InvalidInput(
            "cannot open the certificate authority: the instance key is not the one this database "
            "was made with; restore the key file or variable"
        ) from error
