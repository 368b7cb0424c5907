"""Our provisioners keep to the contract: folders for real, containers by a fake command line."""

import shlex
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from farhand_control_plane.config import load
from farhand_control_plane.provisioning.local_container import LocalContainer
from farhand_control_plane.provisioning.local_process import LocalProcess
from farhand_control_plane.provisioning.processes import end_all, processes_of
from farhand_control_plane.provisioning.provisioner import Request
from farhand_shared.errors import InvalidInput, Unavailable
from farhand_shared.ids import new_id
from tests.contracts.provisioner import Made, ProvisionerContract, refuses_what_is_no_id
from tests.fakes import fake_container_engine
from tests.integration.control_plane.provisioning.conftest import Yard

FAKE = Path(fake_container_engine.__file__)


class TestLocalProcess(ProvisionerContract):
    @pytest.fixture
    async def made(self, yard: Yard) -> Made:
        return Made(LocalProcess(yard.site), yard, left=lambda: any(yard.left()))

    async def test_only_ids_become_paths(self, made: Made) -> None:
        await refuses_what_is_no_id(made.provisioner)

    async def test_a_folder_that_cannot_be_made_is_said(self, yard: Yard, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        site = replace(yard.site, folder=tmp_path / "file" / "environments")
        with pytest.raises(Unavailable, match=r"set FARHAND_ENVIRONMENTS_FOLDER to a folder that"):
            await LocalProcess(site).place()


class Reaching(LocalContainer):
    """On the fake, containers share this computer's loopback."""

    def _check_reached(self, request: Request) -> None:
        pass


def fake_engine(folder: Path, *options: str) -> Path:
    """Return a fake engine as a program, whose containers lie in the folder."""
    program = folder / "docker"
    words = [
        sys.executable,
        str(FAKE),
        str(folder / "containers"),
        str(Path(sys.executable).parent),
    ]
    command = shlex.join([*words, *options])
    program.write_text(f"#!/bin/sh\nPYTHONPATH='{FAKE.parents[2]}' exec {command} \"$@\"\n")
    program.chmod(0o755)
    return program


def _site(yard: Yard, tmp_path: Path, engine: Path) -> LocalContainer:
    settings = load(
        {
            "FARHAND_HOME": str(tmp_path),
            "FARHAND_CONTAINER_ENGINE": str(engine),
            "FARHAND_CONTAINER_IMAGE": "farhand/environment",
        }
    )
    return Reaching(replace(yard.site, settings=settings))


class TestLocalContainer(ProvisionerContract):
    @pytest.fixture
    async def made(self, yard: Yard, tmp_path: Path) -> AsyncIterator[Made]:
        containers = tmp_path / "containers"
        made = Made(
            _site(yard, tmp_path, fake_engine(tmp_path)),
            yard,
            left=lambda: list(containers.glob("*")) or processes_of(containers),
        )
        yield made
        for environment_id in await made.listed():
            await made.provisioner.destroy(environment_id)

    async def test_one_that_has_stopped_is_listed_as_dead_and_can_be_started(
        self, made: Made, tmp_path: Path
    ) -> None:
        request = await made.wanted()
        await made.provisioner.create(request)
        folder = tmp_path / "containers" / f"farhand-{request.environment_id}"
        assert end_all(folder, 10.0) == set()
        assert await made.listed() == {request.environment_id: False}
        await made.provisioner.create(replace(request, confirmed=True))
        assert await made.listed() == {request.environment_id: True}


async def test_engines_differ_in_what_removing_the_absent_is_and_either_is_fine(
    yard: Yard, tmp_path: Path
) -> None:
    """The contract is tried on one that fails; newer ones say a word and succeed."""
    await _site(yard, tmp_path, fake_engine(tmp_path, "--missing-is-fine")).destroy(new_id())


async def test_an_engine_that_does_not_answer_says_its_own_reason(
    yard: Yard, tmp_path: Path
) -> None:
    engine = tmp_path / "docker"
    engine.write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
    engine.chmod(0o755)
    provisioner = _site(yard, tmp_path, engine)
    with pytest.raises(Unavailable, match="docker says: Cannot connect to the Docker daemon"):
        await provisioner.list_all()
    engine.unlink()
    with pytest.raises(Unavailable, match=r"does not start: No such file .*CONTAINER_ENGINE"):
        await provisioner.list_all()


async def test_a_loopback_address_is_refused_before_anything_is_made(
    yard: Yard, tmp_path: Path
) -> None:
    settings = load({"FARHAND_HOME": str(tmp_path), "FARHAND_CONTAINER_IMAGE": "i"})
    site = replace(yard.site, settings=replace(settings, container_engine="/bin/false"))
    request = await Made(LocalProcess(yard.site), yard, left=lambda: None).wanted()
    with pytest.raises(InvalidInput, match=r"does not reach http://127.0.0.1.*FARHAND_BIND"):
        await LocalContainer(site).create(request)
