"""Releases are asked for by the same way as everything else; what fails is told apart."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from farhand_daemon.network.connecting import ProxyRefused
from farhand_daemon.update.fetch import ReleaseServer
from farhand_shared.errors import NotFound, Unavailable
from tests.fakes.connect_proxy import ConnectProxy

NAME = "cp.corp.example"  # known to nobody but the proxy
ENVELOPE = b"an envelope"


class Releases(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # it would keep connections open

    def do_GET(self) -> None:
        known = {"/updates/channels/stable": 200, "/updates/versions/broken": 500}
        self.send_response(known.get(self.path, 404))
        self.send_header("Content-Length", str(len(ENVELOPE)))
        self.end_headers()
        self.wfile.write(ENVELOPE)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Releases) as server:
        Thread(target=server.serve_forever, name="releases", daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_a_release_comes_through_the_proxy_that_the_link_has(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ConnectProxy(credentials="ann:s3cret") as proxy:
        monkeypatch.setenv("http_proxy", proxy.url("ann:s3cret"))
        assert ReleaseServer(f"http://{NAME}:{port}").newest("stable") == ENVELOPE
        assert proxy.asked == [f"GET http://{NAME}:{port}/updates/channels/stable HTTP/1.1"]
        monkeypatch.setenv("http_proxy", proxy.url("ann:wrong"))
        with pytest.raises(ProxyRefused, match="407"):
            ReleaseServer(f"http://{NAME}:{port}").newest("stable")


def test_the_loopback_needs_no_proxy_whatever_the_environment_says(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert ReleaseServer(f"http://127.0.0.1:{port}").newest("stable") == ENVELOPE


def test_what_is_not_carried_is_told_apart_from_what_fails(port: int) -> None:
    server = ReleaseServer(f"http://127.0.0.1:{port}")
    with pytest.raises(NotFound, match="carries none like that"):
        server.named("9.9")
    with pytest.raises(Unavailable, match="it answers 500"):
        server.named("broken")
    with pytest.raises(Unavailable, match=r"cannot reach http://127\.0\.0\.1:1 for releases"):
        ReleaseServer("http://127.0.0.1:1").newest("stable")
