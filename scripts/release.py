"""Make releases of the daemon that machines install by themselves: signed, with everything locked.

    python scripts/release.py new-key FILE            a release key; FILE stays with you
    python scripts/release.py lock                    renew endpoint_daemon/requirements.lock
    python scripts/release.py make --key FILE [--channel stable] [--into releases]

`make` builds the daemon's wheel as it is here and writes RELEASES/VERSION with the manifest and its
signature. `farhand up` and the build of the wheel carry what lies in `releases`. The private key is
never in the checkout: FILE is refused there.
"""

import argparse
import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

import build_wheels
import building
from building import ROOT, CannotBuildError

from farhand_shared.release import (
    ENVELOPE,
    REQUIREMENTS,
    PublicKey,
    Release,
    ReleaseFile,
    sign,
    version_key,
)
from farhand_shared.requirements_lock import LockedWheel, render_lock
from farhand_shared.version import CAPABILITY, MIN_CAPABILITY, __version__

DAEMON = ROOT / "endpoint_daemon"
LOCK = build_wheels.LOCK
KEYS = DAEMON / "farhand_daemon" / "update" / "release_keys.txt"
RELEASES = build_wheels.RELEASES

# Where machines may be: what pip calls the platforms, oldest first (pip takes the first kind that
# it finds, and the oldest fits everywhere), and the Pythons. Macs with Intel processors are not
# here: cryptography has no wheels for them any more.
PLATFORMS = (
    *(("manylinux2014_x86_64", "manylinux_2_28_x86_64", "manylinux_2_34_x86_64"),),
    *(("manylinux2014_aarch64", "manylinux_2_28_aarch64", "manylinux_2_34_aarch64"),),
    *(("musllinux_1_2_x86_64",), ("musllinux_1_2_aarch64",)),
    *(("macosx_11_0_arm64", "macosx_12_0_arm64", "macosx_14_0_arm64"),),
)
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def new_key(path: Path) -> None:
    """Write a private key for the owner alone, and print the line that trusts it."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    refuse_in_checkout(path)
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)
    public = PublicKey(key.public_key().public_bytes_raw())
    print(f"private key: {path} (keep it off every server; whoever has it can change machines)")
    print(f"machines that are installed from now on trust it when this line is in {KEYS}:")
    print(f"{public.text} {public.name}")


def refuse_in_checkout(path: Path) -> None:
    """A key that could be committed by mistake is no secret."""
    if path.resolve().is_relative_to(ROOT):
        raise CannotBuildError(
            f"cannot use {path} as a release key: it lies in the checkout; keep keys elsewhere"
        )


def make(key: Path, channel: str, into: Path) -> Path:
    """Return the folder of the new release of this checkout's version."""
    refuse_in_checkout(key)
    version_key(__version__)
    folder = into / __version__
    if folder.exists():
        raise CannotBuildError(
            f"cannot make {folder}: it is there; a version is released once, raise it in version.py"
        )
    fresh = into / f".{__version__}.new"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    building.run(build_wheels.wheel_command(DAEMON, fresh), "build the daemon's wheel", cwd=fresh)
    for pip in sorted((ROOT / "scripts").glob("pip-*.whl")):
        shutil.copy(pip, fresh)
    shutil.copy(LOCK, fresh / REQUIREMENTS)
    envelope = sign(describe(fresh, channel=channel, version=__version__), [key.read_bytes()])
    (fresh / ENVELOPE).write_bytes(envelope)
    fresh.rename(folder)
    return folder


def describe(folder: Path, *, channel: str, version: str) -> Release:
    """Return what a manifest says of the files in a folder."""
    return Release(
        channel=channel,
        version=version,
        min_capability=MIN_CAPABILITY,
        max_capability=CAPABILITY,
        files=tuple(
            ReleaseFile(name=path.name, sha256=sha256(path), size=path.stat().st_size)
            for path in sorted(folder.iterdir())
        ),
    )


def lock() -> str:
    """Return the lock: the newest versions that fit every platform and Python, and their wheels."""
    wheels: set[LockedWheel] = set()
    pins: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        for platforms in PLATFORMS:
            for python in PYTHONS:
                folder = Path(scratch) / f"{platforms[-1]}-{python}"
                wheels |= fetch(folder, platforms, python, pins)
                if not pins:  # the first decides for all
                    pins = sorted(f"{wheel.project}=={wheel.version}" for wheel in wheels)
    return render_lock(wheels)


def fetch(
    folder: Path, platforms: tuple[str, ...], python: str, pins: list[str]
) -> set[LockedWheel]:
    """Return the wheels that one kind of machine needs."""
    folder.mkdir()
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(f"{pin}\n" for pin in pins))
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--dest", "."]
    command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", python]
    command += ["--constraint", str(constraints)]
    for platform in platforms:
        command += ["--platform", platform]
    building.run([*command, *needs()], f"fetch wheels for {platforms[-1]}, {python}", cwd=folder)
    return {LockedWheel(name=p.name, sha256=sha256(p)) for p in folder.glob("*.whl")}


def needs() -> list[str]:
    """Return what the daemon requires."""
    import tomllib

    project = tomllib.loads((DAEMON / "pyproject.toml").read_text())["project"]
    return list(project["dependencies"])


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main() -> int:
    """Do one of the three; return the exit status."""
    parser = argparse.ArgumentParser(description="Make signed releases of the daemon.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("new-key").add_argument("file", type=Path)
    verbs.add_parser("lock")
    making = verbs.add_parser("make")
    making.add_argument("--key", type=Path, required=True)
    making.add_argument("--channel", default="stable")
    making.add_argument("--into", type=Path, default=RELEASES)
    options = parser.parse_args()
    try:
        if options.verb == "new-key":
            new_key(options.file)
        elif options.verb == "lock":
            LOCK.write_text(lock())
        else:
            print(make(options.key, options.channel, options.into))
    except (CannotBuildError, OSError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
