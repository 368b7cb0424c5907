"""Connections that are not gRPC's: the fastest address wins, and a proxy is asked as it should."""

import errno
import socket
import time
from collections.abc import Iterator

import pytest

from farhand_daemon.network.connecting import ProxyRefused, connect, race
from farhand_daemon.network.names import Address
from tests.fakes.connect_proxy import ConnectProxy


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def silent() -> Iterator[Address]:
    """An address that never answers: its queue of connections is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        port = server.getsockname()[1]
        waiting = []
        for _ in range(4):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
            waiting.append(one)
        yield Address(socket.AF_INET, "127.0.0.1", port)
        for one in waiting:
            one.close()


def address_of(server: socket.socket) -> Address:
    return Address(socket.AF_INET, *server.getsockname()[:2])


def test_an_address_that_does_not_answer_costs_a_quarter_of_a_second(
    listener: socket.socket, silent: Address
) -> None:
    # https://github.com/Ylianst/MeshAgent/issues/114: IPv6 is dead and IPv4 is never tried
    begun = time.monotonic()
    with race([silent, address_of(listener)], timeout_s=10) as connection:
        assert connection.getpeername() == listener.getsockname()
    assert 0.2 < time.monotonic() - begun < 3


def test_an_address_that_refuses_costs_nothing(listener: socket.socket) -> None:
    begun = time.monotonic()
    refusing = Address(socket.AF_INET, "127.0.0.1", 1)
    nowhere = Address(socket.AF_INET6, "2001:db8::1", 1)  # unreachable, or silent where routed
    with race([refusing, address_of(listener), nowhere], timeout_s=10):
        assert time.monotonic() - begun < 0.2


def test_the_last_failure_is_told(silent: Address) -> None:
    with pytest.raises(ConnectionRefusedError):
        race([Address(socket.AF_INET, "127.0.0.1", 1)], timeout_s=10)
    with pytest.raises(OSError, match="timed out") as failed:
        race([silent], timeout_s=0.1)
    assert failed.value.errno == errno.ETIMEDOUT


def test_a_proxy_is_asked_for_the_tunnel_with_its_password(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    with ConnectProxy(credentials="ann:s3cret") as there:
        environ = {"HTTPS_PROXY": there.url("ann:s3cret")}
        connection, proxy = connect("cp.example", port, environ=environ, timeout_s=10)
        with connection:
            assert str(proxy) == f"http://{there.address}"
            taken, _ = listener.accept()
            with taken:
                taken.sendall(b"hello")
                assert connection.recv(5) == b"hello"
        assert there.asked == [f"CONNECT cp.example:{port} HTTP/1.1"]


@pytest.mark.parametrize(
    ("answer", "status", "why"),
    [
        ("302 Found", 302, "it redirects"),
        ("407 Proxy Authentication Required", 407, "name and password"),
        ("403 Forbidden", 403, "does not let through"),
        ("-", 0, "no HTTP proxy"),
    ],
)
def test_a_refusal_is_the_proxys_and_not_the_servers(answer: str, status: int, why: str) -> None:
    with ConnectProxy(answer=answer) as there:
        environ = {"https_proxy": there.url("ann:s3cret")}
        with pytest.raises(ProxyRefused, match=f"cannot go through the proxy http.*{why}") as said:
            connect("cp.example", 443, environ=environ, timeout_s=10)
    assert said.value.status == status
    assert "s3cret" not in str(said.value)
