"""The built page as it is served: read once, kept in memory, read again when another was built."""

import asyncio
import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# In the wheel; in a checkout `up` has it built there.
PAGE_FOLDER: Final = Path(__file__).parents[1] / "_page"

# Beside it: why the last build failed, in a line or more.
FAILED_NAME: Final = "_page.failed"

JAVASCRIPT: Final = "text/javascript; charset=utf-8"

_TYPES: Final[Mapping[str, str]] = {
    ".js": JAVASCRIPT,
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".webp": "image/webp",
    ".woff2": "font/woff2",
}
_COMPRESSED: Final = frozenset((".js", ".css", ".svg", ".json", ".txt"))
_READ_TRIES: Final = 3
_REASON_MAX: Final = 4000  # characters of why a build failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """A file beside the page; its name changes whenever its content does."""

    content: bytes
    compressed: bytes | None  # gzip; None where that saves nothing
    media_type: str
    etag: str  # weak: both forms have it


@dataclass(frozen=True, slots=True, kw_only=True)
class _Build:
    stamp: tuple[int, int]
    index: str
    assets: Mapping[str, Asset]


class BuiltPage:
    """The newest complete build in a folder that is replaced as a whole."""

    def __init__(self, folder: Path = PAGE_FOLDER) -> None:
        self._folder = folder
        self._build: _Build | None = None

    async def index(self) -> str | None:
        """Return the page's HTML; None while nothing is built."""
        await self._look()
        return None if self._build is None else self._build.index

    async def asset(self, name: str) -> Asset | None:
        """Return a file by its bare name; None when this build has none of that name.

        Names are looked up among those that were read: nothing of a request becomes a path.
        """
        if self._build is None or name not in self._build.assets:
            await self._look()
        return None if self._build is None else self._build.assets.get(name)

    def why_failed(self) -> str:
        """Return what the last build said when it failed; empty when none did."""
        try:
            text = self._folder.with_name(FAILED_NAME).read_text("utf-8", "replace")
        except OSError:
            return ""
        return text.strip()[:_REASON_MAX]

    async def _look(self) -> None:
        """Read the folder when it holds another build than the one in memory.

        A folder that is missing or half replaced changes nothing: what was read stays.
        """
        for _ in range(_READ_TRIES):
            stamp = self._stamp()
            if stamp is None or (self._build is not None and self._build.stamp == stamp):
                return
            try:
                build = await asyncio.to_thread(_read, self._folder, stamp)
            except OSError:  # replaced while we read
                continue
            if self._stamp() == stamp:
                self._build = build
                return

    def _stamp(self) -> tuple[int, int] | None:
        try:
            status = (self._folder / "index.html").stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns


def _read(folder: Path, stamp: tuple[int, int]) -> _Build:
    assets = {
        path.name: _asset(path)
        for path in sorted((folder / "assets").iterdir())
        if path.is_file() and not path.is_symlink()
    }
    return _Build(stamp=stamp, index=(folder / "index.html").read_text("utf-8"), assets=assets)


def _asset(path: Path) -> Asset:
    content = path.read_bytes()
    compressed = None
    if path.suffix in _COMPRESSED:
        packed = gzip.compress(content, mtime=0)
        compressed = packed if len(packed) < len(content) else None
    return Asset(
        content=content,
        compressed=compressed,
        media_type=_TYPES.get(path.suffix, "application/octet-stream"),
        etag=f'W/"{hashlib.sha256(content).hexdigest()[:32]}"',
    )
