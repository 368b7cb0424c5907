"""What a server gives to a computer that is being added."""

import hashlib
from pathlib import Path

import pytest

from farhand_control_plane.api.install import Dist, install_line
from farhand_shared.errors import Unavailable

TEMPLATE = Path(__file__).resolve().parents[4] / "deploy" / "install.sh"


def fill(folder: Path, *, daemon: bytes = b"daemon", version: str = "0.1.0") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"farhand_daemon-{version}-py3-none-any.whl").write_bytes(daemon)
    (folder / "pip-26.3-py3-none-any.whl").write_bytes(b"pip")
    (folder / "install.sh").write_text(TEMPLATE.read_text())
    (folder / ".source").write_text("x")
    return folder


def test_the_script_names_the_server_the_wheels_and_their_hashes(tmp_path: Path) -> None:
    offer = Dist(fill(tmp_path / "dist")).offer()
    script = offer.script("https://farhand.example:8443/agent")
    assert "url='https://farhand.example:8443/agent'" in script
    assert "daemon_wheel='farhand_daemon-0.1.0-py3-none-any.whl'" in script
    assert f"daemon_sha256='{hashlib.sha256(b'daemon').hexdigest()}'" in script
    assert f"pip_sha256='{hashlib.sha256(b'pip').hexdigest()}'" in script
    assert "@URL@" not in script
    # The locked dependencies are given where there is a lock.
    assert "requirements_sha256=''" in script
    (tmp_path / "dist" / "requirements.lock").write_bytes(b"lock")
    script = Dist(tmp_path / "dist").offer().script("http://box")
    assert f"requirements_sha256='{hashlib.sha256(b'lock').hexdigest()}'" in script


@pytest.mark.parametrize("missing", ["install.sh", "pip-26.3-py3-none-any.whl", None])
def test_while_something_is_missing_nothing_is_given_and_the_reason_is(
    tmp_path: Path, missing: str | None
) -> None:
    folder = tmp_path / "dist"
    if missing is not None:
        (fill(folder) / missing).unlink()
    with pytest.raises(Unavailable, match="has not built its wheel yet"):
        Dist(folder).offer()


def test_of_two_wheels_nobody_knows_which_and_none_is_given(tmp_path: Path) -> None:
    folder = fill(fill(tmp_path / "dist"), version="0.2.0")
    with pytest.raises(Unavailable):
        Dist(folder).offer()


def test_a_folder_is_read_again_when_it_changed_and_only_then(tmp_path: Path) -> None:
    dist = Dist(tmp_path / "dist")
    with pytest.raises(Unavailable):
        dist.offer()
    fill(tmp_path / "dist")
    first = dist.offer()
    assert dist.offer() is first
    fill(tmp_path / "dist", daemon=b"a newer one")
    assert dist.offer().daemon.content == b"a newer one"
    (tmp_path / "dist").rename(tmp_path / "away")
    with pytest.raises(Unavailable):
        dist.offer()


def test_the_line_to_copy_is_one_line() -> None:
    assert install_line("http://box:8300") == "curl -fsSL http://box:8300/install.sh | sh"
