"""The installer's folder: whom it serves, and what removing it takes."""

from pathlib import Path

from farhand_daemon.program import installed_program


def installation(folder: Path) -> Path:
    version = folder / "farhandd-program" / "0123"
    version.mkdir(parents=True)
    (version / "complete").touch()
    (version.parent / "current").symlink_to(version)
    return version


def test_only_what_the_installer_made_is_a_program(tmp_path: Path) -> None:
    version = installation(tmp_path)
    assert installed_program(version, tmp_path) is not None
    assert installed_program(tmp_path / "a venv", tmp_path) is None
    (version / "complete").unlink()
    assert installed_program(version, tmp_path) is None


def test_it_knows_for_whom_else_it_is_there(tmp_path: Path) -> None:
    version = installation(tmp_path)
    program = installed_program(version, tmp_path)
    assert program is not None
    mine, other, gone = tmp_path / "mine", tmp_path / "an other", tmp_path / "gone"
    for home in (mine, other):
        home.mkdir()
        (home / "identity.json").touch()
    (program.folder / "homes").write_text(f"{mine}\n{other}\n{gone}\n")
    assert program.other_homes(mine) == (other,)
    program.forget(mine)
    assert program.other_homes(Path("/")) == (other,)
    program.forget(other)
    program.forget(gone)
    assert not (program.folder / "homes").exists()
    program.forget(gone)


def test_removing_takes_its_link_and_no_other(tmp_path: Path) -> None:
    version = installation(tmp_path)
    program = installed_program(version, tmp_path)
    assert program is not None
    program.link.parent.mkdir(parents=True)
    program.link.symlink_to(program.folder / "current" / "bin" / "farhandd")
    program.remove()
    assert not program.link.is_symlink()
    assert not program.folder.exists()

    again = installed_program(installation(tmp_path), tmp_path)
    assert again is not None
    again.link.symlink_to("/usr/bin/true")
    again.remove()
    assert again.link.is_symlink()
