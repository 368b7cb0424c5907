"""Keys and certificates of the private PKI: who a certificate says one is, and who may say so.

Everything is bytes (PEM for keys and what gRPC takes, DER on the wire), so callers never touch
``cryptography``; it is imported inside the functions, because it costs the daemon 100 ms and
10 MB that an ordinary start does not need.

Names: the root is the instance's own; a replica's leaf carries the fixed ``SERVER_NAME`` and
``spiffe://farhand/i/INSTANCE/r/REPLICA``; a machine's carries only
``spiffe://farhand/i/INSTANCE/m/MACHINE``. The URI is the identity; subjects are for people.
"""

import re
import ssl
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from farhand_shared.enrolment_code import EnrolmentCode
from farhand_shared.errors import InvalidInput, NotAllowed
from farhand_shared.ids import is_id
from farhand_shared.limits import (
    CERTIFICATE_BACKDATE_S,
    CERTIFICATE_DAYS,
    CLOCK_SKEW_S,
    RENEW_AFTER_FRACTION,
)
from farhand_shared.pki_forms import (
    certificate_to_pem,
    key_of_csr,
    key_to_pem,
    load_certificate,
    load_key,
    public_key_of,
    spki_of,
)

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

# Verified against the pinned root instead of an address, so a moved server strands nobody.
SERVER_NAME: Final = "control-plane.farhand.internal"

ROOT_DAYS: Final = 20 * 365
SERVER_LEAF_DAYS: Final = 90

_URI: Final = re.compile(r"spiffe://farhand/i/([0-9a-f-]{36})/([mr])/([0-9a-f-]{36})")
_RENEW_JITTER_FRACTION: Final = 0.1
_STATUS_CONTEXT: Final = b"farhand/status/v1"
_RENEW_CONTEXT: Final = b"farhand/renew/v1"
_REJOIN_CONTEXT: Final = b"farhand/rejoin/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedCertificate:
    """A private key with its certificate; the repr leaves the key out."""

    key_pem: bytes = field(repr=False)
    certificate_pem: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineIdentity:
    instance_id: str
    machine_id: str

    @property
    def uri(self) -> str:
        return f"spiffe://farhand/i/{self.instance_id}/m/{self.machine_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaIdentity:
    instance_id: str
    replica_id: str

    @property
    def uri(self) -> str:
        return f"spiffe://farhand/i/{self.instance_id}/r/{self.replica_id}"


Identity = MachineIdentity | ReplicaIdentity


def parse_uri(uri: str) -> Identity:
    """Return whose URI it is; NotAllowed when it is not exactly one of ours."""
    match = _URI.fullmatch(uri)
    if match is None or not (is_id(match[1]) and is_id(match[3])):
        raise NotAllowed("cannot accept the certificate: its name is not a farhand identity")
    if match[2] == "m":
        return MachineIdentity(instance_id=match[1], machine_id=match[3])
    return ReplicaIdentity(instance_id=match[1], replica_id=match[3])


# Making


def new_private_key() -> bytes:
    """Return a new P-256 key as unencrypted PKCS#8 PEM."""
    from cryptography.hazmat.primitives.asymmetric import ec

    return key_to_pem(ec.generate_private_key(ec.SECP256R1()))


def create_root(instance_id: str, *, now: datetime) -> KeyedCertificate:
    """Return a new root CA of one instance, valid for 20 years."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"farhand instance {instance_id}")
    certificate = (
        _dated(x509.CertificateBuilder(), now, ROOT_DAYS)
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(ca=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return KeyedCertificate(
        key_pem=key_to_pem(key), certificate_pem=certificate_to_pem(certificate)
    )


def issue_server_leaf(
    root: KeyedCertificate, identity: ReplicaIdentity, *, now: datetime
) -> KeyedCertificate:
    """Return a replica's certificate: SERVER_NAME and its URI, server and client use, 90 days.

    Client use is for the calls that replicas make to one another.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _issue(
        root,
        key.public_key(),
        common_name=f"farhand replica {identity.replica_id}",
        names=[x509.DNSName(SERVER_NAME), x509.UniformResourceIdentifier(identity.uri)],
        uses=[ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH],
        now=now,
        days=SERVER_LEAF_DAYS,
    )
    return KeyedCertificate(
        key_pem=key_to_pem(key), certificate_pem=certificate_to_pem(certificate)
    )


def create_csr(key_pem: bytes) -> bytes:
    """Return a PKCS#10 request (DER) signed by the key; it carries no name, the server gives it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization

    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([]))
        .sign(load_key(key_pem), hashes.SHA256())
    )
    return request.public_bytes(serialization.Encoding.DER)


def issue_machine_certificate(
    root: KeyedCertificate, csr_der: bytes, identity: MachineIdentity, *, now: datetime
) -> bytes:
    """Return a client certificate (DER), 7 days, back-dated 10 minutes.

    Nothing of the request but its key is used. Raises InvalidInput unless it is signed by its own
    P-256 key.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.x509.oid import ExtendedKeyUsageOID

    certificate = _issue(
        root,
        key_of_csr(csr_der),
        common_name=f"farhand machine {identity.machine_id}",
        names=[x509.UniformResourceIdentifier(identity.uri)],
        uses=[ExtendedKeyUsageOID.CLIENT_AUTH],
        now=now,
        days=CERTIFICATE_DAYS,
    )
    return certificate.public_bytes(serialization.Encoding.DER)


# Reading


def identity_of(certificate: bytes) -> Identity:
    """Return whose certificate (PEM or DER) it is, by its only URI and its use.

    Says nothing about who issued it: TLS or ``check_machine_certificate`` did that.
    Raises NotAllowed.
    """
    return _identity(load_certificate(certificate))


def check_machine_certificate(
    certificate: bytes, root_pem: bytes, *, now: datetime, grace_days: int = 0
) -> MachineIdentity:
    """Return the machine whose certificate this is, having checked issuer, use and dates.

    ``grace_days`` admits an expired one that long after its end. Raises NotAllowed.
    """
    from cryptography.exceptions import InvalidSignature

    parsed = load_certificate(certificate)
    root = load_certificate(root_pem)
    try:
        parsed.verify_directly_issued_by(root)
    except (ValueError, TypeError, InvalidSignature):
        raise NotAllowed(
            "cannot accept the certificate: another control plane issued it; enrol again"
        ) from None
    if now < parsed.not_valid_before_utc:
        raise NotAllowed("cannot accept the certificate: it is not valid yet; check the clocks")
    if now > parsed.not_valid_after_utc + timedelta(days=grace_days):
        raise NotAllowed(
            f"cannot accept the certificate: it expired on {parsed.not_valid_after_utc:%Y-%m-%d};"
            " enrol again"
        )
    identity = _identity(parsed)
    if not isinstance(identity, MachineIdentity):
        raise NotAllowed("cannot accept the certificate: it is not a machine's")
    return identity


def validity(certificate: bytes) -> tuple[datetime, datetime]:
    """Return (not before, not after) of a certificate in PEM or DER."""
    parsed = load_certificate(certificate)
    return parsed.not_valid_before_utc, parsed.not_valid_after_utc


def renew_at(certificate: bytes, *, jitter: float) -> datetime:
    """Return when to renew: half of the life, plus ``jitter`` in [0, 1) of a tenth of it."""
    start, end = validity(certificate)
    return start + (end - start) * (RENEW_AFTER_FRACTION + _RENEW_JITTER_FRACTION * jitter)


def serial_of(certificate: bytes) -> str:
    """Return the serial number in lower-case hexadecimal."""
    return f"{load_certificate(certificate).serial_number:x}"


def certificate_pem(certificate_der: bytes) -> bytes:
    """Return the PEM form, which gRPC takes."""
    return ssl.DER_cert_to_PEM_cert(certificate_der).encode()


def certificate_der(certificate_pem: bytes) -> bytes:
    """Return the DER form, which travels."""
    try:
        return ssl.PEM_cert_to_DER_cert(certificate_pem.decode("ascii"))
    except ValueError:
        raise InvalidInput("cannot read the certificate: it is not PEM") from None


def spki_of_key(key_pem: bytes) -> bytes:
    """Return the SubjectPublicKeyInfo (DER) of a private key's public half."""
    return spki_of(load_key(key_pem).public_key())


def spki_of_csr(csr_der: bytes) -> bytes:
    """Return the SubjectPublicKeyInfo (DER) of a signed request; InvalidInput as for issuing."""
    return spki_of(key_of_csr(csr_der))


def spki_of_certificate(certificate: bytes) -> bytes:
    """Return the SubjectPublicKeyInfo (DER) of a certificate in PEM or DER."""
    return spki_of(public_key_of(load_certificate(certificate)))


def spki_sha256(spki_der: bytes) -> bytes:
    """Return the hash that names a key."""
    return sha256(spki_der).digest()


def root_matches(root_pem: bytes, code: EnrolmentCode) -> bool:
    """Tell whether this is the root that the code's maker pinned."""
    return code.pins(spki_sha256(spki_of_certificate(root_pem)))


# Proof of possession, for a caller without TLS client authentication


def sign_status(key_pem: bytes, machine_id: str, signed_at_ms: int) -> bytes:
    """Return the proof of possession that ``StatusRequest`` carries."""
    return _sign(key_pem, _STATUS_CONTEXT, machine_id.encode(), signed_at_ms)


def verify_status(
    certificate: bytes, machine_id: str, signed_at_ms: int, signature: bytes, *, now_ms: int
) -> None:
    """Raise NotAllowed unless the certificate's key signed it within CLOCK_SKEW_S of now."""
    _verify(certificate, _STATUS_CONTEXT, machine_id.encode(), signed_at_ms, signature, now_ms)


def sign_renew(old_key_pem: bytes, csr_der: bytes, signed_at_ms: int) -> bytes:
    """Return the proof of possession that ``RenewRequest`` carries."""
    return _sign(old_key_pem, _RENEW_CONTEXT, csr_der, signed_at_ms)


def verify_renew(
    certificate: bytes, csr_der: bytes, signed_at_ms: int, signature: bytes, *, now_ms: int
) -> None:
    """Raise NotAllowed unless the certificate's key signed it within CLOCK_SKEW_S of now."""
    _verify(certificate, _RENEW_CONTEXT, csr_der, signed_at_ms, signature, now_ms)


def sign_rejoin(old_key_pem: bytes, csr_der: bytes, signed_at_ms: int) -> bytes:
    """Return the proof of possession that ``Rejoin`` carries."""
    return _sign(old_key_pem, _REJOIN_CONTEXT, csr_der, signed_at_ms)


def verify_rejoin(
    certificate: bytes, csr_der: bytes, signed_at_ms: int, signature: bytes, *, now_ms: int
) -> None:
    """Raise NotAllowed unless the certificate's key signed it within CLOCK_SKEW_S of now."""
    _verify(certificate, _REJOIN_CONTEXT, csr_der, signed_at_ms, signature, now_ms)


def _proof(context: bytes, subject: bytes, signed_at_ms: int) -> bytes:
    return b"\0".join((context, subject, str(signed_at_ms).encode()))


def _sign(key_pem: bytes, context: bytes, subject: bytes, signed_at_ms: int) -> bytes:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    proof = _proof(context, subject, signed_at_ms)
    return load_key(key_pem).sign(proof, ec.ECDSA(hashes.SHA256()))


def _verify(
    certificate: bytes,
    context: bytes,
    subject: bytes,
    signed_at_ms: int,
    signature: bytes,
    now_ms: int,
) -> None:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    skew_s = (signed_at_ms - now_ms) / 1000
    if abs(skew_s) > CLOCK_SKEW_S:
        side = "ahead of" if skew_s > 0 else "behind"
        raise NotAllowed(
            f"cannot accept the proof: this machine's clock is {abs(skew_s):,.0f} s {side} the"
            f" control plane's, the limit is {CLOCK_SKEW_S:,.0f} s; set the clock"
        )
    key = public_key_of(load_certificate(certificate))
    try:
        key.verify(signature, _proof(context, subject, signed_at_ms), ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        raise NotAllowed("cannot accept the proof: the certificate's key did not sign it") from None


def _identity(certificate: "x509.Certificate") -> Identity:
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uses = set(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        raise NotAllowed("cannot accept the certificate: it names nobody and no use") from None
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    if len(uris) != 1 or constraints.ca:
        raise NotAllowed("cannot accept the certificate: it does not name exactly one identity")
    identity = parse_uri(uris[0])
    client, server = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH
    expected = {client} if isinstance(identity, MachineIdentity) else {client, server}
    if uses != expected:
        raise NotAllowed("cannot accept the certificate: it is for another use")
    if isinstance(identity, MachineIdentity) and len(list(names)) != 1:
        raise NotAllowed("cannot accept the certificate: it does not name exactly one identity")
    return identity


def _issue(
    root: KeyedCertificate,
    public_key: "ec.EllipticCurvePublicKey",
    *,
    common_name: str,
    names: "list[x509.GeneralName]",
    uses: "list[x509.ObjectIdentifier]",
    now: datetime,
    days: int,
) -> "x509.Certificate":
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    issuer = load_certificate(root.certificate_pem)
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(public_key_of(issuer))
    return (
        _dated(x509.CertificateBuilder(), now, days)
        .subject_name(_name(common_name))
        .issuer_name(issuer.subject)
        .public_key(public_key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(ca=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(authority, critical=False)
        .sign(load_key(root.key_pem), hashes.SHA256())
    )


def _dated(
    builder: "x509.CertificateBuilder", now: datetime, days: int
) -> "x509.CertificateBuilder":
    from cryptography import x509

    return (
        builder.serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(seconds=CERTIFICATE_BACKDATE_S))
        .not_valid_after(now + timedelta(days=days))
    )


def _name(common_name: str) -> "x509.Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _key_usage(*, ca: bool) -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not ca,
        key_cert_sign=ca,
        crl_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
