"""The bad network itself: what it says it does."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.fakes.bad_link import BadLink
from tests.simulation.stage import until


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a program that sends back what it gets."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    taken, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=send_back, args=(taken,), daemon=True).start()

        def send_back(taken: socket.socket) -> None:
            with taken:
                try:
                    while data := taken.recv(1 << 16):
                        taken.sendall(data)
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def connect(link: BadLink) -> socket.socket:
    host, port = link.address.split(":")
    made = socket.create_connection((host, int(port)), timeout=30)
    made.settimeout(30)
    return made


def read(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (piece := connection.recv(1 << 16)):
        data += piece
    return data


def test_a_good_link_carries_bytes_and_their_end(echo: int) -> None:
    with BadLink(echo) as link, connect(link) as connection:
        sent = bytes(range(256)) * 4096
        threading.Thread(target=connection.sendall, args=(sent,)).start()
        assert read(connection, len(sent)) == sent
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
        until("it is over", lambda: link.connections == 0)


def test_a_cut_resets_what_is_open_and_lets_new_ones_in(echo: int) -> None:
    with BadLink(echo) as link, connect(link) as connection:
        connection.sendall(b"x")
        assert read(connection, 1) == b"x"
        assert link.cut() == 1
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
        with connect(link) as other:
            other.sendall(b"y")
            assert read(other, 1) == b"y"


def test_frozen_nothing_arrives_and_nothing_is_lost(echo: int) -> None:
    with BadLink(echo) as link, connect(link) as connection:
        connection.sendall(b"1")
        assert read(connection, 1) == b"1"
        link.freeze()
        connection.sendall(b"2")
        with connect(link) as late:
            late.sendall(b"3")
            for frozen in (connection, late):
                frozen.settimeout(0.2)
                with pytest.raises(TimeoutError):
                    frozen.recv(1)
                frozen.settimeout(30)
            link.thaw()
            assert read(connection, 1) == b"2"
            assert read(late, 1) == b"3"


def test_refused_new_ones_fail_and_open_ones_stay(echo: int) -> None:
    with BadLink(echo) as link, connect(link) as connection:
        connection.sendall(b"1")
        assert read(connection, 1) == b"1"
        link.refuse()
        with connect(link) as refused, contextlib.suppress(ConnectionResetError):
            assert refused.recv(1) == b""  # an end is as good as a reset
        connection.sendall(b"2")
        assert read(connection, 1) == b"2"


def test_slow_and_far_every_byte_still_arrives_in_order(echo: int) -> None:
    with BadLink(echo) as link, connect(link) as connection:
        link.delay(0.05)
        link.throttle(4 << 20)
        sent = bytes(range(256)) * 1024
        threading.Thread(target=connection.sendall, args=(sent,)).start()
        assert read(connection, len(sent)) == sent


def test_another_address_has_the_same_port(echo: int) -> None:
    with BadLink(echo, listen="127.0.0.2") as link, connect(link) as connection:
        assert link.address == f"127.0.0.2:{echo}"
        connection.sendall(b"x")
        assert read(connection, 1) == b"x"
