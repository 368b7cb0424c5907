"""Repositories beneath the roots: a bounded walk, and remotes without what is secret in them."""

import os
import re
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

DEPTH_MAX: Final = 5  # folders between a root and a working copy
ENTRIES_MAX: Final = 50_000
REPOSITORIES_MAX: Final = 200
WALK_S: Final = 10.0
_CONFIG_MAX_BYTES: Final = 256 * 1024
# Large, and never where somebody keeps working copies.
_SKIPPED: Final = frozenset({"node_modules", "__pycache__", "venv", "Library", "Applications"})

_SCP: Final = re.compile(r"(?:[^@/\s]+@)?(?P<host>[^:/@\s]{2,}):(?P<path>(?!//)\S+)")
_HOST: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_PATH: Final = re.compile(r"[A-Za-z0-9._~%+-]+(/[A-Za-z0-9._~%+-]+)*")
_SCHEMES: Final = ("https", "http", "ssh", "git", "git+ssh", "ssh+git")
_SECTION: Final = re.compile(r'\[\s*remote\s+"(?P<name>[^"]*)"\s*\]', re.IGNORECASE)
_URL: Final = re.compile(r"url\s*=\s*(?P<url>.+)", re.IGNORECASE)


def normalised(url: str) -> str | None:
    """Return host/owner/name of a remote's URL; None for a local path and what is no remote.

    User, password, port, query and fragment are left out: they may be secret, and never tell
    repositories apart.
    """
    url = url.strip().strip('"')
    if "://" in url:
        try:
            parts = urlsplit(url)
            host = parts.hostname or ""
        except ValueError:
            return None
        if parts.scheme.lower() not in _SCHEMES or "@" in parts.path:
            return None
        path = parts.path
    else:
        found = _SCP.fullmatch(url)
        if found is None:
            return None
        host, path = found["host"].lower(), found["path"]
    path = path.strip("/").removesuffix(".git").strip("/")
    if not _HOST.fullmatch(host) or not _PATH.fullmatch(path):
        return None
    return f"{host}/{path}"


def find_repositories(
    roots: Iterable[Path], *, clock: Callable[[], float] = time.monotonic
) -> list[tuple[str, bytes]]:
    """Return (remote, working copy) beneath the roots, nearest first, one pair per remote.

    The walk follows no link, stays on the root's file system, leaves hidden folders out, does not
    look into working copies, and ends at its limits.
    """
    until = clock() + WALK_S
    found: dict[tuple[str, bytes], None] = {}  # in the order found
    left = ENTRIES_MAX
    waiting = deque((root, 0) for root in dict.fromkeys(roots))
    devices = {device for root, _ in waiting if (device := _device(root)) is not None}
    while waiting and left > 0 and len(found) < REPOSITORIES_MAX and clock() < until:
        folder, depth = waiting.popleft()
        below, is_copy = [], False
        for entry in _entries(folder):
            left -= 1
            is_copy = is_copy or entry.name == ".git"
            if left <= 0 or is_copy:
                break
            if not entry.name.startswith(".") and entry.name not in _SKIPPED:
                below.append(entry)
        if is_copy:
            for url in remote_urls(folder):
                if remote := normalised(url):
                    found[remote, os.fsencode(folder)] = None
        elif depth < DEPTH_MAX:
            waiting.extend((Path(e.path), depth + 1) for e in below if _is_folder(e, devices))
    return list(found)[:REPOSITORIES_MAX]


def _device(folder: Path) -> int | None:
    try:
        return folder.stat().st_dev
    except OSError:
        return None


def _entries(folder: Path) -> Iterator["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:  # not ours to read, or gone
        return


def _is_folder(entry: "os.DirEntry[str]", devices: Collection[int]) -> bool:
    try:
        return (
            entry.is_dir(follow_symlinks=False)
            and entry.stat(follow_symlinks=False).st_dev in devices
        )
    except OSError:
        return False


def remote_urls(copy: Path) -> list[str]:
    """Return the URLs of a working copy's remotes, origin first; starts no process."""
    try:
        with (_git_folder(copy) / "config").open("rb") as file:
            text = file.read(_CONFIG_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    urls: list[tuple[bool, str]] = []
    remote: str | None = None
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = _SECTION.match(line)
            remote = None if section is None else section["name"]
        elif remote is not None and (found := _URL.fullmatch(line)):
            urls.append((remote != "origin", found["url"]))
    return [url for _, url in sorted(urls, key=lambda pair: pair[0])]


def _git_folder(copy: Path) -> Path:
    """Return where the repository of a working copy lies: another worktree's has it elsewhere."""
    git = copy / ".git"
    if not git.is_file():
        return git
    with git.open("rb") as file:
        pointed = file.read(4096).decode("utf-8", "surrogateescape").strip()
    folder = copy / pointed.removeprefix("gitdir:").strip()
    common = folder / "commondir"
    if not common.is_file():
        return folder
    with common.open("rb") as file:
        return folder / file.read(4096).decode("utf-8", "surrogateescape").strip()
