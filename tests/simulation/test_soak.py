"""The short form of the soak, half a minute of one seed; `scripts/soak.py` runs for hours."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.postgres
@pytest.mark.timeout(600)  # on a busy computer the end waits for back-offs and leases
def test_commands_under_random_faults_run_once_and_every_end_is_true() -> None:
    options = ["--seed", "7", "--minutes", "0.5", "--commands", "60", "--clients", "6"]
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "soak.py", *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=580,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["wrong"] == []
    assert sum(report["states"].values()) + report["never stored"] == 60
    assert sum(report["faults"].values()) >= 3
