"""One TCP connection, for what is not gRPC: the fastest of a host's addresses, or by a proxy."""

import errno
import os
import re
import selectors
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Final

from farhand_daemon.network.names import Address, look_up
from farhand_daemon.network.proxies import Proxy, host_and_port, proxy_for, proxy_refusal
from farhand_shared.errors import Unavailable

_NEXT_AFTER_S: Final = 0.25  # as RFC 8305 recommends; the others go on
_ANSWER_MAX_BYTES: Final = 16 * 1024  # of a proxy, which may send a page with its refusal


class ProxyRefused(Unavailable):
    """A proxy that does not let through; ``status`` is what it answered, 0 for no HTTP."""

    def __init__(self, proxy: Proxy, status: int) -> None:
        why, what_to_do = (
            proxy_refusal(status)
            if status
            else ("what answers there is no HTTP proxy", f"correct {proxy.variable}")
        )
        super().__init__(f"cannot go through the proxy {proxy}: {why}; {what_to_do}")
        self.status = status


def connect(
    host: str,
    port: int,
    *,
    environ: Mapping[str, str],
    timeout_s: float,
    tls: bool = True,
    tunnel: bool = True,
) -> tuple[socket.socket, Proxy | None]:
    """Return a connection to a host and the proxy it goes through.

    ``tunnel``: a proxy is asked for one; else the connection is to the proxy. Raises OSError,
    InvalidInput for a proxy that cannot be asked, NameUnknown, or ProxyRefused.
    """
    proxy = proxy_for(host, port, environ, tls=tls)
    first = (host, port) if proxy is None else (proxy.host, proxy.port)
    connection = race(look_up(*first, timeout_s=timeout_s), timeout_s=timeout_s)
    if proxy is not None and tunnel:
        try:
            ask_for_tunnel(connection, proxy, host, port)
        except BaseException:
            connection.close()
            raise
    return connection, proxy


def race(addresses: Sequence[Address], *, timeout_s: float) -> socket.socket:
    """Return a connection to whichever answers first; a next one is begun every 250 ms.

    Raises the OSError of the last one that failed, or TimeoutError.
    """
    end = time.monotonic() + timeout_s
    left = list(addresses)
    failure: OSError = TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
    with selectors.DefaultSelector() as tried:
        try:
            begin_at = time.monotonic()
            while left or tried.get_map():
                now = time.monotonic()
                if now >= end:
                    break
                if left and (now >= begin_at or not tried.get_map()):
                    begin_at = now + _NEXT_AFTER_S
                    try:
                        begun = _begin(left.pop(0))
                    except OSError as error:
                        failure, begin_at = error, now
                        continue
                    tried.register(begun, selectors.EVENT_WRITE, begun)
                until = min(end, begin_at) if left else end
                for key, _ in tried.select(until - now):
                    connection: socket.socket = key.data
                    tried.unregister(connection)
                    number = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    if not number:
                        connection.settimeout(timeout_s)
                        return connection
                    failure, begin_at = OSError(number, os.strerror(number)), now
                    connection.close()
            raise failure
        finally:
            for key in list(tried.get_map().values()):
                key.data.close()


def _begin(address: Address) -> socket.socket:
    connection = socket.socket(address.family, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        number = connection.connect_ex(_for_socket(address))
        if number not in (0, errno.EINPROGRESS):
            raise OSError(number, os.strerror(number))
    except BaseException:
        connection.close()
        raise
    return connection


def _for_socket(address: Address) -> tuple[str, int] | tuple[str, int, int, int]:
    host, _, scope = address.host.partition("%")
    if not scope:
        return (address.host, address.port)
    return (
        host,
        address.port,
        0,
        int(scope) if scope.isdecimal() else socket.if_nametoindex(scope),
    )


def ask_for_tunnel(connection: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    """Have the proxy at the other end carry on to the host; raise ProxyRefused if it does not."""
    there = host_and_port(host, port)
    lines = [f"CONNECT {there} HTTP/1.1", f"Host: {there}"]
    if proxy.credentials:
        lines.append(f"Proxy-Authorization: Basic {proxy.credentials}")
    connection.sendall("\r\n".join([*lines, "", ""]).encode())
    answer = b""
    # Byte by byte: what follows the empty line belongs to the host.
    while not answer.endswith(b"\r\n\r\n") and len(answer) < _ANSWER_MAX_BYTES:
        if not (piece := connection.recv(1)):
            break
        answer += piece
    said = re.match(rb"HTTP/1\.[01] ([0-9]{3})", answer)
    status = int(said[1]) if said else 0
    if not 200 <= status < 300 or not answer.endswith(b"\r\n\r\n"):
        raise ProxyRefused(proxy, status if not 200 <= status < 300 else 0)
