"""Keys and certificates from bytes to objects and back, with one error for each way to be wrong.

``cryptography`` is imported inside the functions, for the reason told in ``pki``.
"""

from typing import TYPE_CHECKING

from farhand_shared.errors import InvalidInput, NotAllowed

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec


def key_of_csr(csr_der: bytes) -> "ec.EllipticCurvePublicKey":
    """Return the P-256 key that a request (DER) is about and signed by; InvalidInput otherwise."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        request = x509.load_der_x509_csr(csr_der)
        key = request.public_key()
        signed = request.is_signature_valid
    except Exception as wrong:
        # cryptography answers hostile DER with many types, its own and ValueError among them.
        raise InvalidInput("cannot read the certificate request: it is not PKCS#10") from wrong
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise InvalidInput("cannot accept the certificate request: its key is not P-256")
    if not signed:
        raise InvalidInput("cannot accept the certificate request: its key did not sign it")
    return key


def load_key(key_pem: bytes) -> "ec.EllipticCurvePrivateKey":
    """Return a private key read from PEM."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        key = serialization.load_pem_private_key(key_pem, password=None)
    except (ValueError, TypeError):
        raise InvalidInput("cannot read the private key: it is not an unencrypted PEM") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InvalidInput("cannot use the private key: it is not on an elliptic curve")
    return key


def load_certificate(certificate: bytes) -> "x509.Certificate":
    """Return a certificate read from PEM or DER."""
    from cryptography import x509

    try:
        if certificate.startswith(b"-----BEGIN"):
            return x509.load_pem_x509_certificate(certificate)
        return x509.load_der_x509_certificate(certificate)
    except ValueError:
        raise InvalidInput("cannot read the certificate: it is neither PEM nor DER") from None


def public_key_of(certificate: "x509.Certificate") -> "ec.EllipticCurvePublicKey":
    """Return the elliptic-curve key of a certificate."""
    from cryptography.hazmat.primitives.asymmetric import ec

    key = certificate.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise NotAllowed("cannot accept the certificate: its key is not on an elliptic curve")
    return key


def key_to_pem(key: "ec.EllipticCurvePrivateKey") -> bytes:
    """Return unencrypted PKCS#8 PEM."""
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def certificate_to_pem(certificate: "x509.Certificate") -> bytes:
    """Return PEM."""
    from cryptography.hazmat.primitives import serialization

    return certificate.public_bytes(serialization.Encoding.PEM)


def spki_of(key: "ec.EllipticCurvePublicKey") -> bytes:
    """Return SubjectPublicKeyInfo as DER."""
    from cryptography.hazmat.primitives import serialization

    return key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
