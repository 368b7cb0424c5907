"""Which tools of a fixed list run on this machine, and their versions."""

import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

TOOL_S: Final = 3.0  # for each of them
_OUTPUT_MAX_BYTES: Final = 8 * 1024
_VERSION: Final = re.compile(r"\d+(?:\.\d+){1,3}")

# Name in selectors → program and how it is asked. None of these reaches for a network or a server.
TOOLS: Final[dict[str, tuple[str, ...]]] = {
    "bun": ("bun", "--version"),
    "cargo": ("cargo", "--version"),
    "clang": ("clang", "--version"),
    "cmake": ("cmake", "--version"),
    "deno": ("deno", "--version"),
    "docker": ("docker", "--version"),
    "dotnet": ("dotnet", "--version"),
    "ffmpeg": ("ffmpeg", "-version"),
    "gcc": ("gcc", "--version"),
    "gh": ("gh", "--version"),
    "git": ("git", "--version"),
    "go": ("go", "version"),
    "helm": ("helm", "version", "--short"),
    "java": ("java", "-version"),
    "jq": ("jq", "--version"),
    "kubectl": ("kubectl", "version", "--client"),
    "make": ("make", "--version"),
    "node": ("node", "--version"),
    "npm": ("npm", "--version"),
    "php": ("php", "--version"),
    "pnpm": ("pnpm", "--version"),
    "podman": ("podman", "--version"),
    "psql": ("psql", "--version"),
    "python": ("python3", "--version"),
    "rg": ("rg", "--version"),
    "ruby": ("ruby", "--version"),
    "rustc": ("rustc", "--version"),
    "terraform": ("terraform", "version"),
    "tmux": ("tmux", "-V"),
    "uv": ("uv", "--version"),
}
_QUIET: Final = {
    "CHECKPOINT_DISABLE": "1",  # terraform asks the network whether it is the newest
    "DOTNET_CLI_TELEMETRY_OPTOUT": "1",
    "GH_NO_UPDATE_NOTIFIER": "1",
    "NO_UPDATE_NOTIFIER": "1",
    "LC_ALL": "C",
}
# macOS puts programs there that only ask, in a window, whether they shall be installed.
_STUBS: Final = Path("/usr/bin")
_DEVELOPER: Final = (
    Path("/Library/Developer/CommandLineTools"),
    Path("/Applications/Xcode.app"),
)


def find_tools(environ: Mapping[str, str]) -> dict[str, str]:
    """Return name → version ("" when it tells none) of the tools that run."""
    found = {}
    for name, argv in TOOLS.items():
        program = which(argv[0], environ.get("PATH", ""))
        if program is None or _is_stub(program):
            continue
        said = ask((str(program), *argv[1:]), {**environ, **_QUIET})
        if said is not None:
            found[name] = version_of(said)
    return found


def version_of(said: str) -> str:
    """Return the first version that a text names."""
    found = _VERSION.search(said)
    return found.group() if found else ""


def which(name: str, path: str) -> Path | None:
    """Return the first program of this name on a PATH; relative parts of it count as absent."""
    for folder in path.split(os.pathsep):
        program = Path(folder, name)
        if program.is_absolute() and program.is_file() and os.access(program, os.X_OK):
            return program
    return None


def _is_stub(program: Path) -> bool:
    return (
        sys.platform == "darwin"
        and program.parent == _STUBS
        and not any(folder.exists() for folder in _DEVELOPER)
    )


def ask(
    argv: tuple[str, ...], environ: Mapping[str, str], *, timeout_s: float = TOOL_S
) -> str | None:
    """Return what a program writes before it ends with 0; None when it fails or takes too long."""
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(environ),
            cwd="/",
            start_new_session=True,
        )
    except (OSError, ValueError):
        return None
    until = time.monotonic() + timeout_s
    try:
        said = _read(process, until)
        status = process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
    return said.decode("utf-8", "replace") if status == 0 else None


def _read(process: "subprocess.Popen[bytes]", until: float) -> bytes:
    """Read until the program ends its output, has said enough, or its time is over."""
    if process.stdout is None:
        return b""
    said = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while len(said) < _OUTPUT_MAX_BYTES:
            if not selector.select(max(0.0, until - time.monotonic())):
                break
            part = os.read(process.stdout.fileno(), _OUTPUT_MAX_BYTES)
            if not part:
                break
            said += part
    return said
