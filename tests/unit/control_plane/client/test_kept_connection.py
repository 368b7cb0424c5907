"""One kept connection, and what becomes of a request that meets its end."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

import pytest

from farhand_control_plane.client import api as client_api
from farhand_control_plane.client.api import Api, Target
from farhand_control_plane.serve import KEEP_ALIVE_S
from farhand_shared.errors import Unavailable
from farhand_shared.redact import Secret

ANSWER = b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"ok":true}'


@dataclass
class Server:
    """Follows a plan, connection by connection, and closes each at the end of its part."""

    listening: socket.socket
    plan: list[list[bytes | None]]  # per connection: an answer, None: read a request and close
    requests: list[tuple[int, str]] = field(default_factory=list)  # connection, request line
    closed: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listening.getsockname()[1]}"

    def serve(self) -> None:
        for number, answers in enumerate(self.plan):
            peer, _ = self.listening.accept()
            with peer, peer.makefile("rb") as reading:
                for answer in answers:
                    line = self._request(reading)
                    if line is None:
                        break
                    self.requests.append((number, line))
                    if answer is None:
                        break
                    peer.sendall(answer)
            self.closed.set()

    def _request(self, reading: BinaryIO) -> str | None:
        line = reading.readline()
        length = 0
        while (header := reading.readline()).strip():
            name, _, value = header.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        reading.read(length)
        return line.decode().strip() or None


@pytest.fixture
def served() -> Iterator[Callable[..., Server]]:
    """Start a server with a plan; everything is closed at the end."""
    made: list[tuple[Server, threading.Thread]] = []

    def start(*plan: list[bytes | None]) -> Server:
        server = Server(socket.create_server(("127.0.0.1", 0)), list(plan))
        thread = threading.Thread(target=server.serve, daemon=True)
        thread.start()
        made.append((server, thread))
        return server

    yield start
    for server, thread in made:
        server.listening.close()
        thread.join(10)


@pytest.fixture
def connect() -> Iterator[Callable[[Server], Api]]:
    made: list[Api] = []

    def to(server: Server) -> Api:
        made.append(Api(Target(url=server.url, token=Secret(b"t"), this_machine=None)))
        return made[-1]

    yield to
    for api in made:
        api.close()


def test_requests_in_a_row_share_a_connection(served, connect) -> None:
    server = served([ANSWER, ANSWER])
    api = connect(server)
    assert api.get("/a") == json.loads('{"ok":true}')
    api.post("/b", {"x": 1})
    assert server.requests == [(0, "GET /a HTTP/1.1"), (0, "POST /b HTTP/1.1")]


def test_a_connection_that_the_server_closed_is_not_used_again(served, connect) -> None:
    server = served([ANSWER], [ANSWER])
    api = connect(server)
    api.get("/a")
    assert server.closed.wait(10)
    assert api.post("/b") == {"ok": True}  # not repeatable, and yet it is not lost
    assert server.requests == [(0, "GET /a HTTP/1.1"), (1, "POST /b HTTP/1.1")]


def test_a_connection_that_was_idle_for_long_is_not_used_again(
    served, connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = served([ANSWER, ANSWER], [ANSWER])
    api = connect(server)
    api.get("/a")
    monkeypatch.setattr(client_api, "IDLE_MAX_S", -1.0)
    api.post("/b")
    assert [number for number, _ in server.requests] == [0, 1]


def test_a_repeatable_request_that_meets_the_close_is_sent_again(served, connect) -> None:
    server = served([ANSWER, None], [ANSWER])
    api = connect(server)
    api.get("/a")
    assert api.post("/v1/chat", {}, repeatable=True) == {"ok": True}
    assert [number for number, _ in server.requests] == [0, 0, 1]


def test_a_request_that_would_do_it_twice_is_not_sent_again(served, connect) -> None:
    server = served([ANSWER, None], [ANSWER])
    api = connect(server)
    api.get("/a")
    with pytest.raises(Unavailable, match="cannot reach the server"):
        api.post("/v1/tokens", {})
    assert len(server.requests) == 2
    api.get("/c")  # the next one has a connection of its own
    assert server.requests[-1] == (1, "GET /c HTTP/1.1")


def test_a_new_connection_that_breaks_is_not_tried_for_ever(served, connect) -> None:
    api = connect(served([None]))
    with pytest.raises(Unavailable):
        api.get("/a")


def test_the_server_keeps_connections_for_longer_than_a_client_uses_them() -> None:
    assert KEEP_ALIVE_S > 2 * client_api.IDLE_MAX_S
