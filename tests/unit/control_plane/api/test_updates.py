"""Signed releases as a server gives them: by channel, version and hash, and what they need."""

import asyncio
import json
import shutil
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

from farhand_control_plane.api import failures, updates
from farhand_control_plane.api.carried import Carried
from farhand_control_plane.api.wheel_cache import WheelCache, pip_words
from farhand_shared.errors import NotFound, Unavailable
from farhand_shared.release import ENVELOPE, Release, verify
from farhand_shared.requirements_lock import LockedWheel, parse_lock
from tests.fakes.carried_release import Signer, release_files, wheel_of
from tests.fakes.supervised_lab import until

ROOT = Path(__file__).resolve().parents[4]
(PIP,) = (ROOT / "scripts").glob("pip-*.whl")
SIGNER = Signer.make()


def fill(dist: Path, version: str, *, channel: str = "stable") -> Release:
    release, envelope, files = release_files(SIGNER, version, channel=channel)
    folder = dist / "releases" / version
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / ENVELOPE).write_bytes(envelope)
    return release


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    return tmp_path / "_dist"


@pytest.fixture
async def client(dist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> httpx2.AsyncClient:
    monkeypatch.setattr(updates, "carried", Carried(dist))
    pip = tmp_path / "pip.whl"
    shutil.copy(PIP, pip)
    monkeypatch.setattr(updates, "_cache", WheelCache(tmp_path / "cache", pip))
    app = FastAPI()
    app.include_router(updates.router)
    failures.install(app)
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://farhand.test")


async def test_the_newest_of_a_channel_and_each_version_are_given_as_they_were_signed(
    dist: Path, client: httpx2.AsyncClient
) -> None:
    assert (await client.get("/updates/channels/stable")).status_code == 404
    fill(dist, "0.9.0")
    newest = fill(dist, "0.10.0")
    beta = fill(dist, "1.0", channel="beta")
    for path, release in (
        ("channels/stable", newest),
        ("channels/beta", beta),
        ("versions/0.10.0", newest),
    ):
        answer = await client.get(f"/updates/{path}")
        assert verify(answer.content, [SIGNER.public]) == release
    missing = await client.get("/updates/versions/0.8.0")
    assert missing.status_code == 404
    assert "carried here: 1.0, 0.10.0, 0.9.0" in missing.json()["error"]["message"]
    shutil.rmtree(dist / "releases" / "0.10.0")
    assert verify((await client.get("/updates/channels/stable")).content, [SIGNER.public]) != newest


async def test_files_are_given_by_the_hash_that_was_signed_and_no_others(
    dist: Path, client: httpx2.AsyncClient
) -> None:
    release = fill(dist, "0.2.0")
    for file in release.files:
        answer = await client.get(f"/updates/files/{file.sha256}")
        assert len(answer.content) == file.size
    assert (await client.get(f"/updates/files/{'0' * 64}")).status_code == 404
    (dist / "releases" / "0.2.0" / release.wheel.name).write_bytes(b"changed on the server's disk")
    assert (await client.get(f"/updates/files/{release.wheel.sha256}")).status_code == 404


async def test_a_folder_that_holds_no_release_is_passed_over(dist: Path) -> None:
    fill(dist, "0.2.0")
    (dist / "releases" / "half").mkdir()
    damaged = dist / "releases" / "0.3.0"
    damaged.mkdir()
    (damaged / ENVELOPE).write_text(json.dumps({"manifest": "{}", "signatures": []}))
    carried = Carried(dist)
    assert [one.release.version for one in carried.all()] == ["0.2.0"]
    with pytest.raises(NotFound):
        carried.version("0.3.0")


@pytest.fixture
def upstream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package index of the host: a folder, as far as its pip is concerned."""
    folder = tmp_path / "upstream"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


async def test_the_index_gives_what_a_release_needs_and_fetches_it_once(
    dist: Path, client: httpx2.AsyncClient, upstream: Path
) -> None:
    fill(dist, "0.2.0")
    listed = await client.get("/updates/index/Farhand_needs.this/")
    name = "farhand_needs_this-1.0-py3-none-any.whl"
    assert f'<a href="{name}#sha256=' in listed.text
    assert listed.headers["content-type"].startswith("text/html")
    assert (await client.get("/updates/index/requests/")).status_code == 404
    assert (await client.get("/updates/index/farhand-needs-this/other.whl")).status_code == 404
    path = f"/updates/index/farhand-needs-this/{name}"
    away = await client.get(path)
    assert away.status_code == 503
    assert f"cannot fetch {name}: " in away.json()["error"]["message"]
    content = wheel_of("farhand_needs_this", "1.0", {"farhand_needs_this.py": b""})
    (upstream / name).write_bytes(content)
    assert (await client.get(path)).content == content
    (upstream / name).unlink()
    assert (await client.get(path)).content == content


async def test_another_file_of_that_name_is_not_given(
    dist: Path, client: httpx2.AsyncClient, upstream: Path
) -> None:
    fill(dist, "0.2.0")
    name = "farhand_needs_this-1.0-py3-none-any.whl"
    (upstream / name).write_bytes(wheel_of("farhand_needs_this", "1.0", {"evil.py": b""}))
    assert (await client.get(f"/updates/index/farhand-needs-this/{name}")).status_code == 503


@pytest.fixture
def patient_pip(tmp_path: Path) -> Path:
    """A pip that notes each start, waits for the file ``go``, and finds nothing."""
    folder = tmp_path / "patient"
    (folder / "pip").mkdir(parents=True)
    (folder / "pip" / "__main__.py").write_text(
        "import pathlib, sys, time\n"
        f"folder = pathlib.Path({str(folder)!r})\n"
        "with (folder / 'starts').open('a') as starts: starts.write('+')\n"
        "while not (folder / 'go').exists(): time.sleep(0.02)\n"
        "sys.exit('ERROR: no such index')\n"
    )
    return folder


async def test_who_asks_for_a_wheel_that_is_being_fetched_costs_nothing_also_when_it_fails(
    tmp_path: Path, patient_pip: Path
) -> None:
    cache = WheelCache(tmp_path / "cache", patient_pip)
    wheel = LockedWheel(name="needs-1.0-py3-none-any.whl", sha256="a" * 64)
    asked = [asyncio.create_task(cache.path(wheel)) for _ in range(20)]
    await until((patient_pip / "starts").exists)
    asked.pop(0).cancel()
    (patient_pip / "go").touch()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert {str(answer) for answer in answers} == {
        "cannot fetch needs-1.0-py3-none-any.whl: no such index; see the package index of this host"
    }
    assert (patient_pip / "starts").read_text() == "+"
    with pytest.raises(Unavailable):
        await cache.path(wheel)
    assert (patient_pip / "starts").read_text() == "++"


async def test_a_folder_for_wheels_that_cannot_be_made_is_named(
    tmp_path: Path, patient_pip: Path
) -> None:
    (tmp_path / "cache").write_bytes(b"in the way")
    wheel = LockedWheel(name="needs-1.0-py3-none-any.whl", sha256="a" * 64)
    with pytest.raises(Unavailable, match=r"cannot fetch needs-1\.0-py3-none-any\.whl: "):
        await WheelCache(tmp_path / "cache", patient_pip).path(wheel)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "grpcio-1.85.3-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
            "--implementation cp --python-version 3.11 --abi cp311 "
            "--platform manylinux2014_x86_64 --platform manylinux_2_17_x86_64",
        ),
        (
            "cryptography-50.0.2-cp39-abi3-musllinux_1_2_aarch64.whl",
            "--implementation cp --python-version 3.9 --abi abi3 --platform musllinux_1_2_aarch64",
        ),
        ("x-1-py3-none-any.whl", "--implementation py --python-version 3.14 --abi none"),
        ("x-1-py2.py3-none-any.whl", "--implementation py --python-version 3.14 --abi none"),
    ],
)
def test_pip_is_asked_for_exactly_one_wheel_whoever_it_is_for(name: str, words: str) -> None:
    assert words in " ".join(pip_words(LockedWheel(name=name, sha256="a" * 64)))


def test_the_lock_of_this_checkout_holds_every_dependency() -> None:
    lock = parse_lock((ROOT / "endpoint_daemon" / "requirements.lock").read_text())
    assert {"grpcio", "protobuf", "cryptography", "platformdirs", "cffi"} <= {
        wheel.project for wheel in lock
    }
