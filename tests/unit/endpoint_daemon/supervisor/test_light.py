"""What the fork server imports: small, and never what must not be forked."""

import subprocess
import sys
from pathlib import Path

import farhand_daemon

HEAVY = {"asyncio", "dataclasses", "google", "grpc", "logging", "pathlib", "subprocess", "typing"}


def test_fork_server_imports_no_grpc_and_little_else() -> None:
    root = Path(farhand_daemon.__file__).parent.parent
    code = (
        f"import sys; sys.path.append({str(root)!r}); "
        "import farhand_daemon.supervisor.forkserver, farhand_daemon.supervisor.process; "
        "print(*sys.modules)"
    )
    shown = subprocess.run(
        [sys.executable, "-I", "-S", "-E", "-c", code], capture_output=True, check=True
    )
    modules = {name.split(".")[0] for name in shown.stdout.decode().split()}
    assert not modules & HEAVY
    assert modules <= set(sys.stdlib_module_names) | {"__main__", "farhand_daemon"}
