"""Install a signed release into a folder of its own, beside the version that runs.

Killed at any point, it leaves a folder that does not count (``complete`` comes last) and is begun
anew. What runs is not touched.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from farhand_daemon.program import COMPLETE
from farhand_daemon.update.fetch import ReleaseServer
from farhand_daemon.update.slots import Slot, Slots
from farhand_shared.errors import Conflict, NotAllowed, Unavailable
from farhand_shared.release import Release

_WORK: Final = "installing"  # the installer's own name for it: one installation at a time
_PIP_S: Final = 1800.0
_LONGEST_S: Final = 6 * 3600.0  # no installation takes so long, whoever began it
_ANSWER_S: Final = 60.0
# An index that a person has set for this computer is used instead of the control plane's.
_OWN_INDEX: Final = ("PIP_INDEX_URL", "PIP_NO_INDEX", "PIP_FIND_LINKS")
_NOT_OURS: Final = ("PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "PIP_TARGET", "PIP_PREFIX")
_CHECK: Final = "import farhand_daemon.daemon, farhand_daemon.update.trial, cryptography"


class BrokenRelease(NotAllowed):
    """The release is what was signed, and does not work here even so far as to be started."""


def install_release(slots: Slots, release: Release, server: ReleaseServer) -> Slot:
    """Return the slot of a release, installed and checked. Raises our errors; BrokenRelease."""
    slot = slots.named(release.wheel.sha256)
    if slot.is_complete():
        return slot
    with _working(slots.folder) as work:
        parts = [release.wheel, release.pip, release.requirements]
        for file in parts:
            server.download(file, work / file.name)
        slots.prune(())
        shutil.rmtree(slot.folder, ignore_errors=True)
        _make_environment(slot)
        with zipfile.ZipFile(work / release.pip.name) as archive:
            archive.extractall(work / "pip")
        _install(slot, work, release, server)
    _check(slot, release)
    os.sync()  # or a power cut could leave a complete version of empty files
    (slot.folder / COMPLETE).touch()
    return slot


@contextlib.contextmanager
def _working(folder: Path) -> Iterator[Path]:
    """Hold the installation, as the installer does: by a folder with our pid in it."""
    work = folder / _WORK
    try:
        work.mkdir()
    except FileExistsError:
        other = _pid(work)
        if other is not None:
            raise Conflict(
                f"cannot update: another installation (pid {other}) is at work in {folder}; "
                "wait for it"
            ) from None
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
    try:
        (work / "pid").write_text(f"{os.getpid()}\n")
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _pid(work: Path) -> int | None:
    """Return who works there; None: nobody any more.

    After a power cut another process may have the number, and keep it for months.
    """
    note = work / "pid"
    try:
        pid = int(note.read_text())
        if pid <= 0 or time.time() - note.stat().st_mtime > _LONGEST_S:
            return None
        os.kill(pid, 0)
    except PermissionError:
        return pid
    except (OSError, ValueError, OverflowError):
        return None
    return pid


def _make_environment(slot: Slot) -> None:
    base = getattr(sys, "_base_executable", "") or os.path.realpath(sys.executable)
    _run([base, "-I", "-m", "venv", "--without-pip", str(slot.folder)], {}, "make an environment")


def _install(slot: Slot, work: Path, release: Release, server: ReleaseServer) -> None:
    """Have pip install what the signed list of requirements names, each by its hash."""
    environ = {"PYTHONPATH": str(work / "pip"), "PIP_USER": "0"}
    pip = [str(slot.python), "-m", "pip", "install", "--no-input", "--progress-bar", "off"]
    pip += ["--disable-pip-version-check", "--no-warn-script-location", "--only-binary", ":all:"]
    needed = [*pip, "--no-deps", "--require-hashes", "-r", str(work / release.requirements.name)]
    host = urlsplit(server.url).hostname or ""
    # It fetches what it was not asked for before: patience.
    ours = ["--index-url", server.index, "--trusted-host", host, "--timeout", "120"]
    if any(os.environ.get(name) for name in _OWN_INDEX):
        _run(needed, environ, "install the dependencies")
    else:
        try:
            _run([*needed, *ours], environ, "install the dependencies")
        except Unavailable as error:
            try:  # the control plane reaches no index; perhaps this machine does
                _run(needed, environ, "install the dependencies")
            except Unavailable:
                raise error from None
    wheel = str(work / release.wheel.name)
    _run([*pip, "--no-deps", "--no-index", wheel], environ, "install the daemon")


def _check(slot: Slot, release: Release) -> None:
    """See that it can be started and is the version that it should be."""
    try:
        said = _run([str(slot.program), "--version"], {}, f"start {release.version}", _ANSWER_S)
        _run([str(slot.python), "-P", "-c", _CHECK], {}, f"load {release.version}", _ANSWER_S)
    except Unavailable as error:
        raise BrokenRelease(str(error)) from None
    if said.split()[-1:] != [release.version]:
        raise BrokenRelease(
            f"cannot update: what was signed as {release.version} calls itself "
            f"{said.strip()[-60:]!r}; tell whoever makes the releases"
        )


def _run(
    command: list[str], environ: Mapping[str, str], what: str, patience_s: float = _PIP_S
) -> str:
    """Run a program and return what it printed; its failure is one line of ours."""
    clean = {name: value for name, value in os.environ.items() if name not in _NOT_OURS}
    try:
        done = subprocess.run(
            command,
            env={**clean, **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=patience_s,
            check=False,
        )
    except OSError as error:
        raise Unavailable(
            f"cannot {what}: {command[0]}: {error.strerror or error}; mend that and try again"
        ) from None
    except subprocess.TimeoutExpired:
        raise Unavailable(f"cannot {what}: it takes longer than {patience_s:.0f} s") from None
    if done.returncode != 0:
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        reasons = [line for line in lines if line.startswith("ERROR:")] or lines[-1:]
        reason = reasons[0].removeprefix("ERROR:").strip() if reasons else "it said nothing"
        raise Unavailable(f"cannot {what}: {reason[:300]}; mend that and try again")
    return done.stdout
