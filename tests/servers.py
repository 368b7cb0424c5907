"""Database servers for tests, each started once and used through fresh databases."""

import os
import secrets
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

import psycopg

from farhand_control_plane.postgres.account import spawn_options, unprivileged_account
from farhand_control_plane.postgres.server import EmbeddedPostgres

DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")

# A test's database dies with the test: durability would only cost time.
FAST = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}


@contextmanager
def reachable_folder() -> Iterator[Path]:
    """Give a new folder that a server started by root can reach as its own user.

    pytest's own folders are closed to everyone else, and a path of its own keeps sockets short.
    """
    folder = Path(tempfile.mkdtemp(prefix="farhand-test-"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def main_server(system_folder: Path) -> Iterator[str]:
    """Give the address of the server most tests use: the given one, Docker's, or the embedded."""
    if given := os.environ.get("FARHAND_TEST_DATABASE_URL"):
        yield given
        return
    with _container() as address:
        if address is not None:
            yield address
            return
    with reachable_folder() as folder:
        server = EmbeddedPostgres(folder / "home", system_folder=system_folder, settings=FAST)
        try:
            yield server.start()
        finally:
            server.stop()


@contextmanager
def _container() -> Iterator[str | None]:
    """Give the address of a container's server, or None where no Docker engine answers."""
    if "DOCKER_HOST" not in os.environ and not Path("/var/run/docker.sock").exists():
        yield None
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library's own deprecations are not ours to mend
        from testcontainers.postgres import PostgresContainer

        container = PostgresContainer("postgres:18", driver=None)
        try:
            container.start()
        except Exception:  # whatever its reason, there is another server to use
            container = None
    if container is None:
        yield None
        return
    try:
        yield container.get_connection_url()
    finally:
        container.stop()


@contextmanager
def debian_15() -> Iterator[str]:
    """Give the address of a PostgreSQL 15 server, the oldest that we support."""
    with reachable_folder() as folder:
        account = unprivileged_account()
        options = spawn_options(account)
        data = folder / "data"
        data.mkdir(mode=0o700)
        if account is not None:
            account.own(data)
        made = [DEBIAN_15 / "initdb", "-D", data, "-U", "farhand", "--auth=trust", "--no-sync"]
        subprocess.run(
            [*made, "--encoding=UTF8", "--locale=C.UTF-8"],
            check=True,
            capture_output=True,
            **options,
        )
        command = [DEBIAN_15 / "postgres", "-D", data, "-k", data, "-c", "listen_addresses="]
        for name, value in FAST.items():
            command += ["-c", f"{name}={value}"]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log, **options)
        address = f"postgresql://farhand@/postgres?host={quote(str(data), safe='')}"
        try:
            wait_until_accepting(address)
            yield address
        finally:
            server.terminate()
            server.wait(30)


def wait_until_accepting(address: str, patience_s: float = 30) -> None:
    """Return when the server accepts connections; it announces that nowhere else."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            psycopg.connect(address).close()
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)  # the condition is the connection itself
        else:
            return


@contextmanager
def fresh_database(server: str, template: str | None = None) -> Iterator[str]:
    """Give the address of a new database, empty or a copy of `template`, dropped afterwards."""
    name = f"farhand_test_{secrets.token_hex(6)}"
    with psycopg.connect(server, autocommit=True) as connection:
        copied = f' TEMPLATE "{template}"' if template else ""
        connection.execute(f'CREATE DATABASE "{name}"{copied}')
    try:
        yield urlsplit(server)._replace(path=f"/{name}").geturl()
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def database_name(address: str) -> str:
    """Return the name in an address."""
    return urlsplit(address).path.removeprefix("/")
