"""The routes of the installer: for computers that have no token yet."""

import hashlib
from pathlib import Path

import httpx2
import pytest

from farhand_control_plane.api import install
from farhand_control_plane.api.install import Dist
from tests.integration.control_plane.api.conftest import MakeClient

DAEMON = "farhand_daemon-0.1.0-py3-none-any.whl"


@pytest.fixture
def dist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of what is given, for this test alone; it does not exist yet."""
    monkeypatch.setattr(install, "_dist", Dist(tmp_path / "dist"))
    monkeypatch.setattr(install, "_WAIT_S", 0.0)
    return tmp_path / "dist"


def fill(folder: Path) -> None:
    folder.mkdir()
    (folder / DAEMON).write_bytes(b"daemon")
    (folder / "pip-1-py3-none-any.whl").write_bytes(b"pip")
    (folder / "install.sh").write_text("echo @URL@ @DAEMON_SHA256@\n")


async def test_the_installer_and_its_wheels_need_no_token(
    make_client: MakeClient, dist: Path
) -> None:
    fill(dist)
    anybody = await make_client()
    script = await anybody.get("/install.sh")
    assert script.status_code == 200
    assert script.headers["content-type"].startswith("text/x-shellscript")
    assert script.text == f"echo http://farhand.test {hashlib.sha256(b'daemon').hexdigest()}\n"
    assert (await anybody.get(f"/dist/{DAEMON}")).content == b"daemon"
    assert (await anybody.get("/dist/pip-1-py3-none-any.whl")).content == b"pip"


@pytest.mark.parametrize("name", ["install.sh", ".source", "x.whl", "..%2finstall.py", "%00"])
async def test_nothing_else_is_given(make_client: MakeClient, dist: Path, name: str) -> None:
    fill(dist)
    answer = await (await make_client()).get(f"/dist/{name}")
    assert answer.status_code == 404
    assert "run the line from the page again" in answer.text or "cannot find" in answer.text


async def test_until_the_wheel_is_built_the_answer_says_so_to_a_shell_too(
    make_client: MakeClient, dist: Path
) -> None:
    anybody = await make_client()
    answer = await anybody.get("/install.sh")
    assert answer.status_code == 503
    assert answer.text.startswith("printf '%s\\n' 'farhand: cannot give the daemon: ")
    assert answer.text.endswith(">&2; exit 1\n")
    assert (await anybody.get(f"/dist/{DAEMON}")).status_code == 503


async def test_an_installer_asked_for_too_early_is_waited_for(
    make_client: MakeClient, dist: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "_WAIT_S", 30.0)
    looks = 0

    def offer(self: Dist) -> install.Offer:
        nonlocal looks
        looks += 1
        if looks == 2:
            fill(dist)
        return given(self)

    given = Dist.offer
    monkeypatch.setattr(Dist, "offer", offer)
    assert (await (await make_client()).get("/install.sh")).status_code == 200
    assert looks == 2


@pytest.mark.parametrize("host", ["a'b", "a$(id)", "a b", 'a"', "a;b", "a`id`", "ä.example"])
async def test_an_address_that_a_shell_would_read_otherwise_is_in_no_script(
    client: httpx2.AsyncClient, dist: Path, host: str
) -> None:
    fill(dist)
    for request in (
        client.build_request("GET", "/install.sh", headers={"Host": host.encode("utf-8")}),
        client.build_request(
            "POST", "/v1/machines/codes", json={}, headers={"Host": host.encode("utf-8")}
        ),
    ):
        answer = await client.send(request)
        assert answer.status_code == 400
        assert "cannot tell this server's address" in answer.text


async def test_the_document_describes_streams_events_and_failures(
    client: httpx2.AsyncClient,
) -> None:
    document = (await client.get("/openapi.json")).json()
    assert (await client.get("/openapi.json")).json() == document
    output = document["paths"]["/v1/attempts/{attempt_id}/output"]["get"]
    assert "application/octet-stream" in output["responses"]["200"]["content"]
    assert output["security"]
    assert {"exec", "follow_attempt"} <= {
        operation["operationId"]
        for item in document["paths"].values()
        for operation in item.values()
    }
    schemas = document["components"]["schemas"]
    assert "HTTPValidationError" not in schemas
    assert "machine_offline" in schemas["EventKind"]["enum"]
    assert schemas["Machine"]["properties"]["presence"] == {"$ref": "#/components/schemas/Presence"}
    assert set(schemas["Event"]["required"]) == set(schemas["Event"]["properties"])
    for item in document["paths"].values():
        for operation in item.values():
            assert "422" not in operation["responses"]
            assert operation["responses"]["default"]["content"]["application/json"]["schema"] == {
                "$ref": "#/components/schemas/Failure"
            }
