"""Wheels of other projects, fetched when a machine first asks for one, kept by their hash."""

import asyncio
import hashlib
import os
import sys
import tempfile
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from farhand_shared.errors import Unavailable
from farhand_shared.requirements_lock import LockedWheel

_AT_ONCE: Final = 2  # pips that run at the same time
_PATIENCE_S: Final = 300.0


class WheelCache:
    """A folder of wheels; every replica has its own, and it may be emptied at any time."""

    def __init__(self, folder: Path | None = None, pip: Traversable | None = None) -> None:
        """``pip``: the wheel of pip to fetch with; the one that machines are given when None."""
        self._folder, self._pip = folder, pip
        self._fetching: dict[str, asyncio.Task[None]] = {}
        self._pips = asyncio.Semaphore(_AT_ONCE)

    async def path(self, wheel: LockedWheel) -> Path:
        """Return the file, which has the hash that the lock names; Unavailable when not to be had.

        Whoever asks for the same one meanwhile waits for the same download, and hears the same when
        it fails: anybody may ask, and each question must not cost a pip of its own.
        """
        kept = self._kept() / wheel.sha256
        if await asyncio.to_thread(kept.is_file):
            return kept
        fetching = self._fetching.get(wheel.sha256)
        if fetching is None:
            fetching = asyncio.create_task(self._fetch(wheel, kept), name="fetch-wheel")
            self._fetching[wheel.sha256] = fetching
            fetching.add_done_callback(lambda task: self._fetched(wheel.sha256, task))
        await asyncio.shield(fetching)  # who goes away ends it for nobody else
        return kept

    def _fetched(self, sha256: str, task: asyncio.Task[None]) -> None:
        del self._fetching[sha256]
        if not task.cancelled():
            task.exception()  # whoever waited has it; nobody may have

    def _kept(self) -> Path:
        if self._folder is None:
            import platformdirs  # only who fetches needs it

            self._folder = Path(platformdirs.user_cache_dir("farhand", appauthor=False)) / "wheels"
        return self._folder

    async def _fetch(self, wheel: LockedWheel, kept: Path) -> None:
        async with self._pips:
            if await asyncio.to_thread(kept.is_file):
                return  # since whoever asked looked
            try:
                await asyncio.to_thread(_make, kept.parent)
                await self._download(wheel, kept)
            except OSError as error:
                raise Unavailable(
                    f"cannot fetch {wheel.name}: {error.strerror or error}; see this server's disk"
                ) from error

    async def _download(self, wheel: LockedWheel, kept: Path) -> None:
        with (
            tempfile.TemporaryDirectory(dir=kept.parent) as scratch,
            as_file(self._pip or _own_pip()) as pip,
        ):
            lock = Path(scratch) / "wanted.txt"
            lock.write_text(f"{wheel.project}=={wheel.version} --hash=sha256:{wheel.sha256}\n")
            command = [sys.executable, str(pip / "pip"), *pip_words(wheel), "-d", scratch]
            process = await asyncio.create_subprocess_exec(
                *(*command, "-r", str(lock)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            )
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    said, _ = await process.communicate()
            except TimeoutError:
                said = b"ERROR: it takes too long"
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
            await asyncio.to_thread(_keep, Path(scratch) / wheel.name, wheel, kept, said)


def pip_words(wheel: LockedWheel) -> list[str]:
    """Return what makes pip fetch exactly this wheel, whichever computer it is for."""
    python, abis, platforms = wheel.name.removesuffix(".whl").split("-")[-3:]
    words = ["download", "--quiet", "--no-input", "--disable-pip-version-check", "--no-deps"]
    words += ["--only-binary", ":all:", "--require-hashes"]
    words += ["--implementation", python[:2], "--python-version", _version(python)]
    for abi in abis.split("."):
        words += ["--abi", abi]
    for platform in platforms.split("."):
        words += ["--platform", platform]
    return words


def _version(python: str) -> str:
    """Return 3.11 for cp311, and 3.14 for py3, which any Python 3 satisfies."""
    digits = python.partition(".")[0][2:]
    return f"3.{digits[1:]}" if len(digits) > 1 else "3.14"


def _own_pip() -> Traversable:
    found = [
        entry
        for entry in (files("farhand_control_plane") / "_dist").iterdir()
        if entry.name.startswith("pip-")
    ]
    if not found:
        raise Unavailable("cannot fetch dependencies: this server has not built its wheels yet")
    return found[0]


def _make(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _keep(fetched: Path, wheel: LockedWheel, kept: Path, said: bytes) -> None:
    try:
        with fetched.open("rb") as file:
            good = hashlib.file_digest(file, "sha256").hexdigest() == wheel.sha256
    except OSError:
        good = False
    if not good:
        lines = said.decode(errors="replace").strip().splitlines()
        reason = lines[-1].removeprefix("ERROR: ")[:200] if lines else "pip found another file"
        raise Unavailable(
            f"cannot fetch {wheel.name}: {reason}; see the package index of this host"
        )
    fetched.replace(kept)
