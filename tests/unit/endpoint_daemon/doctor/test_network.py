"""The way to the control plane: names, proxies and routes, over real sockets where needed."""

import socket
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from farhand_daemon.doctor import network
from farhand_daemon.doctor.network import Proxies, dns, proxy, route
from farhand_daemon.identity import MachineCredentials

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


class Peer:
    """A listener that answers every connection with these bytes, after it was asked something."""

    def __init__(self, answer: bytes) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.asked = b""
        self._answer = answer
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                if self._answer:
                    self.asked += connection.recv(4096)
                    connection.sendall(self._answer)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def peers() -> Iterator[list[Peer]]:
    made: list[Peer] = []
    yield made
    for peer in made:
        peer.close()


def test_a_name_that_nobody_knows_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(*_: object, **__: object) -> list[object]:  # tests ask no name server
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nobody)
    check = dns(FAR)
    assert not check.ok
    assert check.result == "cannot look up cp.invalid: Name or service not known"
    assert "name server" in check.next_step
    assert "127.0.0.1 is an address" in dns(MACHINE).result


def test_a_resolver_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(network, "_LOOKUP_S", 0.1)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(60) and [])
    assert "no answer within" in dns(FAR).result
    over.set()


def test_a_port_where_nobody_listens_is_named(peers: list[Peer]) -> None:
    check = route(MACHINE, Proxies({}))
    assert (check.ok, "cannot reach 127.0.0.1:1: " in check.result) == (False, True)
    peers.append(Peer(b""))
    there = replace(MACHINE, link_address=peers[0].address, enrol_address=peers[0].address)
    assert route(there, Proxies({})).result.endswith(" ms from 127.0.0.1")


def test_a_proxy_is_asked_for_the_tunnel_with_its_password(peers: list[Peer]) -> None:
    peers.append(Peer(b"HTTP/1.1 200 Connection established\r\n\r\n"))
    proxies = Proxies({"https_proxy": f"http://ann:s3cret@{peers[0].address}"})
    check = route(FAR, proxies)
    assert check.ok, check.result
    assert peers[0].asked.startswith(b"CONNECT cp.invalid:443 HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic YW5uOnMzY3JldA==" in peers[0].asked
    assert "through the proxy" in check.result


def test_a_proxy_that_refuses_is_quoted_without_its_password(peers: list[Peer]) -> None:
    peers.append(Peer(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"))
    proxies = Proxies({"http_proxy": f"http://ann:s3cret@{peers[0].address}"})
    check = route(FAR, proxies)
    assert not check.ok
    assert "407 Proxy Authentication Required" in check.result
    assert "s3cret" not in check.result


@pytest.mark.parametrize(
    ("environ", "host", "taken"),
    [
        ({}, "cp.example", ""),
        ({"http_proxy": "p:1", "https_proxy": "q:1"}, "cp.example", "q:1"),
        ({"grpc_proxy": "g:1", "https_proxy": "q:1"}, "cp.example", "g:1"),
        ({"HTTPS_PROXY": "q:1"}, "cp.example", ""),
        ({"https_proxy": "q:1", "no_proxy": "x, .example"}, "cp.example", ""),
        ({"https_proxy": "q:1", "no_proxy": "other"}, "cp.example", "q:1"),
        ({"https_proxy": "q:1"}, "127.0.0.1", ""),
    ],
)
def test_the_proxy_is_the_one_that_grpc_takes(
    environ: dict[str, str], host: str, taken: str
) -> None:
    assert Proxies(environ).proxy_for(host) == taken


def test_a_daemon_with_another_proxy_than_the_shell_is_noticed() -> None:
    shell = {"https_proxy": "http://u:s3cret@p:1"}
    check = proxy(FAR, Proxies({}), shell)
    assert not check.ok
    assert check.result == "the daemon uses none, this shell http://…@p:1"
    assert proxy(FAR, Proxies(shell), shell).ok
    assert proxy(MACHINE, Proxies({}), shell).ok  # loopback goes straight
    assert "set https_proxy too" in proxy(FAR, Proxies({}), {"HTTPS_PROXY": "p:1"}).next_step
