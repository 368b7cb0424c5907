"""How gRPC gets to a listener: the addresses to try, and the proxy to ask, both decided here.

gRPC is given addresses, never a name: its own resolver keeps answers and knows less than the
system's. It races them itself (a next one every 250 ms); a list of both families is only accepted
with IPv4 written as IPv6, which it dials as IPv4 where there is no IPv6.
"""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from farhand_daemon.network.names import Address, NameUnknown, look_up, look_up_meanwhile
from farhand_daemon.network.proxies import Proxy, host_and_port, proxy_for
from farhand_shared.errors import InvalidInput, Unavailable

Options = tuple[tuple[str, str | int], ...]

_MOST_ADDRESSES: Final = 8  # of one name; with 250 ms between them more would take too long


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """What a channel to ``address`` is made with."""

    address: str  # host:port as it is called in what is said
    target: str
    options: Options
    hops: tuple[Address, ...]  # where the first connection goes: the listener, or its proxy
    proxy: Proxy | None


def way_to(address: str, environ: Mapping[str, str]) -> Way:
    """Return the way to ``host:port``; raise InvalidInput or Unavailable where there is none."""
    host, port, proxy = _first_hop(address, environ)
    try:
        return _way(address, look_up(host, port), proxy)
    except NameUnknown as error:
        raise _no_way(address, proxy, error) from error


async def find_way(address: str, environ: Mapping[str, str]) -> Way:
    """Return the same without holding up the loop."""
    host, port, proxy = _first_hop(address, environ)
    try:
        return _way(address, await look_up_meanwhile(host, port), proxy)
    except NameUnknown as error:
        raise _no_way(address, proxy, error) from error


def parts_of(address: str) -> tuple[str, int]:
    """Return (host, port) of ``host:port``."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise InvalidInput(
            f"cannot dial {address!r}: it is not host:port; enrol this machine again"
        )
    return host.strip("[]"), int(port)


def _first_hop(address: str, environ: Mapping[str, str]) -> tuple[str, int, Proxy | None]:
    host, port = parts_of(address)
    proxy = proxy_for(host, port, environ)
    return (host, port, None) if proxy is None else (proxy.host, proxy.port, proxy)


def _way(address: str, hops: tuple[Address, ...], proxy: Proxy | None) -> Way:
    options: list[tuple[str, str | int]] = [("grpc.enable_http_proxy", 0)]  # ours decides
    if proxy is not None:
        options.append(("grpc.http_connect_server", host_and_port(*parts_of(address))))
        if proxy.credentials:
            header = f"Proxy-Authorization:Basic {proxy.credentials}"
            options.append(("grpc.http_connect_headers", header))
    hops = hops[:_MOST_ADDRESSES]
    return Way(
        address=address, target=_target(hops), options=tuple(options), hops=hops, proxy=proxy
    )


def _target(hops: tuple[Address, ...]) -> str:
    if all(hop.family == socket.AF_INET for hop in hops):
        return "ipv4:" + ",".join(f"{hop.host}:{hop.port}" for hop in hops)
    return "ipv6:" + ",".join(f"[{_as_ipv6(hop)}]:{hop.port}" for hop in hops)


def _as_ipv6(hop: Address) -> str:
    if hop.family == socket.AF_INET:
        return f"::ffff:{hop.host}"
    return hop.host.replace("%", "%25")  # a scope, in the syntax of a URI


def _no_way(address: str, proxy: Proxy | None, error: NameUnknown) -> Unavailable:
    if proxy is not None:
        return Unavailable(
            f"cannot reach the proxy {proxy} of {proxy.variable}: its name cannot be resolved "
            f"({error.reason}); correct {proxy.variable}, or name the control plane in no_proxy"
        )
    return Unavailable(
        f"cannot reach the control plane at {address}: its name cannot be resolved "
        f"({error.reason}); check the name and this machine's network"
    )
