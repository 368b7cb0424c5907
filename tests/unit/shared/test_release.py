"""Whose releases are believed, and what a manifest may say."""

import contextlib
import json
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from farhand_shared.errors import FarhandError, InvalidInput, NotAllowed
from farhand_shared.release import (
    PublicKey,
    Release,
    ReleaseFile,
    manifest_text,
    open_envelope,
    parse_keys,
    parse_manifest,
    sign,
    verify,
    version_key,
)

RELEASE = Release(
    channel="stable",
    version="0.2.0",
    min_capability=1,
    max_capability=3,
    files=(
        ReleaseFile(name="farhand_daemon-0.2.0-py3-none-any.whl", sha256="a" * 64, size=5),
        ReleaseFile(name="pip-26.3-py3-none-any.whl", sha256="b" * 64, size=6),
        ReleaseFile(name="requirements.txt", sha256="c" * 64, size=7),
    ),
)


def new_key() -> tuple[bytes, PublicKey]:
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem, PublicKey(key.public_key().public_bytes_raw())


PEM, KEY = new_key()
OTHER_PEM, OTHER_KEY = new_key()


def test_a_release_signed_by_a_trusted_key_comes_back_as_it_was() -> None:
    assert verify(sign(RELEASE, [PEM]), [KEY]) == RELEASE
    assert RELEASE.wheel.sha256 == "a" * 64
    assert RELEASE.pip.size == 6
    assert RELEASE.requirements.name == "requirements.txt"


def test_several_keys_may_sign_so_that_a_key_can_be_replaced() -> None:
    both = sign(RELEASE, [OTHER_PEM, PEM])
    assert verify(both, [KEY]) == verify(both, [OTHER_KEY]) == RELEASE


def test_another_key_a_changed_manifest_and_no_signature_are_refused() -> None:
    envelope = sign(RELEASE, [PEM])
    with pytest.raises(NotAllowed, match="none of the keys"):
        verify(envelope, [OTHER_KEY])
    changed = json.loads(envelope)
    changed["manifest"] = changed["manifest"].replace("0.2.0", "9.9.9")
    with pytest.raises(NotAllowed, match="changed after it was signed"):
        verify(json.dumps(changed).encode(), [KEY])
    stolen = json.loads(envelope)
    stolen["signatures"][0]["signature"] = json.loads(sign(RELEASE, [OTHER_PEM]))["signatures"][0][
        "signature"
    ]
    with pytest.raises(NotAllowed, match="changed after it was signed"):
        verify(json.dumps(stolen).encode(), [KEY])
    with pytest.raises(NotAllowed, match="none of the keys"):
        verify(json.dumps({"manifest": manifest_text(RELEASE), "signatures": []}).encode(), [KEY])


def test_a_program_without_a_release_key_believes_nobody() -> None:
    with pytest.raises(NotAllowed, match="without a release key"):
        verify(sign(RELEASE, [PEM]), [])


@given(st.binary(max_size=200))
def test_no_bytes_are_taken_for_a_release(data: bytes) -> None:
    with pytest.raises(FarhandError):
        verify(data, [KEY])


@given(st.integers(min_value=0, max_value=10_000), st.binary(min_size=1, max_size=3))
def test_no_changed_byte_of_an_envelope_is_believed(at: int, patch: bytes) -> None:
    envelope = sign(RELEASE, [PEM])
    at %= len(envelope)
    changed = envelope[:at] + patch + envelope[at + len(patch) :]
    with contextlib.suppress(FarhandError):
        assert verify(changed, [KEY]) == RELEASE  # what was changed says nothing


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"channel": "Stable"},
        {"channel": "../x"},
        {"version": "1"},
        {"version": "1.0rc1"},
        {"min_capability": -1},
        {"max_capability": "3"},
        {"files": []},
        {"files": [{"name": "../x", "sha256": "a" * 64, "size": 1}]},
        {"files": [{"name": ".x", "sha256": "a" * 64, "size": 1}]},
        {"files": [{"name": "x", "sha256": "A" * 64, "size": 1}]},
        {"files": [{"name": "x", "sha256": "a" * 64, "size": 2**40}]},
    ],
    ids=str,
)
def test_a_manifest_that_says_something_else_is_none(change: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        parse_manifest(json.dumps(json.loads(manifest_text(RELEASE)) | change))


def test_a_release_has_each_of_its_parts_once() -> None:
    for n in range(3):
        with pytest.raises(InvalidInput):
            manifest_text(replace(RELEASE, files=RELEASE.files[:n] + RELEASE.files[n + 1 :]))
        with pytest.raises(InvalidInput):
            manifest_text(replace(RELEASE, files=(*RELEASE.files, RELEASE.files[n])))


def test_only_an_ed25519_key_signs() -> None:
    pem = generate_private_key(SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    with pytest.raises(InvalidInput, match="Ed25519"):
        sign(RELEASE, [pem])


def test_keys_stand_one_a_line_with_words_after_them() -> None:
    text = f"# whose\n\n{KEY.text} the first\n  {OTHER_KEY.text}   # second\n"
    assert parse_keys(text) == (KEY, OTHER_KEY)
    assert parse_keys("# none\n") == ()
    for wrong in ("ed25519:AAAA", "rsa:x", KEY.text[:-4], "ed25519:é"):
        with pytest.raises(InvalidInput):
            parse_keys(wrong)


def test_versions_are_ordered_by_their_numbers() -> None:
    ordered = ["0.1", "0.1.1", "0.2.0", "0.10.0", "1.0", "1.0.0.1"]
    assert sorted(reversed(ordered), key=version_key) == ordered
    assert version_key("1.0.0") == version_key("1.0")
    for wrong in ("1", "1.x", "", "1.0\n", "v1.0", "1." + "9" * 9):
        with pytest.raises(InvalidInput):
            version_key(wrong)


def test_an_envelope_that_is_too_large_is_not_read() -> None:
    with pytest.raises(InvalidInput, match="larger than"):
        open_envelope(b" " * (300 * 1024))
