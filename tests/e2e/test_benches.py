"""The benches start and end; what they measure is for people to read."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "scripts" / "bench"


@pytest.mark.parametrize(
    "name", sorted(path.name for path in BENCH.glob("*.py") if "__main__" in path.read_text())
)
def test_every_bench_says_what_it_measures(name: str) -> None:
    done = subprocess.run(
        [sys.executable, BENCH / name, "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "usage: " in done.stdout


@pytest.mark.e2e
@pytest.mark.timeout(300)
@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_a_tiny_stream_is_measured_and_nothing_is_left_behind() -> None:
    done = subprocess.run(
        [sys.executable, BENCH / "stream.py", "--mib", "1", "--rounds", "1", "--lines", "2"],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "live to a client" in done.stdout
