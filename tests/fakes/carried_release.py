"""A signed release, as a control plane carries it: pages of a web address.

Its wheel is a stand-in that pip installs like any other; its ``farhandd`` is the checkout's daemon,
which calls itself as the release does and may be sabotaged. It needs one small dependency, from the
index of the same address.
"""

import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from farhand_shared.release import REQUIREMENTS, PublicKey, Release, ReleaseFile, sign
from farhand_shared.requirements_lock import LockedWheel, parse_lock, render_lock
from tests.fakes.installed_program import checkout_paths, program_text

_PIP = next((Path(__file__).resolve().parents[2] / "scripts").glob("pip-*.whl"))
_NEEDED = "farhand_needs_this"


@dataclass(frozen=True)
class Signer:
    """Somebody who makes releases."""

    pem: bytes
    public: PublicKey

    @classmethod
    def make(cls) -> "Signer":
        key = Ed25519PrivateKey.generate()
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return cls(pem, PublicKey(key.public_key().public_bytes_raw()))


def carry(
    pages: dict[str, bytes],
    signer: Signer,
    version: str,
    *,
    sabotage: str = "",
    calls_itself: str | None = None,
) -> Release:
    """Put a release into the pages, as the newest of its channel."""
    release, envelope, files = release_files(
        signer, version, sabotage=sabotage, calls_itself=calls_itself
    )
    dependency = wheel_of(_NEEDED, "1.0", {f"{_NEEDED}.py": b""})
    (wheel,) = parse_lock(files[REQUIREMENTS].decode())
    index = f"/updates/index/{wheel.project}/"
    pages |= {
        f"/updates/channels/{release.channel}": envelope,
        f"/updates/versions/{version}": envelope,
        **{f"/updates/files/{_sha256(content)}": content for content in files.values()},
        index: f'<a href="{wheel.name}#sha256={wheel.sha256}">{wheel.name}</a>'.encode(),
        index + wheel.name: dependency,
    }
    return release


def release_files(
    signer: Signer,
    version: str,
    *,
    sabotage: str = "",
    calls_itself: str | None = None,
    channel: str = "stable",
) -> tuple[Release, bytes, dict[str, bytes]]:
    """Return a release, its envelope, and its files by name."""
    dependency = wheel_of(_NEEDED, "1.0", {f"{_NEEDED}.py": b""})
    wheel = LockedWheel(name=f"{_NEEDED}-1.0-py3-none-any.whl", sha256=_sha256(dependency))
    program = program_text("#!python", calls_itself or version, sabotage)
    files = {
        f"farhand_daemon-{version}-py3-none-any.whl": wheel_of(
            "farhand_daemon",
            version,
            {
                "checkout.pth": checkout_paths().encode(),
                f"farhand_daemon-{version}.data/scripts/farhandd": program.encode(),
            },
        ),
        _PIP.name: _PIP.read_bytes(),
        REQUIREMENTS: render_lock([wheel]).encode(),
    }
    release = Release(
        channel=channel,
        version=version,
        min_capability=1,
        max_capability=10**6,
        files=tuple(
            ReleaseFile(name=name, sha256=_sha256(content), size=len(content))
            for name, content in files.items()
        ),
    )
    return release, sign(release, [signer.pem]), files


def wheel_of(project: str, version: str, content: dict[str, bytes]) -> bytes:
    """Return a wheel."""
    info = f"{project}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n"
    files = {
        **content,
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o100755 if "/scripts/" in name else 0o100644) << 16
            archive.writestr(entry, text)
    return data.getvalue()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
