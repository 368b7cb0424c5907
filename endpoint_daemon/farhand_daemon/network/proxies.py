"""Which proxy the way to an address leads through: one rule for the link, enrolment and pages.

gRPC and ``http.client`` have rules of their own, which differ from each other and from curl's, so
neither is asked. Pure: the environment is an argument.
"""

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from farhand_shared.errors import InvalidInput

_DEFAULT_PORT: Final = 80
_MAPPED: Final = bytes(10) + b"\xff\xff"  # what precedes an IPv4 address written as IPv6


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A proxy that is asked with CONNECT."""

    host: str
    port: int
    variable: str  # that names it
    credentials: str = field(default="", repr=False)  # base64 of NAME:PASSWORD; empty: none

    def __str__(self) -> str:
        return f"http://{host_and_port(self.host, self.port)}"


def proxy_for(
    host: str, port: int, environ: Mapping[str, str], *, tls: bool = True
) -> Proxy | None:
    """Return the proxy for this address, None where the way is direct.

    As curl does it: ``https_proxy`` for TLS (the link and enrolment always), else ``http_proxy``,
    with exceptions in ``no_proxy``; of both spellings the lower-case one counts, also empty.
    This computer's own loopback is always direct. Raises InvalidInput for a proxy that cannot be
    asked.
    """
    lower = "https_proxy" if tls else "http_proxy"
    variable = lower if lower in environ else lower.upper()
    url = environ.get(variable, "").strip()
    if not url or _is_loopback(host):
        return None
    exceptions = environ.get("no_proxy", environ.get("NO_PROXY", ""))
    if any(_covers(entry, host, port) for entry in exceptions.replace(",", " ").split()):
        return None
    return _parse(url, variable)


def proxy_refusal(status: int) -> tuple[str, str]:
    """Return (why, what to do) of a proxy that answers CONNECT with this status."""
    if status == 407:
        return (
            "it asks for a name and password, or refuses those it was given (407)",
            "give them as http://NAME:PASSWORD@HOST:PORT, or name the control plane in no_proxy",
        )
    if 300 <= status < 400:
        return (
            f"it redirects ({status}) instead of letting through, as a network does before one "
            "has signed in to it",
            "sign in to this network with a browser, or name the control plane in no_proxy",
        )
    if status >= 500:
        return (
            f"it cannot reach the control plane ({status})",
            "let it reach that address, or name the control plane in no_proxy",
        )
    return (
        f"it does not let through ({status})",
        "allow CONNECT to that address there, or name the control plane in no_proxy",
    )


def host_and_port(host: str, port: int) -> str:
    """Return them as one word."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def packed(host: str) -> bytes:
    """Return the bytes of a written address, IPv4 as 4 also where it is written as IPv6; or b""."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            address = socket.inet_pton(family, host.partition("%")[0])
        except (OSError, UnicodeError):
            continue
        return address.removeprefix(_MAPPED) if len(address) == 16 else address
    return b""


def _is_loopback(host: str) -> bool:
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = packed(host)
    return address[:1] == b"\x7f" if len(address) == 4 else address == bytes(15) + b"\x01"


def _parse(url: str, variable: str) -> Proxy:
    def refused(why: str) -> InvalidInput:
        shown = url.rpartition("@")[2]  # without a password
        return InvalidInput(
            f"cannot use the proxy of {variable} ({shown}): {why}; correct it, "
            "or name the control plane in no_proxy"
        )

    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise refused(str(error)) from error
    if parts.scheme != "http":
        raise refused(f"only http:// proxies are known, not {parts.scheme}://")
    if not host or not host.isprintable():
        raise refused("it names no host")
    credentials = ""
    if parts.username is not None:
        import base64  # seldom needed

        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        credentials = base64.b64encode(pair.encode()).decode()
    return Proxy(host=host, port=port or _DEFAULT_PORT, variable=variable, credentials=credentials)


def _covers(entry: str, host: str, port: int) -> bool:
    """Tell whether an entry of no_proxy means this address.

    ``*`` all; a name with all below it (a dot or ``*.`` before it changes nothing); an address or
    a range (CIDR), for hosts that are addresses; each, but a range, with ``:PORT`` for that only.
    """
    if entry == "*":
        return True
    if "/" in entry:
        return _in_range(entry, packed(host))
    name, only = entry, ""
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        only = rest.removeprefix(":")
    elif entry.count(":") == 1:
        name, _, only = entry.partition(":")
    if only and only != str(port):
        return False
    if address := packed(name):
        return address == packed(host)
    name = name.lower().removeprefix("*").strip(".")
    asked = host.lower().rstrip(".")
    return bool(name) and (asked == name or asked.endswith(f".{name}"))


def _in_range(entry: str, address: bytes) -> bool:
    network, _, length = entry.partition("/")
    base = packed(network.strip("[]"))
    if not base or len(base) != len(address) or not length.isdecimal():
        return False
    bits = 8 * len(base)
    if int(length) > bits:
        return False
    shift = bits - int(length)
    return int.from_bytes(base) >> shift == int.from_bytes(address) >> shift
