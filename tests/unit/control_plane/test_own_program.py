"""A command that we tell people to copy works as it is typed."""

import shlex
import sys
import sysconfig
from pathlib import Path

import pytest

from farhand_control_plane import own_program


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of ours in a folder with a space, as if it had been started."""
    path = tmp_path / "a folder" / "bin" / "farhand"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(path), "up"])
    return path


def test_on_the_path_it_is_called_by_its_name(script: Path) -> None:
    assert own_program.farhand({"PATH": f"/bin:{script.parent}"}) == "farhand"


def test_a_link_on_the_path_to_this_program_is_this_program(script: Path, tmp_path: Path) -> None:
    (tmp_path / "farhand").symlink_to(script)
    assert own_program.farhand({"PATH": str(tmp_path)}) == "farhand"


def test_elsewhere_it_is_called_by_its_whole_path_quoted(script: Path) -> None:
    assert own_program.farhand({"PATH": "/bin"}) == shlex.quote(str(script))
    assert own_program.farhand({}) == shlex.quote(str(script))


def test_another_program_of_this_name_is_not_ours(script: Path, tmp_path: Path) -> None:
    other = tmp_path / "farhand"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    assert own_program.farhand({"PATH": str(tmp_path)}) == shlex.quote(str(script))


def test_started_as_a_module_it_is_the_script_beside_the_interpreter(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "__main__.py")])
    monkeypatch.setattr(sysconfig, "get_path", lambda _name: str(script.parent))
    assert own_program.farhand({"PATH": "/bin"}) == shlex.quote(str(script))
    monkeypatch.setattr(sysconfig, "get_path", lambda _name: str(tmp_path))
    alone = own_program.farhand({"PATH": "/bin"})
    assert shlex.split(alone) == [sys.executable, "-m", "farhand_control_plane"]


def test_strangers_are_told_no_folder_of_this_computer(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert own_program.for_strangers() == "farhand", "it is not the checkout's own"
    checkout = Path(own_program.__file__).parents[2]
    own = checkout / ".venv" / "bin" / "farhand"
    monkeypatch.setattr(own_program, "_program", lambda: own)
    assert own_program.for_strangers() == ".venv/bin/farhand"
