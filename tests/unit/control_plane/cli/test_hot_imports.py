"""What the hot verbs may import: the process is what people wait for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SLOW = {
    *("typer", "click", "rich", "httpx", "httpx2", "pydantic", "fastapi", "starlette", "uvicorn"),
    *("psycopg", "sqlmodel", "sqlalchemy", "alembic", "grpc", "google", "cryptography", "openai"),
    *("asyncio", "argparse"),
}


def imported(arguments: list[str], home: Path) -> set[str]:
    code = (
        "import json, sys\n"
        "from farhand_control_plane.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "finally:\n    print(json.dumps(sorted({n.partition('.')[0] for n in sys.modules})))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={"FARHAND_HOME": str(home), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
        text=True,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "arguments",
    [["exec", "dev", "--", "true"], ["exec", "--help"], ["exec"], ["--version"], ["up", "--help"]],
)
def test_a_hot_verb_imports_nothing_slow(arguments: list[str], tmp_path: Path) -> None:
    # A local instance that is not there: exec comes as far as it does before it is answered.
    (tmp_path / "local.json").write_text('{"url": "http://127.0.0.1:9"}')
    (tmp_path / "token").write_text("fh_x")
    assert imported(arguments, tmp_path) & SLOW == set()
