"""The committed stubs are what the pinned generator makes of proto/, and the floors fit them."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts import gen_proto

ROOT = Path(__file__).resolve().parents[2]


def stubs(folder: Path) -> dict[str, bytes]:
    files = gen_proto.stubs(folder)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture
def generator(request: pytest.FixtureRequest) -> Path:
    """An interpreter with the pinned generator: this one, or one with it from the wheelhouse."""
    if importlib.util.find_spec("grpc_tools"):
        return Path(sys.executable)
    install: Callable[[str], Path] = request.getfixturevalue("install")
    return install(gen_proto.GENERATOR) / "python"


@pytest.mark.e2e
def test_the_stubs_are_fresh(generator: Path, tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "scripts" / "gen_proto.py"]
    command += ["--python", generator, "--into", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    fresh, committed = stubs(tmp_path), stubs(gen_proto.STUBS)
    assert fresh.keys() == committed.keys()
    stale = [name for name, content in fresh.items() if committed[name] != content]
    assert stale == [], "run scripts/gen_proto.py and commit what it writes"


def written_versions() -> dict[str, set[str]]:
    """The runtimes that the generated code asks for when it is imported."""
    text = b"\n".join(stubs(gen_proto.STUBS).values()).decode()
    return {
        "protobuf": set(re.findall(r"^# Protobuf Python Version: (\S+)$", text, re.MULTILINE)),
        "grpcio": set(re.findall(r"^GRPC_GENERATED_VERSION = '(\S+)'$", text, re.MULTILINE)),
    }


@pytest.mark.parametrize("project", [".", "endpoint_daemon"])
def test_the_lowest_allowed_runtimes_are_those_the_stubs_ask_for(project: str) -> None:
    settings = tomllib.loads((ROOT / project / "pyproject.toml").read_text())
    floors = {}
    for line in settings["project"]["dependencies"]:
        if match := re.match(r"(protobuf|grpcio)>=([^,]+),", line):
            floors[match[1]] = {match[2]}
    assert floors == written_versions()
