"""Addresses: what a person types and what a control plane answers."""

import json

import pytest

from farhand_daemon import discovery
from farhand_daemon.discovery import normal_url
from farhand_shared.errors import InvalidInput


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("http://host:8400", "http://host:8400"),
        ("host:8400", "http://host:8400"),
        ("https://Host.Example/some/page?x=1#y", "https://host.example"),
        ("http://[::1]:80/", "http://[::1]:80"),
        ("127.0.0.1", "http://127.0.0.1"),
    ],
)
def test_what_people_type_is_understood(typed: str, meant: str) -> None:
    assert normal_url(typed) == meant


@pytest.mark.parametrize(
    "typed", ["", "ftp://x", "http://", "http://x:99999", "http://x:port", "http://a\nb", "://"]
)
def test_what_is_no_address_is_said(typed: str) -> None:
    with pytest.raises(InvalidInput):
        normal_url(typed)


def _parse(**changes: object) -> discovery.Discovery:
    document: dict[str, object] = {
        "root_certificate_pem": "pem",
        "enrol_address": "a:1",
        "link_address": "b:2",
        "instance_name": "i",
    }
    return discovery._parse("http://h", "h", json.dumps({**document, **changes}).encode())


def test_every_interface_means_the_host_that_was_asked() -> None:
    assert _parse(enrol_address="0.0.0.0:5").enrol_address == "h:5"
    assert _parse(link_address=":6").link_address == "h:6"
    assert _parse(link_address="[::]:6").link_address == "h:6"


@pytest.mark.parametrize(
    "changes",
    [
        {"enrol_address": "a"},
        {"enrol_address": "a:0"},
        {"enrol_address": "a:70000"},
        {"enrol_address": 5},
        {"link_address": "a:\u0661"},
        {"root_certificate_pem": None},
    ],
)
def test_an_answer_of_something_else_is_said(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="address of a Farhand control plane"):
        _parse(**changes)


def test_an_answer_that_is_no_json_is_said() -> None:
    for body in (b"", b"<html>", b"[]", b"\xff"):
        with pytest.raises(InvalidInput, match="address of a Farhand control plane"):
            discovery._parse("http://h", "h", body)
