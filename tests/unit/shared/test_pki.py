"""Who a certificate says one is, and who may say so."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from farhand_shared import pki
from farhand_shared.enrolment_code import new_code
from farhand_shared.errors import InvalidInput, NotAllowed
from farhand_shared.ids import InstanceId, MachineId, new_id

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
# Fixed: they are in the names of tests, which every process of a run must call the same.
INSTANCE = InstanceId("01a22e39-1983-7cba-bf26-ee61ce1306ca")
MACHINE = pki.MachineIdentity(
    instance_id=INSTANCE, machine_id=MachineId("01a22e39-48e5-7599-873f-8b368d6b5bcf")
)
REPLICA = pki.ReplicaIdentity(instance_id=INSTANCE, replica_id=new_id())
ROOT = pki.create_root(INSTANCE, now=NOW)
KEY = pki.new_private_key()
CSR = pki.create_csr(KEY)
CERTIFICATE = pki.issue_machine_certificate(ROOT, CSR, MACHINE, now=NOW)


def test_a_machine_certificate_names_the_machine_and_nothing_else() -> None:
    assert pki.identity_of(CERTIFICATE) == MACHINE
    assert pki.identity_of(pki.certificate_pem(CERTIFICATE)) == MACHINE
    parsed = x509.load_der_x509_certificate(CERTIFICATE)
    uses = parsed.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(uses) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert pki.spki_of_certificate(CERTIFICATE) == pki.spki_of_key(KEY) == pki.spki_of_csr(CSR)


def test_a_machine_certificate_lasts_seven_days_and_is_back_dated_ten_minutes() -> None:
    assert pki.validity(CERTIFICATE) == (NOW - timedelta(minutes=10), NOW + timedelta(days=7))


def test_renewal_is_due_from_half_of_the_life_with_jitter() -> None:
    start, end = pki.validity(CERTIFICATE)
    life = end - start
    assert pki.renew_at(CERTIFICATE, jitter=0.0) == start + life / 2
    assert pki.renew_at(CERTIFICATE, jitter=0.999) < start + life * 0.61


def test_a_replica_leaf_has_the_fixed_name_and_its_identity() -> None:
    leaf = pki.issue_server_leaf(ROOT, REPLICA, now=NOW)
    assert pki.identity_of(leaf.certificate_pem) == REPLICA
    parsed = x509.load_pem_x509_certificate(leaf.certificate_pem)
    names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [pki.SERVER_NAME]
    parsed.verify_directly_issued_by(x509.load_pem_x509_certificate(ROOT.certificate_pem))


def test_the_issuer_and_the_dates_are_checked() -> None:
    check = pki.check_machine_certificate
    root = ROOT.certificate_pem
    assert check(CERTIFICATE, root, now=NOW) == MACHINE
    other = pki.create_root(INSTANCE, now=NOW).certificate_pem
    with pytest.raises(NotAllowed, match="another control plane issued it"):
        check(CERTIFICATE, other, now=NOW)
    with pytest.raises(NotAllowed, match="not valid yet"):
        check(CERTIFICATE, root, now=NOW - timedelta(minutes=11))
    late = NOW + timedelta(days=8)
    with pytest.raises(NotAllowed, match="it expired on 2026-12-07; enrol again"):
        check(CERTIFICATE, root, now=late)
    assert check(CERTIFICATE, root, now=late, grace_days=30) == MACHINE
    with pytest.raises(NotAllowed, match="expired"):
        check(CERTIFICATE, root, now=NOW + timedelta(days=38), grace_days=30)
    leaf = pki.issue_server_leaf(ROOT, REPLICA, now=NOW)
    with pytest.raises(NotAllowed, match="not a machine's"):
        check(leaf.certificate_pem, root, now=NOW)


def a_certificate(
    names: list[x509.GeneralName] | None, uses: list[x509.ObjectIdentifier], *, ca: bool = False
) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW)
        .not_valid_after(NOW + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    )
    if names is not None:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


URI = x509.UniformResourceIdentifier(MACHINE.uri)
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH


@pytest.mark.parametrize(
    "certificate",
    [
        a_certificate(None, [CLIENT]),
        a_certificate([x509.DNSName("m")], [CLIENT]),
        a_certificate([URI, URI], [CLIENT]),
        a_certificate([URI, x509.DNSName("m")], [CLIENT]),
        a_certificate([URI], [SERVER]),
        a_certificate([URI], [CLIENT, SERVER]),
        a_certificate([URI], [CLIENT], ca=True),
        a_certificate([x509.UniformResourceIdentifier(REPLICA.uri)], [CLIENT]),
    ],
)
def test_a_wrong_use_or_name_is_nobody(certificate: bytes) -> None:
    with pytest.raises(NotAllowed):
        pki.identity_of(certificate)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        MACHINE.uri + "/x",
        MACHINE.uri.upper(),
        MACHINE.uri.replace("farhand", "elsewhere"),
        MACHINE.uri.replace("/m/", "/x/"),
        f"spiffe://farhand/i/{'-' * 36}/m/{MACHINE.machine_id}",
        MACHINE.uri + "\n",
    ],
)
def test_only_an_exact_uri_is_an_identity(uri: str) -> None:
    with pytest.raises(NotAllowed):
        pki.parse_uri(uri)


def test_a_request_must_be_signed_by_its_own_p256_key() -> None:
    forged = bytearray(CSR)
    forged[-1] ^= 1
    big = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    with_rsa = builder.sign(big, hashes.SHA256()).public_bytes(serialization.Encoding.DER)
    wrong_curve = ec.generate_private_key(ec.SECP384R1())
    with_p384 = builder.sign(wrong_curve, hashes.SHA256()).public_bytes(serialization.Encoding.DER)
    for request, says in (
        (bytes(forged), "did not sign it"),
        (with_rsa, "not P-256"),
        (with_p384, "not P-256"),
        (b"", "not PKCS#10"),
        (CSR[:-4], "not PKCS#10"),
    ):
        with pytest.raises(InvalidInput, match=says):
            pki.issue_machine_certificate(ROOT, request, MACHINE, now=NOW)


def test_proofs_hold_for_the_key_the_subject_and_the_time_only() -> None:
    at = 1_000_000_000
    status = pki.sign_status(KEY, MACHINE.machine_id, at)
    pki.verify_status(CERTIFICATE, MACHINE.machine_id, at, status, now_ms=at + 299_000)
    renew = pki.sign_renew(KEY, CSR, at)
    pki.verify_renew(CERTIFICATE, CSR, at, renew, now_ms=at - 299_000)
    rejoin = pki.sign_rejoin(KEY, CSR, at)
    pki.verify_rejoin(CERTIFICATE, CSR, at, rejoin, now_ms=at)
    with pytest.raises(NotAllowed, match="did not sign it"):
        pki.verify_rejoin(CERTIFICATE, CSR, at, renew, now_ms=at)  # each for its purpose

    stranger = pki.issue_machine_certificate(
        ROOT, pki.create_csr(pki.new_private_key()), MACHINE, now=NOW
    )
    with pytest.raises(NotAllowed, match="did not sign it"):
        pki.verify_status(stranger, MACHINE.machine_id, at, status, now_ms=at)
    with pytest.raises(NotAllowed, match="did not sign it"):
        pki.verify_status(CERTIFICATE, new_id(), at, status, now_ms=at)
    with pytest.raises(NotAllowed, match="did not sign it"):
        pki.verify_status(CERTIFICATE, MACHINE.machine_id, at + 1, status, now_ms=at)
    with pytest.raises(NotAllowed, match="did not sign it"):
        pki.verify_renew(CERTIFICATE, CSR, at, status, now_ms=at)
    with pytest.raises(NotAllowed, match=r"clock is 301 s behind the control plane's.*; set the"):
        pki.verify_status(CERTIFICATE, MACHINE.machine_id, at, status, now_ms=at + 301_000)
    with pytest.raises(NotAllowed, match="clock is 7,200 s ahead of"):
        pki.verify_status(CERTIFICATE, MACHINE.machine_id, at, status, now_ms=at - 7_200_000)
    with pytest.raises(NotAllowed, match="did not sign it"):
        pki.verify_status(CERTIFICATE, MACHINE.machine_id, at, b"", now_ms=at)


def test_a_code_pins_its_root() -> None:
    code = new_code(pki.spki_sha256(pki.spki_of_certificate(ROOT.certificate_pem)))
    assert pki.root_matches(ROOT.certificate_pem, code)
    assert not pki.root_matches(pki.create_root(INSTANCE, now=NOW).certificate_pem, code)


def test_the_forms_convert_and_say_what_they_cannot_read() -> None:
    assert pki.certificate_der(pki.certificate_pem(CERTIFICATE)) == CERTIFICATE
    with pytest.raises(InvalidInput, match="not PEM"):
        pki.certificate_der(b"\xff")
    with pytest.raises(InvalidInput, match="neither PEM nor DER"):
        pki.identity_of(b"junk")
    with pytest.raises(InvalidInput, match="not an unencrypted PEM"):
        pki.spki_of_key(b"junk")
    assert int(pki.serial_of(CERTIFICATE), 16) > 0


def test_a_key_does_not_print() -> None:
    assert ROOT.key_pem.decode().splitlines()[1] not in repr(ROOT)


def test_importing_everything_shared_does_not_load_cryptography() -> None:
    code = (
        "import importlib, pkgutil, sys, farhand_shared as p\n"
        "for m in pkgutil.iter_modules(p.__path__, p.__name__ + '.'):\n"
        "    importlib.import_module(m.name)\n"
        "assert 'farhand_shared.pki' in sys.modules\n"
        "print([n for n in sys.modules if n.split('.')[0] in ('cryptography', 'grpc')])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
