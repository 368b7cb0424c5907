"""What the process of an operation imports: little, because each operation imports it anew."""

import subprocess
import sys
from pathlib import Path

import farhand_daemon

HEAVY = {"asyncio", "dataclasses", "google", "grpc", "logging", "pathlib", "subprocess", "typing"}


def test_an_operation_imports_little_and_its_supervisor_nothing_of_it() -> None:
    root = Path(farhand_daemon.__file__).parent.parent
    code = (
        f"import sys; sys.path.append({str(root)!r}); "
        "import farhand_daemon.supervisor.forkserver, farhand_daemon.supervisor.process; "
        "assert 'farhand_daemon.files' not in sys.modules; "
        "import farhand_daemon.files.process; "
        "print(*sys.modules)"
    )
    shown = subprocess.run(
        [sys.executable, "-I", "-S", "-E", "-c", code], capture_output=True, check=True
    )
    modules = {name.split(".")[0] for name in shown.stdout.decode().split()}
    assert not modules & HEAVY
    assert modules <= set(sys.stdlib_module_names) | {"__main__", "farhand_daemon"}
