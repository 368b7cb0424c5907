"""The daemon is light: importing it loads nothing of the control plane, and starts nothing."""

import json
import os
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import farhand_daemon

# What importing a daemon module must not load, and why.
FORBIDDEN = {
    "farhand_control_plane": "the other side; machines do not have it",
    "fastapi": "a server's; machines do not have it",
    "starlette": "a server's; machines do not have it",
    "uvicorn": "a server's; machines do not have it",
    "pydantic": "20 MB and 150 ms; the daemon parses by hand",
    "sqlmodel": "the database is the control plane's",
    "sqlalchemy": "the database is the control plane's",
    "alembic": "the database is the control plane's",
    "psycopg": "the database is the control plane's",
    "httpx": "the daemon speaks gRPC only",
    "openai": "models are the control plane's",
    "typer": "start-up time; the daemon uses argparse",
    "rich": "start-up time; the daemon prints plain text",
}

# cryptography costs 10 MB and 105 ms, which a running daemon pays only while it renews.
LAZY = {"cryptography": "only enrolment and renewal need it"}

# Never imported by the fork server, which every command's supervisor is forked from: threads and
# descriptors of gRPC do not survive a fork, and its memory would be every command's.
UNFORKABLE = {"grpc": "does not survive a fork", "google.protobuf": "not needed there"}

PROBE = """
import importlib, json, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(json.dumps(sorted(sys.modules)))
"""


def daemon_modules() -> list[str]:
    found = pkgutil.walk_packages(farhand_daemon.__path__, "farhand_daemon.")
    return ["farhand_daemon", *(module.name for module in found)]


def loaded_by(*modules: str, python: Path = Path(sys.executable)) -> set[str]:
    """Every module in a fresh interpreter after importing these, without any setting of ours."""
    done = subprocess.run(
        [python, "-c", PROBE, *modules],
        check=False,
        capture_output=True,
        text=True,
        env={"PATH": os.defpath},
        cwd="/",
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def unwanted(loaded: set[str], reasons: dict[str, str]) -> dict[str, str]:
    return {name: reason for name, reason in reasons.items() if name in loaded}


def test_importing_every_daemon_module_loads_nothing_of_the_control_plane() -> None:
    assert unwanted(loaded_by(*daemon_modules()), FORBIDDEN) == {}


@pytest.mark.parametrize("module", ["farhand_daemon.__main__", "farhand_daemon.daemon"])
def test_a_running_daemon_has_not_loaded_cryptography(module: str) -> None:
    assert unwanted(loaded_by(module), LAZY) == {}


def test_the_fork_server_loads_no_grpc() -> None:
    loaded = loaded_by("farhand_daemon.supervisor.forkserver")
    assert unwanted(loaded, FORBIDDEN | LAZY | UNFORKABLE) == {}


@pytest.mark.e2e
def test_every_daemon_module_imports_where_only_the_daemon_is_installed(
    install: Callable[[str], Path],
) -> None:
    python = install("farhand-daemon") / "python"
    assert "farhand_daemon" in loaded_by(*daemon_modules(), python=python)
