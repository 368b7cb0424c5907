"""What an ordinary start of the daemon must not load: it stays in memory for months."""

import subprocess
import sys

_HEAVY = ("cryptography", "http.client", "farhand_control_plane", "httpx", "pydantic")
_HEAVY += ("shutil", "tempfile", "farhand_daemon.service", "farhand_daemon.files")


def _loaded(program: str) -> set[str]:
    """Return which of the heavy modules a fresh interpreter has after the program."""
    tail = f"import sys; print(*[m for m in {_HEAVY!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\n{tail}"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_running_loads_neither_cryptography_nor_http() -> None:
    assert not _loaded("import farhand_daemon.__main__, farhand_daemon.daemon")


def test_the_fork_server_starts_before_grpc_is_there() -> None:
    program = (
        "import farhand_daemon.__main__, farhand_daemon.identity, farhand_daemon.machine_file\n"
        "import farhand_daemon.status, farhand_daemon.supervisor.fork_client, sys\n"
        "assert 'grpc' not in sys.modules and 'asyncio' not in sys.modules"
    )
    assert not _loaded(program)
