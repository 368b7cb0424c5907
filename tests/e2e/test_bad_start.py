"""What keeps the product from starting, said in one line that says what to do."""

import contextlib
import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.e2e.system import Ended, System, User

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def one_line(done: Ended, said: str, *, status: int = 1) -> None:
    assert done.status == status, done.err
    last = done.err.splitlines()[-1]
    assert last.startswith("farhand: cannot "), done.err
    assert said in last
    assert ";" in last  # what to do
    assert "Traceback" not in done.err


@contextlib.contextmanager
def squatting(port: int = 0) -> Iterator[int]:
    """Listen on a port that somebody else would like to have."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        yield other.getsockname()[1]


@pytest.fixture
def taken() -> Iterator[int]:
    with squatting() as port:
        yield port


def test_a_home_that_is_a_file(new_system: Callable[..., System]) -> None:
    system = new_system()
    system.home.parent.mkdir()
    system.home.touch()
    os.chown(system.home.parent, system.user.uid, system.user.gid)
    one_line(system.farhand("up"), "FARHAND_HOME")


def test_a_home_that_cannot_be_written(new_system: Callable[..., System]) -> None:
    system = new_system()
    if system.user.uid == 0:
        system.home = Path("/proc/farhand")
    else:
        system.home = Path("/usr/farhand")
    one_line(system.farhand("up"), f"cannot use the home {system.home}")


@pytest.mark.parametrize("variable", ["HTTP", "ENROL", "LINK"])
def test_a_port_that_is_taken(new_system: Callable[..., System], taken: int, variable: str) -> None:
    system = new_system()
    system.environ[f"FARHAND_{variable}_PORT"] = str(taken)
    one_line(system.farhand("up", "--once", "hello"), f"FARHAND_{variable}_PORT")
    assert system.processes() == {}


def test_a_stored_port_that_is_taken_moves_while_no_other_machine_is_enrolled(
    new_system: Callable[..., System],
) -> None:
    system = new_system()
    assert system.farhand("up", "--once", "run true on this machine").status == 0
    ports = json.loads((system.home / "ports.json").read_text())
    with contextlib.ExitStack() as squatters:
        for port in ports.values():
            squatters.enter_context(squatting(port))
        done = system.farhand("up", "--once", "run true on this machine")
        assert done.status == 0, done.err  # the daemon found its server at the new ports
    moved = json.loads((system.home / "ports.json").read_text())
    assert not set(moved.values()) & set(ports.values())
    with system.up():
        made = system.farhand("machines", "add", "--name", "other", "--json").json()
        url = json.loads((system.home / "local.json").read_text())["url"]
        enrolled = system.run(
            "farhandd", "enroll", url, "--home", str(system.folder / "other"),
            "--no-wait", "--trust", "off", stdin=f"{made['code']}\n".encode(),
        )  # fmt: skip
        assert enrolled.status == 0, enrolled.err
    with squatting(moved["link"]):
        one_line(system.farhand("up", "--once", "hello"), f"port {moved['link']}")


def may_enter(user: User) -> None:
    """Skip for an account that the tests' own database server does not let in."""
    if user.uid != os.getuid():
        pytest.skip("the tests' database server is reached by us alone")


def test_a_database_that_is_not_there(new_system: Callable[..., System]) -> None:
    system = new_system()
    system.environ["FARHAND_DATABASE_URL"] = "postgresql://u:canary-9@127.0.0.1:9/d"
    done = system.farhand("up", "--once", "hello")
    one_line(done, "cannot reach the database at 127.0.0.1:9")
    assert "canary-9" not in done.err


def test_a_database_that_needs_newer_code(
    new_system: Callable[..., System], user: User, migrated_url: str
) -> None:
    may_enter(user)
    with psycopg.connect(migrated_url, autocommit=True) as connection:
        connection.execute("update schema_record set min_code_version = 99, schema_version = 99")
    system = new_system()
    system.environ["FARHAND_DATABASE_URL"] = migrated_url
    one_line(system.farhand("up", "--once", "hello"), "install the newer release")
    one_line(system.farhand("migrate"), "install the newer release")


def test_another_database_serves_as_well(
    new_system: Callable[..., System], user: User, database_url: str
) -> None:
    may_enter(user)
    system = new_system()
    system.environ["FARHAND_DATABASE_URL"] = database_url
    assert system.farhand("migrate").status == 0
    done = system.farhand("up", "--once", "run echo external on this machine")
    assert done.status == 0, done.err
    assert "external\n" in done.out
    assert not (system.home / "home_id").exists()  # no embedded one was made
    made = system.farhand("tokens", "create", "first", "--scope", "read", "--direct", "--json")
    assert made.json()["token"].startswith("fh_")


def test_serve_needs_a_database(new_system: Callable[..., System]) -> None:
    one_line(new_system().farhand("serve"), "FARHAND_DATABASE_URL is not set")


def test_a_wrong_setting_names_its_variable(new_system: Callable[..., System]) -> None:
    system = new_system()
    system.environ["FARHAND_HTTP_PORT"] = "eighty"
    one_line(system.farhand("up"), "FARHAND_HTTP_PORT")
    system.environ["FARHAND_HTTP_PORT"] = ""
    system.environ["FARHAND_MODEL_BASE_URL"] = "http://127.0.0.1:9/v1"
    one_line(system.farhand("up"), "set FARHAND_MODEL")


def test_verbs_without_a_server_say_how_to_start_one(new_system: Callable[..., System]) -> None:
    system = new_system()
    for verb in (["chat", "hi"], ["machines", "list"], ["tickets", "list"], ["tokens", "list"]):
        one_line(system.farhand(*verb), "farhand up")
    one_line(system.farhand("exec", "m", "--", "true"), "farhand up", status=125)
    assert system.farhand("doctor").status == 1
