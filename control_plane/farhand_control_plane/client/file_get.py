"""A file of a machine, brought here whole or not at all; a transfer that broke off goes on."""

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from farhand_control_plane.client.files import FileRefused, Files, Gap
from farhand_control_plane.client.progress import Progress
from farhand_shared.errors import Conflict, FarhandError, InvalidInput
from farhand_shared.file_operation import FileErrorCode, ReadFile, StatFile
from farhand_shared.limits import MIB

TIMEOUT_MS: Final = 24 * 3600 * 1000  # of one transfer: it may be large, and the way slow
_TRIES: Final = 3  # of a file that changes while it is read
_NAME_MAX_BYTES: Final = 255
_MARK: Final = ".farhand-part-"


def get(
    files: Files, remote: bytes, target: Path, *, overwrite: bool = False
) -> dict[str, Any]:  # JSON
    """Bring a file to ``target`` and return its facts.

    Bytes gather beside the target in a file whose name holds the remote file's version, so the
    same call again goes on where it was left, unless the machine's file begins otherwise. Every
    byte is under a SHA-256 of the machine's.
    """
    target = _usable(target, overwrite=overwrite)
    for tries_left in reversed(range(_TRIES)):
        facts = _file_facts(files, remote)
        try:
            return _bring(files, remote, target, facts, overwrite=overwrite)
        except FileRefused as refused:
            if refused.code != FileErrorCode.CHANGED or not tries_left:
                raise
    raise AssertionError  # the last try returned or raised


def _file_facts(files: Files, remote: bytes) -> dict[str, Any]:
    facts = files.ask(StatFile(path=remote)).facts
    if facts["type"] == "folder":
        name = os.fsdecode(remote)
        raise InvalidInput(
            f"cannot get {name}: it is a folder; get its files one by one, or pack it: "
            f"farhand exec {files.machine} -- tar -cz {name} > folder.tar.gz"
        )
    return facts


def _bring(
    files: Files, remote: bytes, target: Path, facts: dict[str, Any], *, overwrite: bool
) -> dict[str, Any]:
    version, size = str(facts["version"]), int(facts["size"])
    part = _part_path(target, files.machine, remote, version)
    with _held(part) as descriptor:
        content, done = _kept(files, remote, descriptor, size)
        with Progress(Path(os.fsdecode(remote)).name, size, done) as progress:
            files = files.telling(progress.say)
            if done:
                progress.say(f"going on at {done:,} of {size:,} bytes")
            while True:
                try:
                    done += _read_on(files, remote, version, descriptor, done, content, progress)
                except _Broken as broken:
                    done += broken.taken
                    continue
                break
        if done != size:
            raise FarhandError(f"cannot get the file: {done:,} of {size:,} bytes came; try again")
        _place(descriptor, part, target, int(str(facts["mode"]), 8), overwrite=overwrite)
    _forget_other_versions(part)
    return {
        "path": facts["path"],
        "local": os.fsencode(target).decode("utf-8", "replace"),
        "size": size,
        "mode": facts["mode"],
        "version": version,
        "sha256": content.hexdigest(),
    }


class _Broken(Exception):
    """The machine kept no more of the answer; what came before is here."""

    def __init__(self, taken: int) -> None:
        self.taken = taken


def _read_on(
    files: Files,
    remote: bytes,
    version: str,
    descriptor: int,
    offset: int,
    content: "hashlib._Hash",
    progress: Progress,
) -> int:
    """Take the file from an offset on and return how much came; raise _Broken at a gap."""
    sent = hashlib.sha256()
    taken = 0

    def take(data: bytes) -> None:
        nonlocal taken
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        sent.update(data)
        content.update(data)
        taken += len(data)
        progress.add(len(data))

    operation = ReadFile(path=remote, offset=offset, if_version=version)
    try:
        answer = files.ask(operation, timeout_ms=TIMEOUT_MS, take=take)
    except Gap:
        if not taken:
            raise
        raise _Broken(taken) from None
    if answer.facts["sha256"] != sent.hexdigest():
        os.ftruncate(descriptor, offset)
        raise FarhandError(
            "cannot get the file: what came is not what the machine read (SHA-256 differs); "
            "try again"
        )
    return taken


# The part


def _part_path(target: Path, machine: str, remote: bytes, version: str) -> Path:
    """Return where bytes gather: a name of this file of this machine, then of its version."""
    source = hashlib.sha256(b"\0".join((os.fsencode(machine), remote))).hexdigest()[:8]
    mark = f"{_MARK}{source}-{hashlib.sha256(version.encode()).hexdigest()[:12]}"
    name = os.fsencode(target.name)[: _NAME_MAX_BYTES - len(mark) - 1]
    return target.with_name(f".{os.fsdecode(name)}{mark}")


@contextlib.contextmanager
def _held(part: Path) -> Iterator[int]:
    """Give a descriptor of the part that no other transfer has."""
    while True:
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Conflict(
                    f"cannot get the file: another farhand is bringing it to {part.parent}; "
                    "wait for it"
                ) from None
            if _is_at(descriptor, part):
                yield descriptor
                return
        finally:
            os.close(descriptor)
        # Else whoever held it has just put it into its place.


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        there = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    mine = os.fstat(descriptor)
    return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)


def _kept(files: Files, remote: bytes, descriptor: int, size: int) -> tuple["hashlib._Hash", int]:
    """Return what is here already, hashed and counted; nothing when it is not the file's beginning.

    A power cut may leave a part that has its length and not its content.
    """
    content, done = hashlib.sha256(), 0
    while data := os.read(descriptor, MIB):
        content.update(data)
        done += len(data)
    if not done:
        return content, 0
    facts = files.ask(StatFile(path=remote, hash_bytes=done)).facts
    if done <= size and facts.get("sha256") == content.hexdigest():
        return content, done
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return hashlib.sha256(), 0


def _forget_other_versions(part: Path) -> None:
    """Remove what was left of transfers of the same file in earlier versions."""
    same = part.name.rpartition("-")[0]
    for other in part.parent.iterdir():
        if other.name.startswith(f"{same}-") and other != part:
            with contextlib.suppress(OSError):
                other.unlink()


# The target


def _usable(target: Path, *, overwrite: bool) -> Path:
    """Return the file itself that is to be made; raise for what is not to be replaced."""
    if target.is_symlink():
        target = target.resolve()
    try:
        there = target.stat(follow_symlinks=False)
    except FileNotFoundError:
        if not target.parent.is_dir():
            raise InvalidInput(
                f"cannot write {target}: there is no folder {target.parent}"
            ) from None
        return target
    if not stat.S_ISREG(there.st_mode):
        raise InvalidInput(f"cannot write {target}: it is no regular file; use farhand files read")
    if not overwrite:
        raise _exists(target)
    return target


def _exists(target: Path) -> Conflict:
    return Conflict(f"cannot write {target}: it exists; overwrite it with --overwrite")


def _place(descriptor: int, part: Path, target: Path, mode: int, *, overwrite: bool) -> None:
    """Give the whole file its name, in one step and for good."""
    umask = os.umask(0)
    os.umask(umask)
    os.fchmod(descriptor, mode & 0o777 & ~umask)
    os.fsync(descriptor)
    if overwrite:
        part.replace(target)
    else:
        try:
            os.link(part, target)
        except FileExistsError:
            raise _exists(target) from None
        except OSError as error:
            # Some file systems have no second names.
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK):
                raise
            if target.exists():
                raise _exists(target) from None
            part.replace(target)
        else:
            part.unlink()
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
