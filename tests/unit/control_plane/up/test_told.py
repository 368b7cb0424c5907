"""What `up` says about who reaches it."""

from pathlib import Path

import pytest

from farhand_control_plane import ports
from farhand_control_plane.config import load
from farhand_control_plane.up import told


def _said(tmp_path: Path, url: str = "http://127.0.0.1:8000", **environ: str) -> str:
    settings = load({"FARHAND_HOME": str(tmp_path), **environ})
    return "\n".join(told.where_lines(settings, url=url, http_port=8000, machine="box", user="ann"))


@pytest.fixture(autouse=True)
def _address(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ports.reachable_host

    def reachable(bind: str, public_host: str) -> str:
        """Return this computer's address without asking its network."""
        return real(bind, public_host) if public_host or bind != "0.0.0.0" else "192.0.2.7"

    monkeypatch.setattr(told, "reachable_host", reachable)


@pytest.mark.parametrize("bind", ["", "127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_what_only_this_computer_reaches_needs_no_warning(tmp_path: Path, bind: str) -> None:
    said = _said(tmp_path, FARHAND_BIND=bind)
    assert "ther computers" not in said
    assert "Farhand runs at http://127.0.0.1:8000 " in said


@pytest.mark.parametrize(
    ("environ", "address"),
    [
        ({}, "http://192.0.2.7:8000"),
        ({"FARHAND_PUBLIC_HOST": "box.example"}, "http://box.example:8000"),
        ({"FARHAND_PUBLIC_HOST": "2001:db8::5"}, "http://[2001:db8::5]:8000"),
        ({"FARHAND_PUBLIC_URL": "http://box.example"}, "http://box.example"),
    ],
)
def test_where_other_computers_reach_it_is_said_with_what_to_do(
    tmp_path: Path, environ: dict[str, str], address: str
) -> None:
    said = _said(tmp_path, FARHAND_BIND="0.0.0.0", **environ)
    assert f"Other computers reach it at {address}\n" in said
    assert "not encrypted" in said
    assert "FARHAND_PUBLIC_URL" in said


def test_an_address_of_its_own_is_not_said_twice(tmp_path: Path) -> None:
    said = _said(tmp_path, "http://192.0.2.9:8000", FARHAND_BIND="192.0.2.9")
    assert said.count("192.0.2.9") == 1
    assert "not encrypted" in said


def test_behind_a_tls_proxy_there_is_nothing_to_warn_of(tmp_path: Path) -> None:
    said = _said(
        tmp_path,
        "https://farhand.example",
        FARHAND_BIND="0.0.0.0",
        FARHAND_PUBLIC_URL="https://farhand.example",
    )
    assert "encrypted" not in said
