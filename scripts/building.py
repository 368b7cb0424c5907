"""What building has in common: locks, folders that change at once, and failures in one line."""

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ".source"  # in a built folder: the hash of what it was built from

# How pip and npm say that they never reached their registry.
OFFLINE = (
    "NewConnectionError",
    "Failed to establish a new connection",
    "Failed to resolve",
    "name resolution",
    "ConnectTimeout",
    "Network is unreachable",
    "Cannot connect to proxy",
    "ENOTFOUND",
    "EAI_AGAIN",
    "ECONNREFUSED",
    "ECONNRESET",
    "ETIMEDOUT",
    "ENETUNREACH",
    "ERR_SOCKET_TIMEOUT",
)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
DISK_FULL = ("ENOSPC", "No space left on device")


class CannotBuildError(Exception):
    """The reason and what to do, in one line; all that the failed program said is beside it."""

    def __init__(self, line: str, output: str = "") -> None:
        super().__init__(line)
        self.output = output


def run(command: list[str], what: str, *, cwd: Path, environ: dict[str, str] | None = None) -> str:
    """Run a program and return what it printed; raise its failure as one line."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=dict(os.environ if environ is None else environ) | {"NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    output = COLOUR.sub("", done.stdout)  # some programs colour whatever they are told
    if done.returncode:
        raise CannotBuildError(explain(what, output), output)
    return output


def explain(what: str, output: str) -> str:
    """One line about a failed pip, npm or Vite: what it could not do, why, and what to do."""
    if any(sign in output for sign in DISK_FULL):
        return f"cannot {what}: the disk is full; free about 1 GB for {ROOT}"
    if any(sign in output for sign in OFFLINE):
        return (
            f"cannot {what}: the package registry was not reached; "
            "check the network (or HTTPS_PROXY and the registries of pip and npm) and try again"
        )
    return f"cannot {what}: {first_reason(output)[:300]}; mend that and try again"


def first_reason(output: str) -> str:
    """Return the first line that says what went wrong, not one that only announces it."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for line in lines:
        reason = line.removeprefix("ERROR:").removeprefix("npm error").strip()
        announces = reason.endswith(":") or reason.startswith(
            ("code ", "errno ", "syscall ", "at ")
        )
        if (
            reason
            and not announces
            and ("error" in line.lower() or re.match(r"\[[A-Z_]+\] ", line))
        ):
            return reason
    return lines[-1] if lines else "it failed without a word"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a source folder: one build of it at a time, whoever starts it.

    The lock is on the folder itself, so it leaves nothing behind.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def replacing(folder: Path, source: str) -> Iterator[Path]:
    """Give the path of a new folder to fill; it takes the place of ``folder`` at the end.

    Whoever reads sees the old one or the new one, and after a failure the old one. Needs a lock:
    what an interrupted build left behind is removed.
    """
    fresh, old = (folder.with_name(f"{folder.name}{end}") for end in (".new", ".old"))
    try:
        for left_behind in (fresh, old):
            if left_behind.exists():
                shutil.rmtree(left_behind)
        fresh.mkdir(parents=True)
        yield fresh
        (fresh / SOURCE).write_text(source + "\n")
        if folder.exists():
            folder.rename(old)
        fresh.rename(folder)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise CannotBuildError(explain(f"build {folder.name}", DISK_FULL[0])) from error
        raise CannotBuildError(
            f"cannot build {folder.name}: {error.filename or folder}: "
            f"{(error.strerror or str(error)).lower()}; "
            f"make {folder.parent} writable for this user"
        ) from error
    finally:
        for left_behind in (fresh, old):
            shutil.rmtree(left_behind, ignore_errors=True)


def was_built_from(folder: Path, source: str) -> bool:
    """Whether a folder was built from what has this hash."""
    try:
        return (folder / SOURCE).read_text() == source + "\n"
    except OSError:
        return False


def hash_of(files: Iterable[Path], *, salt: str = "") -> str:
    """Return one hash of files of the checkout: of their names, places and contents."""
    digest = hashlib.sha256(salt.encode())
    for path in sorted(files):
        content = path.read_bytes()
        name = path.relative_to(ROOT).as_posix()
        digest.update(f"\0{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()
