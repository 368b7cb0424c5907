"""Names become addresses anew for each dial, and what gRPC is given leads where ours decided."""

import asyncio
import socket
import threading
from typing import Any

import pytest

from farhand_daemon.network import names
from farhand_daemon.network.names import Address, NameUnknown, in_turn, look_up
from farhand_daemon.network.ways import find_way, way_to
from farhand_shared.errors import InvalidInput, Unavailable

V4, V6 = socket.AF_INET, socket.AF_INET6
P = {"https_proxy": "http://ann:s3cret@127.0.0.1:3128"}


def resolver(monkeypatch: pytest.MonkeyPatch, **known: list[str]) -> list[str]:
    """Let these names be known; return what is asked for."""
    asked: list[str] = []

    def answer(host: str, port: int, **_: object) -> list[Any]:
        asked.append(host)
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [
            (V6 if ":" in one else V4, socket.SOCK_STREAM, 6, "", (one, port))
            for one in known[host]
        ]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return asked


def test_an_address_needs_no_resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = resolver(monkeypatch)
    assert way_to("127.0.0.1:5", {}).target == "ipv4:127.0.0.1:5"
    assert way_to("[::1]:5", {}).target == "ipv6:[::1]:5"
    assert way_to("[fe80::1%eth0]:5", {}).target == "ipv6:[fe80::1%25eth0]:5"
    assert asked == []


def test_families_take_turns_and_the_systems_first_stays_first() -> None:
    given = [Address(V6, "::2", 1), Address(V6, "::3", 1), Address(V4, "1.1.1.1", 1)]
    assert [one.host for one in in_turn(given)] == ["::2", "1.1.1.1", "::3"]
    assert [one.host for one in in_turn(reversed(given))] == ["1.1.1.1", "::3", "::2"]
    assert in_turn([]) == ()


def test_both_families_are_given_as_one_list(monkeypatch: pytest.MonkeyPatch) -> None:
    resolver(monkeypatch, both=["2001:db8::1", "127.0.0.1"], four=["10.0.0.1", "10.0.0.2"])
    assert way_to("both:443", {}).target == "ipv6:[2001:db8::1]:443,[::ffff:127.0.0.1]:443"
    assert way_to("four:443", {}).target == "ipv4:10.0.0.1:443,10.0.0.2:443"


def test_a_name_is_asked_for_at_every_dial(monkeypatch: pytest.MonkeyPatch) -> None:
    # https://github.com/firezone/firezone/issues/10238: an old answer outlived the network
    resolver(monkeypatch, cp=["10.0.0.1"])
    assert way_to("cp:1", {}).target == "ipv4:10.0.0.1:1"
    resolver(monkeypatch, cp=["2001:db8::1"])
    assert way_to("cp:1", {}).target == "ipv6:[2001:db8::1]:1"


async def test_a_name_that_nobody_knows_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    resolver(monkeypatch)
    for ask in (asyncio.to_thread(way_to, "cp.invalid:1", {}), find_way("cp.invalid:1", {})):
        with pytest.raises(Unavailable, match="its name cannot be resolved") as said:
            await ask
        assert str(said.value).startswith("cannot reach the control plane at cp.invalid:1: ")
    with pytest.raises(Unavailable, match=r"cannot reach the proxy http://p\.invalid:80 of http"):
        way_to("cp.example:1", {"https_proxy": "p.invalid"})
    resolver(monkeypatch, empty=[])
    with pytest.raises(NameUnknown, match="it has no address"):
        look_up("empty", 1)


async def test_a_resolver_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(names, "LOOKUP_S", 0.1)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(60) and [])
    with pytest.raises(Unavailable, match="no answer within"):
        await find_way("cp.invalid:1", {})
    with pytest.raises(NameUnknown, match="no answer within"):
        look_up("cp.invalid", 1, timeout_s=0.1)
    over.set()


def test_through_a_proxy_only_its_own_name_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = resolver(monkeypatch)
    way = way_to("cp.corp.example:443", P)
    assert asked == []
    assert way.target == "ipv4:127.0.0.1:3128"
    assert dict(way.options) == {
        "grpc.enable_http_proxy": 0,
        "grpc.http_connect_server": "cp.corp.example:443",
        "grpc.http_connect_headers": "Proxy-Authorization:Basic YW5uOnMzY3JldA==",
    }


def test_grpc_is_never_left_to_choose_a_proxy_itself() -> None:
    assert way_to("10.0.0.1:1", {}).options == (("grpc.enable_http_proxy", 0),)
    assert way_to("10.0.0.1:1", {**P, "no_proxy": "10.0.0.0/8"}).proxy is None


@pytest.mark.parametrize("address", ["", "host", ":1", "host:", "host:x"])
def test_what_is_no_address_is_said(address: str) -> None:
    with pytest.raises(InvalidInput, match="not host:port"):
        way_to(address, {})
