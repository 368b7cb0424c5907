"""Keys and certificates of the private PKI: who a certificate says one is, and who may say so.

Everything is bytes (PEM for keys and what gRPC takes, DER on the wire), so callers never touch
``cryptography``; it is imported inside the functions, because it costs the daemon 100 ms and
10 MB that an ordinary start does not need.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from farhand_shared.enrolment_code import EnrolmentCode

SERVER_NAME: Final = "control-plane.farhand.internal"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedCertificate:
    """A private key with its certificate. The repr shows neither."""

    key_pem: bytes
    certificate_pem: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineIdentity:
    instance_id: str
    machine_id: str

    @property
    def uri(self) -> str:
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaIdentity:
    instance_id: str
    replica_id: str

    @property
    def uri(self) -> str:
        raise NotImplementedError


Identity = MachineIdentity | ReplicaIdentity


def new_private_key() -> bytes:
    """Return a new P-256 key as unencrypted PKCS#8 PEM."""
    raise NotImplementedError


def create_root(instance_id: str, *, now: datetime) -> KeyedCertificate:
    """Return a new root CA of one instance, valid for 20 years."""
    raise NotImplementedError


def issue_server_leaf(
    root: KeyedCertificate, identity: ReplicaIdentity, *, now: datetime
) -> KeyedCertificate:
    """Return a replica's certificate: SERVER_NAME and its URI, server and client use, 90 days."""
    raise NotImplementedError


def create_csr(key_pem: bytes) -> bytes:
    """Return a PKCS#10 request (DER) signed by the key; it carries no name, the server gives it."""
    raise NotImplementedError


def issue_machine_certificate(
    root: KeyedCertificate, csr_der: bytes, identity: MachineIdentity, *, now: datetime
) -> bytes:
    """Return a client certificate (DER), 7 days, back-dated 10 minutes.

    Raises InvalidInput unless the request is signed by its own P-256 key.
    """
    raise NotImplementedError


def identity_of(certificate: bytes) -> Identity:
    """Return whose certificate (PEM or DER) it is, by its only SAN URI and its use.

    Says nothing about who issued it: TLS or ``check_machine_certificate`` did that.
    Raises NotAllowed.
    """
    raise NotImplementedError


def check_machine_certificate(
    certificate_der: bytes, root_pem: bytes, *, now: datetime, grace_days: int = 0
) -> MachineIdentity:
    """Return the machine whose certificate this is, having checked issuer, use and dates.

    ``grace_days`` admits an expired one that long after its end. Raises NotAllowed.
    """
    raise NotImplementedError


def validity(certificate: bytes) -> tuple[datetime, datetime]:
    """Return (not before, not after) of a certificate in PEM or DER."""
    raise NotImplementedError


def renew_at(certificate: bytes, *, jitter: float) -> datetime:
    """Return when to renew: half of the life, plus ``jitter`` in [0, 1) of a tenth of it."""
    raise NotImplementedError


def certificate_pem(certificate_der: bytes) -> bytes:
    raise NotImplementedError


def certificate_der(certificate_pem: bytes) -> bytes:
    raise NotImplementedError


def spki_of_key(key_pem: bytes) -> bytes:
    """Return the SubjectPublicKeyInfo (DER) of a private key's public half."""
    raise NotImplementedError


def spki_of_csr(csr_der: bytes) -> bytes:
    raise NotImplementedError


def spki_of_certificate(certificate: bytes) -> bytes:
    """As ``spki_of_key``, of a certificate in PEM or DER."""
    raise NotImplementedError


def spki_sha256(spki_der: bytes) -> bytes:
    raise NotImplementedError


def serial_of(certificate: bytes) -> str:
    """Return the serial number in lower-case hexadecimal."""
    raise NotImplementedError


def root_matches(root_pem: bytes, code: EnrolmentCode) -> bool:
    """Tell whether this is the root that the code's maker pinned."""
    raise NotImplementedError


def sign_status(key_pem: bytes, machine_id: str, signed_at_ms: int) -> bytes:
    """Return the proof of possession that ``StatusRequest`` carries."""
    raise NotImplementedError


def verify_status(
    certificate_der: bytes, machine_id: str, signed_at_ms: int, signature: bytes, *, now_ms: int
) -> None:
    """Raise NotAllowed unless the certificate's key signed it within CLOCK_SKEW_S of now."""
    raise NotImplementedError


def sign_renew(old_key_pem: bytes, csr_der: bytes, signed_at_ms: int) -> bytes:
    """Return the proof of possession that ``RenewRequest`` carries."""
    raise NotImplementedError


def verify_renew(
    certificate_der: bytes, csr_der: bytes, signed_at_ms: int, signature: bytes, *, now_ms: int
) -> None:
    """Raise NotAllowed unless the certificate's key signed it within CLOCK_SKEW_S of now."""
    raise NotImplementedError
