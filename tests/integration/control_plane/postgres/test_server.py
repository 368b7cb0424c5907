"""The embedded Postgres with real processes: started, killed in every way, found again, stopped."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from farhand_control_plane.postgres.account import spawn_options, unprivileged_account
from farhand_control_plane.postgres.errors import (
    ClusterNotWritable,
    PostgresError,
    WrongMajorVersion,
)
from farhand_control_plane.postgres.processes import cluster_processes
from farhand_control_plane.postgres.server import EmbeddedPostgres

# Starts a server for HOME, says its process id, and stays until it is killed or its input ends.
PARENT = """
import sys
from pathlib import Path
from farhand_control_plane.postgres.server import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]), system_folder=Path(sys.argv[2]))
server.start()
print(server.pid, flush=True)
sys.stdin.read()
"""

Launcher = Callable[..., EmbeddedPostgres]
Parents = Callable[[Path], subprocess.Popen[str]]


@pytest.fixture
def launcher(reachable_folder: Path, system_folder: Path) -> Iterator[Launcher]:
    """Makes servers for one home, with spaces in its path; none runs on after the test."""
    made: list[EmbeddedPostgres] = []

    def make(home: Path | None = None, **options: float) -> EmbeddedPostgres:
        where = home or reachable_folder / "a home"
        made.append(EmbeddedPostgres(where, system_folder=system_folder, **options))
        return made[-1]

    yield make
    for server in made:
        with suppress(PostgresError):
            server.stop()


@pytest.fixture
def parent_of(system_folder: Path) -> Iterator[Parents]:
    """Makes processes that start the server of a home, and ends those that still run."""
    made: list[subprocess.Popen[str]] = []

    def make(home: Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PARENT, str(home), str(system_folder)]
        made.append(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        return made[-1]

    yield make
    for parent in made:
        if parent.poll() is None:
            parent.kill()
        with parent:  # closes its pipes and reaps it
            pass


def data_of(server: EmbeddedPostgres) -> Path:
    with psycopg.connect(server.dsn) as connection:
        row = connection.execute("SHOW data_directory").fetchone()
    assert row is not None
    return Path(row[0])


def store_a_row(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")


def stored(dsn: str) -> list[tuple[int]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute("SELECT answer FROM kept").fetchall()


def wait_until(condition: Callable[[], bool], patience_s: float = 20) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, "this did not become true in time"
        time.sleep(0.01)  # the condition is another process's state


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def test_first_start_makes_a_database_and_a_second_one_finds_its_rows(launcher: Launcher) -> None:
    first = launcher()
    store_a_row(first.start())
    assert not first.adopted
    first.stop()
    second = launcher()
    assert stored(second.start()) == [(42,)]


def test_stop_leaves_no_process_no_socket_and_no_lock(launcher: Launcher) -> None:
    server = launcher()
    server.start()
    data = data_of(server)
    assert server.pid in cluster_processes(data)
    server.stop()
    assert not server.is_running()
    assert cluster_processes(data) == set()
    left = {path.name for path in data.parent.iterdir()}
    assert left == {"data", "password", "postgres.log"}
    assert not (data / "postmaster.pid").exists()
    server.stop()  # again: nothing to do, and no complaint


def test_text_sorts_by_code_point_on_every_system(launcher: Launcher) -> None:
    with psycopg.connect(launcher().start()) as connection:
        rows = connection.execute("SELECT unnest(ARRAY['b', 'ä', 'B', 'a']) AS x ORDER BY x")
        assert [row[0] for row in rows] == ["B", "a", "b", "ä"]
        assert connection.execute("SHOW server_encoding").fetchone() == ("UTF8",)
        assert connection.execute("SHOW fsync").fetchone() == ("on",)


def test_nothing_listens_on_a_network_and_the_password_is_asked(launcher: Launcher) -> None:
    dsn = launcher().start()
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
    password = dsn.partition("farhand:")[2].partition("@")[0]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(dsn.replace(password, "wrong"))


def test_rows_survive_a_killed_postmaster_with_a_query_still_running(launcher: Launcher) -> None:
    first = launcher()
    store_a_row(first.start())
    data = data_of(first)

    def count_for_long() -> None:
        with (
            suppress(psycopg.OperationalError),  # the connection dies with the server
            psycopg.connect(first.dsn, application_name="busy") as connection,
        ):
            connection.execute("SELECT count(*) FROM generate_series(1, 100000000000) AS g(i)")

    busy = threading.Thread(target=count_for_long)
    busy.start()

    def is_busy() -> bool:
        with psycopg.connect(first.dsn) as connection:
            return bool(
                connection.execute(
                    "SELECT 1 FROM pg_stat_activity WHERE application_name = 'busy' "
                    "AND state = 'active'"
                ).fetchone()
            )

    wait_until(is_busy)
    kill(first.pid)
    wait_until(lambda: not first.is_running())
    assert cluster_processes(data), "the running query should have outlived its postmaster"
    second = launcher()
    assert stored(second.start()) == [(42,)]
    assert second.pid != first._pid
    busy.join(20)


def test_the_same_object_starts_again_after_its_server_was_killed(launcher: Launcher) -> None:
    server = launcher()
    store_a_row(server.start())
    killed = server.pid
    kill(killed)
    wait_until(lambda: not server.is_running())
    assert stored(server.start()) == [(42,)]
    assert server.pid != killed


def test_a_number_in_the_lock_file_that_is_another_process_now_is_no_obstacle(
    launcher: Launcher,
) -> None:
    first = launcher()
    store_a_row(first.start())
    data = data_of(first)
    kill(first.pid)
    wait_until(lambda: not first.is_running())
    # The same user's: PostgreSQL by itself takes it for a running server and gives up.
    other = subprocess.Popen(["/bin/sleep", "60"], **spawn_options(unprivileged_account()))
    try:
        lock_file = data / "postmaster.pid"
        rest = lock_file.read_text().partition("\n")[2]
        lock_file.write_text(f"{other.pid}\n{rest}")
        assert stored(launcher().start()) == [(42,)]
        assert other.poll() is None, "a stranger was killed"
    finally:
        other.kill()
        other.wait()


def test_a_server_whose_parent_was_killed_is_found_used_and_stopped(
    launcher: Launcher, parent_of: Parents, reachable_folder: Path, system_folder: Path
) -> None:
    home = reachable_folder / "a home"
    parent = parent_of(home)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    server = launcher(home)
    server.start()
    assert server.pid == pid
    assert server.adopted
    assert server.is_running()
    data = data_of(server)
    server.stop()
    assert cluster_processes(data) == set()


def test_two_starts_at_once_share_one_server(
    launcher: Launcher, parent_of: Parents, reachable_folder: Path, system_folder: Path
) -> None:
    home = reachable_folder / "a home"
    parents = [parent_of(home) for _ in range(2)]
    pids = set()
    for parent in parents:
        assert parent.stdout is not None
        pids.add(parent.stdout.readline())
    assert len(pids) == 1
    server = launcher(home)
    server.start()
    assert f"{server.pid}\n" in pids
    for parent in parents:
        parent.communicate()
        assert parent.returncode == 0


def test_an_interrupted_making_is_done_again(
    launcher: Launcher, parent_of: Parents, reachable_folder: Path, system_folder: Path
) -> None:
    home = reachable_folder / "a home"
    parent = parent_of(home)
    folders = (system_folder, home)  # root's or an ordinary user's
    wait_until(lambda: any(f.glob("*/making-*/data/PG_VERSION") for f in folders))
    parent.kill()
    parent.communicate()
    server = launcher(home)
    store_a_row(server.start())
    data = data_of(server)
    server.stop()
    again = launcher(home)
    assert stored(again.start()) == [(42,)]
    assert not any(data.parent.glob("making-*"))


def test_a_server_that_does_not_answer_is_named_with_what_to_do(launcher: Launcher) -> None:
    stuck = launcher()
    stuck.start()
    os.kill(stuck.pid, signal.SIGSTOP)
    try:
        with pytest.raises(PostgresError, match=f"end it with kill -9 {stuck.pid}"):
            launcher(start_timeout_s=0.1).start()
    finally:
        os.kill(stuck.pid, signal.SIGCONT)


def test_data_of_another_major_version_is_refused_and_left_alone(launcher: Launcher) -> None:
    first = launcher()
    first.start()
    data = data_of(first)
    first.stop()
    (data / "PG_VERSION").write_text("17\n")
    with pytest.raises(WrongMajorVersion, match=r"made by PostgreSQL 17 and this is 18; dump it"):
        launcher().start()
    assert (data / "PG_VERSION").read_text() == "17\n"


def test_a_server_that_refuses_to_start_is_explained_in_one_line(launcher: Launcher) -> None:
    first = launcher()
    first.start()
    data = data_of(first)
    first.stop()
    (data / "postgresql.conf").write_text("no_such_setting = 1\n")
    with pytest.raises(PostgresError) as caught:
        launcher().start()
    assert "\n" not in str(caught.value)
    assert "postgres.log" in str(caught.value)


def test_a_home_that_cannot_be_made_is_one_line(launcher: Launcher, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ClusterNotWritable, match=r"cannot keep a database .* set FARHAND_HOME"):
        launcher(tmp_path / "file" / "home").start()


def test_a_very_long_path_still_has_a_usable_socket(
    launcher: Launcher, reachable_folder: Path
) -> None:
    folder = reachable_folder / ("long" * 25)
    folder.mkdir(mode=0o711)
    server = launcher(folder / "home")
    store_a_row(server.start())
    assert stored(server.dsn) == [(42,)]


def test_the_log_holds_no_statement_and_no_value(launcher: Launcher) -> None:
    server = launcher()
    dsn = server.start()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (x text PRIMARY KEY)")
        connection.execute("INSERT INTO t VALUES ('a secret')")
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("INSERT INTO t VALUES (%s)", ["a secret"])
    log = data_of(server).parent / "postgres.log"
    assert "duplicate key" in log.read_text()
    assert "a secret" not in log.read_text()


def test_a_log_that_grew_too_long_is_cut_while_the_server_writes(launcher: Launcher) -> None:
    server = launcher()
    server.start()
    log = data_of(server).parent / "postgres.log"
    with log.open("ab") as file:
        file.write(b"x" * (6 << 20) + b"newest\n")
    server.trim_log()
    assert log.stat().st_size <= 1 << 20
    assert log.read_bytes().endswith(b"newest\n")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to hand the server to another user")
def test_started_by_root_it_runs_as_another_user_and_opens_no_folder(
    launcher: Launcher, reachable_folder: Path
) -> None:
    closed = reachable_folder / "closed"
    closed.mkdir(mode=0o700)
    account = unprivileged_account()
    assert account is not None
    server = EmbeddedPostgres(closed / "home", system_folder=reachable_folder / "system")
    try:
        server.start()
        data = data_of(server)
        assert Path(f"/proc/{server.pid}").stat().st_uid == account.uid
        assert data.is_relative_to(reachable_folder / "system")
        assert closed.stat().st_mode & 0o777 == 0o700
        assert (closed / "home").stat().st_mode & 0o777 == 0o700
        password = data.parent / "password"
        assert password.stat().st_uid == 0
        assert password.stat().st_mode & 0o777 == 0o600
        environment = Path(f"/proc/{server.pid}/environ").read_bytes()
        names = {entry.partition(b"=")[0] for entry in environment.split(b"\0") if entry}
        assert names <= {b"PATH", b"LC_ALL", b"TZ", b"PGDATA", b"PG_GRANDPARENT_PID"}
    finally:
        server.stop()
