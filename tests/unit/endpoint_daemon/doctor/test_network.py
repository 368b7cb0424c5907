"""The way to the control plane: names, proxies and routes, over real sockets where needed."""

import socket
from dataclasses import replace

import pytest

from farhand_daemon.doctor.network import dns, proxy, route
from farhand_daemon.identity import MachineCredentials
from tests.fakes.connect_proxy import ConnectProxy

MACHINE = MachineCredentials(
    machine_id="m",
    machine_name="laptop",
    instance_name="i",
    server_url="http://127.0.0.1:1",
    enrol_address="127.0.0.1:1",
    link_address="127.0.0.1:1",
    root_pem="",
    key_pem="",
    certificate_pem="",
    not_before_ms=0,
    not_after_ms=0,
    renew_at_ms=0,
)
FAR = replace(MACHINE, enrol_address="cp.invalid:443", link_address="cp.invalid:443")


def test_a_name_that_nobody_knows_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(*_: object, **__: object) -> list[object]:  # tests ask no name server
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nobody)
    check = dns(FAR)
    assert not check.ok
    assert check.result == "cannot look up cp.invalid: Name or service not known"
    assert "name server" in check.next_step
    assert "127.0.0.1 is an address" in dns(MACHINE).result


def test_a_port_where_nobody_listens_is_named() -> None:
    check = route(MACHINE, {})
    assert (check.ok, "cannot reach 127.0.0.1:1: " in check.result) == (False, True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        there = replace(MACHINE, link_address=address, enrol_address=address)
        assert route(there, {}).result.endswith(" ms from 127.0.0.1")


def test_a_proxy_is_asked_for_the_tunnel_with_its_password() -> None:
    with (
        ConnectProxy(credentials="ann:s3cret") as there,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        there.ports[443] = server.getsockname()[1]
        check = route(FAR, {"https_proxy": there.url("ann:s3cret")})
        assert check.ok, check.result
        assert there.asked == ["CONNECT cp.invalid:443 HTTP/1.1"]
        assert check.result.endswith(f"through the proxy http://{there.address}")


@pytest.mark.parametrize(
    ("answer", "why"),
    [("407 Proxy Authentication Required", "name and password"), ("302 Found", "it redirects")],
)
def test_a_proxy_that_refuses_is_named_without_its_password(answer: str, why: str) -> None:
    with ConnectProxy(answer=answer) as there:
        check = route(FAR, {"https_proxy": there.url("ann:s3cret")})
        assert not check.ok
        assert check.result.startswith(f"cannot go through the proxy http://{there.address}: ")
    assert why in check.result
    assert "no_proxy" in check.next_step
    assert "s3cret" not in check.result + check.next_step


def test_a_proxy_that_is_not_there_is_named() -> None:
    check = route(FAR, {"https_proxy": "http://127.0.0.1:1"})
    assert check.result.startswith("cannot reach the proxy http://127.0.0.1:1 of https_proxy: ")


def test_a_daemon_with_another_proxy_than_the_shell_is_noticed() -> None:
    shell = {"HTTPS_PROXY": "http://u:s3cret@p:1"}
    check = proxy(FAR, {}, shell)
    assert not check.ok
    assert check.result == "the daemon uses none, this shell http://p:1 by HTTPS_PROXY"
    assert proxy(FAR, shell, shell).ok
    assert proxy(FAR, shell, shell).result == "http://p:1 by HTTPS_PROXY"
    assert proxy(FAR, {"https_proxy": "http://u:s3cret@p:1"}, shell).ok  # the same one
    assert not proxy(FAR, {"https_proxy": "http://p:1"}, shell).ok  # without its password
    assert proxy(MACHINE, {}, shell).ok  # loopback goes straight
    assert "only http:// proxies" in proxy(FAR, {"https_proxy": "socks5://p:1"}, {}).result
