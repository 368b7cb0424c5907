"""One GET from a control plane's web address, by the same rule of proxies as everything else.

Whom the address leads to is not checked: what is fetched so is a hint, or signed.
"""

import http.client
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

from farhand_daemon.network.connecting import ProxyRefused, connect
from farhand_daemon.network.proxies import Proxy


def open_page(
    url: str, path: str, *, accept: str, environ: Mapping[str, str], timeout_s: float
) -> http.client.HTTPResponse:
    """Return the answer, of any status; closing it closes the connection.

    ``url``: ``scheme://host[:port]``. ``environ``: what names a proxy. ``timeout_s`` is each
    step's. Raises OSError, HTTPException, and what `connect` raises of names and proxies.
    """
    connection, proxy = _connection(url, environ, timeout_s)
    try:
        # Without TLS a proxy is asked for the whole address instead of for a tunnel.
        whole = proxy is not None and url.startswith("http:")
        headers = {"Accept": accept, "Connection": "close"}
        if whole and proxy is not None and proxy.credentials:
            headers["Proxy-Authorization"] = f"Basic {proxy.credentials}"
        connection.request("GET", f"{url}{path}" if whole else path, None, headers)
        answer = connection.getresponse()
    except BaseException:
        connection.close()
        raise
    if connection.sock is not None:  # the server would keep it open: it is the answer's now
        connection.sock.close()
        connection.sock = None
    if whole and proxy is not None and _is_of_proxy(answer.status):
        answer.close()
        raise ProxyRefused(proxy, answer.status)
    return answer


def _connection(
    url: str, environ: Mapping[str, str], timeout_s: float
) -> tuple[http.client.HTTPConnection, Proxy | None]:
    """Return a connection that is open already, so that the way there is ours."""
    parts = urlsplit(url)
    host, tls = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (http.client.HTTPS_PORT if tls else http.client.HTTP_PORT)
    opened, proxy = connect(host, port, environ=environ, timeout_s=timeout_s, tls=tls, tunnel=tls)
    connection = http.client.HTTPConnection(host, parts.port, timeout=timeout_s)
    if tls:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # see the module's docstring
        connection = http.client.HTTPSConnection(
            host, parts.port, timeout=timeout_s, context=context
        )
        try:
            opened = context.wrap_socket(opened, server_hostname=host)
        except BaseException:
            opened.close()
            raise
    connection.sock = opened
    return connection, proxy


def _is_of_proxy(status: int) -> bool:
    """Tell whether a proxy answers so for itself: a control plane redirects nobody."""
    return 300 <= status < 400 or status in (403, 407, 502, 503, 504)
