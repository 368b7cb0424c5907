"""Fixtures for all tests: databases, a home, the wheelhouse; and no way out to the network."""

import ipaddress
import os
import signal
import socket
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import building
import pytest
from hypothesis import HealthCheck, settings

from tests import servers

# Timings are never asserted, nor how fast examples are made beside other tests.
settings.register_profile("farhand", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("farhand")

ROOT = Path(__file__).resolve().parent.parent
WHEELHOUSE = ROOT / ".wheelhouse"

# Read before the environment is scrubbed: these two are meant for the tests.
PAYLOADS = os.environ.get("FARHAND_PAYLOADS")
TEST_DATABASE_URL = "FARHAND_TEST_DATABASE_URL"


def _refuse_the_network(event: str, arguments: tuple[Any, ...]) -> None:
    """Fail whatever Python code in this process tries to reach beyond this machine."""
    if event in ("socket.connect", "socket.sendto"):
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else None  # a path is a local socket
    elif event == "socket.getaddrinfo":
        host = arguments[0]
    else:
        return
    if isinstance(host, bytes):
        host = host.decode()
    if host in (None, "", "localhost", socket.gethostname()):
        return
    try:
        if ipaddress.ip_address(str(host)).is_loopback or str(host) in ("0.0.0.0", "::"):
            return
    except ValueError:
        pass
    raise RuntimeError(f"a test tried to reach {host}: tests use this machine only")


sys.addaudithook(_refuse_the_network)


def pytest_configure() -> None:
    """Let Ctrl-C mean something to what tests start, however the suite itself was started.

    A shell starts background jobs with SIGINT and SIGQUIT ignored, children inherit that, and a
    program rightly leaves an ignored signal ignored. A handler of ours is reset in children.
    """
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test sees no setting of ours and no proxy from the shell it was started in."""
    for name in list(os.environ):
        ours = name.startswith("FARHAND_") and name != TEST_DATABASE_URL
        if ours or name.lower() in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home for the product that does not exist yet, for this test alone."""
    return tmp_path / "home"


@pytest.fixture
def reachable_folder() -> Iterator[Path]:
    """A new folder that a server started by root can reach as its unprivileged user."""
    with servers.reachable_folder() as folder:
        yield folder


@pytest.fixture(scope="session")
def system_folder() -> Iterator[Path]:
    """Where root's clusters go in tests, not /var/lib; the programs are copied there once."""
    with servers.reachable_folder() as folder:
        yield folder / "system folder"


@pytest.fixture(scope="session")
def payloads() -> Path:
    """The folder of recorded deliveries of real services, named by FARHAND_PAYLOADS."""
    if PAYLOADS is None:
        pytest.skip("FARHAND_PAYLOADS names no folder of recorded deliveries")
    return Path(PAYLOADS)


@pytest.fixture(scope="session")
def _main_server(system_folder: Path) -> Iterator[str]:
    with servers.main_server(system_folder) as address:
        yield address


@pytest.fixture(scope="session")
def _pg15_server() -> Iterator[str]:
    if not (servers.DEBIAN_15 / "postgres").exists():
        pytest.skip(f"PostgreSQL 15 is not installed in {servers.DEBIAN_15}")
    with servers.debian_15() as address:
        yield address


@pytest.fixture
def database_url(_main_server: str) -> Iterator[str]:
    """A fresh, empty database."""
    with servers.fresh_database(_main_server) as address:
        yield address


@pytest.fixture(scope="module")
def module_database_url(_main_server: str) -> Iterator[str]:
    """An empty database that the tests of one module share."""
    with servers.fresh_database(_main_server) as address:
        yield address


@pytest.fixture
def pg15_url(_pg15_server: str) -> Iterator[str]:
    """A fresh, empty database on PostgreSQL 15, the oldest server we support."""
    with servers.fresh_database(_pg15_server) as address:
        yield address


@pytest.fixture(params=["main", "15"])
def every_database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A fresh, empty database, on each server we support in turn."""
    server = request.getfixturevalue("_main_server" if request.param == "main" else "_pg15_server")
    with servers.fresh_database(server) as address:
        yield address


def _migrate(address: str) -> None:
    # Here and not above: a test of something else must run while migrations are being written.
    from farhand_control_plane.db.migrate import upgrade

    upgrade(address)


@pytest.fixture(scope="session")
def _migrated_template(_main_server: str) -> Iterator[str]:
    with servers.fresh_database(_main_server) as address:
        _migrate(address)
        yield servers.database_name(address)


@pytest.fixture
def migrated_url(_main_server: str, _migrated_template: str) -> Iterator[str]:
    """A fresh database with the newest schema, copied from one that was migrated once."""
    with servers.fresh_database(_main_server, template=_migrated_template) as address:
        yield address


@pytest.fixture
def migrated_pg15_url(pg15_url: str) -> str:
    """A fresh database with the newest schema on PostgreSQL 15."""
    _migrate(pg15_url)
    return pg15_url


@pytest.fixture(scope="session")
def wheelhouse() -> Path:
    """A folder with both our wheels, built from the sources as they are, and all they need."""
    if not (WHEELHOUSE / "complete").exists():
        pytest.skip(f"{WHEELHOUSE} is not filled: run scripts/test once")
    builder = ROOT / "scripts" / "build_wheels.py"
    with building.locked(WHEELHOUSE):  # several processes of one test run want it
        built = subprocess.run(
            [sys.executable, builder, WHEELHOUSE], capture_output=True, text=True, check=False
        )
    assert built.returncode == 0, built.stdout + built.stderr
    return WHEELHOUSE


@pytest.fixture(scope="session")
def install(wheelhouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function that installs a distribution into a new environment and returns its bin folder.

    Each distribution is installed once; who changes the environment makes its own.
    """
    made: dict[str, Path] = {}

    def install_into_fresh_environment(requirement: str) -> Path:
        if requirement not in made:
            folder = tmp_path_factory.mktemp("environment")
            venv.create(folder, symlinks=True)  # without pip: Debian's Python has none to give
            command = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python"]
            command += ["install", "--quiet", "--no-index", "--find-links", wheelhouse, requirement]
            subprocess.run(command, check=True)
            made[requirement] = folder / "bin"
        return made[requirement]

    return install_into_fresh_environment
