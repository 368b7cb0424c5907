"""Build or refresh `.venv` with nothing but the standard library.

scripts/lib.sh calls it when the environment is missing or out of date:

    environment.py up|test PROGRAM    install the product, for `test` with the developer tools
    environment.py compile            byte-compile our own modules into the checkout
"""

import collections
import compileall
import contextlib
import fcntl
import os
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from building import OFFLINE

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOG = VENV / "install.log"
SOURCES = ("shared", "control_plane/farhand_control_plane", "endpoint_daemon/farhand_daemon")

# What decides whether an installation is still right; scripts/lib.sh compares the same files.
INPUTS = ("pyproject.toml", "endpoint_daemon/pyproject.toml", "shared/farhand_shared/version.py")

COUNTED_EVERY_S = 10.0  # a sign of life while packages are downloaded


class CannotInstallError(Exception):
    """The reason and what to do, in one line."""


def stamp_head() -> bytes:
    """The part of the stamp that says where and with what: this path, this interpreter."""
    return f"{ROOT}\n{os.path.realpath(VENV / 'bin' / 'python')}\n".encode()


def stamp() -> bytes:
    """The text that scripts/lib.sh rebuilds to see whether the installation is current."""
    return stamp_head() + b"".join((ROOT / name).read_bytes() for name in INPUTS)


def is_current(purpose: str) -> bool:
    """Whether another run has finished this work while we waited for the lock."""
    try:
        return (VENV / f"installed-{purpose}").read_bytes() == stamp()
    except OSError:
        return False


def install(purpose: str, program: str) -> None:
    """Make `.venv` hold the product, in place, and for `test` the developer tools too."""
    say(program, f"installing into {VENV}, once; it takes a minute or two")
    with phase(program, "environment"):
        if reusable():
            for done in VENV.glob("installed-*"):
                done.unlink()
        else:
            make_venv()
    target = f"{ROOT}[dev]" if purpose == "test" else str(ROOT)
    # The backend is installed here, so that pip makes no environment of its own for it: in one the
    # build hook would have it fetch Node too, which an editable installation has no use for, and
    # with the backend here the daemon's wheel is built without the network later on.
    with phase(program, "build backend"):
        run_pip("install", "--no-compile", *build_backend())
    took = run_pip(
        "install", "--no-compile", "--no-build-isolation", "--editable", target, program=program
    )
    say(program, f"installed ({took:.1f} s)")
    with phase(program, "compiled"):
        compile_packages()
        compile_sources()
    for name in {"up", purpose}:
        (VENV / f"installed-{name}").write_bytes(stamp())


def say(program: str, text: str) -> None:
    """Tell whoever waits."""
    print(f"{program}: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def phase(program: str, what: str) -> Iterator[None]:
    """Say what is done once it is, with the seconds that it took."""
    began = time.monotonic()
    yield
    say(program, f"{what} ({time.monotonic() - began:.1f} s)")


def reusable() -> bool:
    """Whether `.venv` was once completed at this path with this interpreter, so pip can update it.

    Its scripts name the path, its packages fit the interpreter; an interrupted first installation
    is not worth guessing about.
    """
    head = stamp_head()
    return any(done.read_bytes().startswith(head) for done in VENV.glob("installed-*"))


def make_venv() -> None:
    """Create `.venv` afresh, with the pip that lies beside us: Debian's Python has no ensurepip."""
    try:
        import venv
    except ImportError:
        raise CannotInstallError(
            f"cannot create {VENV}: {sys.executable} has no venv module; "
            "install the complete Python (Debian: apt-get install python3)"
        ) from None
    venv.create(VENV, clear=True, symlinks=True)
    (wheel,) = (ROOT / "scripts").glob("pip-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site_packages())  # all that installing a pure wheel amounts to


def site_packages() -> Path:
    """Where `.venv` keeps its packages."""
    return VENV / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"


def build_backend() -> list[str]:
    """Return the requirements of what builds us, as pyproject.toml has them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    requirements: list[str] = settings["build-system"]["requires"]
    return requirements


def run_pip(verb: str, *arguments: str, program: str | None = None) -> float:
    """Run pip in `.venv`; its output goes to a file, its failure into one line.

    A `program` is named while it says how far pip is. Returns how long the last part took.
    """
    command = [str(VENV / "bin" / "python"), "-m", "pip", verb, "--no-input", "--progress-bar=off"]
    command += ["--disable-pip-version-check", *arguments]
    # pip starts itself several times over; without byte code each start compiles it anew.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with LOG.open("w") as log:
        pip = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            text=True,
            errors="replace",
        )
        assert pip.stdout is not None
        with pip, pip.stdout:
            began = time.monotonic()
            lines = kept(pip.stdout, log)
            if program is None:
                collections.deque(lines, maxlen=0)  # only kept
            else:
                began = report(program, lines)
    if pip.returncode:
        raise CannotInstallError(explain(LOG.read_text(errors="replace")))
    return time.monotonic() - began


def kept(lines: Iterable[str], log: TextIO) -> Iterator[str]:
    """Pass lines on, having written them to a file."""
    for line in lines:
        log.write(line)
        yield line


def report(program: str, lines: Iterable[str]) -> float:
    """Say how far pip is, by what it prints; return when its last part began."""
    began = told = time.monotonic()
    found = 0
    for line in lines:
        now = time.monotonic()
        if line.startswith("Collecting "):
            found += 1
            if now - told >= COUNTED_EVERY_S:
                say(program, f"downloading, {found} package{'s' * (found != 1)} so far")
                told = now
        elif line.startswith("Installing collected packages:"):
            number = line.count(",") + 1
            say(program, f"downloaded {number} packages ({now - began:.1f} s); installing them")
            began = now
    return began


def explain(log: str) -> str:
    """One line about a failed pip: what it could not do, why, and what to do."""
    if any(sign in log for sign in OFFLINE):
        return (
            "cannot install the dependencies: the package index was not reached; "
            f"check the network (or PIP_INDEX_URL, HTTPS_PROXY) and try again; details: {LOG}"
        )
    if "No space left on device" in log:
        return f"cannot install the dependencies: the disk is full; free about 500 MB for {VENV}"
    errors = [line for line in log.splitlines() if line.startswith("ERROR: ")]
    reason = errors[0].removeprefix("ERROR: ") if errors else "pip failed"
    return f"cannot install the dependencies: {reason}; details: {LOG}"


def compile_packages() -> None:
    """Byte-compile the dependencies on every core; pip uses one, for a fifth of the first start."""
    try:
        compileall.compile_dir(site_packages(), quiet=2, workers=0)
    except OSError:  # some containers allow no semaphores, which a pool of processes needs
        compileall.compile_dir(site_packages(), quiet=2)


def compile_sources() -> None:
    """Byte-compile our modules where they lie, and note when.

    An editable installation leaves that to the first import, which does not happen where
    PYTHONDONTWRITEBYTECODE is set.
    """
    (VENV / "compiled").touch()  # before: what changes while we compile is compiled next time
    for folder in SOURCES:
        compileall.compile_dir(ROOT / folder, quiet=2)


def main(arguments: list[str]) -> int:
    """Do what scripts/lib.sh asked for; 0 when `.venv` is as wanted."""
    if arguments == ["compile"]:
        compile_sources()
        return 0
    purpose, program = arguments
    try:
        # A lock on the checkout itself leaves nothing behind, and two first starts do not meet.
        lock = os.open(ROOT, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_current(purpose):
            install(purpose, program)
    except CannotInstallError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(
            f"{program}: cannot write {error.filename or VENV}: {error.strerror}; "
            f"make {ROOT} writable for this user, or clone it where you can write",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
