"""A small real HTTP proxy on this machine: CONNECT for TLS, whole addresses for plain GETs.

Every name leads to this machine's loopback, so that tests may use names of nowhere. What it does
not model: chunked bodies, keep-alive, TLS to the proxy itself, other methods.
"""

import base64
import contextlib
import socket
import threading
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

_HEAD_MAX: Final = 16 * 1024


class ConnectProxy:
    """Use it as a context manager; ``asked`` holds the first lines of all requests."""

    def __init__(self, *, credentials: str = "", answer: str = "") -> None:
        """``credentials``: NAME:PASSWORD that it insists on. ``answer``: said instead of serving,
        such as ``302 Found``; ``"-"``: hang up without a word."""
        self.credentials = credentials
        self.answer = answer
        self.asked: list[str] = []
        self.ports: dict[int, int] = {}  # where a port leads instead
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._serve, name="proxy", daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def url(self, credentials: str = "") -> str:
        return f"http://{credentials}@{self.address}" if credentials else f"http://{self.address}"

    def cut(self) -> None:
        """End every connection that it carries."""
        for one in list(self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        self._thread.join(10)

    def _serve(self) -> None:
        while True:
            try:
                taken, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve_one, args=(taken,), daemon=True).start()

    def _serve_one(self, taken: socket.socket) -> None:
        with taken, contextlib.suppress(OSError):
            self._open.add(taken)
            try:
                self._answer(taken)
            finally:
                self._open.discard(taken)

    def _answer(self, taken: socket.socket) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n") and len(head) < _HEAD_MAX:
            if not (piece := taken.recv(1)):
                return
            head += piece
        lines = head.decode("latin-1").split("\r\n")
        self.asked.append(lines[0])
        if self.answer == "-":
            return
        wanted = base64.b64encode(self.credentials.encode()).decode()
        if self.credentials and f"Proxy-Authorization: Basic {wanted}" not in lines:
            return self._say(taken, "407 Proxy Authentication Required")
        if self.answer:
            return self._say(taken, self.answer)
        method, target, _ = lines[0].split(" ", 2)
        if method == "CONNECT":
            port = int(target.rpartition(":")[2])
            onward = b""
        else:
            parts = urlsplit(target)
            port = parts.port or 80
            onward = f"{method} {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode()
        try:
            far = socket.create_connection(("127.0.0.1", self.ports.get(port, port)), timeout=10)
        except OSError:
            return self._say(taken, "503 Service Unavailable")
        with far:
            far.settimeout(None)
            if onward:
                far.sendall(onward)
            else:
                taken.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=_pump, args=(far, taken), daemon=True)
            back.start()
            _pump(taken, far)
            back.join(10)

    def _say(self, taken: socket.socket, status: str) -> None:
        taken.sendall(
            f"HTTP/1.1 {status}\r\nLocation: http://sign-in.example/\r\n"
            "Content-Length: 0\r\n\r\n".encode()
        )


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
