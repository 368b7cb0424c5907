"""A release of the daemon: what its manifest says, and whether somebody we trust signed it.

The manifest names every file by its hash, so what a machine installs is what was signed, whoever
carried it. Signatures are Ed25519 over the manifest's bytes as they are, after a label that keeps
a signature from meaning anything else. ``cryptography`` is imported where it is used.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from farhand_shared.errors import InvalidInput, NotAllowed
from farhand_shared.limits import KIB, MIB

ENVELOPE: Final = "release.json"  # the file that holds manifest and signatures
REQUIREMENTS: Final = "requirements.txt"  # every dependency, with the hashes of its files
ENVELOPE_MAX_BYTES: Final = 256 * KIB
FILE_MAX_BYTES: Final = 64 * MIB
_LABEL: Final = b"farhand daemon release, format 1\n"
_FORMAT: Final = 1
_KEY_PREFIX: Final = "ed25519:"
_VERSION: Final = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6}){1,3}")
_CHANNEL: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,199}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_WHEEL: Final = re.compile(r"farhand_daemon-[A-Za-z0-9_.+]+-[A-Za-z0-9_.-]+\.whl")
_PIP: Final = re.compile(r"pip-[A-Za-z0-9_.+]+-[A-Za-z0-9_.-]+\.whl")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseFile:
    name: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What a manifest says.

    The link works with servers whose capability is at least ``min_capability``; the daemon's own
    is ``max_capability``.
    """

    channel: str
    version: str
    min_capability: int
    max_capability: int
    files: tuple[ReleaseFile, ...]

    @property
    def wheel(self) -> ReleaseFile:
        """The daemon's."""
        return self._one(_WHEEL)

    @property
    def pip(self) -> ReleaseFile:
        return self._one(_PIP)

    @property
    def requirements(self) -> ReleaseFile:
        return self._one(re.compile(re.escape(REQUIREMENTS)))

    def _one(self, pattern: re.Pattern[str]) -> ReleaseFile:
        found = [file for file in self.files if pattern.fullmatch(file.name)]
        if len(found) != 1:
            raise InvalidInput(
                f"cannot use release {self.version}: it holds {len(found)} files like "
                f"{pattern.pattern}; one is needed"
            )
        return found[0]


def version_key(version: str) -> tuple[int, ...]:
    """Return what versions are ordered by; InvalidInput for what is no version."""
    if not _VERSION.fullmatch(version):
        raise InvalidInput(f"cannot read version {version[:40]!r}: it is not like 1.2 or 1.2.3")
    numbers = [int(part) for part in version.split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def manifest_text(release: Release) -> str:
    """Return the manifest of a release; checked, so that what is signed can be read."""
    text = json.dumps({"format": _FORMAT, **asdict(release)}, indent=1)
    parse_manifest(text)
    return text


def parse_manifest(text: str) -> Release:
    """Check and return what a manifest says; InvalidInput when it is none."""
    try:
        document: Any = json.loads(text)  # Any: JSON, checked below
        if document["format"] != _FORMAT:
            raise ValueError(f"its format is {document['format']!r}")
        release = Release(
            channel=_matching(_CHANNEL, document["channel"]),
            version=_matching(_VERSION, document["version"]),
            min_capability=_number(document["min_capability"], at_most=10**6),
            max_capability=_number(document["max_capability"], at_most=10**6),
            files=tuple(_file(one) for one in document["files"]),
        )
        if len({file.name for file in release.files}) != len(release.files):
            raise ValueError("a file is named twice")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidInput(
            f"cannot read the release's manifest: {str(error)[:200] or type(error).__name__}; "
            "it is damaged, or of a later format: run the install line again"
        ) from error
    _ = (release.wheel, release.pip, release.requirements)
    return release


def _file(document: Mapping[str, Any]) -> ReleaseFile:
    return ReleaseFile(
        name=_matching(_NAME, document["name"]),
        sha256=_matching(_SHA256, document["sha256"]),
        size=_number(document["size"], at_most=FILE_MAX_BYTES),
    )


def _matching(pattern: re.Pattern[str], value: object) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError(f"{str(value)[:80]!r} is not like {pattern.pattern}")
    return value


def _number(value: object, *, at_most: int) -> int:
    if type(value) is not int or not 0 <= value <= at_most:
        raise ValueError(f"{str(value)[:80]!r} is no number up to {at_most}")
    return value


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A release key that is trusted, as it stands in a list of keys."""

    raw: bytes

    @property
    def name(self) -> str:
        """A short name, for people and to find its signature by."""
        return hashlib.sha256(self.raw).hexdigest()[:16]

    @property
    def text(self) -> str:
        return _KEY_PREFIX + base64.b64encode(self.raw).decode()


def parse_keys(text: str) -> tuple[PublicKey, ...]:
    """Return the keys of a list: one a line, ``ed25519:…``, anything after it, ``#`` comments."""
    keys = []
    for line in text.splitlines():
        word = line.partition("#")[0].strip().partition(" ")[0]
        if not word:
            continue
        try:
            raw = base64.b64decode(word.removeprefix(_KEY_PREFIX), validate=True)
        except ValueError:
            raw = b""
        if not word.startswith(_KEY_PREFIX) or len(raw) != 32:
            raise InvalidInput(f"cannot read release key {word[:60]!r}: it is not {_KEY_PREFIX}…")
        keys.append(PublicKey(raw))
    return tuple(keys)


def sign(release: Release, private_keys_pem: Sequence[bytes]) -> bytes:
    """Return the envelope: the manifest with a signature by each key (PEM, PKCS 8, Ed25519)."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    text = manifest_text(release)
    signatures = []
    for pem in private_keys_pem:
        key = load_pem_private_key(pem, password=None)
        if not isinstance(key, Ed25519PrivateKey):
            raise InvalidInput("cannot sign: the key is not an Ed25519 key; make one for releases")
        public = PublicKey(key.public_key().public_bytes_raw())
        signature = base64.b64encode(key.sign(_LABEL + text.encode())).decode()
        signatures.append({"key": public.name, "signature": signature})
    return json.dumps({"manifest": text, "signatures": signatures}, indent=1).encode() + b"\n"


def verify(envelope: bytes, keys: Sequence[PublicKey]) -> Release:
    """Return the release that one of these keys signed; NotAllowed when none did.

    Nothing of the manifest is read before its signature is good.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if not keys:
        raise NotAllowed(
            "cannot update: this program was built without a release key, so nothing says whose "
            "releases to believe; run the install line again to change the version"
        )
    text, signatures = open_envelope(envelope)
    by_name = {key.name: key for key in keys}
    for name, signature in signatures:
        key = by_name.get(name)
        if key is None:
            continue
        try:
            Ed25519PublicKey.from_public_bytes(key.raw).verify(signature, _LABEL + text.encode())
        except InvalidSignature:
            raise NotAllowed(
                f"cannot update: the release's signature by key {name} is wrong: it was changed "
                "after it was signed; tell whoever runs the server"
            ) from None
        return parse_manifest(text)
    raise NotAllowed(
        f"cannot update: none of the keys that this machine trusts ({', '.join(by_name)}) signed "
        "the release; tell whoever runs the server, or run the install line again"
    )


def open_envelope(envelope: bytes) -> tuple[str, tuple[tuple[str, bytes], ...]]:
    """Return the manifest's text and its signatures (key's name, bytes), none of it believed."""
    try:
        if len(envelope) > ENVELOPE_MAX_BYTES:
            raise ValueError(f"it is larger than {ENVELOPE_MAX_BYTES // KIB} KiB")
        document: Any = json.loads(envelope)  # Any: JSON
        text = document["manifest"]
        signatures = tuple(
            (str(one["key"]), base64.b64decode(one["signature"], validate=True))
            for one in document["signatures"]
        )
        if not isinstance(text, str):
            raise TypeError("the manifest is no text")
        text.encode()  # a lone surrogate has no bytes that could be signed
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidInput(
            f"cannot read the release: {str(error)[:200] or type(error).__name__}; it is damaged"
        ) from error
    return text, signatures
