"""What the light processes import: small, and never what must not be forked."""

import subprocess
import sys
from pathlib import Path

import farhand_daemon

HEAVY = {"asyncio", "dataclasses", "google", "grpc", "logging", "pathlib", "subprocess", "typing"}
FORK_SERVER = "import farhand_daemon.supervisor.forkserver, farhand_daemon.supervisor.process; "


def loaded_by(program: str) -> set[str]:
    """Return the modules that a bare interpreter has after a program."""
    root = Path(farhand_daemon.__file__).parent.parent
    code = f"import sys; sys.path.append({str(root)!r}); {program}print(*sys.modules)"
    shown = subprocess.run(
        [sys.executable, "-I", "-S", "-E", "-c", code], capture_output=True, check=True
    )
    return set(shown.stdout.decode().split())


def assert_light(modules: set[str]) -> None:
    packages = {name.split(".")[0] for name in modules}
    assert not packages & HEAVY
    assert packages <= set(sys.stdlib_module_names) | {"__main__", "farhand_daemon"}


def test_fork_server_imports_no_grpc_and_little_else() -> None:
    modules = loaded_by(FORK_SERVER)
    assert_light(modules)
    assert "farhand_daemon.files" not in modules


def test_a_file_operation_imports_little() -> None:
    """Each one imports it anew."""
    assert_light(loaded_by(FORK_SERVER + "import farhand_daemon.files.process; "))
