"""A small client of the API on the standard library: one connection, JSON in and out, streams.

Whole uses of the command line are short, so the time to import a client library would be most of
what people wait for.
"""

import contextlib
import http.client
import json
import select
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit

from farhand_control_plane.config import Settings
from farhand_shared.errors import FarhandError, InvalidInput, NotFound, Unavailable
from farhand_shared.redact import Secret
from farhand_shared.version import __version__

CONNECT_TIMEOUT_S: Final = 10.0
# Longer than the server's heartbeats (15 s) by enough that a silent one is a dead one.
READ_TIMEOUT_S: Final = 60.0
# A connection that was idle for longer is not used again: servers and what stands before them close
# idle ones (ours after `serve.KEEP_ALIVE_S`, others after 5 s), and a request that meets the close
# is lost without anybody knowing whether it was taken.
IDLE_MAX_S: Final = 4.0
# How long a server may be away while we follow something: a restart takes seconds, an update of a
# whole deployment minutes. A command goes on meanwhile. The waits between tries grow to the cap.
RESUME_FOR_S: Final = 300.0
RESUME_FIRST_S: Final = 0.1
RESUME_CAP_S: Final = 2.0


class Refused(FarhandError):
    """The server answered with an error: ``code`` and text are the server's."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class _Dropped(Unavailable):
    """The server closed the connection before the first byte of its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which server to talk to, and with which token."""

    url: str
    token: Secret
    this_machine: str | None  # id; None when not known here


def find_target(settings: Settings) -> Target:
    """Return the server that the environment names, else the local instance.

    Raises NotFound saying what to set or start.
    """
    local: dict[str, Any] = {}  # our own file
    if not settings.url:
        try:
            local = json.loads(settings.local_file.read_bytes())
            url = str(local["url"])
        except (OSError, ValueError, KeyError):
            raise NotFound(
                f"cannot find a server: none runs in {settings.home}; "
                f"start one with {_this_program()} up, or set FARHAND_URL and FARHAND_TOKEN"
            ) from None
    else:
        url = settings.url
    token = settings.token
    if token is None and not settings.url:
        try:
            token = Secret(settings.token_file.read_bytes().strip())
        except OSError as error:
            raise NotFound(
                f"cannot read the local token {settings.token_file}: {error.strerror}; "
                f"set FARHAND_TOKEN, or start {_this_program()} up again, which writes it"
            ) from None
    if token is None:
        raise NotFound("cannot talk to FARHAND_URL without a token; set FARHAND_TOKEN")
    return Target(url=url, token=token, this_machine=local.get("machine_id"))


def _this_program() -> str:
    from farhand_control_plane.own_program import farhand  # for an error only: not on the hot path

    return farhand()


class Api:
    """Requests to one server. Not for use by several threads."""

    def __init__(self, target: Target) -> None:
        self.target = target
        parts = urlsplit(target.url)
        self._host = parts.hostname or ""
        self._port = parts.port
        self._https = parts.scheme == "https"
        self._prefix = parts.path.rstrip("/")
        self._connection: http.client.HTTPConnection | None = None
        self._used_at = 0.0  # when the kept connection gave its last answer

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def get(self, path: str, **query: str | int | bool | None) -> Any:  # JSON
        return self.call("GET", path_with(path, query))

    def post(
        self, path: str, value: Mapping[str, Any] | None = None, *, repeatable: bool = False
    ) -> Any:  # JSON
        """``repeatable``: the same request twice does what it does once."""
        return self.call("POST", path, {} if value is None else value, repeatable=repeatable)

    def delete(self, path: str) -> None:
        self.call("DELETE", path)

    def call(
        self,
        method: str,
        path: str,
        value: Mapping[str, Any] | None = None,
        *,
        repeatable: bool = False,
    ) -> Any:  # JSON
        """Return the decoded answer; raise Refused for the server's no, Unavailable without one."""
        body = None if value is None else json.dumps(value).encode()
        response = self._kept(method, path, body, repeatable or method in ("GET", "DELETE"))
        content = self._read_all(response)
        self._used_at = time.monotonic()
        if response.status >= 400:
            raise refusal(response.status, content)
        return json.loads(content) if content else None

    def send(self, path: str, content: bytes) -> Any:  # JSON
        """Post bytes as they are, on the kept connection.

        The same request twice must do what it does once.
        """
        response = self._kept("POST", path, content, repeatable=True)
        answer = self._read_all(response)
        self._used_at = time.monotonic()
        if response.status >= 400:
            raise refusal(response.status, answer)
        return json.loads(answer)

    def open(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = READ_TIMEOUT_S,
    ) -> "Body":
        """Return a streamed answer on a connection of its own.

        ``timeout_s``: how long it may be silent; None for ever.
        """
        connection = self._connect(timeout_s)
        response = self._send(connection, method, path, body, headers)
        if response.status >= 400:
            content = self._read_all(response)
            connection.close()
            raise refusal(response.status, content)
        return Body(connection, response, self.target.url)

    def _kept(
        self, method: str, path: str, body: bytes | None, repeatable: bool
    ) -> http.client.HTTPResponse:
        """Send on the kept connection while it is good, else on a new one.

        A request that meets the server's close is sent again when it may have been taken twice.
        """
        if self._connection is not None and self._is_good(self._connection):
            try:
                return self._send(self._connection, method, path, body, None)
            except _Dropped:
                if not repeatable:
                    raise
        self.close()
        self._connection = self._connect(READ_TIMEOUT_S)
        return self._send(self._connection, method, path, body, None)

    def _is_good(self, connection: http.client.HTTPConnection) -> bool:
        """Tell whether the server still listens: it has neither closed nor been left for long."""
        if connection.sock is None or time.monotonic() - self._used_at > IDLE_MAX_S:
            return False
        readable, _, _ = select.select([connection.sock], [], [], 0)
        return not readable  # between two answers there is nothing to read but the end

    def _connect(self, timeout_s: float | None) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._https else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=CONNECT_TIMEOUT_S)
        try:
            connection.connect()
        except OSError as error:
            raise unreachable(self.target.url, error) from error
        connection.sock.settimeout(timeout_s)
        if timeout_s is None:
            # A server whose machine is gone sends no goodbye: let the kernel ask for one.
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
                if hasattr(socket, name):  # not on every platform
                    connection.sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        return connection

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str] | None,
    ) -> http.client.HTTPResponse:
        sent = {
            "Authorization": f"Bearer {self.target.token.reveal().decode('utf-8', 'replace')}",
            "User-Agent": f"farhand/{__version__}",
            **(headers or {}),
        }
        if body is not None:
            sent["Content-Type"] = "application/json"
        try:
            # It may refuse before it has read everything; then its answer says why.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, self._prefix + path, body=body, headers=sent)
            return connection.getresponse()
        except (http.client.RemoteDisconnected, ConnectionResetError) as error:
            connection.close()
            raise _Dropped(str(unreachable(self.target.url, error))) from error
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise unreachable(self.target.url, error) from error
        except UnicodeEncodeError:
            raise InvalidInput("cannot use this token: it holds other than ASCII") from None

    def _read_all(self, response: http.client.HTTPResponse) -> bytes:
        try:
            return response.read()
        except (OSError, http.client.HTTPException) as error:
            raise unreachable(self.target.url, error) from error


class Body:
    """A streamed answer: chunks as they come, until the server ends it."""

    def __init__(
        self,
        connection: http.client.HTTPConnection,
        response: http.client.HTTPResponse,
        url: str,
    ) -> None:
        self._connection = connection
        self._response = response
        self._url = url

    def chunks(self) -> Iterator[bytes]:
        """Yield what arrives, at once; raise Unavailable when the stream breaks off."""
        while True:
            try:
                chunk = self._response.read1(1 << 16)
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise unreachable(self._url, error) from error
            if not chunk:
                return
            yield chunk

    def close(self) -> None:
        self._connection.close()


def path_with(path: str, query: Mapping[str, str | int | bool | None]) -> str:
    """Return the path with the parameters that have a value."""
    given = [
        f"{name}={quote(str(value).lower() if isinstance(value, bool) else str(value), safe='')}"
        for name, value in query.items()
        if value is not None
    ]
    return f"{path}?{'&'.join(given)}" if given else path


def segment(name: str) -> str:
    """Return a name as one part of a path."""
    return quote(name, safe="", errors="surrogateescape")  # any bytes of a command line


def refusal(status: int, content: bytes) -> Refused:
    """Return the server's no; an answer of another shape comes from something before it."""
    try:
        error = json.loads(content)["error"]
        return Refused(status, str(error["code"]), str(error["message"]))
    except (ValueError, KeyError, TypeError):
        return Refused(
            status, "unexpected", f"cannot read the answer: status {status}, and not from Farhand"
        )


def complaint(text: str, verb: str) -> str:
    """Return an error's text as every error of the command line begins: ``cannot …``."""
    return text if text.startswith("cannot ") else f"cannot {verb}: {text}"


def unreachable(url: str, error: Exception) -> Unavailable:
    """Return the error for a server that does not answer."""
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return Unavailable(f"cannot reach the server at {url}: {reason}; check that it runs")
