"""A later version of the daemon under test, as a signed release that its server carries."""

import re
import shutil
import zipfile
from pathlib import Path

import release as releasing

from farhand_shared.release import ENVELOPE, REQUIREMENTS, sign
from farhand_shared.requirements_lock import LockedWheel, render_lock
from tests.fakes.carried_release import Signer

NEW = "0.2.0"


def later_version(wheel: Path, folder: Path, signer: Signer) -> Path:
    """Return the daemon's wheel as a later version of itself that trusts a key."""
    (old,) = re.findall(r"farhand_daemon-([0-9.]+)-", wheel.name)
    target = folder / wheel.name.replace(old, NEW)
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(target, "w") as made:
        for entry in source.infolist():
            text = source.read(entry)
            if entry.filename == "farhand_shared/version.py":
                text = text.replace(
                    f'__version__ = "{old}"'.encode(), f'__version__ = "{NEW}"'.encode()
                )
            elif entry.filename.endswith("/METADATA"):
                text = text.replace(f"Version: {old}".encode(), f"Version: {NEW}".encode())
            elif entry.filename.endswith("/release_keys.txt"):
                text = f"{signer.public.text}\n".encode()
            entry.filename = entry.filename.replace(f"daemon-{old}.dist", f"daemon-{NEW}.dist")
            made.writestr(entry, text)
    return target


def carry(dist: Path, wheels: Path, signer: Signer) -> Path:
    """Put a release into what the server carries, as scripts/release.py does."""
    folder = dist / "releases" / NEW
    folder.mkdir(parents=True)
    (daemon,) = dist.glob("farhand_daemon-*.whl")
    later_version(daemon, folder, signer)
    (pip,) = dist.glob("pip-*.whl")
    shutil.copy(pip, folder)
    locked = [LockedWheel(name=w.name, sha256=releasing.sha256(w)) for w in wheels.glob("*.whl")]
    (folder / REQUIREMENTS).write_text(render_lock(locked))
    made = releasing.describe(folder, channel="stable", version=NEW)
    (folder / ENVELOPE).write_bytes(sign(made, [signer.pem]))
    return folder
