"""Which provisioners there are: ours, and those of packages that are installed."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from farhand_control_plane.config import load
from farhand_control_plane.provisioning import registry
from farhand_control_plane.provisioning.local_process import LocalProcess
from farhand_control_plane.provisioning.provisioner import Site
from farhand_shared.errors import InvalidInput


@pytest.fixture
def site(tmp_path: Path) -> Site:
    settings = load({"FARHAND_HOME": str(tmp_path)})
    return Site(instance_id="i", folder=tmp_path / "environments", settings=settings, environ={})


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed package with provisioners, as another team would ship one."""
    (tmp_path / "cloudy_vms.py").write_text(
        "class Vms:\n"
        '    """Virtual machines of Cloudy."""\n'
        "    def __init__(self, site): self.site = site\n"
        "NOTHING = None\n"
    )
    info = tmp_path / "cloudy_vms-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cloudy-vms\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[farhand.provisioners]\n"
        "cloudy = cloudy_vms:Vms\n"
        "empty = cloudy_vms:NOTHING\n"
        "broken = cloudy_missing:Vms\n"
        "local_process = cloudy_vms:Vms\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("cloudy_vms", None)


def test_a_package_adds_its_own_and_takes_no_place_of_ours(package: Path, site: Site) -> None:
    found = {one.name: one for one in registry.installed()}
    assert set(found) >= {"local_process", "local_container", "cloudy", "broken"}
    assert (found["cloudy"].package, found["cloudy"].about) == (
        "cloudy-vms",
        "Virtual machines of Cloudy.",
    )
    assert found["local_process"].package == "farhand"
    made = registry.load("cloudy", site)
    assert type(made).__name__ == "Vms"
    assert isinstance(registry.load("local_process", site), LocalProcess)


def test_one_that_cannot_be_had_says_why(package: Path, site: Site) -> None:
    with pytest.raises(InvalidInput, match=r"'nimbus': none of that name .*local_process"):
        registry.load("nimbus", site)
    with pytest.raises(
        InvalidInput, match=r"'broken': cloudy_missing:Vms cannot be loaded: No mod"
    ):
        registry.load("broken", site)
    with pytest.raises(InvalidInput, match=r"'empty': cloudy_vms:NOTHING cannot be called"):
        registry.load("empty", site)
    about = {one.name: one.about for one in registry.installed()}
    assert about["broken"].startswith("cannot use provisioner 'broken'")


def test_containers_need_an_image_and_an_engine(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidInput, match="neither docker nor podman is on PATH"):
        registry.load("local_container", site)
    engine = tmp_path / "podman"
    engine.write_text("#!/bin/sh\n")
    engine.chmod(0o755)
    with pytest.raises(InvalidInput, match="set FARHAND_CONTAINER_IMAGE"):
        registry.load("local_container", site)
